#include "store/table.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <stdio.h>

enum {
  NS_MAX = 64,
  OWNER_MAX = 64 << 10, /* clients write at most 8 KiB, or twice that once it names who broke it */
  WAITING_MAX = 256 << 10,
};

static bool word(mt_slice s, const char *letters, size_t least, size_t most) {
  if (s.n < least || s.n > most) return false;
  for (size_t i = 0; i < s.n; i++)
    if (!s.p[i] || !strchr(letters, s.p[i])) return false;
  return true;
}

bool mt_ns_valid(const char *ns) {
  return ns && word(mt_slice_of(ns), "abcdefghijklmnopqrstuvwxyz0123456789_-", 1, NS_MAX);
}

static bool is_session(mt_slice id) {
  return word(id, "0123456789abcdef", MT_SESSION_ID - 1, MT_SESSION_ID - 1);
}

bool mt_session_valid(const char *session) {
  return session && is_session(mt_slice_of(session));
}

/* ---- Entries -------------------------------------------------------------------------------- */

static bool is_sound(const mt_entry_parts *p) {
  return !p->bad && is_session(p->session) && p->n >= 0 && p->mode > MT_NL && p->mode <= MT_X &&
         p->time >= 0 && mt_utf8_valid(p->job) == p->job.n;
}

/* Cuts between characters. */
static void copy_cut(mt_slice text, char *out, size_t size) {
  size_t n = text.n < size ? text.n : mt_utf8_valid((mt_slice){text.p, size - 1});
  if (n) memcpy(out, text.p, n);
  out[n] = '\0';
}

/* Shortens a damaged id of full length, so that nobody takes it for a session's id. */
static void show_session(mt_slice text, char out[MT_SESSION_ID]) {
  enum { CUT = MT_SESSION_ID - 5 };
  copy_cut(text, out, MT_SESSION_ID);
  if (text.n >= MT_SESSION_ID - 1) snprintf(out + CUT, MT_SESSION_ID - CUT, "...");
  mt_utf8_tame(out);
}

void mt_entry_read(const mt_entry_parts *p, mt_lock_entry *out) {
  bool sound = is_sound(p);
  *out = (mt_lock_entry){.mode = sound ? p->mode : MT_X,
                         .n = p->n > 0 ? (uint64_t)p->n : 0,
                         .queued = p->queued,
                         .damaged = !sound};
  if (p->queued) /* a damaged waiter never expires */
    out->until_ms = sound ? p->time : INT64_MAX;
  else
    out->since_ms = p->time > 0 ? p->time : 0;
  if (!sound) {
    show_session(p->session, out->session);
    return;
  }
  copy_cut(p->session, out->session, sizeof out->session);
  copy_cut(p->job, out->job, sizeof out->job);
}

/* Decodes a string; `out` must be larger than any that a client writes, so that too long ones are
 * noticed. */
static bool take_entry_text(mt_json entry, const char *key, char *out, size_t size,
                            mt_slice *text) {
  mt_json value = mt_json_get(entry, key);
  *text = mt_slice_of(mt_json_copy(value, out, size));
  return value.type == MT_JSON_STRING;
}

static bool take_time(mt_json entry, const char *key, bool required, int64_t *out) {
  mt_json value = mt_json_get(entry, key);
  return value.type ? mt_json_int(value, out) : !required;
}

void mt_entry_read_json(mt_json entry, bool queued, mt_lock_entry *out) {
  mt_entry_parts p = {.queued = queued, .bad = entry.type != MT_JSON_OBJECT};
  mt_slice mode;
  char id[2 * MT_SESSION_ID], name[8], job[MT_JOB_MAX + 1];
  p.bad |= !take_entry_text(entry, "session", id, sizeof id, &p.session);
  p.bad |=
      !take_entry_text(entry, "mode", name, sizeof name, &mode) || !mt_mode_parse(mode, &p.mode);
  p.bad |=
      !take_entry_text(entry, "job", job, sizeof job, &p.job) && mt_json_get(entry, "job").type;
  p.bad |= !mt_json_int(mt_json_get(entry, "n"), &p.n);
  p.bad |= !take_time(entry, queued ? "until" : "since", queued, &p.time);
  mt_entry_read(&p, out);
}

static void open_entry(mt_buf *out) {
  mt_buf_adds(out, out->n && out->p[out->n - 1] == '}' ? ",{" : "{");
}

static void add_damaged(mt_buf *out, bool damaged) {
  if (damaged) mt_buf_adds(out, ",\"damaged\":true");
}

void mt_entry_add(mt_buf *out, const mt_lock_entry *e) {
  open_entry(out);
  mt_json_add_text(out, "session", mt_slice_of(e->session));
  mt_json_add_int(out, "n", (int64_t)e->n);
  mt_json_add_text(out, "mode", mt_slice_of(mt_mode_name(e->mode)));
  if (e->queued || e->since_ms)
    mt_json_add_int(out, e->queued ? "until" : "since", e->queued ? e->until_ms : e->since_ms);
  if (*e->job) mt_json_add_text(out, "job", mt_slice_of(e->job));
  add_damaged(out, e->damaged);
  mt_buf_addc(out, '}');
}

