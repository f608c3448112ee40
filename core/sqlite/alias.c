/* What an index's body says beside its mappings: settings, a write block, aliases. They stand there in the servers'
 * form: {"settings":{"index":{"blocks":{"write":"true"}}},"aliases":{"ALIAS":{}}}. A file in which that was changed is of
 * a later format, since an older program would write past a block or an alias. */
#include "sqlite/docs.h"

#include "base/json_edit.h"
#include "base/mem.h"

#include <stdio.h>

enum { SETTINGS_MAX = 256, SETTINGS_DEPTH = 8 };

static const mt_slice write_block = MT_SLICE("settings.index.blocks.write");

/* ---- The body ------------------------------------------------------------------------------- */

static mortise_status parse_index_body(const mt_index *index, mt_json *out, mortise_error *err) {
  return mt_json_parse(*index->body ? mt_slice_of(index->body) : MT_SLICE("{}"), "the index's body", out, err);
}

static mortise_status store_body(mt_db *db, int64_t idx, mt_slice body, mortise_error *err) {
  char later[48];
  snprintf(later, sizeof later, "PRAGMA user_version=%d", MT_DOCS_FORMAT_BLOCKS);
  int code = sqlite3_exec(db->handle, later, NULL, NULL, NULL);
  if (code) return mt_db_fail(db, code, err);
  sqlite3_stmt *stmt = mt_db_stmt(db, DOCS_INDEX_BODY);
  sqlite3_bind_int64(stmt, 1, idx);
  mt_db_bind(stmt, 2, body);
  return mt_db_run(db, stmt, err);
}

static mortise_status edit_body(mt_db *db, const mt_index *index, const mt_json_edit *edits, size_t n,
                                mortise_error *err) {
  mt_json root;
  mt_buf out;
  mt_buf_init(&out, MT_SQLITE_TEXT_MAX);
  mortise_status status = parse_index_body(index, &root, err);
  if (!status) status = mt_json_apply(root, edits, n, &out, err);
  if (!status) status = mt_buf_status(&out, "the index's body", err);
  if (!status) status = store_body(db, index->idx, mt_buf_slice(&out), err);
  mt_buf_deinit(&out);
  return status;
}

bool mt_body_blocks(mt_json root) {
  mt_json block = mt_json_find(root, write_block);
  return mt_json_is(block, "true") || block.type == MT_JSON_TRUE;
}

/* ---- Settings and the block ----------------------------------------------------------------- */

typedef struct setting_list {
  mt_buf names;
  size_t ends[SETTINGS_MAX]; /* of each name in `names` */
  mt_json_edit edits[SETTINGS_MAX];
  size_t n;
} setting_list;

/* Names each leaf by its path, `prefix` bytes of which stand at the end of `names` already. */
static mortise_status list_settings(setting_list *l, mt_json object, mt_slice prefix, unsigned depth,
                                    mortise_error *err) {
  mortise_status status = MORTISE_OK;
  if (object.type != MT_JSON_OBJECT || depth > SETTINGS_DEPTH)
    return mt_error_set(err, MORTISE_REJECTED, "settings are an object of objects");
  for (mt_json_iter it = mt_json_items(object); !status && mt_json_next(&it);) {
    char name[512];
    int n = snprintf(name, sizeof name, "%.*s.%.*s", (int)prefix.n, prefix.p, (int)it.key.n, it.key.p);
    if (n < 0 || (size_t)n >= sizeof name || l->n == SETTINGS_MAX)
      return mt_error_set(err, MORTISE_REJECTED, "too many settings, or too long a name of one");
    mt_slice path = {name, (size_t)n};
    if (it.value.type == MT_JSON_OBJECT) {
      status = list_settings(l, it.value, path, depth + 1, err);
      continue;
    }
    mt_buf_addslice(&l->names, path);
    l->ends[l->n] = l->names.n;
    if (it.value.type != MT_JSON_NULL) l->edits[l->n].value = it.value.raw;
    l->n++;
  }
  return status ? status : mt_buf_status(&l->names, "names of settings", err);
}

static mortise_status read_setting_list(setting_list *l, mt_slice body, mortise_error *err) {
  mt_json root;
  mt_buf_init(&l->names, MT_SQLITE_TEXT_MAX);
  mortise_status status = mt_json_parse(body, "the settings", &root, err);
  if (!status) status = list_settings(l, root, MT_SLICE("settings"), 0, err);
  for (size_t i = 0, at = 0; !status && i < l->n; at = l->ends[i++])
    l->edits[i].name = (mt_slice){l->names.p + at, l->ends[i] - at};
  return status;
}

static mortise_status change_body(mt_work *w, const mt_index_admin *r, const mt_json_edit *edits, size_t n,
                                   mortise_error *err) {
  mt_index index = {0};
  mortise_status status = mt_work_write(w, err);
  if (!status) status = mt_index_need(w->db, r->index, &index, err);
  if (!status) status = edit_body(w->db, &index, edits, n, err);
  mt_index_deinit(&index);
  return status ? status : mt_work_commit(w, err);
}

