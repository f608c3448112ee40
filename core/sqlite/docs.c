#include "sqlite/docs.h"

#include "base/clock.h"
#include "base/mem.h"
#include "sqlite/functions.h"

#include <stdio.h>

/* A document's key is (index, id). `entries` finds documents by the value of a keyword field.
 * `trash` has the numbers of dropped indices whose rows are still to be removed. */
static const char schema[] =
    "CREATE TABLE indices(idx INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,"
    " body TEXT NOT NULL, seq_no INTEGER NOT NULL, created_ms INTEGER NOT NULL);"
    "CREATE TABLE docs(idx INTEGER NOT NULL, id TEXT NOT NULL, routing TEXT, seq_no INTEGER NOT "
    "NULL,"
    " source TEXT NOT NULL, PRIMARY KEY(idx, id)) WITHOUT ROWID;"
    "CREATE TABLE entries(idx INTEGER NOT NULL, field INTEGER NOT NULL, value TEXT NOT NULL,"
    " id TEXT NOT NULL, PRIMARY KEY(idx, field, value, id)) WITHOUT ROWID;"
    "CREATE TABLE trash(idx INTEGER PRIMARY KEY);";

static const char *const sql[DOCS_STATEMENTS] = {
    [DOCS_INDEX_GET] = "SELECT idx, seq_no, body FROM indices WHERE name = ?1",
    [DOCS_INDEX_ADD] = "INSERT INTO indices(name, body, seq_no, created_ms) VALUES(?1, ?2, 0, ?3)",
    [DOCS_INDEX_DROP] = "DELETE FROM indices WHERE idx = ?1",
    [DOCS_INDEX_BODY] = "UPDATE indices SET body = ?2 WHERE idx = ?1",
    [DOCS_INDEX_ALIASED] = "SELECT name, body FROM indices WHERE instr(body, '\"aliases\"')",
    [DOCS_INDEX_SEQ] = "UPDATE indices SET seq_no = ?2 WHERE idx = ?1",
    [DOCS_TRASH_ADD] = "INSERT INTO trash(idx) VALUES(?1)",
    [DOCS_TRASH_GET] = "SELECT idx FROM trash LIMIT 1",
    [DOCS_TRASH_DONE] = "DELETE FROM trash WHERE idx = ?1",
    [DOCS_TRASH_DOCS] = "DELETE FROM docs WHERE idx = ?1 AND id <= coalesce((SELECT id FROM docs"
                        " WHERE idx = ?1 ORDER BY id LIMIT 1 OFFSET ?2), x'')",
    [DOCS_TRASH_ENTRIES] = "SELECT field, value, id FROM entries WHERE idx = ?1 LIMIT ?2",
    [DOCS_GET] = "SELECT seq_no, routing, source FROM docs WHERE idx = ?1 AND id = ?2",
    [DOCS_INSERT] = "INSERT INTO docs(idx, id, routing, seq_no, source) VALUES(?1, ?2, ?3, ?4, ?5)",
    [DOCS_UPDATE] = "UPDATE docs SET routing = ?3, seq_no = ?4, source = ?5"
                    " WHERE idx = ?1 AND id = ?2",
    [DOCS_DELETE] = "DELETE FROM docs WHERE idx = ?1 AND id = ?2",
    [DOCS_ALL] = "SELECT id, seq_no, routing, source FROM docs WHERE idx = ?1 ORDER BY id",
    [DOCS_ALL_IDS] = "SELECT id, seq_no, routing FROM docs WHERE idx = ?1 ORDER BY id",
    [DOCS_ENTRY_ADD] =
        "INSERT OR IGNORE INTO entries(idx, field, value, id) VALUES(?1, ?2, ?3, ?4)",
    [DOCS_ENTRY_DROP] =
        "DELETE FROM entries WHERE idx = ?1 AND field = ?2 AND value = ?3 AND id = ?4",
    [DOCS_ENTRY_IS] = "SELECT id FROM entries WHERE idx = ?1 AND field = ?2 AND value = ?3",
    [DOCS_ENTRY_ANY] = "SELECT 1 FROM entries WHERE idx = ?1 AND field = ?2 LIMIT 1",
    [DOCS_ENTRY_FROM] = "SELECT id, value FROM entries WHERE idx = ?1 AND field = ?2"
                        " AND value >= ?3 ORDER BY value, id",
};

/* "mTd" and a number. */
const mt_db_kind mt_docs_kind = {
    .what = "documents",
    .application_id = 0x6d546401,
    .format = MT_DOCS_FORMAT,
    .format_most = MT_DOCS_FORMAT_BLOCKS,
    .schema = schema,
    .sql = sql,
    .n_sql = DOCS_STATEMENTS,
    .functions = mt_functions_add,
};

