#include "base/pack.h"

#include "base/mem.h"

#include <openssl/evp.h>
#include <zstd.h>

enum {
  LEVEL =
      1, /* the point is that a journal costs little time; higher ones gain little on documents */
  BYTES_MAX = 1 << 30,
};

struct mt_packer {
  ZSTD_CCtx *zstd;
  mt_buf small;
};

void mt_packer_free(mt_packer *packer) {
  if (!packer) return;
  ZSTD_freeCCtx(packer->zstd);
  mt_buf_deinit(&packer->small);
  mt_free(packer);
}

static mt_packer *make_packer(void) {
  mt_packer *p = mt_calloc(1, sizeof *p);
  if (!p) return NULL;
  mt_buf_init(&p->small, BYTES_MAX);
  p->zstd = ZSTD_createCCtx();
  bool good = p->zstd &&
              !ZSTD_isError(ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_compressionLevel, LEVEL)) &&
              !ZSTD_isError(ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_checksumFlag, 1));
  if (good) return p;
  mt_packer_free(p);
  return NULL;
}

static mortise_status too_large(mt_slice bytes, mortise_error *err) {
  return mt_error_set(err, MORTISE_REJECTED, "%zu bytes are too many to be packed", bytes.n);
}

mortise_status mt_pack(mt_packer **packer, mt_slice bytes, mt_buf *out, mortise_error *err) {
  size_t most = ZSTD_compressBound(bytes.n);
  if (bytes.n > BYTES_MAX || most > BYTES_MAX) return too_large(bytes, err);
  if (!*packer) *packer = make_packer();
  if (!*packer) return mt_error_memory(err);
  mt_buf *small = &(*packer)->small;
  mt_buf_clear(small);
  char *room = mt_buf_room(small, most);
  if (!room) return mt_error_memory(err);
  size_t n = ZSTD_compress2((*packer)->zstd, room, most, bytes.p, bytes.n);
  if (ZSTD_isError(n)) return mt_error_memory(err); /* with room enough, nothing else can fail */
  size_t digits = (n + 2) / 3 * 4;
  char *text = mt_buf_room(out, digits + 1); /* and a NUL */
  if (!text) return mt_buf_status(out, "what is packed", err);
  EVP_EncodeBlock((unsigned char *)text, (const unsigned char *)room, (int)n);
  out->n += digits;
  return MORTISE_OK;
}

static mortise_status not_packed(mortise_error *err) {
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "it is not what was packed");
}

/* Decoding gives whole groups of three; what "=" stands for is none. */
static bool decode_base64(mt_slice text, mt_buf *small) {
  size_t padding = 0;
  while (padding < 2 && padding < text.n && text.p[text.n - 1 - padding] == '=') padding++;
  if (!text.n || text.n % 4 || text.n > BYTES_MAX) return false;
  char *room = mt_buf_room(small, text.n / 4 * 3);
  int n = room ? EVP_DecodeBlock((unsigned char *)room, (const unsigned char *)text.p, (int)text.n)
               : -1;
  if (n < 0 || (size_t)n != text.n / 4 * 3) return false;
  small->n = (size_t)n - padding;
  return true;
}

static mortise_status expand(mt_slice small, mt_buf *out, mortise_error *err) {
  unsigned long long size = ZSTD_getFrameContentSize(small.p, small.n);
  if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR) return not_packed(err);
  if (size > out->max - out->n)
    return mt_error_set(err, MORTISE_REJECTED,
                        "what was packed has %llu bytes, more than the %zu here", size, out->max);
  char *room = mt_buf_room(out, (size_t)size);
  if (!room) return mt_buf_status(out, "what was packed", err);
  size_t n = ZSTD_decompress(room, (size_t)size, small.p, small.n);
  if (ZSTD_isError(n) || n != size) return not_packed(err);
  out->n += n;
  return MORTISE_OK;
}

mortise_status mt_unpack(mt_slice text, mt_buf *out, mortise_error *err) {
  mt_buf small;
  mt_buf_init(&small, BYTES_MAX);
  mortise_status status = MORTISE_OK;
  if (decode_base64(text, &small))
    status = expand(mt_buf_slice(&small), out, err);
  else
    status = small.failed ? mt_buf_status(&small, "what was packed", err) : not_packed(err);
  mt_buf_deinit(&small);
  return status;
}
