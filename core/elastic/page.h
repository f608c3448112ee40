/* Reading documents from an answer. */
#ifndef MT_ELASTIC_PAGE_H
#define MT_ELASTIC_PAGE_H

#include "elastic/internal.h"

/* An empty page that takes over the call's answer. Owned: mt_page_free. NULL without memory. */
mt_page *mt_page_take(mt_call *c);
/* Appends a hit, or a document of an _mget; its slices point into the page. UNAVAILABLE if it
 * cannot be understood; UNSUPPORTED if the source was asked for and is missing, since the index
 * does not store it. */
mortise_status mt_page_add(mt_page *page, size_t *cap, mt_json hit, bool no_source,
                           mortise_error *err);

/* OK if no shard failed and the answer was not cut off by a time-out. */
mortise_status mt_shards_check(mt_json answer, const char *what, const char *index,
                               mortise_error *err);

#endif
