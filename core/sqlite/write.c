/* Writes documents: a bulk, in transactions short enough that nobody waits long for one. */
#include "sqlite/docs.h"

#include "base/json_edit.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
  ID_MAX = 512,        /* the servers' limit */
  CLOCK_EVERY = 16,    /* items between two checks of the clock */
  INDICES_MAX = 1024,  /* in one transaction */
  VALUES_MAX = 1 << 20 /* of keyword fields in one document */
};

/* A document's values in the index's keyword fields. */
typedef struct values {
  mt_buf text;
  struct value {
    size_t field, at, n;
  } * list;
  size_t n, cap;
} values;

typedef struct bulk_run {
  mt_work *w;
  mt_bulk *r;
  mt_index **indices; /* open in this transaction */
  size_t n_indices, cap;
  size_t first; /* item of this transaction */
  values before, after;
  mt_buf merged;
} bulk_run;

/* ---- results ---- */

static mortise_status set_write_result(mt_write *item, mt_write_result what, int status,
                                       const char *type, const char *reason) {
  item->result = what;
  item->status = status;
  snprintf(item->type, sizeof item->type, "%.*s", (int)sizeof item->type - 1, type);
  snprintf(item->reason, sizeof item->reason, "%.*s", (int)sizeof item->reason - 1, reason);
  return MORTISE_OK;
}

static mortise_status reject(mt_write *item, const char *type, const char *reason) {
  return set_write_result(item, MT_WRITE_REJECTED, 400, type, reason);
}

static mortise_status applied(mt_write *item, uint64_t seq_no, int status) {
  item->version = mt_docs_version(seq_no);
  item->created = status == 201;
  return set_write_result(item, MT_WRITE_APPLIED, status, "", "");
}

static mortise_status write_blocked(mt_write *item, const char *index) {
  char reason[sizeof item->reason];
  snprintf(reason, sizeof reason, "index [%.80s] blocked by: [FORBIDDEN/8/index write (api)];", index);
  return set_write_result(item, MT_WRITE_BUSY, 403, "cluster_block_exception", reason);
}

static mortise_status write_conflict(mt_write *item, const char *reason) {
  return set_write_result(item, MT_WRITE_CONFLICT, 409, "version_conflict_engine_exception",
                          reason);
}

static mortise_status write_missing(mt_write *item) {
  if (item->kind == MT_WRITE_DELETE)
    return set_write_result(item, MT_WRITE_MISSING, 404, "", "not found");
  return set_write_result(item, MT_WRITE_MISSING, 404, "document_missing_exception",
                          "document missing");
}

static void clear_result(mt_write *item) {
  item->result = MT_WRITE_NONE;
  item->status = 0;
  item->version = (mt_version){0};
  item->created = false;
  item->standing = 0;
  item->type[0] = item->reason[0] = '\0';
}

/* ---- entries ---- */

static mortise_status add_field_value(void *ctx, size_t field, mt_slice text, mortise_error *err) {
  values *v = ctx;
  if (!mt_grow((void **)&v->list, &v->cap, v->n + 1, sizeof *v->list, VALUES_MAX))
    return mt_error_memory(err);
  v->list[v->n++] = (struct value){field, v->text.n, text.n};
  mt_buf_addslice(&v->text, text);
  return mt_buf_status(&v->text, "the fields' values", err);
}

static mt_slice value_text(const values *v, size_t i) {
  return (mt_slice){v->text.p + v->list[i].at, v->list[i].n};
}

static bool has_value(const values *v, size_t field, mt_slice text) {
  for (size_t i = 0; i < v->n; i++)
    if (v->list[i].field == field && mt_slice_eq(value_text(v, i), text)) return true;
  return false;
}

static mortise_status collect_values(values *v, const mt_index *index, mt_json source,
                                     mortise_error *err) {
  v->n = 0;
  mt_buf_clear(&v->text);
  if (source.type == MT_JSON_NONE) return MORTISE_OK;
  return mt_index_entries(index, source, add_field_value, v, err);
}

