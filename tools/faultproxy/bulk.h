/* Splits bulk requests and their answers into items. */
#ifndef MT_FAULT_BULK_H
#define MT_FAULT_BULK_H

#include "base/buf.h"

/* The item with the number `i`, with all its lines. False after the last one. */
bool fault_bulk_item(mt_slice body, size_t i, mt_slice *out);
/* The first item that contains `text`, which may be "". */
bool fault_bulk_find(mt_slice body, const char *text, size_t *i);

/* Appends `answer` with a failed item at position `i`: instead of the one there, or before it.
 * `item` is the request's. An empty `answer` stands for one without items. */
bool fault_bulk_splice(mt_slice answer, mt_slice item, size_t i, int status, bool instead,
                       mt_buf *out);
/* The name that a server gives to such a failure. */
const char *fault_error_type(int status);

#endif
