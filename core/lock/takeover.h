/* Ending the sessions of dead processes. A session may be expired when its document has kept the
 * same version for its own lease plus our margin, counted on our clock from the first answer that
 * showed that version; or at once when its owner ran on this machine and is gone. Nothing is
 * concluded from reads alone: `dead` is set only by an acknowledged write of ours. */
#ifndef MT_LOCK_TAKEOVER_H
#define MT_LOCK_TAKEOVER_H

#include "lock/state.h"

typedef struct mt_seen {
  char id[MT_SESSION_ID];
  mt_version version;
  int64_t since_ms; /* arrival of the first answer with this version */
  int64_t read_ms;  /* arrival of the last answer */
  int64_t lease_ms;
  mt_session_state state;
  bool known;  /* read at least once */
  bool dead;   /* proven by an acknowledged write of ours */
  bool damaged; /* its document is damaged: never declared dead, however long it stays silent */
  bool sweeping,
      swept;    /* the janitor's: a whole listing is, or was, gone through for its entries */
  char *owner;  /* owned JSON, or NULL */
} mt_seen;

typedef struct mt_ids {
  char (*id)[MT_SESSION_ID];
  size_t n, cap;
} mt_ids;

enum { MT_SEEN_MAX = 2048, MT_LOOK_MAX = 64 };

struct mt_takeover {
  mt_seen *seen;
  size_t n, cap;
  bool busy;
  int64_t next_ms; /* no look before then */
  const char *ids[MT_LOOK_MAX];
  char id_text[MT_LOOK_MAX][MT_SESSION_ID];
  size_t n_ids;
  size_t at; /* index in `ids` of the one being written */
  mt_session_read read;
  mt_session_write write;
};

/* Reads the sessions that block the waits of this process, expires those that are dead, then calls
 * the hook `ended`. Does nothing during a look or the pause after one; `at_once` skips the
 * pause. */
void mt_takeover_look(mt_manager *m, const mt_lock_entry *entries, size_t n, bool at_once);
bool mt_takeover_busy(const mt_manager *m);
bool mt_takeover_dead(const mt_manager *m, const char *session);
/* Has each of these sessions been read at least once? */
bool mt_takeover_known(const mt_manager *m, const mt_lock_entry *entries, size_t n);
bool mt_takeover_damaged(const mt_manager *m, const char *session);
const char *mt_takeover_owner(const mt_manager *m, const char *session); /* JSON or NULL */
void mt_takeover_deinit(mt_manager *m);

/* For the janitor, which looks at sessions that block nobody. */
const mt_seen *mt_takeover_seen(const mt_manager *m, const char *session); /* NULL: never read */
/* What a read showed. */
void mt_takeover_note(mt_manager *m, const mt_session_doc *doc);
/* Fills in the write that would prove it dead, without `req`, `ns` and `session`; false if it may be
 * alive, is known dead already, or a person must decide. */
bool mt_takeover_verdict(mt_manager *m, const char *session, mt_session_write *w);
/* That write was answered. */
void mt_takeover_answered(mt_manager *m, const mt_session_write *w);
/* A look through all entries begins: adds the dead sessions for which that has not been done. */
void mt_takeover_sweep_begin(mt_manager *m, mt_ids *dead);
void mt_takeover_sweep_end(mt_manager *m);
/* An entry of this dead session was found after the look through all of them. */
void mt_takeover_found_again(mt_manager *m, const char *session);

#endif
