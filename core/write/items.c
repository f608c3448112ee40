#include "write/writer_parts.h"

#include "base/json_edit.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- Settling items ------------------------------------------------------------------------- */

static void settle_item(mt_item *item, mt_outcome outcome) {
  item->outcome = outcome;
  item->dirty = item->reread = false;
}

void mt_item_reject(mt_item *item, const mortise_error *e) {
  item->write.status = e->http_status;
  snprintf(item->write.type, sizeof item->write.type, "%.63s",
           e->type[0] ? e->type : mortise_status_name(e->code));
  snprintf(item->write.reason, sizeof item->write.reason, "%.150s",
           e->reason[0] ? e->reason : e->message);
  settle_item(item, MT_OUTCOME_REJECTED);
}

static bool is_version(mt_version v) {
  return v.term != 0;
}

/* Marks it for sending with its own if_version, or against the version `at` just read. */
static void resend(mt_item *item, mt_version at) {
  item->reread = item->absent = false;
  item->at = at;
}

/* ---- Stamps --------------------------------------------------------------------------------- */

static mt_stamp my_stamp(const mt_writer *w) {
  return (mt_stamp){w->permit.epoch, w->permit.fence(w->permit.lock)}; /* an upgrade raises it */
}

static bool is_older(const mt_writer *w, const mt_epoch *epoch) {
  for (size_t i = 0; i < w->n_older && i < MT_WRITER_EPOCHS; i++)
    if (!strcmp(w->older[i].id, epoch->id)) return true;
  return false;
}

static void refuse_stamped(mt_item *item, const mt_stamp *theirs, const mt_stamp *mine) {
  mt_write *w = &item->write;
  settle_item(item, MT_OUTCOME_CONFLICT);
  w->result = MT_WRITE_CONFLICT;
  w->status = 409;
  snprintf(w->type, sizeof w->type, "stamped");
  snprintf(w->reason, sizeof w->reason,
           "written under a later lock, with fence %" PRIu64 "; this one's is %" PRIu64,
           theirs->fence, mine->fence);
}

static void refuse_broken(const mt_writer *w, mt_item *item) {
  mortise_error err;
  mt_error_set(&err, MORTISE_REJECTED, "the field %.100s holds no stamp", w->field);
  snprintf(err.type, sizeof err.type, "no_stamp");
  mt_item_reject(item, &err);
}

/* May the document with this source be changed? If not, the item is settled or waits until the
 * stamp's epoch is known. */
static bool stamp_allows(mt_lane *l, mt_item *item, mt_slice source) {
  mt_writer *w = l->w;
  mt_stamp mine = my_stamp(w), theirs;
  switch (mt_stamp_look(source, w->field, &mine, &theirs)) {
  case MT_STAMPED_NOT:
    return true;
  case MT_STAMPED_LATER:
    refuse_stamped(item, &theirs, &mine);
    return false;
  case MT_STAMPED_FOREIGN:
    if (is_older(w, &theirs.epoch)) return true;
    l->foreign = theirs.epoch;
    return false;
  default:
    refuse_broken(w, item);
    return false;
  }
}

/* Does the body contain the stamp that the document had at if_version? */
static bool body_tells(const mt_item *item) {
  const mt_write *w = &item->write;
  return w->kind == MT_WRITE_INDEX && item->of_source && is_version(w->if_version);
}

/* A document with an invalid name cannot be read; the store will refuse to write it. */
static bool can_be_asked(const mt_write *w) {
  return w->id.n && mt_utf8_valid(w->id) == w->id.n && mt_utf8_valid(w->routing) == w->routing.n;
}

/* A create needs no reading. */
bool mt_item_looks_first(const mt_writer *w, const mt_item *item) {
  if (item->write.kind == MT_WRITE_CREATE || item->write.external || !can_be_asked(&item->write))
    return false;
  if (w->stamps) return !body_tells(item);
  return w->compares && !is_version(item->write.if_version);
}

/* The members of an update's body. */
typedef struct update_parts {
  mt_json doc, upsert;
  bool by_script, as_upsert, scripted_upsert;
} update_parts;

