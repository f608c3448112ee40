/* What is known of an index's primary shards: its settings, the terms of its primaries, the shards' numbers, and the
 * terms once more. Only the cluster's state has the terms, and only where they are the same before and after do they
 * belong to the numbers. */
#include "base/mem.h"
#include "elastic/page.h"

#include <stdio.h>
#include <stdlib.h>

enum { SHARDS_MAX = 1 << 16 };

static void shards_not_understood(mt_call *c, const char *why) {
  const mt_shards *r = (const mt_shards *)c->req;
  mt_call_distrust(c);
  mt_call_error(c, MORTISE_UNAVAILABLE, "shards of %s: %s", r->index, why);
}

static void read_terms(mt_call *c);

/* ---- The numbers ---------------------------------------------------------------------------- */

/* While a primary moves to another node, the one that it leaves counts until the end. */
static bool is_primary_at_work(mt_json copy) {
  mt_json routing = mt_json_get(copy, "routing"), state = mt_json_get(routing, "state");
  bool primary = false;
  return mt_json_bool(mt_json_get(routing, "primary"), &primary) && primary &&
         (mt_json_is(state, "STARTED") || mt_json_is(state, "RELOCATING"));
}

static bool read_numbers(mt_json copy, mt_shard *out) {
  mt_json seq_no = mt_json_get(copy, "seq_no");
  return mt_json_int(mt_json_get(seq_no, "max_seq_no"), &out->max_seq_no) &&
         mt_json_int(mt_json_get(seq_no, "local_checkpoint"), &out->local_checkpoint) &&
         mt_json_int(mt_json_get(seq_no, "global_checkpoint"), &out->global_checkpoint) &&
         mt_json_uint(mt_json_at(copy, "docs", "count", NULL), &out->docs);
}

/* False if the shard has no primary, or what it says is not understood. */
static bool read_shard(mt_json shards, size_t number, mt_shard *out) {
  char name[16];
  snprintf(name, sizeof name, "%zu", number);
  for (mt_json_iter it = mt_json_items(mt_json_get(shards, name)); mt_json_next(&it);)
    if (is_primary_at_work(it.value)) return read_numbers(it.value, out);
  return false;
}

static void on_numbers(mt_call *c) {
  mt_shards *r = (mt_shards *)c->req;
  mt_json root;
  if (!mt_call_ok(c, "shards of", r->index)) return;
  if (!mt_call_json(c, "the statistics of shards", &root)) return;
  mortise_error *err = &r->req.error;
  mt_json shards = mt_json_get(mt_json_member(mt_json_get(root, "indices"), mt_slice_of(r->index)), "shards");
  mt_shards_check(root, "shards of", r->index, err);
  for (size_t i = 0; !err->code && i < r->n; i++)
    if (!read_shard(shards, i, &r->shards[i]))
      mt_error_set(err, MORTISE_UNAVAILABLE, "shards of %s: the primary of shard %zu is not at work", r->index, i);
  if (!err->code) {
    read_terms(c);
    return;
  }
  if (mt_call_repeat(c)) return;
  mt_shards_deinit(r);
  mt_call_finish(c);
}

static void read_all_numbers(mt_call *c) {
  const mt_shards *r = (const mt_shards *)c->req;
  mt_call_again(c);
  if (!mt_call_index(c, r->index, true)) return;
  mt_buf_adds(&c->path, "/_stats/docs?level=shards&filter_path=_shards,indices.*.shards.*.routing,"
                        "indices.*.shards.*.seq_no,indices.*.shards.*.docs.count");
  c->http.idempotent = true;
  mt_call_send(c, "GET", on_numbers);
}

/* ---- The terms ------------------------------------------------------------------------------ */

typedef struct terms {
  bool read;
  uint64_t *of; /* by number; 0: not known */
} terms;

static void drop_terms(mt_call *c) {
  terms *t = c->state;
  if (t) mt_free(t->of);
  mt_free(t);
}

