/* Documents out of an answer. */
#ifndef MT_ELASTIC_PAGE_H
#define MT_ELASTIC_PAGE_H

#include "elastic/internal.h"

/* A page that takes the call's answer over; empty. Owned: mt_page_free. NULL without memory. */
mt_page *mt_page_take(mt_call *c);
/* Appends a hit, or a document of an _mget; its slices point into the page. What is not of the kind
 * it must be is UNAVAILABLE (not understood); a document without its source, where that was asked
 * for, UNSUPPORTED: its index stores none. */
mortise_status mt_page_add(mt_page *page, size_t *cap, mt_json hit, bool no_source,
                           mortise_error *err);

/* OK where shards failed in none of `_shards`, and the answer was not cut by a time-out. */
mortise_status mt_shards_check(mt_json answer, const char *what, const char *index,
                               mortise_error *err);

#endif
