/* Ending the sessions of the dead. A session may be expired when its document has kept the same
 * version for its own lease and our margin, counted on our clock from the arrival of the first
 * answer that showed it; or at once, when its owner ran on this machine and is gone. Nothing that
 * was only read is acted upon: every step to `dead` is an acknowledged write of ours. */
#ifndef MT_LOCK_TAKEOVER_H
#define MT_LOCK_TAKEOVER_H

#include "lock/state.h"

typedef struct mt_seen {
  char id[MT_SESSION_ID];
  mt_version version;
  int64_t since_ms; /* arrival of the first answer with this version */
  int64_t lease_ms;
  mt_session_state state;
  bool known;  /* read at least once */
  bool dead;   /* proven by an acknowledged write of ours */
  bool damaged; /* its document: never proven dead, whatever the time */
  char *owner;  /* owned JSON, or NULL */
} mt_seen;

enum { MT_SEEN_MAX = 1024, MT_LOOK_MAX = 64 };

struct mt_takeover {
  mt_seen *seen;
  size_t n, cap;
  bool busy;
  int64_t next_ms; /* not before */
  const char *ids[MT_LOOK_MAX];
  char id_text[MT_LOOK_MAX][MT_SESSION_ID];
  size_t n_ids;
  size_t at; /* which of them is being written */
  mt_session_read read;
  mt_session_write write;
};

/* Looks at the sessions that block the waits of this process, unless it did so a moment ago or looks
 * already; ends those that are dead, then calls the hook `ended`. `at_once` overrides the pause. */
void mt_takeover_look(mt_manager *m, const mt_lock_entry *entries, size_t n, bool at_once);
bool mt_takeover_busy(const mt_manager *m);
bool mt_takeover_dead(const mt_manager *m, const char *session);
/* Has each of these been read at least once since it was first met? */
bool mt_takeover_known(const mt_manager *m, const mt_lock_entry *entries, size_t n);
bool mt_takeover_damaged(const mt_manager *m, const char *session);
const char *mt_takeover_owner(const mt_manager *m, const char *session); /* JSON or NULL */
void mt_takeover_deinit(mt_manager *m);

#endif
