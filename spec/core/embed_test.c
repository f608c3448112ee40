/* The program that embeds scripts: its end, its children, its libraries. */
#include "host_fixture.h"

#include <lauxlib.h>
#include <lua.h>

#include <ctype.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILD_SECONDS = 20, HUNG = -2 };

/* A child that does not end is ended. */
static pid_t fork_bounded(void) {
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    signal(SIGALRM, SIG_DFL);
    alarm(CHILD_SECONDS);
  }
  return pid;
}

/* The exit status, -1, or HUNG: another child must be forked. gcc's address sanitizer, unlike libc, lets
 * a fork happen while another thread is inside its allocator, whose lock the child then waits for. */
static int wait_for(pid_t pid) {
  static int hung;
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) return -1;
  if (WIFEXITED(status)) return WEXITSTATUS(status);
#ifdef __SANITIZE_ADDRESS__
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM && hung++ < 3) return HUNG;
#endif
  (void)hung;
  return -1;
}

static void scripts_do_not_end_the_program(void **state) {
  mortise_error err;
  assert_int_equal(run(*state, "os.exit(7)", &err), MORTISE_UNSUPPORTED);
  assert_non_null(strstr(err.message, "os.exit"));
  assert_int_equal(run(*state, "os.exit(true, true)", &err), MORTISE_UNSUPPORTED);
  mortise_host_allow_exit(*state, true);
  pid_t pid = fork_bounded();
  if (pid == 0) {
    mortise_host *host = mortise_host_new(NULL, &err);
    mortise_host_allow_exit(host, true);
    signal(SIGABRT, SIG_DFL);
    run(host, "io.stdout:setvbuf 'no' os.exit(7)", &err);
    _exit(1);
  }
  assert_int_equal(wait_for(pid), 7);
}

/* (): forks; 0 in the child, or its number */
static int lua_fork(lua_State *L) {
  lua_pushinteger(L, fork_bounded());
  return 1;
}

/* (number) -> its exit status, -1, or HUNG */
static int lua_wait(lua_State *L) {
  lua_pushinteger(L, wait_for((pid_t)luaL_checkinteger(L, 1)));
  return 1;
}

/* (status): ends the child at once */
static int lua_end(lua_State *L) {
  _exit((int)luaL_checkinteger(L, 1));
}

static const char *store_url(void) {
  const char *urls = getenv("MORTISE_TEST_URLS");
  return urls && *urls && !strchr(urls, ',') ? urls : NULL;
}

static char folder[] = "/tmp/mortise-fork-XXXXXX"; /* of this process */

static int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

/* Of a store, or a namespace, that no test had before. The strings are static. */
static mortise_options options_of_its_own(void) {
  static char url[64], ns[32];
  static unsigned number;
  mortise_options options;
  mortise_options_init(&options);
  snprintf(url, sizeof url, "sqlite:%s/%u", folder, ++number);
  snprintf(ns, sizeof ns, "fork-%ld-%u", (long)getpid(), number);
  options.store = store_url() ? store_url() : url;
  options.ns = ns;
  options.lease_ms = 3000;
  return options;
}

/* A host with a lock in its global `lock`. */
static mortise_host *host_with_a_lock(void) {
  mortise_error err;
  const mortise_options options = options_of_its_own();
  mortise_host *host = mortise_host_new(&options, &err);
  if (!host) fail_msg("%s", err.message);
  lua_State *L = mortise_host_state(host);
  lua_register(L, "fork", lua_fork);
  lua_register(L, "wait", lua_wait);
  lua_register(L, "finish", lua_end);
  lua_pushinteger(L, HUNG);
  lua_setglobal(L, "HUNG");
  passes(host, "mortise.client():init() lock = mortise.acquire {tree = '/fork'} lock:check()");
  return host;
}

/* The lock and the connection to the store stay usable in the parent whatever its child does. */
static void still_held(mortise_host *host) {
  passes(host, "lock:check() mortise.sleep(1.2) lock:check()\n"
               "mortise.with_lock('fork', 'other', function(l) l:check() end)");
}

static void forks_in_a_script_have_nothing_of_its_locks(void **state) {
  (void)state;
  mortise_host *host = host_with_a_lock();
  passes(host,
         "local status\n"
         "repeat local pid = fork()\n"
         "if pid == 0 then\n"
         "  local ok, e = pcall(function()\n"
         "    local ok, e = pcall(lock.check, lock) assert(not ok and e.code == 'lock_lost', e)\n"
         "    assert(e.message:find 'forked')\n"
         "    assert(lock:remaining() == 0 and tostring(lock):find 'lost')\n"
         "    ok, e = pcall(mortise.sleep, 1) assert(not ok and e.code == 'invalid_argument', e)\n"
         "    ok, e = pcall(mortise.acquire, {tree = '/x'})\n"
         "    assert(not ok and e.message:find 'fork', e)\n"
         "    ok, e = pcall(mortise.get, 'i', '1') assert(not ok)\n"
         "    ok, e = pcall(lock.release, lock) assert(not ok and e.code == 'lock_lost', e)\n"
         "    lock = nil collectgarbage() collectgarbage()\n"
         "  end)\n"
         "  if not ok then io.stderr:write(tostring(e), '\\n') end\n"
         "  finish(ok and 0 or 1)\n"
         "end\n"
         "status = wait(pid)\n"
         "until status ~= HUNG\n"
         "assert(status == 0)");
  still_held(host);
  mortise_host_free(host);
}

