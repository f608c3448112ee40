/* Failing allocations and I/O: a tree lock, three writes, release, and for every n the n-th
 * allocation, socket call and SQLite I/O fails, once and from then on. There must be no crash, no
 * leak, no lock left behind, and no acknowledged write lost.
 *
 * On SQLite and on every server in MORTISE_TEST_URLS. MORTISE_EXHAUST_MOST: at most so many points
 * of each kind and way (0: every one); MORTISE_EXHAUST_WORKERS; MORTISE_EXHAUST_ONLY="lua 17 once"
 * runs one, with MORTISE_EXHAUST_TRACE=1 the stack of what fails is shown; MORTISE_EXHAUST_LIST=1
 * lists those that waited for the lease. */
#include "sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { WORKERS = 8 };

/* Points of each kind, unless MORTISE_EXHAUST_MOST says how many; 0: every one. The interpreter's
 * and SQLite's own code meets most of its allocations in the same few places. */
static const uint32_t most_of[MT_FAULT_KINDS] = {
    [MT_FAULT_LUA] = 100, [MT_FAULT_CURL] = 120, [MT_FAULT_SQLITE] = 120};

typedef struct verdicts {
  unsigned run[2], told[2], crashes, hangs, leaks, kept, lost, torn, mute, wrong, leased[2];
} verdicts;

typedef struct group {
  mt_sweep *s;
  mt_fault_kind kind;
} group;

static const char *way(const mt_point *p) {
  return p->ever ? "from then on" : "once";
}

static void show(const mt_sweep *s, const mt_point *p, const char *what) {
  printf("# %s: %s %u %s (%s): %s; told %x, %s: %s; lock after %d ms; took %d ms\n", s->place->name,
         mt_fault_names[p->kind], p->n, way(p), p->where, what, p->told,
         mortise_status_name(p->status), p->message, p->lock_ms, p->took_ms);
}

/* Did the script fail without saying why? */
static bool is_mute(const mt_point *p) {
  if (p->crashed) return false;
  bool fine = p->status == MORTISE_OK;
  if (fine) return p->no_host;
  return !p->message[0] || !strcmp(mortise_status_name(p->status), "unknown");
}

/* The script succeeded without reporting everything, or failed with a code that does not fit: the
 * script itself has no error. */
static bool is_wrong(const mt_point *p) {
  if (p->crashed) return false;
  switch (p->status) {
  case MORTISE_OK:
    return p->told != MT_TOLD_ALL;
  case MORTISE_OUT_OF_MEMORY:
    return !mt_fault_is_memory(p->kind) && p->kind != MT_FAULT_LOOP;
  case MORTISE_AUTH: /* a file that may not be opened */
    return p->kind != MT_FAULT_IO;
  case MORTISE_UNAVAILABLE:
  case MORTISE_LOCK_TIMEOUT:
  case MORTISE_LOCK_LOST:
  case MORTISE_CONFLICT:
    return false;
  default:
    return true;
  }
}

/* A lock that was reported as given back must not be found held. */
static bool kept_after_release(const mt_point *p) {
  return (p->told & MT_TOLD_RELEASED) && p->denied;
}

/* After a single failure, a lock that could not be given back at first is given back at the end.
 * This does not count if the lease was lost, as on a machine or a server that stalls. */
static bool kept_after_one(const mt_point *p) {
  return !p->ever && !p->crashed && p->denied && p->status != MORTISE_LOCK_LOST;
}

static void judge(const mt_sweep *s, const mt_point *p, verdicts *v) {
  v->run[p->ever]++;
  v->told[p->ever] += p->told == MT_TOLD_ALL;
  if (p->crashed) v->crashes++, show(s, p, p->hung ? "hangs" : "crashes");
  v->hangs += p->hung;
  if (p->leaked) v->leaks++, show(s, p, p->leaked > 0 ? "leaks memory" : "leaks a descriptor");
  if (p->kept || !p->read) v->kept++, show(s, p, "keeps the lock");
  if (kept_after_release(p)) v->kept++, show(s, p, "keeps a lock that was given back");
  if (p->lost) v->lost++, show(s, p, "has lost what was acknowledged");
  if (p->torn) v->torn++, show(s, p, "leaves a document torn");
  if (is_mute(p)) v->mute++, show(s, p, "does not say why");
  if (is_wrong(p)) v->wrong++, show(s, p, "says something else");
  if (kept_after_one(p)) v->kept++, show(s, p, "keeps the lock for the lease");
  bool leased = p->denied;
  v->leased[p->ever] += leased;
  if (getenv("MORTISE_EXHAUST_LIST"))
    show(s, p, leased ? "fine after the lease" : p->failed ? "fine" : "fine: nothing has failed");
}

