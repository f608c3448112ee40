#include "job/known.h"

#include "base/mem.h"

#include <stdlib.h>

/* ---- Hashes --------------------------------------------------------------------------------- */

/* FNV-1a; each text ends with a byte that no UTF-8 has. */
static uint64_t add_to_hash(uint64_t h, mt_slice text) {
  const uint64_t prime = UINT64_C(0x100000001b3);
  for (size_t i = 0; i < text.n; i++) h = (h ^ (unsigned char)text.p[i]) * prime;
  return (h ^ 0xff) * prime;
}

/* The high bits of that reach the low ones, by which parts are told (MurmurHash3's finalizer). */
static uint64_t spread_bits(uint64_t h) {
  h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
  h = (h ^ h >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
  return h ^ h >> 33;
}

static uint64_t hash_document(mt_slice index, mt_slice routing, mt_slice id) {
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  return spread_bits(add_to_hash(add_to_hash(add_to_hash(h, index), routing), id));
}

static int compare_hashes(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* ---- Reading the journal -------------------------------------------------------------------- */

static void finish_known(mt_known *k, const mortise_error *e) {
  if (e) k->error = *e;
  if (k->n) qsort(k->hashes, k->n, sizeof *k->hashes, compare_hashes);
  k->done(k->ctx, k);
}

/* Twice as many parts, and of the first one only what is still of it. */
static void divide(mt_known *k) {
  size_t kept = 0;
  k->parts *= 2;
  for (size_t i = 0; i < k->n; i++)
    if (k->hashes[i] % k->parts == 0) k->hashes[kept++] = k->hashes[i];
  k->n = kept;
}

/* Parts are about, but not exactly, equal. */
static mortise_status add_hash(mt_known *k, uint64_t hash, mortise_error *err) {
  const size_t room = 2 * (size_t)MT_KNOWN_MAX, most = k->most ? k->most : MT_KNOWN_MAX;
  if (k->part == 0 && k->n >= most) divide(k);
  if (hash % k->parts != k->part) return MORTISE_OK;
  if (!mt_grow((void **)&k->hashes, &k->cap, k->n + 1, sizeof *k->hashes, room))
    return mt_error_memory(err);
  k->hashes[k->n++] = hash;
  return MORTISE_OK;
}

static void read_next_batch(mt_known *k);

static void on_known_batch(void *ctx, mt_batch_read *r) {
  mt_known *k = ctx;
  mortise_error err = r->error;
  for (size_t i = 0; !err.code && i < r->batch.n; i++) {
    const mt_journal_entry *e = &r->batch.entries[i];
    add_hash(k, hash_document(e->index, e->routing, e->id), &err);
  }
  mt_batch_read_deinit(r);
  k->number++;
  if (err.code)
    finish_known(k, &err);
  else
    read_next_batch(k);
}

static uint64_t batches_of(const mt_known *k) {
  return k->attempt == k->record->attempts ? k->last : k->record->batches[k->attempt - 1];
}

static void read_next_batch(mt_known *k) {
  while (k->attempt <= k->record->attempts && k->number >= batches_of(k)) {
    k->attempt++;
    k->number = 0;
  }
  if (k->attempt > k->record->attempts) {
    finish_known(k, NULL);
    return;
  }
  k->read = (mt_batch_read){.done = on_known_batch,
                            .ctx = k,
                            .of = k->of,
                            .attempt = k->attempt,
                            .number = k->number,
                            .no_documents = true};
  mt_batch_read_start(&k->read);
}

void mt_known_start(mt_known *k) {
  mt_error_clear(&k->error);
  k->n = 0;
  k->attempt = 1;
  k->number = 0;
  if (k->part == 0) k->parts = 1;
  read_next_batch(k);
}

/* ---- Asking --------------------------------------------------------------------------------- */

bool mt_known_skips(const mt_known *k, const mt_doc *doc) {
  if (!k->n && k->parts == 1) return false;
  uint64_t hash = hash_document(doc->index, doc->routing, doc->id);
  if (hash % k->parts != k->part) return true;
  return k->n && bsearch(&hash, k->hashes, k->n, sizeof hash, compare_hashes);
}

void mt_known_stop(mt_known *k) {
  mt_batch_read_deinit(&k->read);
}

void mt_known_deinit(mt_known *k) {
  mt_known_stop(k);
  mt_free(k->hashes);
  *k = (mt_known){0};
}