/* Writes those of `these` that are not in `those`. */
static mortise_status write_entries(mt_db *db, size_t sql, const mt_index *index, mt_slice id,
                                    const values *these, const values *those, mortise_error *err) {
  mortise_status status = MORTISE_OK;
  for (size_t i = 0; !status && i < these->n; i++) {
    mt_slice text = value_text(these, i);
    if (has_value(those, these->list[i].field, text)) continue;
    sqlite3_stmt *stmt = mt_db_stmt(db, sql);
    sqlite3_bind_int64(stmt, 1, index->idx);
    sqlite3_bind_int64(stmt, 2, (sqlite3_int64)these->list[i].field);
    mt_db_bind(stmt, 3, text);
    mt_db_bind(stmt, 4, id);
    status = mt_db_run(db, stmt, err);
  }
  return status;
}

static mortise_status change_entries(bulk_run *u, const mt_index *index, mt_slice id,
                                     mt_json before, mt_json after, mortise_error *err) {
  if (!index->n_fields) return MORTISE_OK;
  mt_db *db = u->w->db;
  mortise_status status = collect_values(&u->before, index, before, err);
  if (!status) status = collect_values(&u->after, index, after, err);
  if (!status) status = write_entries(db, DOCS_ENTRY_DROP, index, id, &u->before, &u->after, err);
  if (!status) status = write_entries(db, DOCS_ENTRY_ADD, index, id, &u->after, &u->before, err);
  return status;
}

/* ---- one document ---- */

/* `old` NULL: the document is new. */
static mortise_status store(bulk_run *u, mt_index *index, mt_write *item, const mt_row *old,
                            mt_slice source, mortise_error *err) {
  mt_db *db = u->w->db;
  uint64_t seq_no = index->next_seq_no;
  mt_json before = old ? old->source : (mt_json){0};
  mortise_status status =
      change_entries(u, index, item->id, before, (mt_json){MT_JSON_OBJECT, source}, err);
  if (status) return status;
  /* An update keeps the routing that the document has. */
  mt_slice routing = item->kind == MT_WRITE_UPDATE && old ? old->routing : item->routing;
  sqlite3_stmt *stmt = mt_db_stmt(db, old ? DOCS_UPDATE : DOCS_INSERT);
  sqlite3_bind_int64(stmt, 1, index->idx);
  mt_db_bind(stmt, 2, item->id);
  if (routing.p) mt_db_bind(stmt, 3, routing);
  mt_db_bind_u(stmt, 4, seq_no);
  mt_db_bind(stmt, 5, source);
  status = mt_db_run(db, stmt, err);
  if (status) return status;
  index->next_seq_no++;
  return applied(item, seq_no, old ? 200 : 201);
}

static mortise_status erase(bulk_run *u, mt_index *index, mt_write *item, const mt_row *old,
                            mortise_error *err) {
  mt_db *db = u->w->db;
  mortise_status status = change_entries(u, index, item->id, old->source, (mt_json){0}, err);
  if (status) return status;
  sqlite3_stmt *stmt = mt_db_stmt(db, DOCS_DELETE);
  sqlite3_bind_int64(stmt, 1, index->idx);
  mt_db_bind(stmt, 2, item->id);
  status = mt_db_run(db, stmt, err);
  if (status) return status;
  return applied(item, index->next_seq_no++, 200);
}

/* The parts of an update's body. */
typedef struct update {
  mt_json doc, upsert;
  bool doc_as_upsert, keep_noop;
} update;

