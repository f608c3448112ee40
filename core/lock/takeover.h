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
  int64_t lease_ms;
  mt_session_state state;
  bool known;  /* read at least once */
  bool dead;   /* proven by an acknowledged write of ours */
  bool damaged; /* its document is damaged: never declared dead, however long it stays silent */
  char *owner;  /* owned JSON, or NULL */
} mt_seen;

enum { MT_SEEN_MAX = 1024, MT_LOOK_MAX = 64 };

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

#endif
