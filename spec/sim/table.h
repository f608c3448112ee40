/* A third implementation of the store's lock table, in memory: it does what core/elastic/scripts,
 * core/store/grant.c and core/sqlite/locks.c do. net.c puts an unreliable network before it.
 *
 * There is the table, and, while a replaced primary does not know it yet, an old copy: a client
 * that reaches that one reads old contents, and its writes are lost. */
#ifndef MT_SIM_TABLE_H
#define MT_SIM_TABLE_H

#include "store/store.h"
#include "world.h"

enum { SIM_PATH = 32, SIM_STRIPES = 3, SIM_ENTRIES = 24, SIM_LOCKS = 24, SIM_SESSIONS = 512 };

typedef struct sim_entry {
  char session[MT_SESSION_ID];
  uint64_t n;
  mt_mode mode;
  unsigned job;  /* 0: none */
  int64_t until; /* queue only */
  bool repeated; /* put there by a copy of a request that was answered */
} sim_entry;

typedef struct sim_lock_doc {
  char path[SIM_PATH];
  uint32_t stripe;
  sim_entry holders[SIM_ENTRIES], queue[SIM_ENTRIES];
  size_t n_holders, n_queue;
  mt_version version;
} sim_lock_doc;

typedef struct sim_table sim_table;

typedef enum sim_primary { SIM_PRIMARY, SIM_REPLACED } sim_primary;

/* Called after each write at the primary. */
typedef struct sim_watch {
  void *ctx;
  /* A set or create: `before` is the mode that the session had there. */
  void (*set)(void *ctx, const char *session, const mt_lock_item *item, mt_mode before);
  /* The entry of `session` at this place may have changed. */
  void (*written)(void *ctx, const char *session, mt_place place);
  /* An item was applied; `before` is the document as it was, NULL where there was none. */
  void (*applied)(void *ctx, const char *session, const mt_lock_item *item,
                  const sim_lock_doc *before);
  void (*session)(void *ctx, const mt_session_write *write, mt_session_state before,
                  mt_session_state after);
} sim_watch;

sim_table *sim_table_new(sim_world *w, const sim_watch *watch);
void sim_table_free(sim_table *t);

/* Each applies one write and fills its `out`; true: something was written. `repeated`: nobody gets
 * the answer. */
bool sim_table_item(sim_table *t, sim_primary at, const char *session, unsigned job,
                    mt_lock_item *item, bool repeated);
bool sim_table_session(sim_table *t, sim_primary at, mt_session_write *write);
/* Deletes the documents of those that ended, and neither opened nor beat since then. -> how many */
size_t sim_table_purge(sim_table *t, sim_primary at, int64_t before_ms);
void sim_table_read(sim_table *t, sim_primary at, mt_session_read *read);
/* As mt_lock_read's `json`; owned. */
char *sim_table_documents(sim_table *t, sim_primary at, const mt_place *places, size_t n);
char *sim_table_list(sim_table *t, sim_primary at); /* all of them */
/* A job's id in batches is "job-N". */
unsigned sim_job_number(const char *job);

/* Another copy becomes the primary; the old one does not know. */
void sim_table_fail_over(sim_table *t);

/* The primary's. NULL: there is none. */
const sim_lock_doc *sim_table_locks(const sim_table *t, size_t *n);
const sim_lock_doc *sim_table_lock(const sim_table *t, mt_place place);
mt_session_state sim_table_session_state(const sim_table *t, const char *session);
const sim_entry *sim_table_holder(const sim_table *t, mt_place place, const char *session);

#endif
