/* HTTP/1.1 messages as the proxy needs them: where one ends, and its parts. */
#ifndef MT_FAULT_MESSAGE_H
#define MT_FAULT_MESSAGE_H

#include "base/buf.h"

typedef enum fault_progress { FAULT_MORE, FAULT_WHOLE, FAULT_BAD } fault_progress;

/* Slices into the bytes it was read from. */
typedef struct fault_message {
  mt_slice head; /* with the empty line */
  mt_slice body; /* as it came: chunks are still chunks */
  size_t n;      /* bytes of both */
  mt_slice method, path;
  int status;
  bool chunked;
  bool last; /* the connection ends after it */
} fault_message;

/* The first request in `bytes`. One with a chunked body is BAD. */
fault_progress fault_message_request(mt_slice bytes, fault_message *out);
/* The final answer in `bytes`, interim ones (1xx) before it skipped. `headless`: of a HEAD;
 * `ended`: nothing more will come. */
fault_progress fault_message_answer(mt_slice bytes, bool headless, bool ended, fault_message *out);
/* The value of a header in a head, without white space around; {NULL, 0} where there is none. */
mt_slice fault_message_header(mt_slice head, const char *name);
/* Appends the body without chunks; false where it is malformed. */
bool fault_message_body(const fault_message *m, mt_buf *out);

#endif
