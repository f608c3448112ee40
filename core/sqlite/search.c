#include "sqlite/docs.h"
mortise_status mt_docs_search(mt_work *w, mt_req *req, mortise_error *err) {
  (void)w; (void)req;
  return mt_error_set(err, MORTISE_UNSUPPORTED, "search");
}
