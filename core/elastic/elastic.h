/* The store on Elasticsearch 7.17+, 8, 9 and OpenSearch 1, 2, 3. */
#ifndef MT_ELASTIC_ELASTIC_H
#define MT_ELASTIC_ELASTIC_H

#include "http/http.h"
#include "store/store.h"

#define MT_TABLE_DEFAULT "mortise-locks"

/* `table` is the alias of the lock table; NULL: MT_TABLE_DEFAULT. Its index is `table`-EPOCH.
 * Nothing is sent yet. Owned: mt_store_close. NULL with `err`. */
mt_store *mt_elastic_open(mt_loop *loop, const mt_http_config *config, const char *table,
                          const mt_log *log, mortise_error *err);

#endif