/* false if the item was rejected. */
static bool read_update(mt_write *item, mt_json body, update *out) {
  *out = (update){0};
  for (mt_json_iter it = mt_json_items(body); mt_json_next(&it);) {
    bool flag = false, is_flag = mt_json_bool(it.value, &flag);
    if (mt_json_key_is(it.key, MT_SLICE("doc")) && it.value.type == MT_JSON_OBJECT)
      out->doc = it.value;
    else if (mt_json_key_is(it.key, MT_SLICE("upsert")) && it.value.type == MT_JSON_OBJECT)
      out->upsert = it.value;
    else if (mt_json_key_is(it.key, MT_SLICE("doc_as_upsert")) && is_flag)
      out->doc_as_upsert = flag;
    else if (mt_json_key_is(it.key, MT_SLICE("detect_noop")) && is_flag)
      out->keep_noop = !flag;
    else if (mt_json_key_is(it.key, MT_SLICE("script")) ||
             mt_json_key_is(it.key, MT_SLICE("scripted_upsert"))) {
      reject(item, "unsupported", "scripts are not supported by the embedded store");
      return false;
    } else if (!mt_json_key_is(it.key, MT_SLICE("_source"))) {
      reject(item, "x_content_parse_exception", "an update knows doc, upsert, doc_as_upsert");
      return false;
    }
  }
  if (out->doc.type) return true;
  reject(item, "action_request_validation_exception", "an update needs a doc");
  return false;
}

static mortise_status apply_update(bulk_run *u, mt_index *index, mt_write *item, mt_json body,
                                   const mt_row *old, mortise_error *err) {
  update what;
  if (!read_update(item, body, &what)) return MORTISE_OK;
  if (!old && what.doc_as_upsert) return store(u, index, item, NULL, what.doc.raw, err);
  if (!old && what.upsert.type) return store(u, index, item, NULL, what.upsert.raw, err);
  if (!old) return write_missing(item);
  bool changed;
  mortise_error local;
  mt_buf_clear(&u->merged);
  mortise_status status = mt_json_merge(old->source, what.doc, &u->merged, &changed, &local);
  if (!status) status = mt_buf_status(&u->merged, "the document", &local);
  if (status == MORTISE_OUT_OF_MEMORY) return mt_error_memory(err);
  if (status) return reject(item, "mapper_parsing_exception", local.message);
  if (changed || what.keep_noop) return store(u, index, item, old, mt_buf_slice(&u->merged), err);
  item->version = mt_docs_version(old->seq_no);
  return set_write_result(item, MT_WRITE_NOOP, 200, "", "");
}

/* ---- external versions ---- */

static mortise_status write_seal(bulk_run *u, const mt_index *index, size_t sql, const mt_write *item,
                                 uint64_t version, mortise_error *err) {
  char text[24];
  snprintf(text, sizeof text, "%" PRIu64, version);
  sqlite3_stmt *stmt = mt_db_stmt(u->w->db, sql);
  sqlite3_bind_int64(stmt, 1, index->idx);
  sqlite3_bind_int64(stmt, 2, MT_FIELD_SEALED);
  mt_db_bind(stmt, 3, item->id);
  mt_db_bind(stmt, 4, mt_slice_of(text));
  return mt_db_run(u->w->db, stmt, err);
}

mortise_status mt_docs_seal(mt_db *db, int64_t idx, mt_slice id, uint64_t *version, mortise_error *err) {
  sqlite3_stmt *stmt = mt_db_stmt(db, DOCS_ENTRY_IS);
  sqlite3_bind_int64(stmt, 1, idx);
  sqlite3_bind_int64(stmt, 2, MT_FIELD_SEALED);
  mt_db_bind(stmt, 3, id);
  bool found;
  mortise_status status = mt_db_step(db, stmt, &found, err);
  *version = found ? strtoull(mt_db_text(stmt, 0).p, NULL, 10) : 0;
  sqlite3_reset(stmt);
  return status;
}

static mortise_status read_seal(bulk_run *u, const mt_index *index, const mt_write *item, uint64_t *version,
                                mortise_error *err) {
  return mt_docs_seal(u->w->db, index->idx, item->id, version, err);
}