static update_parts parse_update(const mt_write *w) {
  mt_json body;
  update_parts u = {0};
  if (w->kind != MT_WRITE_UPDATE || mt_json_parse(w->body, "the update", &body, NULL)) return u;
  u.doc = mt_json_get(body, "doc");
  u.upsert = mt_json_get(body, "upsert");
  u.by_script = mt_json_get(body, "script").type != MT_JSON_NONE;
  mt_json_bool(mt_json_get(body, "doc_as_upsert"), &u.as_upsert);
  mt_json_bool(mt_json_get(body, "scripted_upsert"), &u.scripted_upsert);
  return u;
}

mt_slice mt_item_upsert(const mt_item *item) {
  const update_parts u = parse_update(&item->write);
  mt_json source = u.as_upsert ? u.doc : u.upsert;
  return source.type == MT_JSON_OBJECT ? source.raw : (mt_slice){NULL, 0};
}

/* Can it be applied twice without harm? */
static bool may_repeat(const mt_item *item) {
  const update_parts u = parse_update(&item->write);
  return !u.by_script && (u.as_upsert || u.upsert.type == MT_JSON_NONE);
}

static bool refuse_scripted_upsert(mt_item *item) {
  if (!parse_update(&item->write).scripted_upsert) return false;
  mortise_error err;
  mt_error_set(&err, MORTISE_UNSUPPORTED, "an upsert by a script compares with nothing");
  mt_item_reject(item, &err);
  return true;
}

/* Makes the item compare with the version that was read. False if this is not the document that the
 * item expects. */
static bool compare_with(mt_item *item, const mt_doc *doc) {
  const mt_write *w = &item->write;
  if (w->kind == MT_WRITE_CREATE) return false;
  if (is_version(w->if_version)) {
    if (!doc->found || !mt_version_equal(doc->version, w->if_version)) return false;
    resend(item, (mt_version){0, 0});
    return true;
  }
  if (doc->found) {
    bool looked = item->absent || is_version(item->at); /* it was read before */
    if (looked && !mt_version_equal(item->at, doc->version) && !may_repeat(item)) return false;
    resend(item, doc->version);
    return true;
  }
  if (refuse_scripted_upsert(item)) return true;
  if (w->kind != MT_WRITE_INDEX && !mt_item_upsert(item).p) return false;
  resend(item, (mt_version){0, 0});
  item->absent = true;
  return true;
}

static mortise_status stamp_body(const mt_lane *l, const mt_item *item, mt_slice stamp, mt_buf *out,
                                 mortise_error *err) {
  return mt_stamp_body(item->write.kind, item->write.body, l->w->field, stamp, out, err);
}

void mt_lane_stamp(mt_lane *l) {
  char text[MT_STAMP_TEXT];
  mt_stamp mine = my_stamp(l->w);
  mortise_error err;
  mt_error_clear(&err);
  mt_stamp_text(&mine, text);
  mt_buf_clear(&l->stamped);
  size_t kept = 0, n = l->n;
  for (size_t i = 0; i < n; i++) {
    mt_item *item = l->items[i];
    size_t at = l->stamped.n;
    bool carries = item->write.kind != MT_WRITE_DELETE;
    if (body_tells(item) && !stamp_allows(l, item, item->write.body)) continue;
    if (carries && stamp_body(l, item, mt_slice_of(text), &l->stamped, &err)) {
      if (err.code == MORTISE_OUT_OF_MEMORY) break; /* lane_step handles it */
      mt_buf_cut(&l->stamped, at);
      mt_item_reject(item, &err);
      continue;
    }
    l->wire[kept] = l->wire[i];
    if (carries) l->wire[kept].body.n = l->stamped.n - at;
    l->items[kept++] = item;
  }
  l->n = kept;
  l->out_of_memory = err.code == MORTISE_OUT_OF_MEMORY;
  const char *p = l->stamped.p;
  for (size_t i = 0; i < kept; i++) {
    if (l->wire[i].kind == MT_WRITE_DELETE) continue;
    l->wire[i].body.p = p;
    p += l->wire[i].body.n;
  }
}

/* Is the source equal to the item's body, with the source's stamp added? */
static bool is_own_write(const mt_lane *l, const mt_item *item, mt_slice source) {
  if (!l->w->stamps) return mt_slice_eq(source, item->write.body);
  mt_buf buf;
  mt_slice stamp = mt_stamp_of(source, l->w->field);
  mt_buf_init(&buf, source.n + 1024);
  bool same =
      stamp.p && !stamp_body(l, item, stamp, &buf, NULL) && mt_slice_eq(mt_buf_slice(&buf), source);
  mt_buf_deinit(&buf);
  return same;
}

