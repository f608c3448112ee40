#include "web_guard.h"

#include "base/number.h"

#include <arpa/inet.h>
#include <string.h>

enum { HOST_MAX = 255 };

static bool is_port(mt_slice text) {
  if (text.n > 5) return false;
  for (size_t i = 0; i < text.n; i++)
    if (text.p[i] < '0' || text.p[i] > '9') return false;
  return true;
}

static bool is_literal(int family, mt_slice text) {
  char copy[INET6_ADDRSTRLEN];
  unsigned char parsed[sizeof(struct in6_addr)];
  if (text.n == 0 || text.n >= sizeof copy) return false;
  memcpy(copy, text.p, text.n);
  copy[text.n] = '\0';
  return inet_pton(family, copy, parsed) == 1;
}

/* "[::1]:8787" */
static bool is_bracketed_ok(mt_slice host) {
  const char *end = memchr(host.p, ']', host.n);
  if (!end) return false;
  mt_slice rest = {end + 1, host.n - (size_t)(end + 1 - host.p)};
  if (rest.n && (rest.p[0] != ':' || !is_port((mt_slice){rest.p + 1, rest.n - 1}))) return false;
  return is_literal(AF_INET6, (mt_slice){host.p + 1, (size_t)(end - host.p) - 1});
}

bool mt_web_host_ok(const char *host, const char *name) {
  mt_slice rest = mt_slice_of(host);
  if (!host || rest.n == 0 || rest.n > HOST_MAX) return false;
  if (host[0] == '[') return is_bracketed_ok(rest);
  mt_slice before = mt_slice_cut(&rest, ':');
  if (!is_port(rest)) return false;
  return is_literal(AF_INET, before) || mt_slice_like(before, MT_SLICE("localhost")) ||
         (name && *name && mt_slice_like(before, mt_slice_of(name)));
}

bool mt_web_origin_ok(const char *origin, const char *host) {
  mt_slice rest = mt_slice_of(origin), http = MT_SLICE("http://"), https = MT_SLICE("https://");
  if (!origin) return true;
  size_t skip = mt_slice_starts(rest, http) ? http.n : mt_slice_starts(rest, https) ? https.n : 0;
  return skip && mt_slice_like((mt_slice){rest.p + skip, rest.n - skip}, mt_slice_of(host));
}

bool mt_web_site_ok(const char *site, const char *mode, bool is_page) {
  if (!site || !strcmp(site, "same-origin") || !strcmp(site, "none")) return true;
  return is_page && mode && !strcmp(mode, "navigate");
}

bool mt_web_same_secret(const char *given, const char *known) {
  if (!given || !known) return false;
  size_t n = strlen(given), m = strlen(known);
  unsigned char differs = n != m;
  for (size_t i = 0; i < n && m > 0; i++) differs |= (unsigned char)(given[i] ^ known[i % m]);
  return !differs && m > 0;
}