static void use_a_hosts_copy(mortise_host *host) {
  mortise_error err;
  int bad = run(host, "return 1", &err) != MORTISE_INVALID_ARGUMENT;
  bad |= !strstr(err.message, "forked");
  mortise_host_interrupt(host);
  mortise_host_free(host);
  mortise_host *own = mortise_host_new(NULL, &err); /* it may have its own */
  bad |= !own || run(own, "mortise.sleep(0.01)", &err) != MORTISE_OK;
  mortise_host_free(own);
  _exit(bad);
}

static void forks_of_a_program_have_nothing_of_its_hosts(void **state) {
  (void)state;
  mortise_host *host = host_with_a_lock();
  int status = HUNG;
  while (status == HUNG) {
    pid_t pid = fork_bounded();
    if (pid == 0) use_a_hosts_copy(host);
    status = wait_for(pid);
  }
  assert_int_equal(status, 0);
  still_held(host);
  mortise_host_free(host);
}

/* The child comes back from the call that forked, into the driver's loop. */
static void forks_that_return_end_with_an_error(void **state) {
  (void)state;
  mortise_error err;
  mortise_host *host = host_with_a_lock();
  pid_t self = getpid();
  mortise_status result = run(host,
                              "repeat child = fork() if child == 0 then\n"
                              "  mortise.spawn(function() mortise.sleep(600) end):join() end\n"
                              "status = wait(child) until status ~= HUNG",
                              &err);
  if (getpid() != self) _exit(result == MORTISE_INVALID_ARGUMENT ? 0 : 1);
  assert_int_equal(result, MORTISE_OK);
  passes(host, "assert(status == 0)");
  still_held(host);
  mortise_host_free(host);
}

static void use_a_clients_copy(mortise_client *client, mortise_lock *lock,
                               const mortise_lock_request *request) {
  mortise_error err;
  int bad = mortise_lock_check(lock, &err) != MORTISE_LOCK_LOST;
  bad |= !strstr(err.message, "forked") || mortise_lock_remaining_ms(lock) != 0;
  bad |= mortise_lock_acquire(client, request, NULL, &err) != NULL;
  bad |= err.code != MORTISE_INVALID_ARGUMENT;
  bad |= mortise_lock_convert(lock, MORTISE_SHARED, 0, NULL, &err) != MORTISE_INVALID_ARGUMENT;
  bad |= mortise_lock_release(lock, &err) != MORTISE_LOCK_LOST;
  mortise_client_free(client);
  _exit(bad);
}

static void clients_in_a_child_are_their_parents(void **state) {
  (void)state;
  mortise_error err;
  const mortise_options options = options_of_its_own();
  mortise_client *client = mortise_client_open(&options, &err);
  assert_non_null(client);
  assert_int_equal(mortise_client_init_tables(client, 0, &err), MORTISE_OK);
  const char *paths[] = {"/fork"};
  mortise_lock_request request = {.size = sizeof(mortise_lock_request), .paths = paths, .n = 1, .wait_ms = 10000};
  mortise_lock *lock = mortise_lock_acquire(client, &request, NULL, &err);
  assert_non_null(lock);
  int status = HUNG;
  while (status == HUNG) {
    pid_t pid = fork_bounded();
    if (pid == 0) use_a_clients_copy(client, lock, &request);
    status = wait_for(pid);
  }
  assert_int_equal(status, 0);
  usleep(1200000); /* the heartbeat goes on */
  assert_int_equal(mortise_lock_check(lock, &err), MORTISE_OK);
  assert_true(mortise_lock_remaining_ms(lock) > 1200);
  assert_int_equal(mortise_lock_convert(lock, MORTISE_SHARED, 0, NULL, &err), MORTISE_OK);
  assert_int_equal(mortise_lock_release(lock, &err), MORTISE_OK);
  mortise_client_free(client);
}

/* No signal handler points into an unloaded library. */
static void the_library_may_be_unloaded(void **state) {
  (void)state;
  mortise_error err;
  void *library = dlopen(MORTISE_HOST_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!library) fail_msg("%s", dlerror());
  mortise_host *(*make)(const mortise_options *, mortise_error *);
  mortise_status (*call)(mortise_host *, const char *, const char *, const char *const *, size_t,
                         mortise_error *);
  void (*end)(mortise_host *);
  *(void **)&make = dlsym(library, "mortise_host_new");
  *(void **)&call = dlsym(library, "mortise_host_run_string");
  *(void **)&end = dlsym(library, "mortise_host_free");
  mortise_host *host = make(NULL, &err);
  assert_non_null(host);
  assert_int_equal(call(host, "mortise.sleep(0.001)", "=test", NULL, 0, &err), MORTISE_OK);
  end(host);
  assert_int_equal(dlclose(library), 0);
  raise(SIGURG);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(scripts_do_not_end_the_program, set_up, tear_down),
      cmocka_unit_test(forks_in_a_script_have_nothing_of_its_locks),
      cmocka_unit_test(forks_of_a_program_have_nothing_of_its_hosts),
      cmocka_unit_test(forks_that_return_end_with_an_error),
      cmocka_unit_test(clients_in_a_child_are_their_parents),
      cmocka_unit_test(the_library_may_be_unloaded),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
