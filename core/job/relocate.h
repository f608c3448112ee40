/* Documents of a batch that get another id: each is created under the new one, and when that is acknowledged the
 * old one is deleted. How a killed process's are settled says moved.h. */
#ifndef MT_JOB_RELOCATE_H
#define MT_JOB_RELOCATE_H

#include "write/writer.h"

/* Is it the creation of such a document? */
bool mt_relocates(const mt_item *item);

/* For a batch's `again`: what becomes of it if there is a document under the new id, or was: it stays what it is,
 * under its old one. */
mt_again mt_relocate_taken(mt_item *item, const mt_doc *doc);

/* The deletions of the old ones, of those that were created. `docs` has the document of each item. Owned. -> false:
 * there is no memory */
bool mt_relocate_olds(const mt_write_batch *b, const mt_doc *const *docs, mt_item **olds,
                      size_t *cap, size_t *n);

/* Those that were created are done only if the old ones are deleted, which `clearing` has tried; nobody knows that
 * if it has no items. Sets the batch's outcomes, counts and error. */
void mt_relocate_conclude(mt_write_batch *b, const mt_write_batch *clearing);

#endif