void mt_entries_add_json(mt_buf *out, mt_json list, bool queued) {
  mt_lock_entry entry;
  mt_buf_addc(out, '[');
  for (mt_json_iter it = mt_json_items(list); list.type == MT_JSON_ARRAY && mt_json_next(&it);) {
    mt_entry_read_json(it.value, queued, &entry);
    mt_entry_add(out, &entry);
  }
  if (list.type != MT_JSON_ARRAY) {
    mt_entry_read_json(list, queued, &entry); /* reported as one damaged entry */
    entry.damaged = true;
    mt_entry_add(out, &entry);
  }
  mt_buf_addc(out, ']');
}

/* ---- Sessions ------------------------------------------------------------------------------- */

static const char *const states[] = {[MT_SESSION_LIVE] = "live",
                                     [MT_SESSION_EXPIRED] = "expired",
                                     [MT_SESSION_CLOSED] = "closed",
                                     [MT_SESSION_BROKEN] = "broken"};

enum { STATES = sizeof states / sizeof *states };

const char *mt_session_state_name(mt_session_state state) {
  return (unsigned)state < STATES ? states[state] : NULL;
}

mt_session_state mt_session_state_of(mt_slice name) {
  for (int i = MT_SESSION_LIVE; i < STATES; i++)
    if (mt_slice_eq(name, mt_slice_of(states[i]))) return (mt_session_state)i;
  return MT_SESSION_MISSING;
}

/* Copies JSON of the given type; anything else marks the document damaged. false without memory. */
static bool keep_json(mt_slice text, mt_json_type type, size_t most, char **out, bool *damaged) {
  mt_json value;
  if (!text.p) return true;
  if (text.n > most || mt_json_parse(text, "it", &value, NULL) || value.type != type) {
    *damaged = true;
    return true;
  }
  *out = mt_strndup(text.p, text.n);
  return *out != NULL;
}

static int64_t number_or_damaged(int64_t value, int64_t least, int64_t most, int64_t otherwise,
                                 bool *damaged) {
  if (value >= least && value <= most) return value;
  *damaged = true;
  return otherwise;
}

bool mt_session_read_parts(const mt_session_parts *p, mt_session_doc *out) {
  bool damaged = p->bad || !mt_session_state_name(p->state);
  out->state = mt_session_state_name(p->state) ? p->state : MT_SESSION_LIVE;
  out->lease_ms = number_or_damaged(p->lease_ms, 1, MT_LEASE_MAX_MS, MT_LEASE_MAX_MS, &damaged);
  out->opened_ms = number_or_damaged(p->opened_ms, 0, INT64_MAX, 0, &damaged);
  out->beat_ms = number_or_damaged(p->beat_ms, 0, INT64_MAX, 0, &damaged);
  bool kept = keep_json(p->owner, MT_JSON_OBJECT, OWNER_MAX, &out->owner, &damaged) &&
              keep_json(p->waiting, MT_JSON_ARRAY, WAITING_MAX, &out->waiting, &damaged);
  /* A session that has ended stays ended, whatever else its document says. */
  out->damaged = damaged && out->state != MT_SESSION_EXPIRED && out->state != MT_SESSION_CLOSED;
  return kept;
}

bool mt_session_read_json(mt_json source, mt_session_doc *out) {
  mt_session_parts p = {0};
  mt_slice state = {NULL, 0};
  p.bad = !mt_json_plain(mt_json_get(source, "state"), &state);
  p.bad |= !take_time(source, "lease_ms", true, &p.lease_ms);
  p.bad |= !take_time(source, "opened", false, &p.opened_ms);
  p.bad |= !take_time(source, "beat_at", false, &p.beat_ms);
  p.state = mt_session_state_of(state);
  p.owner = mt_json_get(source, "owner").raw;
  p.waiting = mt_json_get(source, "waiting").raw;
  return mt_session_read_parts(&p, out);
}

static void add_json(mt_buf *out, const char *key, const char *json) {
  mt_json_add_key(out, key);
  mt_buf_adds(out, json ? json : "null");
}

void mt_session_add(mt_buf *out, mt_slice ns, const mt_session_doc *doc) {
  open_entry(out);
  mt_json_add_text(out, "ns", ns);
  mt_json_add_text(out, "session", mt_slice_of(doc->session));
  mt_json_add_text(out, "state", mt_slice_of(mt_session_state_name(doc->state)));
  mt_json_add_int(out, "lease_ms", doc->lease_ms);
  mt_json_add_int(out, "opened", doc->opened_ms);
  mt_json_add_int(out, "beat_at", doc->beat_ms);
  add_json(out, "owner", doc->owner);
  add_json(out, "waiting", doc->waiting);
  add_damaged(out, doc->damaged);
  mt_buf_addc(out, '}');
}

void mt_session_doc_deinit(mt_session_doc *doc) {
  mt_free(doc->owner);
  mt_free(doc->waiting);
  doc->owner = doc->waiting = NULL;
}
