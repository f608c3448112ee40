/* Which call fails: every allocation, socket call and I/O of this process asks here. */
#ifndef MT_SPEC_FAULT_H
#define MT_SPEC_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kinds of calls, each counted separately. */
typedef enum mt_fault_kind {
  MT_FAULT_OURS,   /* allocations through base/mem.h */
  MT_FAULT_LUA,    /* those of the host's interpreter */
  MT_FAULT_CURL,   /* libcurl's */
  MT_FAULT_SQLITE, /* SQLite's */
  MT_FAULT_SOCKET, /* calls on sockets */
  MT_FAULT_LOOP,   /* epoll, eventfd, threads */
  MT_FAULT_IO,     /* SQLite's I/O, and the turnstile's locks */
  MT_FAULT_KINDS,
} mt_fault_kind;

extern const char *const mt_fault_names[MT_FAULT_KINDS];

/* When memory has run out, every allocator fails. */
static inline bool mt_fault_is_memory(mt_fault_kind kind) {
  return kind <= MT_FAULT_SQLITE;
}

/* The n-th (from 1) of `kind` fails, once or from then on; then also all other allocations, where
 * it is one. n == 0: nothing fails, all are counted. */
typedef struct mt_fault_plan {
  mt_fault_kind kind;
  uint32_t n;
  bool ever;
  bool trace; /* prints the stack at the first that fails */
  uint64_t seed;
} mt_fault_plan;

/* Counts from 1 again. Plans are changed only while no other thread of the scenario lives. */
void mt_fault_arm(const mt_fault_plan *plan);
/* Counts and fails nothing. Returns how many have failed. */
uint32_t mt_fault_disarm(void);
uint32_t mt_fault_count(mt_fault_kind kind);

/* Is this call to fail? `what` names it, for the trace and mt_fault_where. */
bool mt_fault_hits(mt_fault_kind kind, const char *what);
/* The name of the first that failed; "" none. */
const char *mt_fault_where(void);
/* Does the plan keep failing from the n-th call on? */
bool mt_fault_for_good(void);
/* A number below `n` that the seed and the call decide. */
unsigned mt_fault_choice(unsigned n);

/* Puts the failing allocators and the failing VFS in place; once, before any thread. */
void mt_fault_install_allocators(void);
void mt_fault_install_vfs(void);

/* Blocks, descriptors and threads that live now. Blocks: 0 where no sanitizer counts them. */
typedef struct mt_fault_live {
  int64_t blocks, lua, curl, sqlite;
  int files, threads;
} mt_fault_live;
mt_fault_live mt_fault_alive(void);

#endif
