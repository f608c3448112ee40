/* Settings of an index in use, and its write block. */
#include "elastic/internal.h"

/* How long it may wait in the queue of the cluster's manager. */
static void add_manager_timeout(mt_call *c) {
  bool manager = c->e->server.opensearch && c->e->server.major >= 2;
  mt_buf_adds(&c->path, manager ? "&cluster_manager_" : "&master_");
  mt_buf_addf(&c->path, "timeout=%lldms", (long long)mt_call_left_ms(c));
}

static void on_settings_put(mt_call *c) {
  if (mt_call_ok(c, "settings of", ((mt_index_admin *)c->req)->index)) mt_call_finish(c);
}

static void put_settings(mt_call *c, mt_slice body, void (*answered)(mt_call *c)) {
  if (!mt_call_index(c, ((mt_index_admin *)c->req)->index, true)) return;
  mt_buf_adds(&c->path, "/_settings");
  mt_call_add_timeout(c, '?');
  if (c->e->server.known) add_manager_timeout(c);
  mt_buf_addslice(&c->body, body);
  mt_call_send(c, "PUT", answered);
}

void mt_elastic_settings(mt_store *s, mt_index_admin *r) {
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (c) put_settings(c, r->body, on_settings_put);
}

/* ---- The write block ------------------------------------------------------------------------ */

static const mt_slice no_block = MT_SLICE("{\"index.blocks.write\":null}");

enum { BLOCK_TRIES = 3 };

static void set_block(mt_call *c);

static void on_lifted(mt_call *c) {
  if (!mt_call_ok(c, "unblock", ((mt_index_admin *)c->req)->index)) return;
  mt_call_again(c);
  set_block(c);
}

/* Did each index and shard say that it takes no more writes? None is named where a block stood already. */
static bool is_blocked(mt_json root, size_t *named) {
  bool acknowledged = false, blocked = true;
  mt_json_bool(mt_json_get(root, "shards_acknowledged"), &acknowledged);
  mt_json_iter it = mt_json_items(mt_json_get(root, "indices"));
  for (*named = 0; blocked && mt_json_next(&it); ++*named)
    blocked = mt_json_bool(mt_json_get(it.value, "blocked"), &blocked) && blocked;
  return acknowledged && blocked && *named;
}

static void on_block(mt_call *c) {
  const mt_index_admin *r = (const mt_index_admin *)c->req;
  mt_json root;
  size_t named;
  if (!mt_call_ok(c, "block", r->index)) return;
  if (!mt_call_json(c, "the answer to a block", &root)) return;
  if (is_blocked(root, &named)) {
    mt_call_finish(c);
  } else if (!named && ++c->tries < BLOCK_TRIES) {
    mt_call_again(c);
    put_settings(c, no_block, on_lifted);
  } else {
    mt_error_set(&c->req->error, MORTISE_UNAVAILABLE, "block %s: not all shards say that no write is under way",
                 r->index);
    c->req->error.ambiguous = true;
    mt_call_finish(c);
  }
}

static void set_block(mt_call *c) {
  if (!mt_call_index(c, ((mt_index_admin *)c->req)->index, true)) return;
  mt_buf_adds(&c->path, "/_block/write");
  mt_call_add_timeout(c, '?');
  add_manager_timeout(c);
  mt_call_send(c, "PUT", on_block);
}

/* Neither is carried out later than that. */
static mt_call *new_block_call(mt_store *s, mt_index_admin *r) {
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (!c) return NULL;
  int64_t latest = mt_loop_now(s->loop) + MT_BLOCK_MS;
  if (c->deadline_ms > latest) c->deadline_ms = latest;
  return c;
}

void mt_elastic_block(mt_store *s, mt_index_admin *r) {
  mt_call *c = new_block_call(s, r);
  if (c) mt_server_need(c, set_block);
}

static void lift_block(mt_call *c) {
  put_settings(c, no_block, on_settings_put);
}

void mt_elastic_unblock(mt_store *s, mt_index_admin *r) {
  mt_call *c = new_block_call(s, r);
  if (c) mt_server_need(c, lift_block);
}
