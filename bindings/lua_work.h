/* A change of many documents that runs in the core, as its methods see it. lua_job.c makes it. There are
 * four kinds: a plan, a change under a lock that the caller has, a job, and an outlook on undoing one.
 *   :run() -> result             only once; raises what stopped it. Of a change that a function makes, it returns
 *                                nothing when a page waits for that, and is then called again
 *   :doc() -> document           the next one of the page, for the function; nothing at its end
 *   :put(how[, text])            what the function has made of it: "keep", "change" with its new source,
 *                                "delete", or "reject" with the reason
 *   :fail(error)                 the function has failed: the change ends with this error
 *   :result() -> result          at any time: {matched=, changed=, unchanged=, redone=, conflicts=,
 *                                rejected=, unknown=, left=, beside=, passes=, bytes=, round_trips=,
 *                                duration_ms=, rejects={{id=, type=, reason=}, ...}}; a job's has
 *                                also {state=, reason=, attempts=, began=}; `began`: something may
 *                                have been changed, by any attempt. A plan's has {bytes= (that
 *                                would be written), samples= (preview.h, as JSON text), identity= (32 hex
 *                                digits, where it was asked for)}. An outlook's is {changed=, kept=} alone
 *   :progress() -> done, total, conflicts, rejected, rate, waits     for other tasks while it runs;
 *                                `rate`: the limit, documents a second; `waits`: what a job waits for;
 *                                or nil
 *   :counts() -> matched, beside     of a job, once they are known; nothing is written before; or nil
 *   :pause(why or nil)           a job writes nothing more, or goes on
 *   :cancel()                    makes run() raise interrupted once all requests are answered
 *   :yield()                     the same of a job, to let others in; its result has `yielded`
 *   :settle()                    waits for the requests of an interrupted run
 * Releasing the lock ends it at once, as if its process had died. */
#ifndef MT_LUA_WORK_H
#define MT_LUA_WORK_H

#include "bindings/driver.h"
#include "bindings/lua_class.h"
#include "bindings/lua_client.h"

#include "job/job.h"
#include "job/known.h"
#include "job/outlook.h"
#include "job/rename.h"
#include "job/within.h"

typedef enum mt_work_kind {
  MT_WORK_PLAN,
  MT_WORK_CHANGE,
  MT_WORK_JOB,
  MT_WORK_OUTLOOK,
} mt_work_kind;

typedef struct mt_lua_work {
  /* in: what `change` and `job` need, but for their callbacks */
  mt_work_kind kind;
  mt_permit permit;
  mt_transforms list; /* of a change that is no rename; freed with it */
  mt_rename rename;   /* its change is that of a list, too; freed with it */
  mt_transforms inverse; /* of the declared change, if it has one; freed with it */
  mt_rename back;        /* of a job that is undone: the opposite rename; freed with it */
  mt_job job;
  mt_outlook outlook; /* freed with this */
  mt_within within; /* of a list or a function, which change only what their lock concerns; freed with it */
  mt_known known; /* of a job that a function makes; freed with it */
  mt_preview preview;                                          /* of a plan; freed with this */
  mortise_status (*counted)(mt_change *c, mortise_error *err); /* the rename's, for its maker */
  /* its own */
  mt_dependent dependent;
  mt_owned owned;
  mt_driver *driver;
  mt_op *runner; /* the operation that waits for its end, or NULL */
  uint64_t changed, total;
  struct mt_unit *unit; /* the page that the function is asked about, or NULL */
  bool asked;           /* about a document of it, which is to be put */
  bool started, ended;
  bool dropped; /* it was ended because its lock was released */
} mt_lua_work; /* user values: the lock or client; the options that it borrows; the documents of that page */

/* Pushes one that depends on nothing yet, for the lock or client at 1 and the options at 2, which it keeps
 * alive. */
MT_LJMP mt_lua_work *mt_work_new(lua_State *L, mt_driver *d, mt_work_kind kind);
/* Its change is made by a function, as `doc` and `put` say. */
void mt_work_by_function(mt_lua_work *self);
/* It may be run from now on, until the owner of this list drops it. */
void mt_work_ready(mt_lua_work *self, mt_dependent **of);

extern const mt_lua_class mt_work_class;

#endif
