/* Ids of the documents in a lock table. */
#include "base/hash.h"
#include "elastic/internal.h"

enum { NS_MAX = 64 };

static bool word(const char *s, size_t max, const char *more) {
  size_t n = 0;
  for (; s && s[n]; n++)
    if (n == max ||
        !((s[n] >= 'a' && s[n] <= 'z') || (s[n] >= '0' && s[n] <= '9') || strchr(more, s[n])))
      return false;
  return n > 0;
}

bool mt_ns_valid(const char *ns) {
  return word(ns, NS_MAX, "_-");
}

bool mt_session_valid(const char *session) {
  return word(session, MT_SESSION_ID - 1, "_-");
}

void mt_lock_id(mt_buf *out, const char *ns, mt_slice path) {
  char hex[65];
  mt_buf_adds(out, ns);
  mt_buf_addc(out, ':');
  if (strlen(ns) + 1 + path.n <= MT_ID_MAX) {
    mt_buf_addslice(out, path);
  } else if (mt_sha256_hex(path, hex)) {
    mt_buf_adds(out, "sha256:");
    mt_buf_add(out, hex, 64);
  } else {
    out->failed = MORTISE_OUT_OF_MEMORY; /* libcrypto gives no other reason */
  }
}

void mt_session_id(mt_buf *out, const char *ns, const char *session) {
  mt_buf_adds(out, ns);
  mt_buf_adds(out, ":@");
  mt_buf_adds(out, session);
}
