#include "web_lua.h"

#include "web.h"

#include "bindings/await.h"
#include "bindings/driver.h"
#include "bindings/lua_class.h"
#include "bindings/lua_error.h"
#include "bindings/lua_options.h"
#include "bindings/lua_text.h"
#include "bindings/op.h"

#include "base/clock.h"
#include "base/hash.h"

#include "embedded.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>

extern const mt_embedded mt_board_page[];

static const char web_name[] = "mortise.web";

enum {
  BACKLOG = 64,
  TOKEN_BYTES = 16,
  UNREAD_MAX = 16 * 1024, /* what the kernel keeps for a client that does not read */
};

typedef struct lua_web {
  mt_owned owned;
  mt_driver *driver;
  mt_web *web; /* NULL: closed */
  mt_post post;
  mt_op *waiter;
  struct sockaddr_storage address;
} lua_web;

/* ---- Waiting for a request ---------------------------------------------------------------------- */

typedef struct next_op {
  mt_op op;
  lua_web *self;
} next_op;

/* In the loop: somebody may have asked. */
static void wake_next(void *ctx) {
  lua_web *self = ctx;
  mt_op *waiter = self->waiter;
  self->waiter = NULL;
  if (waiter) mt_op_done(waiter);
}

/* In the server's thread. */
static void on_asked(void *ctx) {
  lua_web *self = ctx;
  mt_loop_post(self->driver->loop, &self->post);
}

static bool cancel_next(mt_op *op) {
  ((next_op *)op)->self->waiter = NULL;
  return false;
}

static void push_arguments(lua_State *L, mt_slice arguments) {
  lua_newtable(L);
  while (arguments.n) {
    mt_slice name = mt_slice_cut(&arguments, '\0'), value = mt_slice_cut(&arguments, '\0');
    lua_pushlstring(L, name.p, name.n);
    lua_pushlstring(L, value.p, value.n);
    lua_settable(L, -3);
  }
}

static int finish_next(lua_State *L, mt_op *op, int index) {
  (void)index;
  mt_web_request r;
  lua_web *self = ((next_op *)op)->self;
  if (!self->web || !mt_web_next(self->web, &r)) return 0;
  lua_pushinteger(L, (lua_Integer)r.id);
  lua_pushstring(L, r.path);
  push_arguments(L, r.arguments);
  if (r.is_order)
    lua_pushlstring(L, r.body.p, r.body.n);
  else
    lua_pushnil(L);
  return 4;
}

static const mt_op_type next_type = {cancel_next, finish_next, NULL, false, NULL};

static lua_web *check_web(lua_State *L) {
  lua_web *self = mt_check_self(L, web_name, "web");
  if (!self->web) mt_error_throw(L, MORTISE_INVALID_ARGUMENT, "the server is closed");
  return self;
}

static int web_next(lua_State *L) {
  lua_settop(L, 1);
  lua_web *self = check_web(L);
  if (self->waiter) return luaL_error(L, "another task waits for requests");
  next_op *op = mt_lua_op_new(L, sizeof *op, 1, &next_type);
  mt_op_anchor(L, 2, 1, 1);
  op->self = self;
  self->waiter = &op->op;
  mt_op_start(&op->op);
  if (mt_web_is_asked(self->web)) on_asked(self);
  return mt_await(L, 2);
}

/* ---- The other methods -------------------------------------------------------------------------- */

static int web_publish(lua_State *L) {
  static const char *const slots[MT_WEB_SLOTS + 1] = {"page", "data", "metrics", "health", NULL};
  mortise_error err;
  int slot = luaL_checkoption(L, 2, NULL, slots);
  lua_Integer status = luaL_checkinteger(L, 3);
  mt_slice text = mt_check_slice(L, 4);
  if (mt_web_publish(check_web(L)->web, (mt_web_slot)slot, (unsigned)status, text, &err)) mt_error_raise(L, &err);
  return 0;
}