static void check_kind(void **state) {
  const group *g = *state;
  const mt_sweep *s = g->s;
  verdicts v = {0};
  for (uint32_t i = 0; i < s->n; i++)
    if (s->points[i].kind == g->kind) judge(s, &s->points[i], &v);
  char how[48] = "every one";
  if (s->step[g->kind] > 1) snprintf(how, sizeof how, "one in %u", s->step[g->kind]);
  printf("# exhaust: %s: %s %u, %s, %u once (%u still did all) + %u from then on (%u): "
         "%u crashes, %u hangs, %u leaks, %u locks kept, %u lost, %u torn, %u without a reason, "
         "%u with a wrong one; the lease was waited for after %u + %u\n",
         s->place->name, mt_fault_names[g->kind], s->counted[g->kind], how, v.run[0], v.told[0],
         v.run[1], v.told[1], v.crashes, v.hangs, v.leaks, v.kept, v.lost, v.torn, v.mute, v.wrong,
         v.leased[0], v.leased[1]);
  fflush(stdout);
  assert_int_equal(v.crashes + v.leaks + v.kept + v.lost + v.torn + v.mute + v.wrong, 0);
}

/* The summary of a store, in one line. */
static void show_sum(const mt_sweep *s) {
  const uint32_t *n = s->counted;
  unsigned crashes = 0, leaks = 0, kept = 0, lost = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    const mt_point *p = &s->points[i];
    crashes += p->crashed;
    leaks += p->leaked != 0;
    kept += p->kept || !p->read || kept_after_release(p) || kept_after_one(p);
    lost += p->lost || p->torn;
  }
  printf(
      "# exhaust: %s: allocations %u (ours %u, lua %u, curl %u, sqlite %u), socket calls %u, loop "
      "calls %u, I/O %u: %u runs, %u crashes, %u leaks, %u locks kept, %u lost\n",
      s->place->name, n[0] + n[1] + n[2] + n[3], n[0], n[1], n[2], n[3], n[4], n[5], n[6], s->n,
      crashes, leaks, kept, lost);
}

static void check_ends(void **state) {
  const group *g = *state;
  assert_false(g->s->leaks_at_end);
  assert_int_equal(g->s->bad_ends, 0);
}

static unsigned number(const char *name, unsigned otherwise) {
  const char *text = getenv(name);
  return text && *text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

static int run_place(const mt_test_place *place) {
  group groups[MT_FAULT_KINDS + 1];
  char names[MT_FAULT_KINDS + 1][160];
  struct CMUnitTest tests[MT_FAULT_KINDS + 1];
  size_t n = 0;
  mt_sweep *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (s == MAP_FAILED) return 1;
  s->place = place;
  s->seed = mt_test_seed();
  snprintf(s->index, sizeof s->index, "%sdocs", place->prefix);
  unsigned workers = number("MORTISE_EXHAUST_WORKERS", WORKERS);
  if (workers < 1 || workers > MT_WORKERS_MAX) workers = WORKERS;
  uint32_t most[MT_FAULT_KINDS];
  for (mt_fault_kind k = 0; k < MT_FAULT_KINDS; k++)
    most[k] = number("MORTISE_EXHAUST_MOST", most_of[k]);
  int64_t began = mt_test_ns();
  bool ran = mt_sweep_run(s, (int)workers, most, getenv("MORTISE_EXHAUST_ONLY"));
  printf("# %s: %u runs in %.1f s\n", place->name, s->n, (double)(mt_test_ns() - began) / 1e9);
  if (!ran) printf("# %s: the sweep failed: %s\n", place->name, s->message);
  for (mt_fault_kind k = 0; k <= MT_FAULT_KINDS; k++) {
    if (k < MT_FAULT_KINDS && !s->counted[k]) continue;
    groups[n] = (group){s, k};
    snprintf(names[n], sizeof names[n], "%s: %s", place->name,
             k < MT_FAULT_KINDS ? mt_fault_names[k] : "every process ends as it should");
    tests[n] = (struct CMUnitTest){names[n], k < MT_FAULT_KINDS ? check_kind : check_ends, NULL,
                                   NULL, &groups[n]};
    n++;
  }
  show_sum(s);
  int failed = ran ? _cmocka_run_group_tests(place->name, tests, n, NULL, NULL) : 1;
  munmap(s, sizeof *s);
  return failed;
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  mt_fault_install_allocators();
  mt_fault_install_vfs();
  mt_test_place places[MT_TEST_PLACES];
  size_t n = mt_test_places(places);
  int failed = 0;
  for (size_t i = 0; i < n; i++) {
    failed += run_place(&places[i]);
    mt_test_place_clean(&places[i]);
  }
  return failed != 0;
}
