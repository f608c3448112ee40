/* Breaking a session's locks with a client's store, on its loop (lock/breaking.h says what it
 * does). */
#ifndef MT_CLIENT_BREAKER_H
#define MT_CLIENT_BREAKER_H

#include "client/client.h"
#include "lock/breaking.h"

typedef struct mt_breaker mt_breaker;

/* Starts breaking; it proceeds while the client's loop runs. `session`: 32 hex digits, in the
 * client's namespace; `guards`: what it holds for a job goes too. The client must outlive it. NULL with `err`. */
mt_breaker *mt_breaker_start(mortise_client *client, const char *session, bool guards,
                             mortise_error *err);
/* Removes only the damaged entries at this path, which may be one that no client would make. */
mt_breaker *mt_breaker_clear(mortise_client *client, const char *path, mortise_error *err);
/* Its progress; borrowed. */
const mt_breaking *mt_breaker_state(const mt_breaker *breaker);
/* Aborts it if it has not ended. NULL is fine. */
void mt_breaker_free(mt_breaker *breaker);

#endif
