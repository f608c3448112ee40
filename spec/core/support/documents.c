#include "support/support.h"

#include <string.h>

void mt_test_must(mt_store *s, mt_req *req) {
  MT_CHECK(mt_test_pump(s, req) == MORTISE_OK, "%s", req->error.message);
}

void mt_test_create_index(mt_store *s, const char *index, mt_slice body) {
  mt_index_admin r = {.index = index, .body = body};
  s->docs->index_create(s, &r);
  mt_test_must(s, &r.req);
}

void mt_test_drop_index(mt_store *s, const char *index) {
  mt_index_admin r = {.index = index};
  s->docs->index_drop(s, &r);
  mt_test_must(s, &r.req);
}

void mt_test_put(mt_store *s, const char *index, const char *id, const char *routing,
                 const char *source) {
  mt_write w = {.kind = MT_WRITE_INDEX,
                .id = mt_slice_of(id),
                .routing = routing ? mt_slice_of(routing) : (mt_slice){NULL, 0},
                .body = mt_slice_of(source),
                .skip_pipeline = true};
  mt_bulk r = {.index = index, .items = &w, .n = 1};
  s->docs->bulk(s, &r);
  mt_test_must(s, &r.req);
  MT_CHECK(w.result == MT_WRITE_APPLIED, "%s: %s", id, w.reason);
}