/* Without the right to see the cluster's state all are 0. */
static bool take_terms(mt_call *c, mt_json all) {
  mt_shards *r = (mt_shards *)c->req;
  terms *t = c->state;
  bool same = true;
  for (size_t i = 0; i < r->n; i++) {
    char name[16];
    uint64_t term = 0;
    snprintf(name, sizeof name, "%zu", i);
    mt_json_uint(mt_json_get(all, name), &term);
    if (term > MT_TERM_MAX) term = 0;
    same &= term == t->of[i];
    t->of[i] = r->shards[i].term = term;
  }
  return same;
}

static void on_terms(mt_call *c) {
  mt_shards *r = (mt_shards *)c->req;
  mt_json root = {0};
  mortise_status status = mt_call_check(c, "shards of", r->index);
  if (status == MORTISE_AUTH && !c->http.error.code)
    mt_error_clear(&r->req.error);
  else if (status) {
    mt_shards_deinit(r);
    mt_call_finish(c);
    return;
  } else if (!mt_call_json(c, "the terms of shards", &root))
    return;
  mt_json index = mt_json_member(mt_json_at(root, "metadata", "indices", NULL), mt_slice_of(r->index));
  mt_json_uint(mt_json_get(index, "settings_version"), &r->settings);
  bool same = take_terms(c, mt_json_get(index, "primary_terms"));
  terms *t = c->state;
  bool ends = t->read && same;
  t->read = true;
  if (ends)
    mt_call_finish(c);
  else
    read_all_numbers(c);
}

static void read_terms(mt_call *c) {
  const mt_shards *r = (const mt_shards *)c->req;
  mt_call_again(c);
  mt_buf_adds(&c->path, "/_cluster/state/metadata");
  if (!mt_call_index(c, r->index, true)) return;
  mt_buf_adds(&c->path, "?filter_path=metadata.indices.*.primary_terms,metadata.indices.*.settings_version");
  c->http.idempotent = true;
  mt_call_send(c, "GET", on_terms);
}

/* ---- The settings --------------------------------------------------------------------------- */

static bool make_shards(mt_call *c, size_t n) {
  mt_shards *r = (mt_shards *)c->req;
  terms *t = mt_calloc(1, sizeof *t);
  c->state = t;
  c->dropped = drop_terms;
  if (t) t->of = mt_calloc(n, sizeof *t->of);
  r->shards = mt_calloc(n, sizeof *r->shards);
  r->n = n;
  return t && t->of && r->shards;
}

static void on_settings(mt_call *c) {
  mt_shards *r = (mt_shards *)c->req;
  mt_json root;
  char shards[16];
  if (!mt_call_ok(c, "shards of", r->index)) return;
  if (!mt_call_json(c, "the settings of an index", &root)) return;
  mt_json index = mt_json_at(mt_json_member(root, mt_slice_of(r->index)), "settings", "index", NULL);
  mt_json_copy(mt_json_get(index, "uuid"), r->uuid, sizeof r->uuid);
  mt_json_copy(mt_json_get(index, "number_of_shards"), shards, sizeof shards);
  r->primary = mt_json_is(mt_json_at(index, "replication", "type", NULL), "SEGMENT");
  size_t n = strtoul(shards, NULL, 10);
  if (!index.type && mt_json_count(root)) {
    mt_call_error(c, MORTISE_INVALID_ARGUMENT, "shards of %s: it is an alias: name the index itself", r->index);
  } else if (!n || n > SHARDS_MAX || !*r->uuid) {
    shards_not_understood(c, "what answered is not understood");
  } else if (!make_shards(c, n)) {
    mt_shards_deinit(r);
    mt_error_memory(&r->req.error);
    mt_call_finish(c);
  } else {
    read_terms(c);
  }
}

void mt_elastic_shards(mt_store *s, mt_shards *r) {
  *r = (mt_shards){.req = r->req, .index = r->index};
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (!c || !mt_call_index(c, r->index, true)) return;
  mt_buf_adds(&c->path, "/_settings?filter_path=*.settings.index.uuid,*.settings.index.replication,"
                        "*.settings.index.number_of_shards");
  c->http.idempotent = true;
  mt_call_send(c, "GET", on_settings);
}
