/* Sessions of other machines, written into the table as they stand there: a session's document, and its entries at
 * `/`, at one ancestor and at a file of its own. */
#include "bench.h"

#include "client/client.h"
#include "store/place.h"

#include <stdio.h>
#include <stdlib.h>

/* Bodies and ids of the documents to be written. */
typedef struct pile {
  mt_buf bytes;
  mt_write *items;
  size_t *ends; /* of id and body, in turn */
  size_t n;
} pile;

static void add_document(pile *p, const char *id, const char *body) {
  mt_buf_adds(&p->bytes, id);
  p->ends[2 * p->n] = p->bytes.n;
  mt_buf_adds(&p->bytes, body);
  p->ends[2 * p->n + 1] = p->bytes.n;
  p->items[p->n++] = (mt_write){.kind = MT_WRITE_INDEX};
}

static void id_of(char *out, size_t size, const others *o, size_t i) {
  snprintf(out, size, "%016zx%016zx", 0xdead0000 + o->n, i + 1);
}

static void add_one(pile *p, const others *o, size_t i) {
  char id[40], name[128], body[512];
  id_of(id, sizeof id, o, i);
  snprintf(name, sizeof name, "default:@%s", id);
  snprintf(body, sizeof body,
           "{\"kind\":\"session\",\"owner\":{\"host\":\"elsewhere\",\"pid\":1,\"start\":1},"
           "\"lease_ms\":%lld,\"state\":\"live\",\"opened\":1,\"beat_at\":%lld,\"waiting\":[]}",
           (long long)o->lease_ms, (long long)o->beat_ms);
  add_document(p, name, body);
  snprintf(name, sizeof name, "default:%s/g%zu", o->below, i);
  snprintf(body, sizeof body,
           "{\"kind\":\"lock\",\"path\":\"%s/g%zu\",\"holders\":[{\"session\":\"%s\",\"n\":3,"
           "\"mode\":\"X\",\"since\":1}],\"queue\":[],\"sessions\":[\"%s\"]}",
           o->below, i, id, id);
  add_document(p, name, body);
}

/* Their intentions in one stripe of a path. */
static void add_place(pile *p, const others *o, mt_place place) {
  char id[64];
  mt_buf name, body;
  size_t n = 0;
  mt_buf_init(&name, 256);
  mt_buf_init(&body, 1 << 24);
  mt_buf_adds(&name, "default:");
  mt_place_add_name(&name, place);
  mt_buf_adds(&body, "{\"kind\":\"lock\",\"path\":\"");
  mt_place_add_name(&body, place);
  mt_buf_adds(&body, "\",\"holders\":[");
  for (size_t i = 0; i < o->n; i++) {
    id_of(id, sizeof id, o, i);
    if (mt_place_stripe_of(id, o->stripes) != place.stripe) continue;
    mt_buf_addf(&body, "%s{\"session\":\"%s\",\"n\":1,\"mode\":\"IX\",\"since\":1}", n++ ? "," : "",
                id);
  }
  mt_buf_adds(&body, "],\"queue\":[]}");
  if (n) add_document(p, name.p, body.p);
  mt_buf_deinit(&name);
  mt_buf_deinit(&body);
}

static bool write_pile(mortise_client *c, pile *p) {
  size_t at = 0;
  for (size_t i = 0; i < p->n; i++) {
    p->items[i].id = (mt_slice){p->bytes.p + at, p->ends[2 * i] - at};
    at = p->ends[2 * i];
    p->items[i].body = (mt_slice){p->bytes.p + at, p->ends[2 * i + 1] - at};
    at = p->ends[2 * i + 1];
  }
  mt_bulk bulk = {.index = TABLE, .items = p->items, .n = p->n};
  c->store->docs->bulk(c->store, &bulk);
  bool good = !mt_store_wait(c->store, &bulk.req, INT64_MAX);
  for (size_t i = 0; i < p->n; i++) good &= p->items[i].result == MT_WRITE_APPLIED;
  return good;
}

bool others_write(mortise_client *c, const others *o) {
  size_t most = 2 * (o->n + o->stripes);
  pile p = {.items = calloc(most, sizeof *p.items), .ends = calloc(2 * most, sizeof *p.ends)};
  mt_buf_init(&p.bytes, 1 << 26);
  bool good = p.items && p.ends;
  for (size_t i = 0; good && i < o->n; i++) add_one(&p, o, i);
  for (uint32_t i = 0; good && i < o->stripes; i++) {
    add_place(&p, o, (mt_place){MT_SLICE("/"), i});
    add_place(&p, o, (mt_place){mt_slice_of(o->below), i});
  }
  good = good && write_pile(c, &p);
  mt_buf_deinit(&p.bytes);
  free(p.items);
  free(p.ends);
  return good;
}
