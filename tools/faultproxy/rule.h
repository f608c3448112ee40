/* Rules: which requests go wrong, and how. One line each:
 *
 *   [method=POST] [path=TEXT] [body=TEXT]... [larger=N] [item=TEXT] [nth=N] [times=N] [rate=PERMILLE] ACTION
 *
 * TEXT is contained in the request's path or body; 'in quotes' where it has spaces. `larger`: the body has more bytes
 * than that. `nth`: from the
 * n-th that matches on (1); `times`: so often (1; 0 always). `rate`: instead of both, by chance.
 *
 *   drop-request          the connection is closed, nothing is forwarded
 *   drop-answer           forwarded; closed instead of the answer
 *   duplicate [MS]        forwarded twice, the second time MS after the first, whose answer counts
 *   hold MS               forwarded after MS, also when the client has gone
 *   cut-request [N]       the first N bytes are forwarded (half of them), then both sides closed
 *   cut-answer N          the first N bytes of the answer (-N: without the last N), then closed
 *   reset                 RST instead of forwarding
 *   reset-answer          forwarded; RST instead of the answer
 *   status CODE           answered so, not forwarded
 *   late-status CODE      forwarded, and answered so all the same
 *   item-status I CODE    a bulk without its item I is forwarded; its answer has that item with CODE
 *   item-lie I CODE       forwarded whole; item I of the answer is replaced by one with CODE
 *   slow BYTES            the answer at so many bytes a second
 *   repeat-answer         forwarded; the answer comes once more, when the next request over the same
 *                         connection does, and that one's own after it
 *   old-answer            forwarded; answered by what an earlier request of its kind was answered
 *
 * I is a number from 0, or * for the first item that contains the `item` text. */
#ifndef MT_FAULT_RULE_H
#define MT_FAULT_RULE_H

#include "base/buf.h"

typedef enum fault_action {
  FAULT_NONE = 0,
  FAULT_DROP_REQUEST,
  FAULT_DROP_ANSWER,
  FAULT_DUPLICATE,
  FAULT_HOLD,
  FAULT_CUT_REQUEST,
  FAULT_CUT_ANSWER,
  FAULT_RESET,
  FAULT_RESET_ANSWER,
  FAULT_STATUS,
  FAULT_LATE_STATUS,
  FAULT_ITEM_STATUS,
  FAULT_ITEM_LIE,
  FAULT_SLOW,
  FAULT_REPEAT_ANSWER,
  FAULT_OLD_ANSWER,
} fault_action;

enum { FAULT_TEXTS = 4, FAULT_TEXT_MAX = 160, FAULT_ITEM_BY_TEXT = -1 };

typedef struct fault_rule {
  char method[8], path[FAULT_TEXT_MAX], bodies[FAULT_TEXTS][FAULT_TEXT_MAX];
  char item_text[FAULT_TEXT_MAX];
  size_t n_bodies;
  unsigned larger, nth, times, rate; /* `times` 0: always; `rate` 0: chance plays no part */
  fault_action action;
  int64_t amount; /* milliseconds, bytes, or a status */
  int64_t item;
  unsigned seen, hits;
  char text[512]; /* the line that it was read from */
} fault_rule;

mortise_status fault_rule_parse(const char *line, fault_rule *out, mortise_error *err);
/* Counts the request, and says whether it goes wrong. `chance` is a random number. */
bool fault_rule_applies(fault_rule *r, mt_slice method, mt_slice path, mt_slice body,
                        uint64_t chance);

#endif
