/* A bulk's answer, item by item; the same as the answer to a batch of lock operations; and the
 * answer to a read of sessions. The first byte says which verbs and flags the batch had. */
#include "elastic/answer.h"
#include "base/mem.h"
#include "elastic/internal.h"
#include "fuzz.h"

enum { ITEMS = 4, ITEMS_MAX = 100000 };

static char mine[] = "0123456789abcdef0123456789abcdef";

/* Every part of an item lies within the answer, and is safe to show. */
static void items(mt_slice text) {
  mt_answers answers;
  mt_answer a;
  char shown[32];
  size_t n = 0;
  mt_answers_init(&answers, text);
  while (mt_answers_next(&answers, &a)) {
    const mt_slice parts[] = {a.type, a.reason, a.cause_type, a.cause_reason, a.source};
    MUST(++n < ITEMS_MAX && a.status > 0 && a.status < 1000);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
      MUST(fuzz_within(parts[i], text));
      MUST(strlen(mt_answer_text(parts[i], shown, sizeof shown)) < sizeof shown);
    }
    (void)mt_answer_is(a.type, "version_conflict_engine_exception");
    MUST(!mt_answer_busy(&a) || !mt_answer_unsure(&a));
    MUST(!mt_answer_written(&a) || a.version.term);
  }
}

static void check(const mt_lock_item *item) {
  bool grants =
      item->verb == MT_LOCK_CREATE || item->verb == MT_LOCK_SET || item->verb == MT_LOCK_ADOPT;
  bool believed = item->result == MT_LOCK_ACKED || item->result == MT_LOCK_QUEUED;
  MUST(!grants || !believed || item->version.term); /* a grant is a write, with a fence */
  MUST(item->n_blockers <= MT_BLOCKERS_MAX);
  for (size_t i = 0; i < item->n_blockers; i++)
    MUST(memchr(item->blockers[i].session, '\0', sizeof item->blockers[i].session));
}

static void batch(uint8_t how, mt_slice text) {
  mt_elastic e = {.store = {.url = "http://h:9200"}, .table = "mortise-locks"};
  mt_lock_item all[ITEMS];
  mt_lock_batch r = {.ns = "default", .session = mine, .items = all, .n = how % (ITEMS + 1)};
  for (size_t i = 0; i < r.n; i++)
    all[i] = (mt_lock_item){.verb = (mt_lock_verb)((how >> 3) + i) % (MT_LOCK_ADOPT + 1),
                            .place.path = MT_SLICE("/a"),
                            .mode = MT_X,
                            .enqueue = how & 64,
                            .ask_queue = how & 128,
                            .session = mine};
  mt_table_read_batch(&e, &r, 0, text, text.n & 1);
  for (size_t i = 0; i < r.n; i++) check(&all[i]);
  mt_lock_batch_deinit(&r);
}

static void sessions(mt_slice text) {
  mt_elastic e = {.store = {.url = "http://h:9200"}, .table = "mortise-locks"};
  const char *ids[] = {mine, mine};
  mt_session_read r = {.ns = "default", .ids = ids, .n = 2};
  mortise_error err = {0};
  mt_json root;
  if (mt_json_parse(text, "it", &root, NULL)) return;
  r.docs = mt_calloc(r.n, sizeof *r.docs);
  MUST(r.docs);
  mortise_status status = mt_table_read_sessions(&e, &r, root, &err);
  MUST(status == err.code);
  mt_session_read_deinit(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  if (!n) return 0;
  mt_slice text = fuzz_slice(data + 1, n - 1);
  items(text);
  batch(data[0], text);
  sessions(text);
  return 0;
}
