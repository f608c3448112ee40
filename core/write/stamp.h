/* Stamps: a document says which lock it was last written under, as {"epoch": ID, "fence": N} in one
 * field of it, so that who has lost a lock can change nothing its successor has stamped.
 *
 * No script does this: one would write the source anew from tables, in another order of its fields
 * and with other decimals. The stamp is spliced into the bytes here, and each write carries the
 * version of the document whose stamp was looked at (or is a create, where there was none): what
 * was stamped since then has another version. */
#ifndef MT_WRITE_STAMP_H
#define MT_WRITE_STAMP_H

#include "store/store.h"

#define MT_STAMP_FIELD "mortise_stamp"

enum { MT_STAMP_FIELD_MAX = 256, MT_STAMP_TEXT = 96 };

typedef struct mt_stamp {
  mt_epoch epoch;
  uint64_t fence;
} mt_stamp;

typedef enum mt_stamped {
  MT_STAMPED_NOT = 0, /* it has none, or one of this epoch that is not larger than mine */
  MT_STAMPED_LATER,   /* a larger one of this epoch: by a successor */
  MT_STAMPED_FOREIGN, /* of another epoch: from before the lock table was made anew, or after */
  MT_STAMPED_BROKEN,  /* the field holds something that is no stamp */
} mt_stamped;

/* What the document's field says to a writer with the stamp `mine`. `theirs` is zeroed where it has
 * none. */
mt_stamped mt_stamp_look(mt_slice source, const char *field, const mt_stamp *mine,
                         mt_stamp *theirs);

/* The stamp as JSON, terminated. */
void mt_stamp_text(const mt_stamp *stamp, char out[MT_STAMP_TEXT]);

/* Appends the body of such a write with the stamp (JSON) in its field, and no other byte changed.
 * Of updates only those by `doc` alone can be stamped: else UNSUPPORTED. */
mortise_status mt_stamp_body(mt_write_kind kind, mt_slice body, const char *field, mt_slice stamp,
                             mt_buf *out, mortise_error *err);

/* The stamp (JSON) that the document has; {NULL, 0} where it has none. */
mt_slice mt_stamp_of(mt_slice source, const char *field);

#endif
