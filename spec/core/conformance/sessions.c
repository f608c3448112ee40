/* Sessions: only acknowledged writes decide whether a session is live. */
#include "conformance/conformance.h"

#include <stdio.h>

#define OWNER                                                                                      \
  "{\"host\":\"h "                                                                                 \
  "\\\"1\\\"\",\"boot\":\"b\",\"pidns\":\"4026531836\",\"pid\":4711,\"start\":123456789,"          \
  "\"user\":\"u\",\"program\":\"p\",\"script\":\"/s \xc3\xbc.lua\",\"job\":\"j\"}"

static mt_session_write session_open(const char *id) {
  return (mt_session_write){
      .verb = MT_SESSION_OPEN, .session = id, .owner = MT_SLICE(OWNER), .lease_ms = 60000};
}

static mt_session_write session_verb(mt_session_verb verb, const char *id) {
  return (mt_session_write){.verb = verb, .session = id};
}

static mt_session_write session_expire(const char *id, mt_version version) {
  return (mt_session_write){
      .verb = MT_SESSION_EXPIRE, .session = id, .if_version = version, .lease_ms = 60000};
}

#define SESSION(write, expected)                                                                   \
  do {                                                                                             \
    mt_session_result seen_ = mt_session_do(f, write, &version);                                   \
    MT_CHECK(seen_ == (expected), "%s gave %d", #write, (int)seen_);                               \
  } while (0)

static mt_session_state state_of(mt_fixture *f, const char *id, mt_version *version) {
  mt_session_read r = {.ns = f->ns, .ids = &id, .n = 1};
  f->s->locks->session_read(f->s, &r);
  MT_OK(f, r);
  MT_CHECK(r.docs, "an answer for each id");
  MT_CHECK(!strcmp(r.docs[0].session, id), "of %s", r.docs[0].session);
  mt_session_state state = r.docs[0].state;
  if (version) *version = r.docs[0].version;
  mt_session_read_deinit(&r);
  return state;
}

static bool same(mt_version a, mt_version b) {
  return a.seq_no == b.seq_no && a.term == b.term;
}

static void life(mt_fixture *f) {
  mt_version version, before, read;
  MT_CHECK(state_of(f, mt_a, NULL) == MT_SESSION_MISSING, "not there yet");
  SESSION(session_verb(MT_SESSION_BEAT, mt_a), MT_SESSION_REFUSED);
  SESSION(session_verb(MT_SESSION_CLOSE, mt_a), MT_SESSION_REFUSED);
  SESSION(session_verb(MT_SESSION_PROVE, mt_a), MT_SESSION_REFUSED);
  MT_CHECK(state_of(f, mt_a, NULL) == MT_SESSION_MISSING, "a refusal makes nothing");
  SESSION(session_open(mt_a), MT_SESSION_ACKED);
  MT_CHECK(state_of(f, mt_a, &read) == MT_SESSION_LIVE && same(read, version), "live");
  for (int i = 0; i < 3; i++) {
    before = version;
    SESSION(session_verb(MT_SESSION_BEAT, mt_a), MT_SESSION_ACKED);
    MT_CHECK(!same(version, before), "a beat always changes the version");
    MT_CHECK(state_of(f, mt_a, &read) == MT_SESSION_LIVE && same(read, version), "live");
  }
  SESSION(session_verb(MT_SESSION_PROVE, mt_a), MT_SESSION_REFUSED);
  MT_CHECK(state_of(f, mt_a, &read) == MT_SESSION_LIVE && same(read, version),
           "a refusal changes nothing");
  SESSION(session_verb(MT_SESSION_CLOSE, mt_a), MT_SESSION_ACKED);
  MT_CHECK(state_of(f, mt_a, &read) == MT_SESSION_CLOSED && same(read, version), "closed");
  SESSION(session_verb(MT_SESSION_BEAT, mt_a), MT_SESSION_REFUSED);
  SESSION(session_verb(MT_SESSION_CLOSE, mt_a), MT_SESSION_REFUSED);
  SESSION(session_open(mt_a), MT_SESSION_REFUSED);
  SESSION(session_verb(MT_SESSION_PROVE, mt_a), MT_SESSION_ACKED);
  MT_CHECK(state_of(f, mt_a, NULL) == MT_SESSION_CLOSED, "still closed");
}

static void expiring(mt_fixture *f) {
  mt_version version, old, now;
  SESSION(session_open(mt_a), MT_SESSION_ACKED);
  old = version;
  SESSION(session_verb(MT_SESSION_BEAT, mt_a), MT_SESSION_ACKED);
  now = version;
  SESSION(session_expire(mt_a, old), MT_SESSION_REFUSED);             /* it beat meanwhile */
  SESSION(session_expire(mt_a, (mt_version){0}), MT_SESSION_REFUSED); /* nor is it missing */
  MT_CHECK(state_of(f, mt_a, NULL) == MT_SESSION_LIVE, "live");
  SESSION(session_expire(mt_a, now), MT_SESSION_ACKED);
  MT_CHECK(!same(version, now), "a write");
  MT_CHECK(state_of(f, mt_a, NULL) == MT_SESSION_EXPIRED, "expired");
  SESSION(session_verb(MT_SESSION_BEAT, mt_a), MT_SESSION_REFUSED);
  SESSION(session_verb(MT_SESSION_CLOSE, mt_a), MT_SESSION_REFUSED);
  SESSION(session_open(mt_a), MT_SESSION_REFUSED);
  SESSION(session_expire(mt_a, now), MT_SESSION_REFUSED);
  MT_CHECK(state_of(f, mt_a, &now) == MT_SESSION_EXPIRED, "that is final");
  SESSION(session_verb(MT_SESSION_PROVE, mt_a), MT_SESSION_ACKED);
  MT_CHECK(!same(version, now), "the proof is a write of one's own");
  MT_CHECK(state_of(f, mt_a, NULL) == MT_SESSION_EXPIRED, "still expired");
}

/* For all but its owner's heartbeat a broken session counts as live. */
static void breaking(mt_fixture *f) {
  mt_version version, live, marked;
  SESSION(session_verb(MT_SESSION_BREAK, mt_a), MT_SESSION_REFUSED);
  MT_CHECK(state_of(f, mt_a, NULL) == MT_SESSION_MISSING, "a refusal makes nothing");
  SESSION(session_open(mt_a), MT_SESSION_ACKED);
  live = version;
  SESSION(session_verb(MT_SESSION_BREAK, mt_a), MT_SESSION_ACKED);
  marked = version;
  MT_CHECK(!same(marked, live), "the mark is a write");
  SESSION(session_verb(MT_SESSION_BEAT, mt_a), MT_SESSION_REFUSED);
  SESSION(session_verb(MT_SESSION_BREAK, mt_a), MT_SESSION_REFUSED);
  SESSION(session_open(mt_a), MT_SESSION_REFUSED); /* a late open does not revive it */
  SESSION(session_verb(MT_SESSION_PROVE, mt_a), MT_SESSION_REFUSED);
  SESSION(session_expire(mt_a, live), MT_SESSION_REFUSED);
  SESSION(session_expire(mt_a, (mt_version){0}), MT_SESSION_REFUSED);
  MT_CHECK(state_of(f, mt_a, &version) == MT_SESSION_BROKEN && same(version, marked),
           "only time has an effect on it");
  SESSION(session_expire(mt_a, marked), MT_SESSION_ACKED);
  MT_CHECK(state_of(f, mt_a, NULL) == MT_SESSION_EXPIRED, "expired");
  SESSION(session_verb(MT_SESSION_BREAK, mt_a), MT_SESSION_REFUSED);
  SESSION(session_verb(MT_SESSION_PROVE, mt_a), MT_SESSION_ACKED);
}

/* The owner learns who broke its session; nothing else depends on that. */
static void broken_by(mt_fixture *f) {
  static const char by[] = "{\"host\":\"h\\u00e4\",\"user\":\"u\\\"x\",\"pid\":7}";
  mt_version version;
  mt_session_write beat = session_verb(MT_SESSION_BEAT, mt_a);
  SESSION(session_open(mt_a), MT_SESSION_ACKED);
  mt_session_write mark = session_verb(MT_SESSION_BREAK, mt_a);
  mark.by = mt_slice_of(by);
  SESSION(mark, MT_SESSION_ACKED);
  beat.ns = f->ns;
  f->s->locks->session(f->s, &beat);
  MT_OK(f, beat);
  MT_CHECK(beat.result == MT_SESSION_REFUSED && beat.found == MT_SESSION_BROKEN, "found %d",
           (int)beat.found);
  MT_CHECK(!strcmp(beat.breaker, "u\"x@h\xc3\xa4, pid 7"), "broken by %s", beat.breaker);
  SESSION(session_open(mt_a), MT_SESSION_REFUSED);
  MT_CHECK(state_of(f, mt_a, &version) == MT_SESSION_BROKEN, "broken");
  SESSION(session_expire(mt_a, version), MT_SESSION_ACKED);
  beat = session_verb(MT_SESSION_BEAT, mt_a);
  beat.ns = f->ns;
  f->s->locks->session(f->s, &beat);
  MT_OK(f, beat);
  MT_CHECK(beat.found == MT_SESSION_EXPIRED, "found %d", (int)beat.found);
}

static void broken_and_closed(mt_fixture *f) {
  mt_version version;
  SESSION(session_open(mt_a), MT_SESSION_ACKED);
  MT_RESULT(mt_set(f, mt_a, "/x", 1, MT_X), MT_LOCK_ACKED);
  SESSION(session_verb(MT_SESSION_BREAK, mt_a), MT_SESSION_ACKED);
  MT_RESULT(mt_set(f, mt_b, "/x", 1, MT_X), MT_LOCK_DENIED); /* its entries stand */
  MT_RESULT(mt_set(f, mt_a, "/x", 1, MT_X), MT_LOCK_ACKED);
  json_t *list = mt_list(f, f->ns);
  json_t *session = json_array_get(json_object_get(list, "sessions"), 0);
  const char *state = json_string_value(json_object_get(session, "state"));
  const char *ns = json_string_value(json_object_get(session, "ns"));
  MT_CHECK(state && !strcmp(state, "broken"), "listed as %s", state ? state : "nothing");
  MT_CHECK(ns && !strcmp(ns, f->ns), "listed in %s", ns ? ns : "nothing");
  json_decref(list);
  SESSION(session_verb(MT_SESSION_CLOSE, mt_a), MT_SESSION_ACKED);
  MT_CHECK(state_of(f, mt_a, NULL) == MT_SESSION_CLOSED, "its owner gave up by itself");
  SESSION(session_verb(MT_SESSION_BREAK, mt_a), MT_SESSION_REFUSED);
  SESSION(session_verb(MT_SESSION_CLOSE, mt_a), MT_SESSION_REFUSED);
  SESSION(session_verb(MT_SESSION_PROVE, mt_a), MT_SESSION_ACKED);
}

static void expiring_the_missing(mt_fixture *f) {
  mt_version version;
  SESSION(session_expire(mt_b, (mt_version){3, 1}), MT_SESSION_REFUSED);
  MT_CHECK(state_of(f, mt_b, NULL) == MT_SESSION_MISSING, "a stale sight makes nothing");
  SESSION(session_expire(mt_b, (mt_version){0}), MT_SESSION_ACKED);
  MT_CHECK(state_of(f, mt_b, NULL) == MT_SESSION_EXPIRED, "made as expired");
  SESSION(session_open(mt_b), MT_SESSION_REFUSED);
  SESSION(session_verb(MT_SESSION_BEAT, mt_b), MT_SESSION_REFUSED);
  SESSION(session_expire(mt_b, (mt_version){0}), MT_SESSION_REFUSED);
  SESSION(session_verb(MT_SESSION_PROVE, mt_b), MT_SESSION_ACKED);
}

/* Each by itself, whatever becomes of the others. */
static void several_at_once(mt_fixture *f) {
  mt_version version, of_a;
  if (!f->s->locks->session_batch) return;
  SESSION(session_open(mt_a), MT_SESSION_ACKED);
  of_a = version;
  SESSION(session_open(mt_b), MT_SESSION_ACKED);
  mt_session_write writes[] = {session_expire(mt_b, (mt_version){of_a.seq_no + 999, of_a.term}),
                               session_expire(mt_a, of_a), session_expire(mt_c, (mt_version){0})};
  mt_session_batch batch = {.ns = f->ns, .writes = writes, .n = 3};
  f->s->locks->session_batch(f->s, &batch);
  MT_OK(f, batch);
  MT_CHECK(writes[0].result == MT_SESSION_REFUSED, "of another version");
  MT_CHECK(writes[1].result == MT_SESSION_ACKED, "expired");
  MT_CHECK(writes[2].result == MT_SESSION_ACKED, "made as expired");
  MT_CHECK(state_of(f, mt_b, NULL) == MT_SESSION_LIVE, "lives");
  MT_CHECK(state_of(f, mt_a, &version) == MT_SESSION_EXPIRED && same(version, writes[1].version),
           "its version");
  mt_session_write proofs[] = {session_verb(MT_SESSION_PROVE, mt_a),
                               session_verb(MT_SESSION_PROVE, mt_b)};
  batch = (mt_session_batch){.ns = f->ns, .writes = proofs, .n = 2};
  f->s->locks->session_batch(f->s, &batch);
  MT_OK(f, batch);
  MT_CHECK(proofs[0].result == MT_SESSION_ACKED, "proven");
  MT_CHECK(proofs[1].result == MT_SESSION_REFUSED, "it lives");
  proofs[0].verb = MT_SESSION_CLOSE;
  batch = (mt_session_batch){.ns = f->ns, .writes = proofs, .n = 1};
  f->s->locks->session_batch(f->s, &batch);
  MT_CHECK(mt_store_wait(f->s, &batch.req, INT64_MAX) == MORTISE_INVALID_ARGUMENT, "only these");
}

static void opened_twice(mt_fixture *f) {
  mt_version version, first;
  SESSION(session_open(mt_a), MT_SESSION_ACKED);
  first = version;
  SESSION(session_open(mt_a), MT_SESSION_ACKED); /* this very open, sent again */
  MT_CHECK(!same(version, first), "an acknowledged write, not a reading");
  mt_session_write other = session_open(mt_a);
  other.owner =
      MT_SLICE("{\"host\":\"elsewhere\",\"boot\":\"b\",\"pid\":4711,\"start\":123456789}");
  SESSION(other, MT_SESSION_REFUSED);
  MT_CHECK(state_of(f, mt_a, NULL) == MT_SESSION_LIVE, "the first one's");
}

static void reading(mt_fixture *f) {
  mt_version version;
  mt_session_write beat = session_verb(MT_SESSION_BEAT, mt_a);
  beat.waiting = MT_SLICE("[{\"task\":1,\"path\":\"/a/\xc3\xbc\",\"mode\":\"X\",\"n\":7}]");
  SESSION(session_open(mt_a), MT_SESSION_ACKED);
  SESSION(session_open(mt_c), MT_SESSION_ACKED);
  SESSION(session_verb(MT_SESSION_CLOSE, mt_c), MT_SESSION_ACKED);
  SESSION(beat, MT_SESSION_ACKED);
  const char *ids[] = {mt_c, mt_b, mt_a, mt_b, mt_a};
  mt_session_read r = {.ns = f->ns, .ids = ids, .n = 5};
  f->s->locks->session_read(f->s, &r);
  MT_OK(f, r);
  static const mt_session_state want[] = {MT_SESSION_CLOSED, MT_SESSION_MISSING, MT_SESSION_LIVE,
                                          MT_SESSION_MISSING, MT_SESSION_LIVE};
  for (size_t i = 0; i < 5; i++) {
    MT_CHECK(!strcmp(r.docs[i].session, ids[i]), "answer %zu is %s", i, r.docs[i].session);
    MT_CHECK(r.docs[i].state == want[i], "answer %zu: state %d", i, (int)r.docs[i].state);
  }
  mt_session_doc *doc = &r.docs[2];
  MT_CHECK(same(doc->version, version), "the version of the last beat");
  MT_CHECK(doc->lease_ms == 60000, "lease %lld", (long long)doc->lease_ms);
  MT_CHECK(doc->opened_ms > 1000000000000 && doc->beat_ms >= doc->opened_ms,
           "opened %lld, beat %lld", (long long)doc->opened_ms, (long long)doc->beat_ms);
  MT_CHECK(doc->owner && mt_same_json(mt_slice_of(doc->owner), OWNER), "owner %s", doc->owner);
  MT_CHECK(doc->waiting && mt_same_json(mt_slice_of(doc->waiting), beat.waiting.p), "waiting %s",
           doc->waiting);
  mt_session_read_deinit(&r);
  SESSION(session_verb(MT_SESSION_BEAT, mt_a), MT_SESSION_ACKED);
  r = (mt_session_read){.ns = f->ns, .ids = &ids[2], .n = 1};
  f->s->locks->session_read(f->s, &r);
  MT_OK(f, r);
  MT_CHECK(r.docs[0].waiting && !strcmp(r.docs[0].waiting, "[]"), "waits no more: %s",
           r.docs[0].waiting);
  mt_session_read_deinit(&r);
}

static void apart(mt_fixture *f) {
  mt_version version;
  mt_session_write other = session_open(mt_a);
  char ns[70];
  snprintf(ns, sizeof ns, "%.60s-x", f->ns);
  other.ns = ns;
  SESSION(session_open(mt_a), MT_SESSION_ACKED);
  SESSION(other, MT_SESSION_ACKED);
  SESSION(session_verb(MT_SESSION_CLOSE, mt_a), MT_SESSION_ACKED);
  other.verb = MT_SESSION_BEAT;
  SESSION(other, MT_SESSION_ACKED);
}

static void listed(mt_fixture *f) {
  mt_version version;
  SESSION(session_open(mt_a), MT_SESSION_ACKED);
  SESSION(session_expire(mt_b, (mt_version){0}), MT_SESSION_ACKED);
  json_t *list = mt_list(f, f->ns), *session;
  size_t i, live = 0, expired = 0;
  json_array_foreach(json_object_get(list, "sessions"), i, session) {
    const char *id = json_string_value(json_object_get(session, "session"));
    const char *state = json_string_value(json_object_get(session, "state"));
    live += !strcmp(id, mt_a) && !strcmp(state, "live");
    expired += !strcmp(id, mt_b) && !strcmp(state, "expired");
    if (strcmp(id, mt_a)) continue;
    MT_CHECK(json_integer_value(json_object_get(session, "lease_ms")) == 60000, "its lease");
    json_t *host = json_object_get(json_object_get(session, "owner"), "host");
    MT_CHECK(json_string_value(host) && !strcmp(json_string_value(host), "h \"1\""), "its owner");
  }
  MT_CHECK(live == 1 && expired == 1 && i == 2, "%zu live, %zu expired of %zu", live, expired, i);
  json_decref(list);
  static const struct {
    mt_lock_list r;
    size_t n;
  } rows[] = {{{.over = true, .page = 1}, 2},
              {{.over = false}, 1}, /* who stands */
              {{.session = mt_a}, 1},
              {{.session = mt_b}, 0},
              {{.session = mt_b, .over = true}, 1}};
  for (i = 0; i < sizeof rows / sizeof *rows; i++) {
    mt_lock_list r = rows[i].r;
    r.kind = MT_LIST_SESSIONS;
    r.ns = f->ns;
    list = mt_list_pages(f, r);
    MT_CHECK(json_array_size(list) == rows[i].n, "row %zu: %zu", i, json_array_size(list));
    json_decref(list);
  }
}

/* The steps of a take-over: prove, evict, then a grant. */
static void take_over(mt_fixture *f) {
  mt_version version;
  SESSION(session_open(mt_a), MT_SESSION_ACKED);
  MT_RESULT(mt_set(f, mt_a, "/x", 1, MT_X), MT_LOCK_ACKED);
  uint64_t fence = f->last_fence;
  SESSION(session_expire(mt_a, version), MT_SESSION_ACKED);
  MT_RESULT(mt_evict(f, mt_b, "/x", mt_a), MT_LOCK_ACKED);
  MT_RESULT(mt_set(f, mt_b, "/x", 1, MT_X), MT_LOCK_ACKED);
  MT_CHECK(f->last_fence > fence, "a later holder's fence is larger");
  MT_RESULT(mt_release(f, mt_a, "/x", 99), MT_LOCK_ABSENT);
}

const mt_case mt_cases_sessions[] = {
    {"sessions: from open to closed", life},
    {"sessions: expire is a compare-and-set, and final", expiring},
    {"sessions: a broken one stands still until it is expired", breaking},
    {"sessions: who broke one is told to its owner", broken_by},
    {"sessions: a broken one is closed by its owner", broken_and_closed},
    {"sessions: a missing one is made as expired", expiring_the_missing},
    {"sessions: several are expired at once", several_at_once},
    {"sessions: opened twice", opened_twice},
    {"sessions: read several", reading},
    {"sessions: namespaces are apart", apart},
    {"sessions: list", listed},
    {"sessions: a take-over", take_over},
    {0},
};
