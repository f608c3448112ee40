#include "job/result.h"

#include <stdio.h>

void mt_result_reject(mt_change_result *r, mt_slice id, const char *type, const char *reason) {
  if (r->rejected < MT_REJECTS_SHOWN) {
    mt_reject *to = &r->rejects[r->rejected];
    snprintf(to->id, sizeof to->id, "%.*s",
             (int)(id.n < MT_REJECT_ID_MAX ? id.n : MT_REJECT_ID_MAX), id.p);
    snprintf(to->type, sizeof to->type, "%s", type);
    snprintf(to->reason, sizeof to->reason, "%.159s", reason);
  }
  r->rejected++;
}
