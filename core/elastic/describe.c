/* Whether whole sources can safely be written into an index. */
#include "base/mem.h"
#include "elastic/internal.h"

#include <stdio.h>
#include <stdlib.h>

/* Compares a setting given as a string or a literal. */
static bool value_is(mt_json value, const char *text) {
  if (mt_json_is(value, text)) return true;
  return mt_slice_eq(value.raw, mt_slice_of(text));
}

static bool any(mt_json value) {
  return mt_json_count(value) > 0 || value.type == MT_JSON_STRING;
}

static void read_source_settings(mt_describe *r, mt_json source) {
  r->source_disabled |= value_is(mt_json_get(source, "enabled"), "false");
  r->source_disabled |= value_is(mt_json_get(source, "mode"), "disabled");
  r->source_synthetic |= value_is(mt_json_get(source, "mode"), "synthetic");
  r->source_filtered |=
      any(mt_json_get(source, "includes")) || any(mt_json_get(source, "excludes"));
}

static void read_settings(mt_describe *r, mt_json index) {
  mt_json mode = mt_json_at(index, "mapping", "source", "mode", NULL);
  mt_json kind = mt_json_get(index, "mode");
  r->source_disabled |= value_is(mode, "disabled");
  r->source_synthetic |= value_is(mode, "synthetic");
  /* These modes rebuild sources unless configured otherwise. */
  if (value_is(kind, "logsdb") || value_is(kind, "time_series"))
    r->source_synthetic |= !value_is(mode, "stored");
  r->source_synthetic |= value_is(mt_json_at(index, "derived_source", "enabled", NULL), "true");
  mt_json last = mt_json_get(index, "final_pipeline");
  r->final_pipeline |= last.type && !value_is(last, "_none");
  char shards[16];
  mt_json_copy(mt_json_get(index, "number_of_shards"), shards, sizeof shards);
  r->shards += (uint32_t)strtoul(shards, NULL, 10);
}

/* One index, or all behind an alias; a property of any of them counts. */
static void read_indices(mt_describe *r, mt_json root) {
  size_t n = 0;
  for (mt_json_iter it = mt_json_items(root); mt_json_next(&it); n++) {
    r->exists = true;
    r->data_stream |= mt_json_get(it.value, "data_stream").type != MT_JSON_NONE;
    read_source_settings(r, mt_json_at(it.value, "mappings", "_source", NULL));
    read_settings(r, mt_json_at(it.value, "settings", "index", NULL));
    snprintf(r->name, sizeof r->name, "%.*s",
             (int)(it.key.n < sizeof r->name ? it.key.n : sizeof r->name - 1), it.key.p);
  }
  if (n != 1) r->name[0] = '\0';
}

static void on_describe(mt_call *c) {
  mt_describe *r = (mt_describe *)c->req;
  mt_json root;
  mortise_status status = mt_call_check(c, "describe", r->index);
  if (status == MORTISE_NOT_FOUND && !c->http.error.code) mt_error_clear(&r->req.error);
  if (status) {
    mt_call_finish(c);
    return;
  }
  if (!mt_call_json(c, "the description of an index", &root)) return;
  if (root.type != MT_JSON_OBJECT) {
    mt_error_set(&r->req.error, MORTISE_UNAVAILABLE,
                 "describe %s: what answered is not understood: it is no object", r->index);
    mt_call_finish(c);
    return;
  }
  read_indices(r, root);
  r->json = mt_buf_take(&c->http.answer, NULL);
  if (!r->json) mt_error_memory(&r->req.error);
  mt_call_finish(c);
}

static void submit_describe(mt_call *c) {
  mt_describe *r = (mt_describe *)c->req;
  mt_server s = c->e->server;
  r->excludes_vectors = !s.opensearch && (s.major > 9 || (s.major == 9 && s.minor >= 2));
  if (!mt_call_index(c, r->index, true)) return;
  c->http.idempotent = true;
  mt_call_send(c, "GET", on_describe);
}

void mt_elastic_describe(mt_store *s, mt_describe *r) {
  mt_req req = r->req;
  const char *index = r->index;
  *r = (mt_describe){.req = req, .index = index};
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (c) mt_server_need(c, submit_describe);
}
