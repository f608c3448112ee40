/* Splits bulk requests and their answers into items. */
#ifndef MT_FAULT_BULK_H
#define MT_FAULT_BULK_H

#include "base/buf.h"

/* The item numbered `i`, with all its lines; false behind the last. */
bool fault_bulk_item(mt_slice body, size_t i, mt_slice *out);
/* The first item that contains `text` ("" the first of all). */
bool fault_bulk_find(mt_slice body, const char *text, size_t *i);

/* Appends `answer` with a failed item at position `i`: instead of the one there, or before it.
 * `item` is the request's. An empty `answer` stands for one without items. */
bool fault_bulk_splice(mt_slice answer, mt_slice item, size_t i, int status, bool instead,
                       mt_buf *out);
/* A server's name for such a failure. */
const char *fault_error_type(int status);

#endif
