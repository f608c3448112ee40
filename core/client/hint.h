/* Hints between sessions of one machine (lock/successor.h): a datagram socket for each session, at an
 * abstract address that only processes of the same network namespace reach. Sending never waits, what
 * does not fit is dropped, and nobody relies on any. The address has half of the session's id, and each
 * hint the whole, so that who cannot read the lock table cannot make one. */
#ifndef MT_CLIENT_HINT_H
#define MT_CLIENT_HINT_H

#include "base/loop.h"
#include "lock/types.h"

typedef struct mt_hint_socket mt_hint_socket;

/* `heard` is called on the loop's thread, at most MT_HINTS_MAX times in MT_HINTS_MS; it must not close the
 * socket. NULL where the machine has no such sockets: hints only save time. */
enum { MT_HINTS_MAX = 64, MT_HINTS_MS = 20 };
mt_hint_socket *mt_hint_socket_open(mt_loop *loop, const char *session,
                                    void (*heard)(void *ctx, const mt_hint *hint), void *ctx);
/* Does the other session have a socket here, with room? NULL sends nothing. */
bool mt_hint_socket_send(mt_hint_socket *s, const mt_hint *hint);
void mt_hint_socket_close(mt_hint_socket *s); /* NULL is fine */

#endif
