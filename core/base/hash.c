#include "base/hash.h"

#include <openssl/evp.h>

void mt_hex(const unsigned char *bytes, size_t n, char *out) {
  static const char hex[] = "0123456789abcdef";
  for (size_t i = 0; i < n; i++) {
    out[2 * i] = hex[bytes[i] >> 4];
    out[2 * i + 1] = hex[bytes[i] & 15];
  }
  out[2 * n] = '\0';
}

bool mt_sha256_hex(mt_slice data, char out[65]) {
  unsigned char digest[32];
  unsigned int n = 0;
  out[0] = '\0';
  if (EVP_Digest(data.p, data.n, digest, &n, EVP_sha256(), NULL) != 1 || n != sizeof digest)
    return false;
  mt_hex(digest, sizeof digest, out);
  return true;
}
