/* Checks that every piece of work makes before it reads, writes and commits. */
#include "sqlite/internal.h"

mortise_status mt_work_check(mt_work *w, mortise_error *err) {
  return mt_patience_check(&w->patience, w->db->file, err);
}

static mortise_status check_may_send(mt_work *w, mortise_error *err) {
  mt_req *req = w->req;
  if (!req->may_send || req->may_send(req->may_send_ctx)) return MORTISE_OK;
  return mt_error_set(err, MORTISE_LOCK_LOST,
                      "%s: held back, since the lock is no longer held for sure", w->db->file);
}

mortise_status mt_work_read(mt_work *w, mortise_error *err) {
  return mt_db_read(w->db, &w->patience, err);
}

mortise_status mt_work_write(mt_work *w, mortise_error *err) {
  mortise_status status = mt_work_check(w, err);
  if (!status) status = check_may_send(w, err);
  return status ? status : mt_db_write(w->db, &w->patience, err);
}

mortise_status mt_work_missing(mt_work *w, mt_req *req, mortise_error *err) {
  (void)req;
  return mt_error_set(err, MORTISE_NOT_FOUND,
                      "there is no store %s: its first document or lock would make it",
                      w->documents);
}

mortise_status mt_work_commit(mt_work *w, mortise_error *err) {
  mortise_status status = check_may_send(w, err);
  if (status) return status;
  w->req->writes = true;
  return mt_db_commit(w->db, err);
}
