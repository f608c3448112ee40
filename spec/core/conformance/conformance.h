/* One suite that every store has to pass. A case is a function that gets an open store; where two
 * stores differ in a case, one of them has a bug. */
#ifndef MT_SPEC_CONFORMANCE_H
#define MT_SPEC_CONFORMANCE_H

#include "support/support.h"

#include <jansson.h>

typedef struct mt_fixture {
  const mt_test_place *place;
  const struct mt_case *what;
  mt_test_store handle;
  mt_store *s; /* the handle's */
  mt_test_random random;
  char ns[64];    /* a namespace of its own */
  char index[96]; /* an index of its own, made by mt_make_index */
  bool index_made;
  mt_lock_item item;   /* of the last mt_lock */
  uint64_t last_fence; /* of all grants seen by mt_lock */
} mt_fixture;

typedef struct mt_case {
  const char *name;
  void (*run)(mt_fixture *f);
} mt_case;

/* Each ends with a NULL name. */
extern const mt_case mt_cases_documents[];
extern const mt_case mt_cases_bulk[];
extern const mt_case mt_cases_scans[];
extern const mt_case mt_cases_by_query[];
extern const mt_case mt_cases_requests[];
extern const mt_case mt_cases_locks[];
extern const mt_case mt_cases_places[];
extern const mt_case mt_cases_queue[];
extern const mt_case mt_cases_grant[];
extern const mt_case mt_cases_sessions[];
extern const mt_case mt_cases_tables[];
extern const mt_case mt_cases_concurrency[];
extern const mt_case mt_cases_model[];
extern const mt_case mt_cases_span[];
extern const mt_case mt_cases_admin[];

/* Pumps and fails the case unless the status is this one. */
#define MT_EXPECT(f, request, code_)                                                               \
  do {                                                                                             \
    mortise_status seen_ = mt_test_pump((f)->s, &(request).req);                                   \
    MT_CHECK(seen_ == (code_), "%s: %s: %s", mortise_status_name(seen_),                           \
             (request).req.error.message, (request).req.error.reason);                             \
  } while (0)
#define MT_OK(f, request) MT_EXPECT(f, request, MORTISE_OK)

/* ---- Documents --------------------------------------------------------------------------------
 */

/* Refreshed every 30 s only. `path`, `tag`, `opt`, `sub.k` are keywords, `n` is a long, the rest is
 * not mapped. */
void mt_make_index(mt_fixture *f, unsigned shards);
mortise_status mt_create_index(mt_fixture *f, const char *index, const char *body);
mortise_status mt_drop_index(mt_fixture *f, const char *index);
mt_write mt_write_of(mt_write_kind kind, const char *id, const char *body);
/* The request has to succeed; the items have their own results. */
void mt_bulk_run(mt_fixture *f, mt_write *items, size_t n);
/* One item. */
mt_write mt_write_one(mt_fixture *f, mt_write item);
void mt_refresh_index(mt_fixture *f);
uint64_t mt_count_of(mt_fixture *f, const char *query);
/* Appends the source; false when it is not there. `version` may be NULL. */
bool mt_get(mt_fixture *f, mt_slice id, mt_buf *source, mt_version *version);
bool mt_same_json(mt_slice a, const char *b);
/* Documents d0 ... d(n-1): {"path":"/dir/ID","n":NUMBER,"tag":"t(number % 5)"} and, for every
 * third, "opt", for every second "sub":{"k":"even"}; refreshed. */
void mt_fill(mt_fixture *f, size_t n);

/* ---- Locks ------------------------------------------------------------------------------------
 */

/* Runs a batch of one item; its result stays in f->item until the next call. */
mt_lock_result mt_lock(mt_fixture *f, const char *session, mt_lock_item item);
mt_lock_result mt_set(mt_fixture *f, const char *session, const char *path, uint64_t n,
                      mt_mode mode); /* fresh */
mt_lock_result mt_set_again(mt_fixture *f, const char *session, const char *path, uint64_t n,
                            mt_mode mode); /* not fresh */
mt_lock_result mt_set_queue(mt_fixture *f, const char *session, const char *path, uint64_t n,
                            mt_mode mode); /* fresh, enqueue */
mt_lock_result mt_make(mt_fixture *f, const char *session, const char *path, uint64_t n,
                       mt_mode mode); /* CREATE */
mt_lock_result mt_release(mt_fixture *f, const char *session, const char *path, uint64_t n);
mt_lock_result mt_delete(mt_fixture *f, const char *session, const char *path, mt_version version);
mt_lock_result mt_evict(mt_fixture *f, const char *session, const char *path, const char *dead);
mt_lock_result mt_adopt(mt_fixture *f, const char *session, const char *path, uint64_t n,
                        const char *from);
const char *mt_lock_result_name(mt_lock_result result);
#define MT_RESULT(call, expected)                                                                  \
  do {                                                                                             \
    mt_lock_result seen_ = (call);                                                                 \
    MT_CHECK(seen_ == (expected), "%s gave %s", #call, mt_lock_result_name(seen_));                \
  } while (0)
/* Did the last item name this blocker? */
bool mt_blocked_by(const mt_fixture *f, const char *session, mt_mode mode, bool queued);
/* All pages of a list, decoded; json_decref. */
json_t *mt_list_pages(mt_fixture *f, mt_lock_list r);
/* {"locks", "sessions"} of a namespace; json_decref. */
json_t *mt_list(mt_fixture *f, const char *ns);
/* Is there a lock document for the path? */
bool mt_listed(mt_fixture *f, const char *path);

/* Session ids: 32 hex digits. */
extern const char mt_a[], mt_b[], mt_c[], mt_d[];

/* ---- Sessions ---------------------------------------------------------------------------------
 */

mt_session_result mt_session_do(mt_fixture *f, mt_session_write w, mt_version *version);

#endif
