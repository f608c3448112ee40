/* The writer's internals, shared by writer.c, which sends requests, and items.c, which decides what
 * an answer means for an item. */
#ifndef MT_WRITE_WRITER_PARTS_H
#define MT_WRITE_WRITER_PARTS_H

#include "write/writer.h"

enum {
  MT_WRITER_EPOCHS = 8, /* remembered epochs older than the lock's */
  MT_WRITER_INDEX = 256,
};

/* A request slot: it processes one range of one batch until each of its items is settled. */
typedef struct mt_lane {
  mt_writer *w;
  mt_write_batch *batch; /* NULL: free */
  size_t first, end;     /* items of the range that may be unsettled */
  mt_write *wire;        /* of the request, as all below; room for `w->config.docs` */
  mt_item **items;
  mt_slice *ids, *routing;
  size_t n, bytes;
  bool versions_only; /* the reading needs only versions */
  size_t limit;       /* documents in a request at the moment */
  mt_buf stamped;     /* the stamped bodies */
  mt_epoch foreign;   /* an unknown epoch found in a stamp, or "" */
  bool out_of_memory; /* for the stamped bodies */
  mt_locks_admin verify;
  uint32_t tries, bad;
  int64_t stuck_ms; /* with `tries`: when the first of them failed */
  char index[MT_WRITER_INDEX];
  mt_bulk bulk;
  mt_mget mget;
  mt_timer timer;
  mt_req *request; /* in flight, or NULL */
  int64_t sent_ms; /* when the bulk was */
} mt_lane;

struct mt_writer {
  mt_store *store;
  const mt_env *env;
  mt_permit permit; /* its lock is NULL: unprotected */
  mt_writer_config config;
  bool stamps;
  bool compares; /* also items without if_version are compared */
  char field[MT_STAMP_FIELD_MAX];
  mt_epoch older[MT_WRITER_EPOCHS]; /* known to come before the lock's epoch */
  size_t n_older;
  size_t bytes; /* in a request at most, halved by a 413 */
  uint32_t docs, in_flight; /* as of now: mt_writer_pace */
  mt_lane *lanes;
  mt_write_batch *head, *tail;
  mt_timer kick; /* reserved */
  bool stopped;
  bool *gone; /* set by mt_writer_free inside a callback */
  mortise_error why, last;
};

/* Settles it as REJECTED with the error's text. */
void mt_item_reject(mt_item *item, const mortise_error *e);
/* Must the document be read before the item can be sent? */
bool mt_item_looks_first(const mt_writer *w, const mt_item *item);
/* What an update creates if there is no document, a part of its body; {NULL, 0}: nothing. */
mt_slice mt_item_upsert(const mt_item *item);
/* Continues with the document that was read for it. */
void mt_item_read(mt_lane *l, mt_item *item, const mt_doc *doc);
/* Continues with the answer to its write. True if it made progress: it is settled or must be read.
 * False: retry later. */
bool mt_item_written(mt_lane *l, mt_item *item, mt_write *sent);
/* Was it refused because the user may not write it, where that ends the batch? */
bool mt_item_forbidden(const mt_writer *w, const mt_write *sent);
/* Puts stamps into the bodies of the request's items and drops items that may not be sent. */
void mt_lane_stamp(mt_lane *l);

#endif