/* Others keep changing the document. */
static void give_up_item(mt_item *item) {
  bool dirty = item->dirty;
  settle_item(item, MT_OUTCOME_CONFLICT);
  item->dirty = dirty;
}

static void resolve_conflict(mt_lane *l, mt_item *item, const mt_doc *doc) {
  mt_write_batch *b = l->batch;
  /* A request that is still in flight compares with an older version and cannot apply, unless it is
   * blind. */
  bool dirty = item->dirty && !is_version(item->write.if_version);
  mt_again again = b->again ? b->again(b->ctx, b, item, doc) : MT_AGAIN_CONFLICT;
  if (again == MT_AGAIN_WRITE)
    resend(item, (mt_version){0, 0});
  else if (again == MT_AGAIN_DONE)
    settle_item(item, MT_OUTCOME_ALREADY);
  else
    settle_item(item, again == MT_AGAIN_REJECT ? MT_OUTCOME_REJECTED : MT_OUTCOME_CONFLICT);
  item->dirty = dirty;
}

/* Would a partial update with this body leave the source as it is? 1 yes, 0 no, -1 cannot tell. */
static int merge_is_noop(mt_slice update, const mt_doc *doc) {
  mt_json body, source;
  if (mt_json_parse(update, "the update", &body, NULL) ||
      mt_json_parse(doc->source, "the source", &source, NULL))
    return -1;
  mt_json change = mt_json_get(body, "doc");
  if (change.type != MT_JSON_OBJECT || mt_json_get(body, "script").type) return -1;
  mt_buf merged;
  bool changed = true;
  mt_buf_init(&merged, doc->source.n + update.n + 1024);
  mortise_status status = mt_json_merge(source, change, &merged, &changed, NULL);
  if (!status) status = mt_buf_status(&merged, "the merged source", NULL);
  mt_buf_deinit(&merged);
  return status ? -1 : !changed;
}

static int update_is_noop(const mt_lane *l, const mt_item *item, const mt_doc *doc) {
  if (!l->w->stamps) return merge_is_noop(item->write.body, doc);
  char text[MT_STAMP_TEXT];
  mt_stamp mine = my_stamp(l->w);
  mt_buf update;
  mt_stamp_text(&mine, text);
  mt_buf_init(&update, item->write.body.n + 1024);
  mortise_status status = stamp_body(l, item, mt_slice_of(text), &update, NULL);
  int noop = status ? -1 : merge_is_noop(mt_buf_slice(&update), doc);
  mt_buf_deinit(&update);
  return noop;
}

/* Finds the outcome of a write without an answer from the document. False if it does not show it;
 * the item then counts as in conflict. */
static bool decide(const mt_lane *l, mt_item *item, const mt_doc *doc) {
  const mt_write *w = &item->write;
  bool untouched =
      doc->found && is_version(w->if_version) && mt_version_equal(doc->version, w->if_version);
  bool blind = !is_version(w->if_version) && w->kind != MT_WRITE_CREATE;
  switch (w->kind) {
  case MT_WRITE_DELETE:
    break;
  case MT_WRITE_UPDATE:
    if (untouched || !doc->found) break;
    int noop = update_is_noop(l, item, doc);
    if (noop == 1) return settle_item(item, MT_OUTCOME_ALREADY), true;
    if (noop < 0) return false;
    break;
  default:
    /* It looks like our write, but a read proves nothing: write the same bytes again for an
     * acknowledgement. */
    if (!untouched && doc->found && is_own_write(l, item, doc->source))
      return resend(item, doc->version), true;
    if (!doc->found && w->kind == MT_WRITE_CREATE) blind = true;
  }
  if (!untouched && !blind) return false;
  resend(item, (mt_version){0, 0});
  return true;
}

/* Could a copy of this very request have changed the document? The network may have sent the
 * request twice, and only the second answer arrived. */
static bool may_be_own(const mt_write_batch *b, const mt_item *item, const mt_doc *doc) {
  const mt_write *w = &item->write;
  if (b->exact || !doc->found || w->kind == MT_WRITE_DELETE) return false;
  if (!is_version(w->if_version)) return w->kind == MT_WRITE_CREATE;
  return !mt_version_equal(doc->version, w->if_version);
}

