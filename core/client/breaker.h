/* Breaking a session's locks with a client's store, on its loop (lock/breaking.h says what it
 * does). */
#ifndef MT_CLIENT_BREAKER_H
#define MT_CLIENT_BREAKER_H

#include "client/client.h"
#include "lock/breaking.h"

typedef struct mt_breaker mt_breaker;

/* Begins; it goes on while the client's loop runs. `session`: 32 hex digits, of the client's
 * namespace. The client outlives it. NULL with `err`. */
mt_breaker *mt_breaker_start(mortise_client *client, const char *session, mortise_error *err);
/* The same of what is damaged at this path, which others may have made, and of nothing else there. */
mt_breaker *mt_breaker_clear(mortise_client *client, const char *path, mortise_error *err);
/* How far it is; borrowed. */
const mt_breaking *mt_breaker_state(const mt_breaker *breaker);
/* Cuts it off where it has not ended. NULL is fine. */
void mt_breaker_free(mt_breaker *breaker);

#endif
