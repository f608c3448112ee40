/* Texts taken out of buffers, which stay where they are until all are freed together. */
#ifndef MT_BASE_KEPT_H
#define MT_BASE_KEPT_H

#include "base/buf.h"

typedef struct mt_kept mt_kept; /* a list; NULL: empty */

/* Takes the buffer's text, which is then the list's. False without memory, or if the buffer failed: then
 * nothing is kept. */
bool mt_kept_take(mt_kept **list, mt_buf *from, mt_slice *text);
void mt_kept_free(mt_kept **list);

#endif
