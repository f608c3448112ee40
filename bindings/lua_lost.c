#include "bindings/lua_lost.h"

#include "bindings/lua_class.h"
#include "bindings/lua_client.h"
#include "bindings/lua_error.h"
#include "bindings/lua_lock.h"
#include "bindings/op.h"
#include "bindings/task.h"

static mt_lock_handle *handle_of(mt_dependent *d) {
  return MT_CONTAINER(d, mt_lock_handle, dependent);
}

/* Raises LOCK_LOST for a lock of `box` that the running task relies on; false: nothing is left to
 * report. */
static bool tell_lost(lua_State *L, mt_box *box, uint64_t task) {
  bool more = false;
  mortise_error err;
  for (mt_dependent *d = box->locks; d; d = d->next) {
    mt_lock_handle *h = handle_of(d);
    if ((h->told && h->woken) || !mt_lock_is_lost(h, &err)) continue;
    more = true;
    if (h->told || !mt_task_inherits(box->driver, h->task, task)) continue;
    h->told = true;
    mt_error_raise(L, &err);
  }
  return more;
}

void mt_lost_check(lua_State *L, mt_driver *d) {
  uint64_t task = mt_driver_task(d)->id;
  for (mt_box *box = d->boxes; box; box = box->next)
    if (atomic_load(&box->lost) && !tell_lost(L, box, task) && atomic_exchange(&box->lost, false))
      atomic_fetch_sub(&d->lost, 1);
}

static void wake_lost(mt_box *box) {
  for (mt_dependent *d = box->locks; d; d = d->next) {
    mt_lock_handle *h = handle_of(d);
    if (h->woken || !mt_lock_is_lost(h, NULL)) continue;
    h->woken = true;
    h->told |= mt_tasks_wake(box->driver, h->task, h->told, mt_lost_text);
  }
}

void mt_lost_wake(mt_driver *d) {
  d->wakes++;
  for (mt_box *box = d->boxes; box; box = box->next)
    if (atomic_load(&box->lost)) wake_lost(box);
}

/* Finds the loss of a lock of `box` that `task` relies on; false if there is none. */
static bool find_lost(const mt_box *box, uint64_t task, mortise_error *err) {
  for (mt_dependent *d = box->locks; d; d = d->next) {
    const mt_lock_handle *h = handle_of(d);
    if (mt_task_inherits(box->driver, h->task, task) && mt_lock_is_lost(h, err)) return true;
  }
  return false;
}

void mt_lost_read(mt_driver *d, mortise_error *out) {
  uint64_t task = mt_driver_task(d)->id;
  for (const mt_box *box = d->boxes; box; box = box->next)
    if (find_lost(box, task, out)) return;
  mt_error_set(out, MORTISE_LOCK_LOST, "%s", mt_lost_text); /* the lock was released meanwhile */
}
