#include "base/hash.h"

#include <openssl/evp.h>

bool mt_sha256_hex(mt_slice data, char out[65]) {
  unsigned char digest[32];
  unsigned int n = 0;
  out[0] = '\0';
  if (EVP_Digest(data.p, data.n, digest, &n, EVP_sha256(), NULL) != 1 || n != sizeof digest)
    return false;
  static const char hex[] = "0123456789abcdef";
  for (size_t i = 0; i < sizeof digest; i++) {
    out[2 * i] = hex[digest[i] >> 4];
    out[2 * i + 1] = hex[digest[i] & 15];
  }
  out[64] = '\0';
  return true;
}
