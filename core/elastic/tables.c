/* The definition of the lock table, and its verification. */
#include "base/mem.h"
#include "elastic/internal.h"
#include "embedded.h"

#include <stdarg.h>
#include <stdio.h>

extern const mt_embedded mt_elastic_scripts[];

/* Both created and verified. */
static const struct {
  const char *name, *definition;
} fields[] = {
    {"kind", "{\"type\":\"keyword\"}"},
    {"path", "{\"type\":\"keyword\"}"},
    {"holders", "{\"type\":\"object\",\"enabled\":false}"},
    {"queue", "{\"type\":\"object\",\"enabled\":false}"},
    {"sessions", "{\"type\":\"keyword\"}"},
    {"owner", "{\"type\":\"object\",\"enabled\":false}"},
    {"lease_ms", "{\"type\":\"long\"}"},
    {"state", "{\"type\":\"keyword\"}"},
    {"opened", "{\"type\":\"date\",\"format\":\"epoch_millis\"}"},
    {"beat_at", "{\"type\":\"date\",\"format\":\"epoch_millis\"}"},
    {"waiting", "{\"type\":\"object\",\"enabled\":false}"},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static const struct {
  const char *name, *json, *said; /* a server answers every setting as a string */
} settings[] = {
    {"number_of_shards", "1", "1"},
    {"auto_expand_replicas", "\"0-1\"", "0-1"},
    {"hidden", "true", "true"},
    {"translog.durability", "\"request\"", "request"},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

/* Pipelines could change or refuse our writes. */
static const char *const forbidden[] = {"default_pipeline", "final_pipeline"};

static const char *const script_ids[] = {MT_SCRIPT_SET, MT_SCRIPT_RELEASE, MT_SCRIPT_ADOPT,
                                         MT_SCRIPT_SESSION, NULL};

/* ---- Making --------------------------------------------------------------------------------- */

static void add_properties(mt_buf *out) {
  mt_buf_adds(out, "{");
  for (size_t i = 0; i < FIELDS; i++) {
    mt_json_add_key(out, fields[i].name);
    mt_buf_adds(out, fields[i].definition);
  }
  mt_buf_adds(out, "}");
}

/* Appends the members of `_meta`, up to the epoch. */
static void add_meta(mt_buf *out, const char *epoch, uint32_t stripes) {
  bool striped = stripes > 1;
  mt_buf_addf(out, "\"format\":%d", striped ? MT_TABLE_FORMAT_STRIPED : MT_TABLE_FORMAT);
  if (striped) mt_buf_addf(out, ",\"stripes\":%u", stripes);
  mt_buf_addf(out, ",\"epoch\":\"%s\"", epoch);
}

void mt_table_add_definition(mt_buf *out, const char *epoch, uint32_t stripes) {
  mt_buf_adds(out, "{\"settings\":{\"index\":{");
  for (size_t i = 0; i < SETTINGS; i++) {
    mt_json_add_key(out, settings[i].name);
    mt_buf_adds(out, settings[i].json);
  }
  mt_buf_adds(out, "}},\"mappings\":{\"dynamic\":\"strict\",\"_meta\":{");
  add_meta(out, epoch, stripes);
  mt_buf_adds(out, "},\"properties\":");
  add_properties(out);
  mt_buf_adds(out, "}}");
}

void mt_table_add_uuid(mt_buf *out, const char *epoch, const char *uuid, uint32_t stripes) {
  mt_buf_adds(out, "{\"_meta\":{");
  add_meta(out, epoch, stripes);
  mt_buf_addf(out, ",\"uuid\":\"%s\"}}", uuid);
}

void mt_table_add_alias(mt_buf *out, const mt_elastic *e, const char *index, const char *old,
                        bool drop) {
  mt_buf_adds(out, "{\"actions\":[");
  if (old && drop)
    mt_buf_addf(out, "{\"remove_index\":{\"index\":\"%s\"}},", old);
  else if (old)
    mt_buf_addf(out, "{\"remove\":{\"index\":\"%s\",\"alias\":\"%s\",\"must_exist\":true}},", old,
                e->table);
  mt_buf_addf(out, "{\"add\":{\"index\":\"%s\",\"alias\":\"%s\",\"is_hidden\":true}}]}", index,
              e->table);
}

const char *mt_table_script_id(size_t i) {
  return i < sizeof script_ids / sizeof *script_ids ? script_ids[i] : NULL;
}

bool mt_table_add_script(mt_buf *out, size_t i) {
  if (!mt_table_script_id(i)) return false;
  mt_buf_adds(out, "{\"script\":{\"lang\":\"painless\",\"source\":");
  mt_json_add_string(out, (mt_slice){mt_elastic_scripts[i].text, mt_elastic_scripts[i].n});
  mt_buf_adds(out, "}}");
  return true;
}

/* ---- For people ----------------------------------------------------------------------------- */

/* The rights of a session at run time; cancelling a task is a job's. `%1$s` is the table. */
static const char elasticsearch_role[] =
    "POST /_security/role/mortise\n"
    "{\"cluster\":[\"monitor\",\"cluster:admin/tasks/"
    "cancel\"],\"indices\":[{\"names\":[\"%1$s\",\"%1$s-*\"],"
    "\"privileges\":[\"read\",\"write\",\"maintenance\",\"view_index_metadata\"],"
    "\"allow_restricted_indices\":false}]}\n";
static const char opensearch_role[] =
    "PUT /_plugins/_security/api/roles/mortise\n"
    "{\"cluster_permissions\":[\"cluster_monitor\",\"indices:data/write/bulk\","
    "\"cluster_composite_ops_ro\",\"cluster:admin/tasks/"
    "cancel\"],\"index_permissions\":[{\"index_patterns\":[\"%1$s\",\"%1$s-*\"]"
    ","
    "\"allowed_actions\":[\"read\",\"write\",\"indices:admin/refresh*\",\"indices:admin/get\","
    "\"indices:admin/mappings/get\",\"indices:monitor/settings/get\"]}]}\n";

void mt_table_print(mt_buf *out, const mt_elastic *e, uint32_t stripes) {
  mt_buf_adds(out, "# What `mortise init` sends. It needs the right to store scripts and to manage "
                   "the table's index.\n");
  for (size_t i = 0; mt_table_script_id(i); i++) {
    mt_buf_addf(out, "PUT /_scripts/%s/update\n", mt_table_script_id(i));
    mt_table_add_script(out, i);
    mt_buf_adds(out, "\n\n");
  }
  char index[MT_TABLE_MAX + 16];
  snprintf(index, sizeof index, "%s-000001", e->table);
  mt_buf_addf(out,
              "# EPOCH is a new random number in hex, UUID the index's own\n"
              "# (GET /%s, settings.index.uuid).\nPUT /%s\n",
              index, index);
  mt_table_add_definition(out, "EPOCH", stripes);
  mt_buf_addf(out, "\n\nPUT /%s/_mapping\n", index);
  mt_table_add_uuid(out, "EPOCH", "UUID", stripes);
  mt_buf_adds(out, "\n\nPOST /_aliases\n");
  mt_table_add_alias(out, e, index, NULL, false);
  mt_buf_adds(
      out, "\n\n# The least role of those who take locks and run jobs. Add the indices that they "
           "change, with\n# the same privileges: a change refreshes and looks at the mapping too.\n"
           "# Elasticsearch:\n");
  mt_buf_addf(out, elasticsearch_role, e->table);
  mt_buf_adds(out, "\n# OpenSearch:\n");
  mt_buf_addf(out, opensearch_role, e->table);
}

/* ---- Verifying ------------------------------------------------------------------------------ */

static mortise_status corrupt_table(const mt_elastic *e, const mt_table *t, mortise_error *err,
                                    const char *fmt, ...) MORTISE_PRINTF(4, 5);

static mortise_status corrupt_table(const mt_elastic *e, const mt_table *t, mortise_error *err,
                                    const char *fmt, ...) {
  char what[320];
  va_list args;
  va_start(args, fmt);
  vsnprintf(what, sizeof what, fmt, args);
  va_end(args);
  return mt_error_set(err, MORTISE_CORRUPT_TABLE, "lock table \"%s\" (index %s): %s", e->table,
                      t->index, what);
}

static void show(mt_json value, char *out, size_t size) {
  if (!value.type)
    snprintf(out, size, "missing");
  else
    snprintf(out, size, "%.*s", (int)(value.raw.n < 80 ? value.raw.n : 80), value.raw.p);
}

/* Equal except for white space and the order of members; both are small. */
static bool same_json(mt_json a, mt_json b) {
  if (a.type != b.type) return false;
  if (a.type != MT_JSON_OBJECT) return mt_slice_eq(a.raw, b.raw);
  if (mt_json_count(a) != mt_json_count(b)) return false;
  char name[64];
  for (mt_json_iter it = mt_json_items(a); mt_json_next(&it);) {
    snprintf(name, sizeof name, "%.*s", (int)(it.key.n < 63 ? it.key.n : 63), it.key.p);
    if (!same_json(it.value, mt_json_get(b, name))) return false;
  }
  return true;
}

/* Parses a text of ours, which is valid. */
static mt_json literal(const char *text) {
  mt_json value = {0};
  mt_json_parse(mt_slice_of(text), "a definition", &value, NULL);
  return value;
}

static mortise_status check_field(const mt_elastic *e, const mt_table *t, const char *name,
                                  mt_json have, const char *wanted, mortise_error *err) {
  mt_json want = literal(wanted);
  if (same_json(have, want)) return MORTISE_OK;
  char is[96], type[32], want_type[32];
  mt_json_copy(mt_json_get(have, "type"), type, sizeof type);
  mt_json_copy(mt_json_get(want, "type"), want_type, sizeof want_type);
  if (have.type && strcmp(type, want_type) != 0)
    return corrupt_table(e, t, err, "field `%s` is `%s`, expected `%s`", name,
                         *type ? type : "object", want_type);
  show(have, is, sizeof is);
  return corrupt_table(e, t, err, "field `%s` is %s, expected %s", name, is, wanted);
}

static mortise_status check_fields(const mt_elastic *e, const mt_table *t, mt_json mappings,
                                   mortise_error *err) {
  mt_json properties = mt_json_get(mappings, "properties");
  for (size_t i = 0; i < FIELDS; i++)
    if (check_field(e, t, fields[i].name, mt_json_get(properties, fields[i].name),
                    fields[i].definition, err))
      return err->code;
  for (mt_json_iter it = mt_json_items(properties); mt_json_next(&it);) {
    bool known = false;
    for (size_t i = 0; i < FIELDS; i++)
      known |= mt_json_key_is(it.key, mt_slice_of(fields[i].name));
    if (!known)
      return corrupt_table(e, t, err, "field `%.*s` does not belong there",
                           (int)(it.key.n < 80 ? it.key.n : 80), it.key.p);
  }
  if (!mt_json_is(mt_json_get(mappings, "dynamic"), "strict"))
    return corrupt_table(e, t, err, "its mapping is not `strict`");
  for (mt_json_iter it = mt_json_items(mappings); mt_json_next(&it);)
    if (!mt_json_key_is(it.key, MT_SLICE("dynamic")) &&
        !mt_json_key_is(it.key, MT_SLICE("_meta")) &&
        !mt_json_key_is(it.key, MT_SLICE("properties")))
      return corrupt_table(e, t, err, "its mapping has `%.*s`, which does not belong there",
                           (int)(it.key.n < 80 ? it.key.n : 80), it.key.p);
  return MORTISE_OK;
}

static mortise_status check_settings(const mt_elastic *e, const mt_table *t, mt_json index,
                                     mortise_error *err) {
  for (size_t i = 0; i < SETTINGS; i++) {
    bool inner = !strcmp(settings[i].name, "translog.durability");
    mt_json value = inner ? mt_json_at(index, "translog", "durability", NULL)
                          : mt_json_get(index, settings[i].name);
    char is[96];
    show(value, is, sizeof is);
    if (!mt_json_is(value, settings[i].said))
      return corrupt_table(e, t, err, "setting `index.%s` is %s, expected %s", settings[i].name, is,
                           settings[i].json);
  }
  for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++) {
    mt_json value = mt_json_get(index, forbidden[i]);
    if (value.type && !mt_json_is(value, "_none"))
      return corrupt_table(e, t, err, "setting `index.%s` does not belong there", forbidden[i]);
  }
  return MORTISE_OK;
}

static mortise_status check_meta(const mt_elastic *e, mt_table *t, mt_json meta,
                                 mortise_error *err) {
  int64_t format = 0, stripes = 1;
  mt_json member = mt_json_get(meta, "stripes");
  mt_json_copy(mt_json_get(meta, "epoch"), t->epoch.id, sizeof t->epoch.id);
  if (!mt_json_int(mt_json_get(meta, "format"), &format) || format < MT_TABLE_FORMAT ||
      format > MT_TABLE_FORMAT_STRIPED)
    return corrupt_table(e, t, err, "`_meta.format` is %lld, this program knows %d and %d",
                         (long long)format, MT_TABLE_FORMAT, MT_TABLE_FORMAT_STRIPED);
  bool good = format == MT_TABLE_FORMAT
                  ? !member.type
                  : mt_json_int(member, &stripes) && stripes > 1 && stripes <= MT_STRIPES_MAX;
  if (!good) {
    char is[96];
    show(member, is, sizeof is);
    return corrupt_table(e, t, err, "`_meta.stripes` is %s, which format %lld does not allow", is,
                         (long long)format);
  }
  t->stripes = (uint32_t)stripes;
  if (!t->epoch.id[0]) return corrupt_table(e, t, err, "`_meta.epoch` is missing");
  return MORTISE_OK;
}

static mortise_status check_uuid(const mt_elastic *e, mt_table *t, mt_json meta, mt_json index,
                                 mortise_error *err) {
  char noted[64], real[64];
  mt_json_copy(mt_json_get(meta, "uuid"), noted, sizeof noted);
  mt_json_copy(mt_json_get(index, "uuid"), real, sizeof real);
  t->no_uuid = !noted[0];
  if (t->no_uuid)
    return corrupt_table(e, t, err, "`_meta.uuid` is missing: its making was cut short");
  if (!strcmp(noted, real)) return MORTISE_OK;
  return corrupt_table(
      e, t, err,
      "it is a restored or cloned one: `_meta.uuid` is %s, the index's is %s; once it is "
      "empty, `mortise init` begins a new epoch",
      noted, real);
}

mortise_status mt_table_check(const mt_elastic *e, mt_json root, mt_table *out,
                              mortise_error *err) {
  *out = (mt_table){0};
  mt_json_iter it = mt_json_items(root);
  if (root.type != MT_JSON_OBJECT || !mt_json_next(&it))
    return mt_error_set(err, MORTISE_CORRUPT_TABLE, "no index was answered");
  size_t n = it.key.n < sizeof out->index - 1 ? it.key.n : sizeof out->index - 1;
  memcpy(out->index, it.key.p, n);
  if (mt_json_count(root) != 1)
    return corrupt_table(e, out, err, "the alias stands for %zu indices", mt_json_count(root));
  mt_json aliases = mt_json_get(it.value, "aliases"), alias = mt_json_get(aliases, e->table);
  if (!strcmp(out->index, e->table))
    return corrupt_table(e, out, err, "that name is an index, expected an alias");
  if (mt_json_get(alias, "filter").type)
    return corrupt_table(e, out, err, "its alias has a filter");
  mt_json mappings = mt_json_get(it.value, "mappings"), meta = mt_json_get(mappings, "_meta");
  mt_json index = mt_json_at(it.value, "settings", "index", NULL);
  out->blocked = mt_json_is(mt_json_at(index, "blocks", "write", NULL), "true");
  if (check_meta(e, out, meta, err) || check_fields(e, out, mappings, err) ||
      check_settings(e, out, index, err))
    return err->code;
  out->sound = true;
  return check_uuid(e, out, meta, index, err);
}
