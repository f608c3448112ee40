/* What a lock table holds, read. Whoever may write there may have written anything, so each kind of
 * record has one reader here, for all stores, which checks types, ranges and lengths. What no client
 * writes is `damaged`: it stands in everybody's way until a person breaks it, whatever the time
 * (docs/protocol.md, "What is damaged"). */
#ifndef MT_STORE_TABLE_H
#define MT_STORE_TABLE_H

#include "store/store.h"

bool mt_ns_valid(const char *ns);
bool mt_session_valid(const char *session); /* 32 hex digits, in lower case */

/* An entry of a lock, as a store has it. */
typedef struct mt_entry_parts {
  bool queued;
  bool bad;         /* a member is missing, or of another type */
  mt_slice session; /* any bytes, as all texts here */
  int64_t n;
  mt_mode mode; /* NL: none that there is */
  int64_t time; /* since; of one that waits, until */
  mt_slice job;
} mt_entry_parts;

/* A damaged entry is an exclusive one, whose session is a text for people: never a session's id. */
void mt_entry_read(const mt_entry_parts *parts, mt_lock_entry *out);
void mt_entry_read_json(mt_json entry, bool queued, mt_lock_entry *out);

/* Lists, as store.h says. Each appends an object, with a comma where it is not the first. */
void mt_entry_add(mt_buf *out, const mt_lock_entry *entry);
/* `list` is an array of entries; what is none becomes one damaged entry. */
void mt_entries_add_json(mt_buf *out, mt_json list, bool queued);

typedef struct mt_session_parts {
  bool bad;               /* a member is of another type */
  mt_session_state state; /* MISSING: none that there is */
  int64_t lease_ms, opened_ms, beat_ms;
  mt_slice owner, waiting; /* JSON; {NULL, 0}: it has none */
} mt_session_parts;

/* Into `out`, which holds no text yet; its `session` and `version` are the caller's. A damaged one
 * counts as live, its lease as the longest there is, and it has only what is sound of its texts.
 * false without memory. */
bool mt_session_read_parts(const mt_session_parts *parts, mt_session_doc *out);
bool mt_session_read_json(mt_json source, mt_session_doc *out);
void mt_session_add(mt_buf *out, mt_slice ns, const mt_session_doc *doc);
void mt_session_doc_deinit(mt_session_doc *doc);
const char *mt_session_state_name(mt_session_state state); /* "live"; NULL of MISSING */
mt_session_state mt_session_state_of(mt_slice name);       /* MISSING: none that there is */

#endif