static mortise_status replace_seal(bulk_run *u, mt_index *index, const mt_write *item, uint64_t stands,
                                   uint64_t version, mortise_error *err) {
  if (stands == version) return MORTISE_OK;
  mortise_status status = stands ? write_seal(u, index, DOCS_ENTRY_DROP, item, stands, err) : MORTISE_OK;
  if (!status) status = write_seal(u, index, DOCS_ENTRY_ADD, item, version, err);
  index->sealed = true;
  return status;
}

/* As on a server, each other write makes a version larger by one, so that the copy over which it was written is not
 * written over it. */
static mortise_status raise_seal(bulk_run *u, mt_index *index, const mt_write *item, mortise_error *err) {
  uint64_t stands = 0;
  if (!index->sealed || item->result != MT_WRITE_APPLIED) return MORTISE_OK;
  mortise_status status = read_seal(u, index, item, &stands, err);
  return status || !stands ? status : replace_seal(u, index, item, stands, stands + 1, err);
}

/* What is there is refused whatever its version: this store keeps none of plain writes, and whoever asks wants
 * to create. Documents that never had an external version leave nothing behind when they are deleted, since no request
 * reaches this store late; but the version that a create had stays, so that it is applied once. */
static mortise_status apply_external(bulk_run *u, mt_index *index, mt_write *item, mt_json body, const mt_row *old,
                                     mortise_error *err) {
  uint64_t stands = 0;
  mortise_status status = read_seal(u, index, item, &stands, err);
  if (status) return status;
  if (old || stands >= item->external) {
    item->standing = stands;
    return write_conflict(item, old ? "the document exists already" : "a later version was there");
  }
  status = replace_seal(u, index, item, stands, item->external, err);
  if (status) return status;
  return item->kind == MT_WRITE_CREATE ? store(u, index, item, NULL, body.raw, err) : write_missing(item);
}

/* A document that never had an external version counts as older than any. */
static mortise_status apply_external_gte(bulk_run *u, mt_index *index, mt_write *item, mt_json body, const mt_row *old,
                                         mortise_error *err) {
  uint64_t stands = 0;
  mortise_status status = read_seal(u, index, item, &stands, err);
  if (status) return status;
  if (stands > item->external_gte) {
    item->standing = stands;
    return write_conflict(item, "a later version is or was there");
  }
  status = replace_seal(u, index, item, stands, item->external_gte, err);
  if (status) return status;
  if (item->kind == MT_WRITE_INDEX) return store(u, index, item, old, body.raw, err);
  return old ? erase(u, index, item, old, err) : write_missing(item);
}

static bool version_set(const mt_write *item) {
  return item->if_version.term != 0;
}

static bool version_differs(const mt_write *item, const mt_row *old) {
  return !old || item->if_version.term != 1 || item->if_version.seq_no != old->seq_no;
}

static mortise_status apply_plain(bulk_run *u, mt_index *index, mt_write *item, mt_json body,
                                  const mt_row *old, mortise_error *err) {
  switch (item->kind) {
  case MT_WRITE_CREATE:
    if (old) return write_conflict(item, "the document exists already");
    return store(u, index, item, NULL, body.raw, err);
  case MT_WRITE_INDEX:
    return store(u, index, item, old, body.raw, err);
  case MT_WRITE_UPDATE:
    return apply_update(u, index, item, body, old, err);
  default:
    return old ? erase(u, index, item, old, err) : write_missing(item);
  }
}

static mortise_status apply(bulk_run *u, mt_index *index, mt_write *item, mt_json body,
                            const mt_row *old, mortise_error *err) {
  if (item->kind == MT_WRITE_UPDATE && !old && version_set(item)) return write_missing(item);
  if (version_set(item) && version_differs(item, old))
    return write_conflict(item,
                          old ? "the document has been changed since" : "there is no document");
  if (item->external) return apply_external(u, index, item, body, old, err);
  if (item->external_gte) return apply_external_gte(u, index, item, body, old, err);
  mortise_status status = apply_plain(u, index, item, body, old, err);
  return status ? status : raise_seal(u, index, item, err);
}

/* ---- items ---- */

