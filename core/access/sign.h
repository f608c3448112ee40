/* Amazon's Signature Version 4, of a request to its OpenSearch Service. */
#ifndef MT_ACCESS_SIGN_H
#define MT_ACCESS_SIGN_H

#include "base/buf.h"

/* All borrowed for the call. */
typedef struct mt_sign {
  const char *method;
  mt_slice host;   /* as the header Host has it */
  mt_slice target; /* as it is sent: path and query, by mt_sign_target */
  mt_slice body;   /* as it is sent, compressed or not */
  const char *id, *secret;
  const char *session; /* of temporary credentials; "": none */
  const char *region, *service;
  int64_t at_s;        /* since 1970 */
} mt_sign;

enum { MT_SIGN_HEADERS = 4 };

/* Appends a path with its query, with each byte escaped that is not of RFC 3986's unreserved ones: so there is one
 * way only to read what is signed. Escapes that are there stay what they mean; a '+' in the query is a space. */
void mt_sign_target(mt_slice target, mt_buf *out);

/* Writes the headers that sign the request into `out`, each with a NUL behind it, and their number. They must all be
 * sent. OUT_OF_MEMORY; UNSUPPORTED if the library fails. */
mortise_status mt_sign_request(const mt_sign *s, mt_buf *out, size_t *n, mortise_error *err);

#endif