/* ---- indices ---- */

/* The servers' rule (MetadataCreateIndexService). */
const char *mt_index_name_problem(mt_slice name) {
  if (!name.n) return "it is empty";
  if (name.n > MT_INDEX_NAME_MAX) return "it is longer than 255 bytes";
  if (strchr("-_+", name.p[0])) return "it begins with -, _ or +";
  if (mt_slice_eq(name, MT_SLICE(".")) || mt_slice_eq(name, MT_SLICE(".."))) return "it is . or ..";
  for (size_t i = 0; i < name.n; i++) {
    if (!name.p[i] || strchr(" \"*\\<|,>/?#:", name.p[i]))
      return "it holds a blank or one of \" * \\ < | , > / ? # :";
    if (name.p[i] >= 'A' && name.p[i] <= 'Z') return "it is not lowercase";
  }
  return NULL;
}

mortise_status mt_index_name_check(const char *name, mortise_error *err) {
  const char *problem = name ? mt_index_name_problem(mt_slice_of(name)) : "there is none";
  if (!problem) return MORTISE_OK;
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "`%s` cannot name an index: %s",
                      name ? name : "", problem);
}

static void add_field(mt_index *index, const mt_buf *name) {
  if (index->n_fields == MT_FIELDS_MAX || name->failed || name->n >= sizeof index->fields[0])
    return;
  memcpy(index->fields[index->n_fields++], name->p, name->n + 1);
}

enum { MAPPING_DEPTH = 20 };

/* Collects all keyword fields below `properties`, including multi-fields. Queries on other fields
 * scan all documents. */
static void collect_fields(mt_index *index, mt_json properties, mt_buf *name, unsigned depth) {
  if (depth > MAPPING_DEPTH) return;
  size_t before = name->n;
  for (mt_json_iter it = mt_json_items(properties); mt_json_next(&it);) {
    if (!it.object) return;
    if (before) mt_buf_addc(name, '.');
    mt_json_text((mt_json){MT_JSON_STRING, {it.key.p - 1, it.key.n + 2}}, name);
    if (mt_json_is(mt_json_get(it.value, "type"), "keyword")) add_field(index, name);
    collect_fields(index, mt_json_get(it.value, "properties"), name, depth + 1);
    collect_fields(index, mt_json_get(it.value, "fields"), name, depth + 1);
    mt_buf_cut(name, before);
  }
}

static mortise_status read_index_body(const mt_db *db, mt_index *index, mortise_error *err) {
  mt_json root;
  mt_buf name;
  if (!*index->body) return MORTISE_OK;
  if (mt_json_parse(mt_slice_of(index->body), "", &root, NULL) || root.type != MT_JSON_OBJECT)
    return mt_error_set(err, MORTISE_CORRUPT_TABLE,
                        "%s is damaged: the body of index `%s` is no JSON object", db->file,
                        index->name);
  index->blocked = mt_body_blocks(root);
  mt_buf_init(&name, 4096);
  collect_fields(index, mt_json_at(root, "mappings", "properties", NULL), &name, 0);
  mt_buf_deinit(&name);
  return MORTISE_OK;
}

void mt_index_deinit(mt_index *index) {
  mt_free(index->body);
  index->body = NULL;
}

static mortise_status load_named(mt_db *db, mt_slice name, mt_index *out, mortise_error *err) {
  *out = (mt_index){0};
  if (name.n > MT_INDEX_NAME_MAX) return MORTISE_OK;
  memcpy(out->name, name.p, name.n);
  sqlite3_stmt *stmt = mt_db_stmt(db, DOCS_INDEX_GET);
  mt_db_bind(stmt, 1, name);
  bool row;
  mortise_status status = mt_db_step(db, stmt, &row, err);
  if (status || !row) return status;
  out->next_seq_no = mt_db_u(stmt, 1);
  mt_slice body = mt_db_text(stmt, 2);
  out->body = mt_strndup(body.p, body.n);
  out->idx = sqlite3_column_int64(stmt, 0);
  sqlite3_reset(stmt);
  status = out->body ? read_index_body(db, out, err) : mt_error_memory(err);
  if (status) mt_index_deinit(out);
  return status;
}

mortise_status mt_index_load(mt_db *db, mt_slice name, mt_index *out, mortise_error *err) {
  char real[MT_INDEX_NAME_MAX + 1] = "";
  mortise_status status = load_named(db, name, out, err);
  if (!status && !out->idx) status = mt_alias_find(db, name, real, err);
  if (!status && *real) status = load_named(db, mt_slice_of(real), out, err);
  if (!status && out->idx) memcpy(out->called, name.p, name.n);
  return status;
}

