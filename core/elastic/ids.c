/* Ids of documents in the lock table. */
#include "base/hash.h"
#include "elastic/internal.h"

static void add_id(mt_buf *out, const char *ns, mt_slice name) {
  char hex[65];
  mt_buf_adds(out, ns);
  mt_buf_addc(out, ':');
  if (strlen(ns) + 1 + name.n <= MT_ID_MAX) {
    mt_buf_addslice(out, name);
  } else if (mt_sha256_hex(name, hex)) {
    mt_buf_adds(out, "sha256:");
    mt_buf_add(out, hex, 64);
  } else {
    out->failed = MORTISE_OUT_OF_MEMORY; /* the only way in which hashing fails */
  }
}

void mt_lock_id(mt_buf *out, const char *ns, mt_place place) {
  mt_buf name;
  mt_buf_init(&name, MT_PATH_BUF_MAX);
  mt_place_add_name(&name, place);
  if (name.failed) out->failed = name.failed;
  add_id(out, ns, mt_buf_slice(&name));
  mt_buf_deinit(&name);
}

void mt_session_id(mt_buf *out, const char *ns, const char *session) {
  mt_buf_adds(out, ns);
  mt_buf_adds(out, ":@");
  mt_buf_adds(out, session);
}
