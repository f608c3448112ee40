/* Compressing request bodies. The fastest level: the point is the network, not the ratio. */
#include "base/mem.h"
#include "http/internal.h"

#include <limits.h>
#include <zlib.h>

enum { GZIP_WINDOW = 15 + 16 /* 16: with gzip's header */, GZIP_MEMORY = 8 };

struct mt_gzip {
  z_stream stream;
};

static voidpf take(voidpf ctx, uInt count, uInt size) {
  (void)ctx;
  return mt_calloc(count, size);
}

static void give(voidpf ctx, voidpf p) {
  (void)ctx;
  mt_free(p);
}

static mt_gzip *make(void) {
  mt_gzip *gzip = mt_calloc(1, sizeof *gzip);
  if (!gzip) return NULL;
  gzip->stream.zalloc = take;
  gzip->stream.zfree = give;
  if (deflateInit2(&gzip->stream, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY,
                   Z_DEFAULT_STRATEGY) == Z_OK)
    return gzip;
  mt_free(gzip);
  return NULL;
}

bool mt_gzip_body(mt_gzip **gzip, mt_slice body, mt_buf *out) {
  mt_buf_clear(out);
  if (body.n > UINT_MAX) return false;
  if (!*gzip) *gzip = make();
  /* Room for less than the body: what would not get smaller goes plain. */
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