static mortise_status no_index(const char *name, mortise_error *err) {
  mt_error_set(err, MORTISE_NOT_FOUND, "there is no index `%s`", name);
  if (err) {
    err->http_status = 404;
    memcpy(err->type, "index_not_found_exception", sizeof "index_not_found_exception");
  }
  return MORTISE_NOT_FOUND;
}

mortise_status mt_index_need(mt_db *db, const char *name, mt_index *out, mortise_error *err) {
  *out = (mt_index){0};
  mortise_status status = mt_index_name_check(name, err);
  if (!status) status = mt_index_load(db, mt_slice_of(name), out, err);
  if (!status && !out->idx) status = no_index(name, err);
  return status;
}

mortise_status mt_index_add(mt_db *db, mt_slice name, mt_slice body, mortise_error *err) {
  sqlite3_stmt *stmt = mt_db_stmt(db, DOCS_INDEX_ADD);
  mt_db_bind(stmt, 1, name);
  mt_db_bind(stmt, 2, body);
  mt_db_bind_u(stmt, 3, (uint64_t)mt_clock_wall_ms());
  return mt_db_run(db, stmt, err);
}

typedef struct entry_use {
  mt_entry_fn *use;
  void *ctx;
  size_t field;
  mt_buf scratch;
  mortise_status status;
  mortise_error *err;
} entry_use;

static bool use_value(void *ctx, mt_json value) {
  entry_use *u = ctx;
  mt_slice text;
  if (!mt_scalar_text(value, &u->scratch, &text)) {
    u->status = mt_buf_status(&u->scratch, "a field's value", u->err);
    return u->status != MORTISE_OK;
  }
  if (text.n > MT_ENTRY_MAX) text.n = MT_ENTRY_MAX;
  u->status = u->use(u->ctx, u->field, text, u->err);
  return u->status != MORTISE_OK;
}

mortise_status mt_index_entries(const mt_index *index, mt_json source, mt_entry_fn *use, void *ctx,
                                mortise_error *err) {
  entry_use u = {.use = use, .ctx = ctx, .err = err};
  mt_buf_init(&u.scratch, MT_SQLITE_TEXT_MAX);
  for (; !u.status && u.field < index->n_fields; u.field++)
    mt_field_each(source, mt_slice_of(index->fields[u.field]), use_value, &u);
  mt_buf_deinit(&u.scratch);
  return u.status;
}

/* ---- describe, create, drop, refresh ---- */

static mortise_status describe_json(const mt_index *index, mt_describe *r, mortise_error *err) {
  mt_json root = {0};
  if (*index->body) {
    mortise_status status = mt_json_parse(mt_slice_of(index->body), "the index", &root, err);
    if (status) return status;
  }
  mt_json settings = mt_json_get(root, "settings"), mappings = mt_json_get(root, "mappings");
  mt_buf out;
  mt_buf_init(&out, MT_SQLITE_TEXT_MAX);
  mt_buf_addf(&out, "{\"%s\":{\"settings\":", index->name);
  mt_buf_addslice(&out, settings.type ? settings.raw : MT_SLICE("{}"));
  mt_buf_adds(&out, ",\"mappings\":");
  mt_buf_addslice(&out, mappings.type ? mappings.raw : MT_SLICE("{}"));
  mt_buf_adds(&out, "}}");
  mortise_status status = mt_buf_status(&out, "the description", err);
  if (!status) r->json = mt_buf_take(&out, NULL);
  mt_buf_deinit(&out);
  return status;
}

mortise_status mt_docs_describe(mt_work *w, mt_req *req, mortise_error *err) {
  mt_describe *r = (mt_describe *)(void *)req;
  mt_index index;
  mortise_status status = mt_index_name_check(r->index, err);
  if (!status) status = mt_work_read(w, err);
  if (status) return status;
  status = mt_index_load(w->db, mt_slice_of(r->index), &index, err);
  r->exists = !status && index.idx;
  r->json = NULL;
  if (r->exists) {
    r->shards = 1;
    snprintf(r->name, sizeof r->name, "%s", index.name);
    status = describe_json(&index, r, err);
  }
  mt_index_deinit(&index);
  return status;
}

/* The file is missing, so no index exists. */
mortise_status mt_docs_describe_missing(mt_work *w, mt_req *req, mortise_error *err) {
  mt_describe *r = (mt_describe *)(void *)req;
  (void)w;
  r->exists = false;
  r->json = NULL;
  return mt_index_name_check(r->index, err);
}