/* No document was found, but a version stands there, which the server may keep of a deleted one. It must be exceeded,
 * but a later version would replace a document that the reading did not see, since a copy of a shard may lag behind.
 * So the shard's primary is asked, by an update that changes nothing. Once it has said that there is no document, the
 * next version is refused as well if somebody creates one. */
static void exceed_version(mt_item *item) {
  item->probes = item->write.standing >= item->write.external; /* else it is sent as it is */
  resend(item, (mt_version){0, 0});
}

/* As mt_item_written. */
static bool is_probed(mt_item *item, const mt_write *sent) {
  mt_write *w = &item->write;
  if (sent->result == MT_WRITE_BUSY) return false;
  item->probes = false;
  if (sent->result == MT_WRITE_MISSING && w->standing < INT64_MAX)
    w->external = w->standing + 1;
  else
    item->reread = true;
  return sent->result != MT_WRITE_NONE;
}

void mt_item_read(mt_lane *l, mt_item *item, const mt_doc *doc) {
  bool external = item->write.external && !is_version(item->at) && !doc->found;
  bool deleted = !external && item->write.kind == MT_WRITE_DELETE && !doc->found, stamps = l->w->stamps;
  bool looks = mt_item_looks_first(l->w, item);
  if (stamps && doc->found && !stamp_allows(l, item, doc->source)) return;
  if (deleted)
    settle_item(item, MT_OUTCOME_ALREADY);
  else if (++item->rereads > MT_AGAIN_MAX)
    give_up_item(item);
  else if (external)
    exceed_version(item);
  else if (item->write.external && item->write.kind == MT_WRITE_DELETE)
    resolve_conflict(l, item, doc); /* it seals an id where there is no document, and here is one */
  else if ((stamps || looks) && compare_with(item, doc))
    return;
  else if (looks && !is_version(item->write.if_version))
    resolve_conflict(l, item, doc); /* without a version it would be a blind write */
  else if (!(item->dirty || may_be_own(l->batch, item, doc)) || !decide(l, item, doc))
    resolve_conflict(l, item, doc);
}

bool mt_item_forbidden(const mt_writer *w, const mt_write *sent) {
  bool refused = sent->result == MT_WRITE_REJECTED && (sent->status == 401 || sent->status == 403);
  return w->config.auth_ends && refused;
}

static void note_busy(mt_writer *w, const mt_write *sent) {
  bool blocked = !strcmp(sent->type, "cluster_block_exception");
  mt_error_set(&w->last, MORTISE_UNAVAILABLE, "the store %s: %s",
               blocked ? "takes no writes" : "is busy", sent->reason);
  w->last.http_status = sent->status;
}

bool mt_item_written(mt_lane *l, mt_item *item, mt_write *sent) {
  mt_write *w = &item->write;
  if (item->probes) return is_probed(item, sent);
  w->result = sent->result;
  w->status = sent->status;
  w->created = sent->created;
  w->standing = sent->standing;
  switch (sent->result) {
  case MT_WRITE_APPLIED:
    w->version = sent->version;
    settle_item(item, MT_OUTCOME_APPLIED);
    return true;
  case MT_WRITE_NOOP:
    w->version = sent->version;
    settle_item(item, MT_OUTCOME_ALREADY);
    return true;
  case MT_WRITE_BUSY:
    note_busy(l->w, sent);
    return false;
  case MT_WRITE_NONE:
    item->dirty = item->doubted = item->reread = true;
    return false;
  default:
    if (mt_item_forbidden(l->w, sent)) return false;
    break;
  }
  memcpy(w->type, sent->type, sizeof w->type);
  memcpy(w->reason, sent->reason, sizeof w->reason);
  bool missing = sent->result == MT_WRITE_MISSING;
  if (missing && w->kind == MT_WRITE_DELETE)
    settle_item(item, MT_OUTCOME_ALREADY);
  else if (missing || sent->result == MT_WRITE_CONFLICT)
    item->reread = true; /* this may answer a second copy of this very write */
  else
    settle_item(item, MT_OUTCOME_REJECTED);
  return true;
}

mt_again mt_again_itself(void *ctx, mt_write_batch *b, mt_item *item, const mt_doc *doc) {
  (void)ctx;
  (void)b;
  if (!doc->found || !mt_slice_eq(doc->source, item->write.body)) return MT_AGAIN_CONFLICT;
  item->write.kind = MT_WRITE_INDEX;
  item->write.if_version = doc->version;
  return MT_AGAIN_WRITE;
}
