/* Hints between sessions of one machine (lock/successor.h): a datagram socket for the sessions of each loop, at an
 * abstract address that only processes of the same network namespace reach. Sending never waits, what
 * does not fit is dropped, and nobody relies on any. The address is the half of their ids that these sessions share, and
 * each hint has the whole id, so that who cannot read the lock table cannot make one. */
#ifndef MT_CLIENT_HINT_H
#define MT_CLIENT_HINT_H

#include "base/loop.h"
#include "lock/types.h"

typedef struct mt_hint_socket mt_hint_socket;

/* A session that listens, in its owner's memory. */
typedef struct mt_hearer {
  const char *session; /* its id */
  void (*heard)(void *ctx, const mt_hint *hint); /* on the loop's thread; must not close the socket, or stop listening */
  void *ctx;
} mt_hearer;

/* Many sessions are heard at most MT_HINTS_MAX, and once for each of them, in MT_HINTS_MS. NULL where the machine has no
 * such sockets: hints only save time. */
enum { MT_HINTS_MAX = 64, MT_HINTS_MS = 20 };
mt_hint_socket *mt_hint_socket_open(mt_loop *loop, uint64_t address);
void mt_hint_socket_close(mt_hint_socket *s); /* NULL is fine */

/* false without memory: it hears nothing. */
bool mt_hint_socket_join(mt_hint_socket *s, mt_hearer *hearer);
bool mt_hint_socket_leave(mt_hint_socket *s, const mt_hearer *hearer); /* did it listen? */
bool mt_hint_socket_is_heard(const mt_hint_socket *s); /* by any session; false for NULL */

/* Does the other session have a socket here, with room? NULL sends nothing. */
bool mt_hint_socket_send(mt_hint_socket *s, const mt_hint *hint);

#endif