static mortise_status check_body(mt_slice body, mortise_error *err) {
  mt_json root;
  if (!body.n) return MORTISE_OK;
  mortise_status status = mt_json_parse(body, "the index's body", &root, err);
  if (status) return status;
  if (root.type != MT_JSON_OBJECT)
    return mt_error_set(err, MORTISE_REJECTED, "the index's body is no object");
  for (mt_json_iter it = mt_json_items(root); mt_json_next(&it);) {
    bool known = mt_json_key_is(it.key, MT_SLICE("settings")) ||
                 mt_json_key_is(it.key, MT_SLICE("mappings")) || mt_json_key_is(it.key, MT_SLICE("aliases"));
    if (!known || it.value.type != MT_JSON_OBJECT)
      return mt_error_set(err, MORTISE_REJECTED,
                          "`%.*s` of an index is not known to the embedded store",
                          (int)(it.key.n < 100 ? it.key.n : 100), it.key.p);
  }
  return MORTISE_OK;
}

static mortise_status alias_refused(const char *name, const char *why, mortise_error *err) {
  mt_error_set(err, MORTISE_REJECTED, "index `%s`: %s", name, why);
  if (err) err->http_status = 400;
  return MORTISE_REJECTED;
}

mortise_status mt_docs_index_create(mt_work *w, mt_req *req, mortise_error *err) {
  mt_index_admin *r = (mt_index_admin *)(void *)req;
  mt_index index;
  mortise_status status = mt_index_name_check(r->index, err);
  if (!status) status = check_body(r->body, err);
  if (!status) status = mt_work_write(w, err);
  if (status) return status;
  status = mt_index_load(w->db, mt_slice_of(r->index), &index, err);
  if (!status && index.idx && strcmp(index.name, r->index) != 0)
    status = alias_refused(r->index, "an alias has this name already", err);
  else if (!status && index.idx)
    status = mt_error_set(err, MORTISE_CONFLICT, "index `%s` exists already", r->index);
  mt_index_deinit(&index);
  if (!status) status = mt_alias_check_body(w->db, r->body, err);
  if (!status) status = mt_index_add(w->db, mt_slice_of(r->index), r->body, err);
  if (!status) status = mt_alias_added(w->db, r->index, r->body, err);
  return status ? status : mt_work_commit(w, err);
}

enum { TRASH_ROWS = 200 };

/* Deleted one by one, since SQLite would search a range only by the first column. */
static mortise_status empty_entries(mt_db *db, int64_t idx, int *changed, mortise_error *err) {
  sqlite3_stmt *get = mt_db_stmt(db, DOCS_TRASH_ENTRIES);
  sqlite3_bind_int64(get, 1, idx);
  sqlite3_bind_int(get, 2, TRASH_ROWS);
  for (*changed = 0;; ++*changed) {
    bool row;
    mortise_status status = mt_db_step(db, get, &row, err);
    if (status || !row) return status;
    sqlite3_stmt *drop = mt_db_stmt(db, DOCS_ENTRY_DROP);
    sqlite3_bind_int64(drop, 1, idx);
    sqlite3_bind_int64(drop, 2, sqlite3_column_int64(get, 0));
    mt_db_bind(drop, 3, mt_db_text(get, 1));
    mt_db_bind(drop, 4, mt_db_text(get, 2));
    status = mt_db_run(db, drop, err);
    if (status) return status;
  }
}

/* Removes some rows of a dropped index. */
static mortise_status empty_rows(mt_db *db, int64_t idx, int *changed, mortise_error *err) {
  mortise_status status = empty_entries(db, idx, changed, err);
  if (status || *changed) return status;
  sqlite3_stmt *stmt = mt_db_stmt(db, DOCS_TRASH_DOCS);
  sqlite3_bind_int64(stmt, 1, idx);
  sqlite3_bind_int(stmt, 2, TRASH_ROWS);
  status = mt_db_run(db, stmt, err);
  *changed = sqlite3_changes(db->handle);
  return status;
}

/* Removes as many as fit into one transaction. */
static mortise_status empty_some(mt_work *w, bool *more, mortise_error *err) {
  mt_db *db = w->db;
  mortise_status status = mt_db_write(db, &w->patience, err);
  while (!status && !mt_db_slice_over(db)) {
    sqlite3_stmt *get = mt_db_stmt(db, DOCS_TRASH_GET);
    status = mt_db_step(db, get, more, err);
    if (status || !*more) break;
    int64_t idx = sqlite3_column_int64(get, 0);
    sqlite3_reset(get);
    int changed;
    status = empty_rows(db, idx, &changed, err);
    if (status || changed) continue;
    sqlite3_stmt *done = mt_db_stmt(db, DOCS_TRASH_DONE);
    sqlite3_bind_int64(done, 1, idx);
    status = mt_db_run(db, done, err);
  }
  if (!status) status = mt_db_commit(db, err);
  mt_db_end(db);
  return status;
}

