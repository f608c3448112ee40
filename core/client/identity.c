#include "client/identity.h"

#include "base/json.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { JSON_MAX = 8192 };

/* Reads the first line of a small file; "" if it cannot. */
static void read_file(const char *path, char *out, size_t size) {
  out[0] = '\0';
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  ssize_t n = read(fd, out, size - 1);
  close(fd);
  out[n > 0 ? n : 0] = '\0';
  out[strcspn(out, "\n")] = '\0';
}

typedef struct process_stat {
  int64_t start; /* -1: there is no such process, or no /proc */
  bool ended;    /* and only waits for its parent to ask how: no thread of it is left */
} process_stat;

/* Fields 3, 20 and 22 of /proc/PID/stat (proc(5)); the name before them may contain anything, so count from the
 * last ')'. The first thread may end (Z) before others, which are counted as long as they can do anything. */
static process_stat stat_of(int64_t pid) {
  enum { STATE = 3, THREADS = 20, START = 22 };
  char path[64], stat[1024];
  snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
  read_file(path, stat, sizeof stat);
  char *at[START + 1] = {NULL}, *p = strrchr(stat, ')');
  for (int field = STATE; p && field <= START; field++) {
    p = strchr(p + 1, ' ');
    at[field] = p;
  }
  if (!p) return (process_stat){.start = -1};
  return (process_stat){.start = strtoll(at[START] + 1, NULL, 10),
                        .ended = at[STATE][1] == 'Z' && strtoll(at[THREADS] + 1, NULL, 10) == 1};
}

static void pid_namespace(char *out, size_t size) {
  char link[64];
  ssize_t n = readlink("/proc/self/ns/pid", link, sizeof link - 1);
  link[n > 0 ? n : 0] = '\0';
  const char *bracket = strchr(link, '[');
  snprintf(out, size, "%.*s", bracket ? (int)strcspn(bracket + 1, "]") : 0,
           bracket ? bracket + 1 : "");
}

static void user_name(char *out, size_t size) {
  struct passwd entry, *found = NULL;
  char room[1024];
  if (getpwuid_r(geteuid(), &entry, room, sizeof room, &found) == 0 && found)
    snprintf(out, size, "%s", found->pw_name);
  else
    snprintf(out, size, "uid %lu", (unsigned long)geteuid());
}

static void add_short_text(mt_buf *b, const char *name, const char *text) {
  if (!text || !*text) return;
  mt_json_add_key(b, name);
  size_t n = strlen(text);
  mt_json_add_string(b, (mt_slice){text, n < 512 ? n : 512}); /* entries stay short */
}

char *mt_identity_owner(const mt_identity *id, const char *program, const char *script,
                        const char *job, mortise_error *err) {
  mt_buf b;
  mt_buf_init(&b, JSON_MAX);
  mt_buf_addc(&b, '{');
  add_short_text(&b, "host", id->host);
  add_short_text(&b, "boot", id->boot);
  add_short_text(&b, "pidns", id->pidns);
  mt_json_add_int(&b, "pid", id->pid);
  mt_json_add_int(&b, "start", id->start);
  add_short_text(&b, "user", id->user);
  add_short_text(&b, "program", program);
  add_short_text(&b, "script", script);
  add_short_text(&b, "job", job);
  mt_buf_addc(&b, '}');
  char *json = mt_buf_take(&b, NULL);
  mt_buf_deinit(&b);
  if (!json) mt_error_memory(err);
  return json;
}

mt_identity *mt_identity_new(const char *program, const char *script, const char *job,
                             mortise_error *err) {
  mt_identity *id = mt_calloc(1, sizeof *id);
  if (!id) {
    mt_error_memory(err);
    return NULL;
  }
  if (gethostname(id->host, sizeof id->host - 1)) id->host[0] = '\0';
  read_file("/proc/sys/kernel/random/boot_id", id->boot, sizeof id->boot);
  pid_namespace(id->pidns, sizeof id->pidns);
  id->pid = getpid();
  id->start = stat_of(id->pid).start;
  user_name(id->user, sizeof id->user);
  id->json = mt_identity_owner(id, program, script, job, err);
  if (id->json) return id;
  mt_identity_free(id);
  return NULL;
}

void mt_identity_free(mt_identity *id) {
  if (!id) return;
  mt_free(id->json);
  mt_free(id);
}

static bool is_same(mt_json owner, const char *name, const char *mine) {
  return *mine && mt_json_is(mt_json_get(owner, name), mine);
}

bool mt_identity_gone(const mt_identity *self, const char *owner_json) {
  mt_json owner;
  int64_t pid = 0, start = -1;
  if (mt_json_parse(mt_slice_of(owner_json), "an owner", &owner, NULL)) return false;
  if (!is_same(owner, "host", self->host) || !is_same(owner, "boot", self->boot) ||
      !is_same(owner, "pidns", self->pidns))
    return false;
  if (!mt_json_int(mt_json_get(owner, "pid"), &pid) || pid <= 0) return false;
  if (kill((pid_t)pid, 0) && errno == ESRCH) return true;
  if (!mt_json_int(mt_json_get(owner, "start"), &start) || start < 0) return false;
  process_stat now = stat_of(pid);
  return now.start >= 0 && (now.start != start || now.ended);
}
