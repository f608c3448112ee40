/* The writer's insides, shared by writer.c, which sends, and items.c, which decides what an answer
 * means for an item. */
#ifndef MT_WRITE_WRITER_PARTS_H
#define MT_WRITE_WRITER_PARTS_H

#include "write/writer.h"

enum {
  MT_WRITER_EPOCHS = 8, /* remembered as older than the lock's */
  MT_WRITER_INDEX = 256,
};

/* A request slot. It works through one range of one batch until each item of it is settled. */
typedef struct mt_lane {
  mt_writer *w;
  mt_write_batch *batch; /* NULL: free */
  size_t first, end;     /* items of the range that may be unsettled */
  mt_write *wire;        /* the request's items, as all below `w->config.docs` of them */
  mt_item **items;
  mt_slice *ids, *routing;
  size_t n, bytes;
  bool versions_only; /* all that is read is read for its version */
  size_t limit;       /* documents in a request at the moment */
  mt_buf stamped;     /* their bodies, where they are stamped */
  mt_epoch foreign;   /* an epoch that was met and is not known, or "" */
  bool out_of_memory; /* for the stamped bodies */
  mt_locks_admin verify;
  uint32_t tries, bad;
  char index[MT_WRITER_INDEX];
  mt_bulk bulk;
  mt_mget mget;
  mt_timer timer;
  mt_req *request; /* under way */
} mt_lane;

struct mt_writer {
  mt_store *store;
  const mt_env *env;
  mt_permit permit; /* its lock NULL: unprotected */
  mt_writer_config config;
  bool stamps;
  bool compares; /* also what has no if_version */
  char field[MT_STAMP_FIELD_MAX];
  mt_epoch older[MT_WRITER_EPOCHS]; /* that are known to come before the lock's */
  size_t n_older;
  size_t bytes; /* in a request at most, halved by a 413 */
  mt_lane *lanes;
  mt_write_batch *head, *tail;
  mt_timer kick; /* reserved */
  bool stopped;
  bool *gone; /* set by mt_writer_free inside a callback */
  mortise_error why, last;
};

/* REJECTED, with what the error says. */
void mt_item_reject(mt_item *item, const mortise_error *e);
/* Must the document be read before the item can be sent? */
bool mt_item_looks_first(const mt_writer *w, const mt_item *item);
/* What an update creates where there is no document: a part of its body; {NULL, 0}: nothing. */
mt_slice mt_item_upsert(const mt_item *item);
/* What reading its document says. */
void mt_item_read(mt_lane *l, mt_item *item, const mt_doc *doc);
/* What the answer to its write says. True when it needs no more waiting: settled, or to be read. */
bool mt_item_written(mt_lane *l, mt_item *item, mt_write *sent);
/* Gives the request's items their bodies with stamps; those that may not be sent leave it. */
void mt_lane_stamp(mt_lane *l);

#endif