mortise_status mt_docs_settings(mt_work *w, mt_req *req, mortise_error *err) {
  mt_index_admin *r = (mt_index_admin *)(void *)req;
  setting_list *l = mt_calloc(1, sizeof *l);
  if (!l) return mt_error_memory(err);
  mortise_status status = read_setting_list(l, r->body, err);
  if (!status) status = change_body(w, r, l->edits, l->n, err);
  mt_buf_deinit(&l->names);
  mt_free(l);
  return status;
}

mortise_status mt_docs_block(mt_work *w, mt_req *req, mortise_error *err) {
  mt_json_edit set = {write_block, MT_SLICE("\"true\"")};
  return change_body(w, (mt_index_admin *)(void *)req, &set, 1, err);
}

mortise_status mt_docs_unblock(mt_work *w, mt_req *req, mortise_error *err) {
  mt_json_edit lift = {write_block, {NULL, 0}};
  return change_body(w, (mt_index_admin *)(void *)req, &lift, 1, err);
}

/* ---- Aliases -------------------------------------------------------------------------------- */

mortise_status mt_alias_find(mt_db *db, mt_slice alias, char *name, mortise_error *err) {
  sqlite3_stmt *stmt = mt_db_stmt(db, DOCS_INDEX_ALIASED);
  bool row = true;
  mortise_status status = MORTISE_OK;
  *name = '\0';
  while (!*name && !(status = mt_db_step(db, stmt, &row, err)) && row) {
    mt_json root;
    mt_slice found = mt_db_text(stmt, 0);
    if (mt_json_parse(mt_db_text(stmt, 1), "", &root, NULL) || found.n > MT_INDEX_NAME_MAX) continue;
    if (!mt_json_member(mt_json_get(root, "aliases"), alias).type) continue;
    memcpy(name, found.p, found.n);
    name[found.n] = '\0';
  }
  sqlite3_reset(stmt);
  return status;
}

static mt_json aliases_in(mt_slice body) {
  mt_json root;
  if (!body.n || mt_json_parse(body, "", &root, NULL)) return (mt_json){0};
  return mt_json_get(root, "aliases");
}

static mortise_status check_new_alias(mt_db *db, mt_slice alias, mt_json definition, mortise_error *err) {
  char text[MT_INDEX_NAME_MAX + 1];
  mt_index index = {0};
  if (definition.type != MT_JSON_OBJECT || mt_json_count(definition) || alias.n > MT_INDEX_NAME_MAX)
    return mt_error_set(err, MORTISE_REJECTED, "alias %.*s: in the embedded store it has no filter and no routing",
                        (int)(alias.n < 100 ? alias.n : 100), alias.p);
  snprintf(text, sizeof text, "%.*s", (int)alias.n, alias.p);
  mortise_status status = mt_index_name_check(text, err);
  if (!status) status = mt_index_load(db, alias, &index, err);
  if (!status && index.idx)
    status = mt_error_set(err, MORTISE_REJECTED, "alias %s: the name is that of index %s", text, index.name);
  mt_index_deinit(&index);
  return status;
}

mortise_status mt_alias_check_body(mt_db *db, mt_slice body, mortise_error *err) {
  mortise_status status = MORTISE_OK;
  for (mt_json_iter it = mt_json_items(aliases_in(body)); !status && mt_json_next(&it);)
    status = check_new_alias(db, it.key, it.value, err);
  return status;
}

mortise_status mt_alias_added(mt_db *db, const char *name, mt_slice body, mortise_error *err) {
  mt_index index = {0};
  if (!mt_json_count(aliases_in(body))) return MORTISE_OK;
  mortise_status status = mt_index_need(db, name, &index, err);
  if (!status) status = store_body(db, index.idx, body, err);
  mt_index_deinit(&index);
  return status;
}

/* Of an index all its aliases, of an alias itself. */
static void add_aliases(mt_buf *out, const mt_index *index, const char *name, mt_json aliases) {
  mt_buf_addf(out, "{\"%s\":{\"aliases\":", index->name);
  if (!strcmp(index->name, name))
    mt_buf_addslice(out, aliases.type ? aliases.raw : MT_SLICE("{}"));
  else
    mt_buf_addf(out, "{\"%s\":{}}", name);
  mt_buf_adds(out, "}}");
}

