/* The embedded store: FILE holds the documents, FILE-locks the lock table; one machine, many
 * processes. */
#ifndef MT_SQLITE_SQLITE_H
#define MT_SQLITE_SQLITE_H

#include "store/store.h"

/* The first write creates a missing file, but not its folder. Owned: mt_store_close. NULL with
 * `err`. */
mt_store *mt_sqlite_open(mt_loop *loop, const char *file, int64_t request_ms, const mt_log *log,
                         mortise_error *err);

/* The same for a file that this process has open already: it is looked at only when it is used, which a session's
 * heartbeat never does, whose requests concern the locks. */
mt_store *mt_sqlite_open_again(mt_loop *loop, const char *file, int64_t request_ms,
                               const mt_log *log, mortise_error *err);

#endif
