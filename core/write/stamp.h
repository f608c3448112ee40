/* Stamps: one field of a document, {"epoch": ID, "fence": N}, says under which lock it was last
 * written, so that a client that has lost a lock can change nothing that its successor has stamped.
 *
 * A script on the server cannot do this, since it would rewrite the source with its fields in
 * another order and its decimals changed. So the stamp is spliced into the bytes here, and each
 * write compares with the version of the document whose stamp was checked, or is a create if there
 * was none: a document stamped since then has another version. */
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
  MT_STAMPED_NOT = 0, /* no stamp, or one of this epoch that is not larger than mine */
  MT_STAMPED_LATER,   /* a larger stamp of this epoch, by a successor */
  MT_STAMPED_FOREIGN, /* of another epoch: the lock table was recreated before or after it */
  MT_STAMPED_BROKEN,  /* the field holds something other than a stamp */
} mt_stamped;

/* Compares the document's stamp with `mine`; `theirs` is zeroed if it has none. */
mt_stamped mt_stamp_look(mt_slice source, const char *field, const mt_stamp *mine,
                         mt_stamp *theirs);

/* The stamp as JSON, terminated. */
void mt_stamp_text(const mt_stamp *stamp, char out[MT_STAMP_TEXT]);

/* Appends the write's body with the stamp (JSON) in its field and no other byte changed. Only
 * updates by `doc`, without an upsert, can be stamped; others are UNSUPPORTED. */
mortise_status mt_stamp_body(mt_write_kind kind, mt_slice body, const char *field, mt_slice stamp,
                             mt_buf *out, mortise_error *err);

/* The document's stamp (JSON), or {NULL, 0}. */
mt_slice mt_stamp_of(mt_slice source, const char *field);

#endif
