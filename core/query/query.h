/* The part of the servers' Query DSL that the embedded store understands: match_all, match_none,
 * ids, term, terms, prefix, range, exists, bool. Fields are compared as keyword fields are, number
 * with number by value, all else by bytes; an array matches when one of its elements does. */
#ifndef MT_QUERY_QUERY_H
#define MT_QUERY_QUERY_H

#include "base/json.h"

typedef struct mt_query mt_query;

/* `text` empty: everything. Copies what it needs. UNSUPPORTED names the clause, REJECTED says what
 * is wrong. Owned: mt_query_free. */
mortise_status mt_query_new(mt_slice text, mt_query **out, mortise_error *err);
void mt_query_free(mt_query *q); /* NULL is fine */

/* One document. `source` is an object that was validated. */
typedef struct mt_row {
  mt_slice id, routing;
  uint64_t seq_no;
  mt_json source;
} mt_row;

bool mt_query_matches(mt_query *q, const mt_row *row);
bool mt_query_needs_source(const mt_query *q);

/* ---- values of fields ---- */

/* The text by which a scalar is compared for equality: a string's content; a number without what
 * does not change its value ("1.50" is "1.5"); true, false. Lies in the value or in `scratch`
 * (cleared first). false for null and containers. */
bool mt_scalar_text(mt_json value, mt_buf *scratch, mt_slice *out);
/* Numbers before all else, by value; the rest by text. `a` and `b` are the scalars' texts. */
int mt_scalar_cmp(mt_slice a, mt_slice b);

/* Calls `use` with each scalar of the field, through arrays and objects, dots in names or between
 * them; stops when it says true, and says so. A name that ends in ".keyword" means also the field
 * without that, as a server's multi-field does. */
typedef bool mt_field_fn(void *ctx, mt_json scalar);
bool mt_field_each(mt_json source, mt_slice name, mt_field_fn *use, void *ctx);

/* ---- narrowing ---- */

/* Names, by ids or by values of indexed fields, a set of documents that holds all that match. */
typedef struct mt_narrow {
  void *ctx;
  /* The field's number in the index, or -1. */
  int (*field)(void *ctx, mt_slice name);
  mortise_status (*id)(void *ctx, mt_slice id, mortise_error *err);
  mortise_status (*value)(void *ctx, int field, mt_slice text, bool prefix, mortise_error *err);
} mt_narrow;

/* false: nothing narrows it, look at everything. */
bool mt_query_can_narrow(const mt_query *q, const mt_narrow *n);
mortise_status mt_query_narrow(const mt_query *q, const mt_narrow *n, mortise_error *err);

#endif
