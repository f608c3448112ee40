/* Ids of documents in the lock table. */
#include "base/hash.h"
#include "elastic/internal.h"

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
    out->failed = MORTISE_OUT_OF_MEMORY; /* the only way in which hashing fails */
  }
}

void mt_session_id(mt_buf *out, const char *ns, const char *session) {
  mt_buf_adds(out, ns);
  mt_buf_adds(out, ":@");
  mt_buf_adds(out, session);
}