/* The first commit removed the index; its rows are removed in short transactions. What fails or is
 * cancelled here is left to the next drop. */
static void empty_trash(mt_work *w) {
  bool more = true;
  while (more && !mt_work_check(w, NULL) && !empty_some(w, &more, NULL)) {
  }
}

mortise_status mt_docs_index_drop(mt_work *w, mt_req *req, mortise_error *err) {
  mt_index_admin *r = (mt_index_admin *)(void *)req;
  mt_index index = {0};
  mortise_status status = mt_index_name_check(r->index, err);
  if (!status) status = mt_work_write(w, err);
  if (status) return status;
  status = mt_index_need(w->db, r->index, &index, err);
  if (!status && strcmp(index.name, r->index) != 0)
    status = alias_refused(r->index, "this is an alias: name the index itself", err);
  static const int steps[] = {DOCS_INDEX_DROP, DOCS_TRASH_ADD};
  for (size_t i = 0; !status && i < 2; i++) {
    sqlite3_stmt *stmt = mt_db_stmt(w->db, (size_t)steps[i]);
    sqlite3_bind_int64(stmt, 1, index.idx);
    status = mt_db_run(w->db, stmt, err);
  }
  if (!status) status = mt_span_drop(w->db, index.idx, err);
  mt_index_deinit(&index);
  if (!status) status = mt_work_commit(w, err);
  if (!status) empty_trash(w);
  return status;
}

mortise_status mt_docs_refresh(mt_work *w, mt_req *req, mortise_error *err) {
  mt_refresh *r = (mt_refresh *)(void *)req;
  mt_index index = {0};
  mortise_status status = mt_work_read(w, err);
  if (!status) status = mt_index_need(w->db, r->index, &index, err);
  mt_index_deinit(&index);
  return status;
}

/* ---- pages ---- */

enum { PAGE_DOCS_MAX = 1 << 24 };

mortise_status mt_pager_init(mt_pager *p, const char *index, mortise_error *err) {
  *p = (mt_pager){.page = mt_calloc(1, sizeof *p->page)};
  if (!p->page) return mt_error_memory(err);
  mt_buf_init(&p->page->bytes, MT_SQLITE_TEXT_MAX);
  mt_buf_init(&p->page->text, 0);
  p->index_n = strlen(index);
  mt_buf_adds(&p->page->bytes, index); /* once at the beginning, for all documents */
  return MORTISE_OK;
}

/* Slices only have lengths until mt_pager_take knows where the bytes are. */
mortise_status mt_pager_add(mt_pager *p, mt_slice id, const mt_row *row, mt_version version,
                            bool no_source, mortise_error *err) {
  mt_page *page = p->page;
  if (!mt_grow((void **)&page->docs, &p->cap, page->n + 1, sizeof *page->docs, PAGE_DOCS_MAX))
    return mt_error_memory(err);
  mt_doc *doc = &page->docs[page->n];
  *doc = (mt_doc){.id = {"", id.n}, .version = version, .found = row != NULL};
  mt_buf_addslice(&page->bytes, id);
  if (row) {
    doc->routing = (mt_slice){row->routing.p ? "" : NULL, row->routing.n};
    mt_buf_addslice(&page->bytes, row->routing);
    if (!no_source) doc->source = (mt_slice){"", row->source.raw.n};
    if (!no_source) mt_buf_addslice(&page->bytes, row->source.raw);
  }
  page->n++;
  return mt_buf_status(&page->bytes, "the answer", err);
}

static void place_slice(mt_slice *s, const char **at) {
  if (!s->p) return;
  s->p = *at;
  *at += s->n;
}

mt_page *mt_pager_take(mt_pager *p) {
  mt_page *page = p->page;
  p->page = NULL;
  const char *at = page->bytes.p + p->index_n;
  for (size_t i = 0; i < page->n; i++) {
    mt_doc *doc = &page->docs[i];
    doc->index = (mt_slice){page->bytes.p, p->index_n};
    place_slice(&doc->id, &at);
    place_slice(&doc->routing, &at);
    place_slice(&doc->source, &at);
  }
  return page;
}

void mt_pager_deinit(mt_pager *p) {
  mt_page_free(p->page);
  p->page = NULL;
}