static int web_healthy_for(lua_State *L) {
  lua_Integer ms = luaL_checkinteger(L, 2);
  mt_web_health_until(check_web(L)->web, mt_clock_boot_ms() + ms);
  return 0;
}

static int web_tell(lua_State *L) {
  mortise_error err;
  mt_slice event = mt_check_slice(L, 2);
  if (mt_web_tell(check_web(L)->web, event, &err)) mt_error_raise(L, &err);
  return 0;
}

static int web_answer(lua_State *L) {
  mortise_error err;
  lua_Integer id = luaL_checkinteger(L, 2), status = luaL_checkinteger(L, 3);
  mt_slice text = mt_check_slice(L, 4);
  if (mt_web_answer(check_web(L)->web, (uint64_t)id, (unsigned)status, text, &err)) mt_error_raise(L, &err);
  return 0;
}

static int web_looks(lua_State *L) {
  mt_web_looks looks = mt_web_look(check_web(L)->web);
  lua_pushinteger(L, (lua_Integer)looks.readers);
  lua_pushinteger(L, (lua_Integer)looks.connections);
  if (!looks.last_ms) return 2;
  lua_pushinteger(L, mt_clock_boot_ms() - looks.last_ms);
  return 3;
}

static int web_sweep(lua_State *L) {
  mt_web_sweep(check_web(L)->web);
  return 0;
}

static bool is_of_this_machine(const struct sockaddr_storage *address) {
  if (address->ss_family == AF_INET)
    return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  const struct in6_addr *six = &((const struct sockaddr_in6 *)address)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == IN_LOOPBACKNET);
}

static int web_address(lua_State *L) {
  lua_web *self = check_web(L);
  char host[INET6_ADDRSTRLEN] = "?", text[INET6_ADDRSTRLEN + 16];
  bool six = self->address.ss_family == AF_INET6;
  const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&self->address;
  const struct sockaddr_in *v4 = (const struct sockaddr_in *)&self->address;
  inet_ntop(self->address.ss_family, six ? (const void *)&v6->sin6_addr : &v4->sin_addr, host, sizeof host);
  snprintf(text, sizeof text, six ? "[%s]:%u" : "%s:%u", host, ntohs(six ? v6->sin6_port : v4->sin_port));
  lua_pushstring(L, text);
  lua_pushboolean(L, is_of_this_machine(&self->address));
  return 2;
}

static void end_web(mt_owned *owned) {
  lua_web *self = MT_CONTAINER(owned, lua_web, owned);
  if (self->web) {
    mt_web_stop(self->web);
    self->web = NULL;
    mt_loop_unpost(self->driver->loop, &self->post);
  }
  wake_next(self);
}

static int web_close(lua_State *L) {
  lua_web *self = mt_check_self(L, web_name, "web");
  if (!mt_driver_forked(self->driver)) mt_owned_end(&self->owned);
  return 0;
}

/* ---- Making one --------------------------------------------------------------------------------- */

/* -> a socket that listens, or -1 with errno */
static int listen_at(const struct addrinfo *where) {
  int on = 1, unread = UNREAD_MAX;
  int fd = socket(where->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &unread, sizeof unread); /* its connections have it, too */
  if (!bind(fd, where->ai_addr, where->ai_addrlen) && !listen(fd, BACKLOG)) return fd;
  int number = errno;
  close(fd);
  errno = number;
  return -1;
}

static int open_listener(const char *host, const char *port, struct sockaddr_storage *address, mortise_error *err) {
  struct addrinfo *found, hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
  socklen_t n = sizeof *address;
  int failed = getaddrinfo(host, port, &hints, &found), fd = -1;
  if (failed) {
    mt_error_set(err, MORTISE_INVALID_ARGUMENT, "--listen %s: %s", host, gai_strerror(failed));
    return -1;
  }
  for (const struct addrinfo *each = found; each && fd < 0; each = each->ai_next) fd = listen_at(each);
  int number = errno;
  freeaddrinfo(found);
  if (fd >= 0 && !getsockname(fd, (struct sockaddr *)address, &n)) return fd;
  if (fd >= 0) close(fd);
  mt_error_set(err, MORTISE_UNAVAILABLE, "--listen %s:%s: %s", host, port, strerror(number));
  return -1;
}