static mortise_status look_for_seals(mt_db *db, mt_index *index, mortise_error *err) {
  sqlite3_stmt *stmt = mt_db_stmt(db, DOCS_ENTRY_ANY);
  sqlite3_bind_int64(stmt, 1, index->idx);
  sqlite3_bind_int64(stmt, 2, MT_FIELD_SEALED);
  mortise_status status = mt_db_step(db, stmt, &index->sealed, err);
  sqlite3_reset(stmt);
  return status;
}

/* One index is open once, whether items name it or its alias. */
static mt_index *open_index(const bulk_run *u, mt_slice name, int64_t idx) {
  for (size_t i = u->n_indices; i-- > 0;) {
    mt_index *at = u->indices[i];
    if (at->idx == idx || (!idx && (mt_slice_eq(name, mt_slice_of(at->name)) || mt_slice_eq(name, mt_slice_of(at->called)))))
      return at;
  }
  return NULL;
}

static mortise_status load_index(mt_db *db, mt_slice name, bool make, mt_index *out, mortise_error *err) {
  mortise_status status = mt_index_load(db, name, out, err);
  if (!status && !out->idx && make) {
    status = mt_index_add(db, name, MT_SLICE(""), err);
    if (!status) status = mt_index_load(db, name, out, err);
  }
  if (!status && out->idx) status = look_for_seals(db, out, err);
  return status;
}

static mortise_status find_index(bulk_run *u, mt_slice name, bool make, mt_index **out,
                                 mortise_error *err) {
  *out = open_index(u, name, 0);
  if (*out) return MORTISE_OK;
  if (!mt_grow((void **)&u->indices, &u->cap, u->n_indices + 1, sizeof *u->indices, INDICES_MAX))
    return mt_error_memory(err);
  mt_index *index = mt_calloc(1, sizeof *index);
  if (!index) return mt_error_memory(err);
  mortise_status status = load_index(u->w->db, name, make, index, err);
  if (!status && index->idx) *out = open_index(u, name, index->idx);
  if (!status && index->idx && !*out) {
    u->indices[u->n_indices++] = *out = index;
    return MORTISE_OK;
  }
  mt_index_deinit(index);
  mt_free(index);
  return status;
}

static bool is_text(mt_write *item) {
  char why[64];
  size_t at = mt_utf8_valid(item->body);
  if (mt_utf8_valid(item->id) < item->id.n)
    return reject(item, "action_request_validation_exception", "the id is no UTF-8"), false;
  if (item->kind == MT_WRITE_DELETE || at == item->body.n) return true;
  snprintf(why, sizeof why, "the body is no UTF-8 at byte %zu", at);
  return reject(item, "mapper_parsing_exception", why), false;
}

/* Rejects an item that is wrong whatever is stored; true if it was rejected. */
static bool is_malformed(mt_write *item, mt_slice name, mt_json *body) {
  mortise_error local;
  const char *problem = mt_index_name_problem(name);
  if (problem) return reject(item, "invalid_index_name_exception", problem), true;
  if (!item->id.n || item->id.n > ID_MAX)
    return reject(item, "action_request_validation_exception",
                  item->id.n ? "the id is longer than 512 bytes" : "the id is empty"),
           true;
  if (item->kind == MT_WRITE_CREATE && version_set(item))
    return reject(item, "action_request_validation_exception",
                  "create operations do not support compare and set"),
           true;
  if (item->external && (version_set(item) || (item->kind != MT_WRITE_CREATE && item->kind != MT_WRITE_DELETE)))
    return reject(item, "action_request_validation_exception",
                  "only a create or a delete has an external version, and no other"),
           true;
  if (item->external_gte &&
      (version_set(item) || item->external || (item->kind != MT_WRITE_INDEX && item->kind != MT_WRITE_DELETE)))
    return reject(item, "action_request_validation_exception",
                  "only an index or a delete has an external_gte version, and no other"),
           true;
  if (!is_text(item)) return true;
  if (item->kind == MT_WRITE_DELETE) return false;
  if (mt_json_parse(item->body, "the body", body, &local))
    return reject(item, "mapper_parsing_exception", local.message), true;
  if (body->type != MT_JSON_OBJECT || body->raw.n > MT_SQLITE_TEXT_MAX)
    return reject(item, "mapper_parsing_exception",
                  body->type == MT_JSON_OBJECT ? "the body is too large" : "the body is no object"),
           true;
  return false;
}

