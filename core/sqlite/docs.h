/* The documents of the store: their file, their indices, and queries. */
#ifndef MT_SQLITE_DOCS_H
#define MT_SQLITE_DOCS_H

#include "sqlite/internal.h"
#include "query/query.h"

/* Statements, by number; docs.c has their text. */
enum {
  DOCS_INDEX_GET,
  DOCS_INDEX_ADD,
  DOCS_INDEX_DROP,
  DOCS_INDEX_BODY,
  DOCS_INDEX_ALIASED,
  DOCS_INDEX_SEQ,
  DOCS_TRASH_ADD,
  DOCS_TRASH_GET,
  DOCS_TRASH_DONE,
  DOCS_TRASH_DOCS,
  DOCS_TRASH_ENTRIES,
  DOCS_GET,
  DOCS_INSERT,
  DOCS_UPDATE,
  DOCS_DELETE,
  DOCS_ALL,
  DOCS_ALL_IDS,
  DOCS_ENTRY_ADD,
  DOCS_ENTRY_DROP,
  DOCS_ENTRY_IS,
  DOCS_ENTRY_FROM,
  DOCS_ENTRY_ANY,
  DOCS_STATEMENTS
};

enum {
  MT_FIELDS_MAX = 16, /* keyword fields of one index that can be looked up by value */
  /* The number of the field whose entries have an id as value, and the external version that stands there as id. They
   * stay as long as the index. */
  MT_FIELD_SEALED = MT_FIELDS_MAX,
  MT_ENTRY_MAX = 512, /* bytes of a value that are kept for that; matches are checked again */
  MT_INDEX_NAME_MAX = 255,
  MT_DOCS_FORMAT = 1,
  MT_DOCS_FORMAT_BLOCKS = 2, /* an index may be blocked, or have aliases */
};

/* An index as a transaction sees it. */
typedef struct mt_index {
  char name[MT_INDEX_NAME_MAX + 1];
  char called[MT_INDEX_NAME_MAX + 1]; /* the same, or the alias by which it was loaded */
  int64_t idx; /* its number, never reused; 0: no such index */
  uint64_t next_seq_no;
  bool blocked; /* it takes no writes of documents */
  bool sealed; /* while documents are written: some have external versions */
  char *body; /* owned: the body with which it was created */
  size_t n_fields;
  char fields[MT_FIELDS_MAX][128];
} mt_index;

/* Reads it, by its name or an alias, inside the transaction; idx == 0 if it is missing, which is not an error. */
mortise_status mt_index_load(mt_db *db, mt_slice name, mt_index *out, mortise_error *err);
/* The same, but NOT_FOUND if it is missing. */
mortise_status mt_index_need(mt_db *db, const char *name, mt_index *out, mortise_error *err);
void mt_index_deinit(mt_index *index);
/* The name of the index that has the alias, of MT_INDEX_NAME_MAX + 1 bytes; "" if none has (alias.c). */
mortise_status mt_alias_find(mt_db *db, mt_slice alias, char *name, mortise_error *err);
/* May a new index have the aliases in its body? Each must be nobody's, and have no filter nor routing. */
mortise_status mt_alias_check_body(mt_db *db, mt_slice body, mortise_error *err);
/* The index was made with this body. */
mortise_status mt_alias_added(mt_db *db, const char *name, mt_slice body, mortise_error *err);
/* Does an index with this body take no writes? */
bool mt_body_blocks(mt_json root);
/* Creates it inside a write transaction; `body` may be empty. */
mortise_status mt_index_add(mt_db *db, mt_slice name, mt_slice body, mortise_error *err);
/* Why a name is invalid by the servers' rule, or NULL. */
const char *mt_index_name_problem(mt_slice name);
mortise_status mt_index_name_check(const char *name, mortise_error *err);

/* Calls `use` with each scalar of the index's keyword fields, in the form that entries have. */
typedef mortise_status mt_entry_fn(void *ctx, size_t field, mt_slice text, mortise_error *err);
mortise_status mt_index_entries(const mt_index *index, mt_json source, mt_entry_fn *use, void *ctx,
                                mortise_error *err);

/* Calls `use` with every matching document once, in the order of ids, inside the transaction. The
 * row is borrowed for the call. */
typedef mortise_status mt_found_fn(void *ctx, const mt_row *row, mortise_error *err);
mortise_status mt_docs_find(mt_work *w, const mt_index *index, mt_query *q, mt_found_fn *use,
                            void *ctx, mortise_error *err);
/* Gets one document by id. The row points into the statement until its next use. */
mortise_status mt_docs_get(mt_db *db, int64_t idx, mt_slice id, mt_row *row, bool *found,
                           mortise_error *err);

/* The document in the statement's columns id, seq_no, routing and, with `source`, source; borrowed until the next step. */
mortise_status mt_docs_row(mt_db *db, sqlite3_stmt *stmt, bool source, mt_row *row, mortise_error *err);
/* The highest external version that the id had; 0: none. */
mortise_status mt_docs_seal(mt_db *db, int64_t idx, mt_slice id, uint64_t *version, mortise_error *err);
/* Inside a write transaction: its documents are no longer found by number (span.c). */
mortise_status mt_span_drop(mt_db *db, int64_t idx, mortise_error *err);

/* A page under construction: slices point to the bytes only once they no longer move. */
typedef struct mt_pager {
  mt_page *page;
  size_t cap;
  size_t index_n;
} mt_pager;
mortise_status mt_pager_init(mt_pager *p, const char *index, mortise_error *err);
/* `row` NULL: not found, with the given `id` and `version`. */
mortise_status mt_pager_add(mt_pager *p, mt_slice id, const mt_row *row, mt_version version,
                            bool no_source, mortise_error *err);
mt_page *mt_pager_take(mt_pager *p); /* owned by the caller */
void mt_pager_deinit(mt_pager *p);

static inline mt_version mt_docs_version(uint64_t seq_no) {
  return (mt_version){seq_no, 1};
}

#endif