typedef struct listen_options {
  const char *name, *token, *policy;
} listen_options;

static const mt_option listen_rows[] = {MT_TEXT_OPTION(listen_options, name), MT_TEXT_OPTION(listen_options, token),
                                        MT_TEXT_OPTION(listen_options, policy), MT_NO_OPTION};

static int web_listen(lua_State *L) {
  mortise_error err;
  listen_options o = {0};
  mt_driver *d = mt_driver_get(L);
  const char *host = mt_check_string(L, 1), *port = mt_check_string(L, 2);
  luaL_checktype(L, 3, LUA_TTABLE);
  mt_options_read(L, 3, listen_rows, &o, "listen");
  lua_web *self = lua_newuserdatauv(L, sizeof *self, 0);
  *self = (lua_web){.driver = d, .post = {.run = wake_next, .ctx = self}};
  luaL_setmetatable(L, web_name);
  int fd = open_listener(host, port, &self->address, &err);
  if (fd < 0) mt_error_raise(L, &err);
  self->web = mt_web_start(&(mt_web_options){.listener = fd,
                                             .name = o.name,
                                             .token = o.token,
                                             .policy = o.policy ? o.policy : "default-src 'none'",
                                             .asked = on_asked,
                                             .ctx = self},
                           &err);
  if (!self->web) mt_error_raise(L, &err);
  mt_own(d, &self->owned, end_web);
  return 1;
}

static int web_random(lua_State *L) {
  unsigned char bytes[TOKEN_BYTES];
  char text[2 * TOKEN_BYTES + 1];
  mortise_error err;
  if (mt_random_bytes(bytes, sizeof bytes, &err)) mt_error_raise(L, &err);
  mt_hex(bytes, sizeof bytes, text);
  lua_pushstring(L, text);
  return 1;
}

/* Writes it all to a new file that nobody else may read. -> 0, or errno */
static int write_secret(const char *file, mt_slice text) {
  unlink(file);
  int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return errno;
  ssize_t written = write(fd, text.p, text.n);
  int number = written == (ssize_t)text.n ? 0 : written < 0 ? errno : ENOSPC;
  if (close(fd) && !number) number = errno;
  if (number) unlink(file);
  return number;
}

static int web_keep_secret(lua_State *L) {
  const char *file = mt_check_string(L, 1);
  int number = write_secret(file, mt_check_slice(L, 2));
  if (number) mt_error_throw(L, MORTISE_REJECTED, "%s: %s", file, strerror(number));
  return 0;
}

static int web_page(lua_State *L) {
  lua_newtable(L);
  for (const mt_embedded *file = mt_board_page; file->name; file++) {
    lua_pushlstring(L, file->text, file->n);
    lua_setfield(L, -2, file->name);
  }
  return 1;
}

int mt_web_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"listen", web_listen}, {"random", web_random}, {"page", web_page},
                                       {"keep_secret", web_keep_secret}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"address", web_address}, {"publish", web_publish},
                                     {"tell", web_tell},       {"healthy_for", web_healthy_for},
                                     {"next", web_next},       {"answer", web_answer},
                                     {"looks", web_looks},     {"sweep", web_sweep},
                                     {"close", web_close},     {NULL, NULL}};
  static const luaL_Reg metamethods[] = {{"__gc", web_close}, {"__close", web_close}, {NULL, NULL}};
  static const mt_lua_class class = {web_name, methods, metamethods, NULL, NULL};
  static const luaL_Reg *const none[] = {NULL};
  mt_class_open(L, &class, none);
  luaL_newlib(L, functions);
  return 1;
}
