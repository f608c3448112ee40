/* Compresses request bodies at the fastest level, to save network time rather than bytes, and
 * unpacks answers, because libcurl would accept a compressed answer that ends too early. */
#include "base/mem.h"
#include "http/internal.h"

#include <limits.h>
#include <zlib.h>

enum { GZIP_WINDOW = 15 + 16 /* 16: with gzip's header */, GZIP_MEMORY = 8 };

struct mt_gzip {
  z_stream stream;
};

static voidpf zlib_alloc(voidpf ctx, uInt count, uInt size) {
  (void)ctx;
  return mt_calloc(count, size);
}

static void zlib_free(voidpf ctx, voidpf p) {
  (void)ctx;
  mt_free(p);
}

static mt_gzip *make_gzip(void) {
  mt_gzip *gzip = mt_calloc(1, sizeof *gzip);
  if (!gzip) return NULL;
  gzip->stream.zalloc = zlib_alloc;
  gzip->stream.zfree = zlib_free;
  if (deflateInit2(&gzip->stream, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY,
                   Z_DEFAULT_STRATEGY) == Z_OK)
    return gzip;
  mt_free(gzip);
  return NULL;
}

bool mt_gzip_body(mt_gzip **gzip, mt_slice body, mt_buf *out) {
  mt_buf_clear(out);
  if (body.n > UINT_MAX) return false;
  if (!*gzip) *gzip = make_gzip();
  /* Room for less than the body: if it does not get smaller, it is sent uncompressed. */
  char *room = *gzip && body.n ? mt_buf_room(out, body.n - 1) : NULL;
  if (!room) return false;
  z_stream *s = &(*gzip)->stream;
  s->next_in = (Bytef *)(uintptr_t)body.p;
  s->avail_in = (uInt)body.n;
  s->next_out = (Bytef *)room;
  s->avail_out = (uInt)(body.n - 1);
  bool fits = deflate(s, Z_FINISH) == Z_STREAM_END;
  if (fits) out->n = body.n - 1 - s->avail_out;
  deflateReset(s);
  return fits;
}

void mt_gzip_free(mt_gzip *gzip) {
  if (!gzip) return;
  deflateEnd(&gzip->stream);
  mt_free(gzip);
}

/* ---- Answers -------------------------------------------------------------------------------- */

enum { PIECE = 64 * 1024 };

struct mt_gunzip {
  z_stream stream;
  bool fed, ended;
};

static mt_gunzip *make_gunzip(void) {
  mt_gunzip *g = mt_calloc(1, sizeof *g);
  if (!g) return NULL;
  g->stream.zalloc = zlib_alloc;
  g->stream.zfree = zlib_free;
  if (inflateInit2(&g->stream, GZIP_WINDOW) == Z_OK) return g;
  mt_free(g);
  return NULL;
}

bool mt_gunzip_begin(mt_gunzip **gunzip) {
  if (!*gunzip) *gunzip = make_gunzip();
  mt_gunzip *g = *gunzip;
  if (!g) return false;
  g->fed = g->ended = false;
  return inflateReset(&g->stream) == Z_OK;
}

/* Unpacks one piece; if `out` is full, a byte in `extra` shows that there is more. */
static int unpack_piece(mt_gunzip *g, mt_buf *out) {
  z_stream *s = &g->stream;
  size_t left = out->max - out->n, size = left < PIECE ? left : PIECE;
  char extra, *room = size ? mt_buf_room(out, size) : &extra;
  if (!room) return Z_MEM_ERROR;
  s->next_out = (Bytef *)room;
  s->avail_out = size ? (uInt)size : 1;
  int code = inflate(s, Z_NO_FLUSH);
  if (!size) return s->avail_out ? code : Z_BUF_ERROR;
  out->n += size - s->avail_out;
  out->p[out->n] = '\0';
  return code;
}

mt_unpacked mt_gunzip_add(mt_gunzip *g, mt_slice packed, mt_buf *out) {
  z_stream *s = &g->stream;
  s->next_in = (Bytef *)(uintptr_t)packed.p;
  s->avail_in = (uInt)packed.n;
  g->fed |= packed.n > 0;
  do {
    if (g->ended) return s->avail_in ? MT_UNPACKED_BROKEN : MT_UNPACKED;
    bool full = out->n == out->max;
    int code = unpack_piece(g, out);
    g->ended = code == Z_STREAM_END;
    if (code == Z_MEM_ERROR) return MT_UNPACKED_MEMORY;
    if (code == Z_BUF_ERROR && full && !s->avail_out) return MT_UNPACKED_TOO_LARGE;
    if (code == Z_BUF_ERROR) return MT_UNPACKED; /* needs more input */
    if (code != Z_OK && !g->ended) return MT_UNPACKED_BROKEN;
  } while (s->avail_in || !s->avail_out);
  return MT_UNPACKED;
}

bool mt_gunzip_whole(const mt_gunzip *g) {
  return !g->fed || g->ended;
}

void mt_gunzip_free(mt_gunzip *g) {
  if (!g) return;
  inflateEnd(&g->stream);
  mt_free(g);
}