mortise_status mt_docs_aliases(mt_work *w, mt_req *req, mortise_error *err) {
  mt_aliases *r = (mt_aliases *)(void *)req;
  mt_index index = {0};
  mt_json root;
  mt_buf out;
  r->json = NULL;
  mt_buf_init(&out, MT_SQLITE_TEXT_MAX);
  mortise_status status = mt_index_name_check(r->name, err);
  if (!status) status = mt_work_read(w, err);
  if (!status) status = mt_index_load(w->db, mt_slice_of(r->name), &index, err);
  if (!status && index.idx) status = parse_index_body(&index, &root, err);
  if (!status && index.idx) add_aliases(&out, &index, r->name, mt_json_get(root, "aliases"));
  if (!status && !index.idx) mt_buf_adds(&out, "{}");
  if (!status) status = mt_buf_status(&out, "the aliases", err);
  if (!status) r->json = mt_buf_take(&out, NULL);
  mt_buf_deinit(&out);
  mt_index_deinit(&index);
  return status;
}

mortise_status mt_docs_aliases_missing(mt_work *w, mt_req *req, mortise_error *err) {
  mt_aliases *r = (mt_aliases *)(void *)req;
  (void)w;
  r->json = mt_strdup("{}");
  return r->json ? MORTISE_OK : mt_error_memory(err);
}

/* Writes the index's aliases with this one, or without it. */
static mortise_status change_aliases(mt_db *db, const mt_index *index, const char *alias, bool there,
                                     mortise_error *err) {
  mt_json root;
  mt_buf out;
  mortise_status status = parse_index_body(index, &root, err);
  if (status) return status;
  mt_buf_init(&out, MT_SQLITE_TEXT_MAX);
  mt_buf_addc(&out, '{');
  for (mt_json_iter it = mt_json_items(mt_json_get(root, "aliases")); mt_json_next(&it);) {
    if (mt_json_key_is(it.key, mt_slice_of(alias))) continue;
    mt_buf_addf(&out, "%s\"%.*s\":{}", out.n > 1 ? "," : "", (int)it.key.n, it.key.p);
  }
  if (there) mt_buf_addf(&out, "%s\"%s\":{}", out.n > 1 ? "," : "", alias);
  mt_buf_addc(&out, '}');
  status = mt_buf_status(&out, "the aliases", err);
  mt_json_edit edit = {MT_SLICE("aliases"), mt_buf_slice(&out)};
  if (!status) status = edit_body(db, index, &edit, 1, err);
  mt_buf_deinit(&out);
  return status;
}

static mortise_status alias_rejected(const mt_alias_move *r, const char *why, mortise_error *err) {
  mt_error_set(err, MORTISE_REJECTED, "move alias %s: %s", r->alias, why);
  if (err) err->http_status = 400;
  return MORTISE_REJECTED;
}

static mortise_status alias_missing(const mt_alias_move *r, const char *alias, mortise_error *err) {
  return mt_error_set(err, MORTISE_NOT_FOUND, "move alias %s: index %s does not have %s", r->alias, r->from, alias);
}

/* Off `from`, which must have it. */
static mortise_status take_alias(mt_db *db, const mt_alias_move *r, const char *alias, mortise_error *err) {
  mt_index at = {0};
  mortise_status status = mt_index_load(db, mt_slice_of(alias), &at, err);
  if (!status && (!at.idx || strcmp(at.name, r->from) != 0 || !strcmp(at.name, alias)))
    status = alias_missing(r, alias, err);
  if (!status) status = change_aliases(db, &at, alias, false, err);
  mt_index_deinit(&at);
  return status;
}

/* In a transaction; `at` is what the alias's name means now. */
static mortise_status move_alias(mt_db *db, const mt_alias_move *r, const mt_index *at, mortise_error *err) {
  mt_index to = {0};
  mortise_status status = MORTISE_OK;
  if (at->idx && !strcmp(at->name, r->alias)) return alias_rejected(r, "an index has this name", err);
  if (r->to && at->idx && !strcmp(at->name, r->to)) return MORTISE_OK;
  if (!r->from && at->idx)
    return alias_rejected(r, "another index has it: an alias names one index in this store", err);
  if (r->mark) status = take_alias(db, r, r->mark, err);
  if (!status && r->from) status = take_alias(db, r, r->alias, err);
  if (!status && r->to) status = mt_index_need(db, r->to, &to, err);
  if (!status && r->to) status = change_aliases(db, &to, r->alias, true, err);
  mt_index_deinit(&to);
  return status;
}

mortise_status mt_docs_alias_move(mt_work *w, mt_req *req, mortise_error *err) {
  mt_alias_move *r = (mt_alias_move *)(void *)req;
  mt_index at = {0};
  mortise_status status = mt_index_name_check(r->alias, err);
  if (!status && !(r->from || (r->to && !r->mark)))
    status = mt_error_set(err, MORTISE_INVALID_ARGUMENT, "move alias %s: from which index, or to which?", r->alias);
  if (!status) status = mt_work_write(w, err);
  if (!status && r->to) status = mt_index_need(w->db, r->to, &at, err); /* it must be there in any case */
  mt_index_deinit(&at);
  if (!status) status = mt_index_load(w->db, mt_slice_of(r->alias), &at, err);
  if (!status) status = move_alias(w->db, r, &at, err);
  mt_index_deinit(&at);
  return status ? status : mt_work_commit(w, err);
}