static mortise_status write_item(bulk_run *u, mt_write *item, mortise_error *err) {
  mt_slice name = item->index.p ? item->index : mt_slice_of(u->r->index);
  mt_json body = {0};
  if (is_malformed(item, name, &body)) return MORTISE_OK;
  mt_index *index = NULL;
  mortise_status status = find_index(u, name, item->kind != MT_WRITE_DELETE, &index, err);
  if (status) return status;
  if (!index)
    return set_write_result(item, MT_WRITE_MISSING, 404, "index_not_found_exception",
                            "no such index");
  if (index->blocked) return write_blocked(item, index->name);
  mt_row old;
  bool found;
  status = mt_docs_get(u->w->db, index->idx, item->id, &old, &found, err);
  return status ? status : apply(u, index, item, body, found ? &old : NULL, err);
}

/* ---- transactions ---- */

static void close_indices(bulk_run *u) {
  for (size_t i = 0; i < u->n_indices; i++) {
    mt_index_deinit(u->indices[i]);
    mt_free(u->indices[i]);
  }
  u->n_indices = 0;
}

static mortise_status commit(bulk_run *u, mortise_error *err) {
  mt_db *db = u->w->db;
  mortise_status status = MORTISE_OK;
  for (size_t i = 0; !status && i < u->n_indices; i++) {
    sqlite3_stmt *stmt = mt_db_stmt(db, DOCS_INDEX_SEQ);
    sqlite3_bind_int64(stmt, 1, u->indices[i]->idx);
    mt_db_bind_u(stmt, 2, u->indices[i]->next_seq_no);
    status = mt_db_run(db, stmt, err);
  }
  return status ? status : mt_work_commit(u->w, err);
}

/* Writes as many items as fit into one transaction, from u->first; *end is the first one left. */
static mortise_status run_writes(bulk_run *u, size_t *end, mortise_error *err) {
  mt_bulk *r = u->r;
  mortise_status status = mt_work_write(u->w, err);
  size_t i = u->first;
  while (!status && i < r->n) {
    status = write_item(u, &r->items[i++], err);
    if (i % CLOCK_EVERY == 0 && mt_db_slice_over(u->w->db)) break;
  }
  if (!status) status = commit(u, err);
  close_indices(u);
  mt_db_end(u->w->db);
  for (size_t k = u->first; status && k < i; k++) clear_result(&r->items[k]);
  *end = i;
  return status;
}

mortise_status mt_docs_bulk(mt_work *w, mt_req *req, mortise_error *err) {
  mt_bulk *r = (mt_bulk *)(void *)req;
  bulk_run u = {.w = w, .r = r};
  mt_buf_init(&u.merged, MT_SQLITE_TEXT_MAX);
  mt_buf_init(&u.before.text, MT_SQLITE_TEXT_MAX);
  mt_buf_init(&u.after.text, MT_SQLITE_TEXT_MAX);
  for (size_t i = 0; i < r->n; i++) clear_result(&r->items[i]);
  mortise_status status = MORTISE_OK;
  while (!status && u.first < r->n) {
    size_t first = u.first;
    status = run_writes(&u, &u.first, err);
    if (status && first) err->ambiguous = true; /* earlier transactions are committed */
  }
  mt_free(u.indices);
  mt_free(u.before.list);
  mt_free(u.after.list);
  mt_buf_deinit(&u.merged);
  mt_buf_deinit(&u.before.text);
  mt_buf_deinit(&u.after.text);
  return status;
}
