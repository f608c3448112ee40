/* The part of the servers' Query DSL that the embedded store understands: match_all, match_none,
 * ids, term, terms, prefix, range, exists, bool. Fields are compared like keyword fields: two
 * numbers by value, everything else by bytes. An array matches if one of its elements does. */
#ifndef MT_QUERY_QUERY_H
#define MT_QUERY_QUERY_H

#include "base/json.h"

typedef struct mt_query mt_query;

/* Empty `text` matches everything. Copies what it needs. UNSUPPORTED names the clause, REJECTED
 * says what is wrong. Owned: mt_query_free. */
mortise_status mt_query_new(mt_slice text, mt_query **out, mortise_error *err);
void mt_query_free(mt_query *q); /* NULL is fine */

/* One document. `source` is a validated object. */
typedef struct mt_row {
  mt_slice id, routing;
  uint64_t seq_no;
  mt_json source;
} mt_row;

bool mt_query_matches(mt_query *q, const mt_row *row);
bool mt_query_needs_source(const mt_query *q);

/* ---- values of fields ---- */

/* The text by which a scalar is compared for equality: a string's content, a number in its shortest
 * form ("1.50" is "1.5"), true or false. It points into the value or `scratch` (cleared first).
 * Returns false for null and containers. */
bool mt_scalar_text(mt_json value, mt_buf *scratch, mt_slice *out);
/* Orders numbers first, by value, then everything else by text. `a` and `b` are the scalars'
 * texts. */
int mt_scalar_cmp(mt_slice a, mt_slice b);

/* Calls `use` with each scalar of the field, through arrays and objects, with dots inside names or
 * between them; stops and returns true once `use` returns true. A name that ends in ".keyword" also
 * means the field without that suffix, like a server's multi-field. */
typedef bool mt_field_fn(void *ctx, mt_json scalar);
bool mt_field_each(mt_json source, mt_slice name, mt_field_fn *use, void *ctx);

/* ---- narrowing ---- */

/* Receives ids, or values of indexed fields, of candidate documents, among which all matches
 * are. */
typedef struct mt_narrow {
  void *ctx;
  /* The field's number in the index, or -1. */
  int (*field)(void *ctx, mt_slice name);
  mortise_status (*id)(void *ctx, mt_slice id, mortise_error *err);
  mortise_status (*value)(void *ctx, int field, mt_slice text, bool prefix, mortise_error *err);
} mt_narrow;

/* false: nothing narrows the query, so all documents must be scanned. */
bool mt_query_can_narrow(const mt_query *q, const mt_narrow *n);
mortise_status mt_query_narrow(const mt_query *q, const mt_narrow *n, mortise_error *err);

#endif
