#include "job/control.h"

/* ---- The document --------------------------------------------------------------------------- */

static bool take_flag(mt_json value, bool *out) {
  *out = value.type == MT_JSON_TRUE;
  return !value.type || *out || value.type == MT_JSON_FALSE;
}

static bool take_limit(mt_json value, uint32_t *out) {
  uint64_t n = 0;
  if (value.type && (!mt_json_uint(value, &n) || n > UINT32_MAX)) return false;
  *out = (uint32_t)n;
  return true;
}

static bool take_orders(mt_control *c, mt_json body, const char *session) {
  bool ours = mt_json_is(mt_json_get(body, "session"), session);
  mt_json_copy(mt_json_get(body, "by"), c->by, sizeof c->by);
  bool sound = mt_json_uint(mt_json_get(body, "n"), &c->n) &&
               take_flag(mt_json_get(body, "paused"), &c->paused) &&
               take_flag(mt_json_get(body, "cancelled"), &c->cancelled) &&
               take_limit(mt_json_get(body, "rate"), &c->limits.rate) &&
               take_limit(mt_json_get(body, "batch"), &c->limits.batch) &&
               take_limit(mt_json_get(body, "concurrency"), &c->limits.concurrency);
  c->paused &= ours;
  c->cancelled &= ours;
  return sound;
}

mortise_status mt_control_decode(mt_control *out, mt_slice source, const char *session,
                                 mortise_error *err) {
  mt_json root;
  int64_t format = 0;
  mt_control c = {0};
  if (!mt_json_parse(source, "a control document", &root, err) &&
      mt_json_is(mt_json_get(root, "kind"), "control") &&
      mt_json_int(mt_json_get(root, "format"), &format) && format == 1 &&
      take_orders(&c, mt_json_get(root, "body"), session)) {
    *out = c;
    return MORTISE_OK;
  }
  return mt_error_set(err, MORTISE_CORRUPT_TABLE,
                      "the control document of a job is not as this program writes it");
}

/* ---- Following it --------------------------------------------------------------------------- */

static void on_control_read(void *ctx, mt_req *req) {
  mt_steering *s = ctx;
  mt_control now = {0};
  const mt_page *page = s->mget.page;
  mortise_error err;
  s->reading = false;
  bool known = !req->error.code && page && page->n == 1;
  if (known && page->docs[0].found)
    known = !mt_control_decode(&now, page->docs[0].source, s->session, &err);
  mt_mget_deinit(&s->mget);
  if (!known || now.n == s->now.n) return;
  s->now = now;
  s->changed(s->ctx, &s->now);
}

void mt_steering_look(mt_steering *s) {
  if (s->reading) return;
  if (!s->id.n) {
    mt_buf_init(&s->id, 2 * MT_JOB_NAME_MAX + 64);
    mt_job_record_id(&s->id, s->ns, s->job);
    mt_buf_adds(&s->id, ":control");
  }
  if (mt_buf_status(&s->id, "the id of a control document", NULL)) return;
  s->ids[0] = mt_buf_slice(&s->id);
  s->mget = (mt_mget){.req = {.done = on_control_read, .ctx = s, .idempotent = true},
                      .index = s->table,
                      .ids = s->ids,
                      .n = 1};
  s->reading = true;
  s->store->docs->mget(s->store, &s->mget);
}

void mt_steering_deinit(mt_steering *s) {
  if (s->reading) mt_store_cancel(s->store, &s->mget.req);
  s->reading = false;
  mt_mget_deinit(&s->mget);
  mt_buf_deinit(&s->id);
}
