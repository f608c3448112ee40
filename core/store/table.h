/* Readers of a lock table's records. Anyone with write access may have written anything there, so
 * each kind of record has one reader here, for all stores, which checks types, ranges and lengths.
 * A record that no client would write is `damaged`: it blocks everybody until a person breaks it,
 * however old it is (docs/protocol.md, "What is damaged"). */
#ifndef MT_STORE_TABLE_H
#define MT_STORE_TABLE_H

#include "store/store.h"

bool mt_ns_valid(const char *ns);
bool mt_session_valid(const char *session); /* 32 hex digits, in lower case */

/* An entry of a lock, as a store has it. */
typedef struct mt_entry_parts {
  bool queued;
  bool bad;         /* a member is missing, or of another type */
  mt_slice session; /* any bytes, like all texts here */
  int64_t n;
  mt_mode mode; /* NL: unknown */
  int64_t time; /* of a holder since; of a waiter until */
  mt_slice job;
} mt_entry_parts;

/* A damaged entry becomes an X entry whose `session` is a text for people, never a session's id. */
void mt_entry_read(const mt_entry_parts *parts, mt_lock_entry *out);
void mt_entry_read_json(mt_json entry, bool queued, mt_lock_entry *out);

/* For lists in the form that store.h describes: each appends an object, after a comma unless it is
 * the first. */
void mt_entry_add(mt_buf *out, const mt_lock_entry *entry);
/* `list` should be an array of entries; anything else becomes one damaged entry. */
void mt_entries_add_json(mt_buf *out, mt_json list, bool queued);

typedef struct mt_session_parts {
  bool bad;               /* a member is of another type */
  mt_session_state state; /* MISSING: unknown */
  int64_t lease_ms, opened_ms, beat_ms;
  mt_slice owner, waiting; /* JSON; {NULL, 0}: it has none */
} mt_session_parts;

/* Fills `out`, which owns no text yet, except for `session` and `version`. In a damaged document an
 * unknown state reads as live and a bad lease as the longest; only sound texts are kept. false
 * without memory. */
bool mt_session_read_parts(const mt_session_parts *parts, mt_session_doc *out);
bool mt_session_read_json(mt_json source, mt_session_doc *out);
void mt_session_add(mt_buf *out, mt_slice ns, const mt_session_doc *doc);
void mt_session_doc_deinit(mt_session_doc *doc);
const char *mt_session_state_name(mt_session_state state); /* "live"; NULL of MISSING */
mt_session_state mt_session_state_of(mt_slice name);       /* MISSING: unknown */

#endif
