#include "fault.h"

#include <execinfo.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

const char *const mt_fault_names[MT_FAULT_KINDS] = {
    "ours", "lua", "curl", "sqlite", "socket calls", "loop calls", "I/O",
};

extern void __sanitizer_print_stack_trace(void) __attribute__((weak));

static mt_fault_plan plan;
static atomic_bool armed;
static atomic_uint counts[MT_FAULT_KINDS];
static atomic_bool broken; /* from then on */
static atomic_uint failed;
static atomic_uint_fast64_t dice;
static _Atomic(const char *) where;

void mt_fault_arm(const mt_fault_plan *p) {
  plan = *p;
  for (int i = 0; i < MT_FAULT_KINDS; i++) atomic_store(&counts[i], 0);
  atomic_store(&broken, false);
  atomic_store(&failed, 0);
  atomic_store(&dice, p->seed * 0x9e3779b97f4a7c15u + p->n);
  atomic_store(&where, NULL);
  atomic_store(&armed, true);
}

uint32_t mt_fault_disarm(void) {
  atomic_store(&armed, false);
  return atomic_load(&failed);
}

uint32_t mt_fault_count(mt_fault_kind kind) {
  return atomic_load(&counts[kind]);
}

const char *mt_fault_where(void) {
  const char *what = atomic_load(&where);
  return what ? what : "";
}

bool mt_fault_for_good(void) {
  return plan.ever;
}

unsigned mt_fault_choice(unsigned n) {
  uint64_t z = atomic_fetch_add(&dice, 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (unsigned)((z ^ (z >> 31)) % n);
}

/* The tracer itself allocates. */
static void print_trace(mt_fault_kind kind, uint32_t at, const char *what) {
  static _Thread_local bool inside;
  if (inside) return;
  inside = true;
  fprintf(stderr, "# fails: %s %u: %s\n", mt_fault_names[kind], at, what);
  if (__sanitizer_print_stack_trace) {
    __sanitizer_print_stack_trace();
  } else {
    void *frames[48];
    backtrace_symbols_fd(frames, backtrace(frames, 48), 2);
  }
  inside = false;
}

static bool same_sort(mt_fault_kind kind) {
  return kind == plan.kind || (mt_fault_is_memory(kind) && mt_fault_is_memory(plan.kind));
}

bool mt_fault_hits(mt_fault_kind kind, const char *what) {
  if (!atomic_load_explicit(&armed, memory_order_relaxed)) return false;
  uint32_t at = atomic_fetch_add(&counts[kind], 1) + 1;
  bool first = kind == plan.kind && at == plan.n;
  bool hit = first || (same_sort(kind) && atomic_load(&broken));
  if (!hit) return false;
  if (first) {
    atomic_store(&where, what);
    if (plan.ever) atomic_store(&broken, true);
    if (plan.trace) print_trace(kind, at, what);
  }
  atomic_fetch_add(&failed, 1);
  return true;
}
