/* The last answers that went through the proxy, with their requests. */
#ifndef MT_FAULT_PAST_H
#define MT_FAULT_PAST_H

#include "message.h"

enum { FAULT_PAST = 32 };

typedef struct fault_past {
  struct fault_past_one {
    mt_buf path; /* without the query */
    mt_buf ids;  /* the ids of its documents */
    mt_buf answer;
  } all[FAULT_PAST];
  size_t n; /* so far */
} fault_past;

void fault_past_init(fault_past *past);
void fault_past_deinit(fault_past *past);
void fault_past_add(fault_past *past, mt_slice path, mt_slice body, mt_slice answer);
/* The latest answer to a request for the same documents, or else to the same path, or else to any request.
 * Empty if there is none. Borrowed. */
mt_slice fault_past_find(const fault_past *past, mt_slice path, mt_slice body);

#endif
