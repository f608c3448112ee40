/* The list of nodes: "https://a:9200,b:9200/prefix". */
#include "base/mem.h"
#include "base/number.h"
#include "http/internal.h"

#include <arpa/inet.h>
#include <openssl/evp.h>
#include <stdio.h>

enum { LIST_MAX = 16384, PREFIX_MAX = 1024 };

/* The parts of one entry. */
typedef struct entry {
  mt_slice scheme, host, port, prefix;
} entry;

bool mt_host_is_local(const char *host) {
  size_t n = strlen(host);
  if (mt_slice_like(mt_slice_of(host), MT_SLICE("localhost")) || !strcmp(host, "::1")) return true;
  if (n > 10 && mt_slice_like(mt_slice_of(host + n - 10), MT_SLICE(".localhost"))) return true;
  struct in_addr address;
  return inet_pton(AF_INET, host, &address) == 1 && (ntohl(address.s_addr) >> 24) == 127;
}

static mortise_status bad(mortise_error *err, size_t number, const char *why) {
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "URL of node %zu: %s", number, why);
}

static size_t slice_find(mt_slice s, const char *any) {
  size_t i = 0;
  while (i < s.n && !strchr(any, s.p[i])) i++;
  return i;
}

static mt_slice cut(mt_slice s, size_t from, size_t to) {
  return (mt_slice){s.p + from, to - from};
}

/* Splits off "scheme://". */
static const char *split_scheme(mt_slice *text, entry *e) {
  const char *sign = memmem(text->p, text->n, "://", 3);
  if (!sign) return NULL;
  size_t n = (size_t)(sign - text->p);
  e->scheme = cut(*text, 0, n);
  *text = cut(*text, n + 3, text->n);
  bool known =
      mt_slice_like(e->scheme, MT_SLICE("http")) || mt_slice_like(e->scheme, MT_SLICE("https"));
  return known ? NULL : "its scheme is neither http nor https";
}

static const char *split_host(mt_slice authority, entry *e) {
  mt_slice rest;
  if (authority.n && authority.p[0] == '[') {
    size_t end = slice_find(authority, "]");
    if (end == authority.n) return "'[' without ']'";
    e->host = cut(authority, 1, end);
    rest = cut(authority, end + 1, authority.n);
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;
    if (e->host.n >= sizeof text) return "not an IPv6 address between the brackets";
    memcpy(text, e->host.p, e->host.n);
    text[e->host.n] = '\0';
    if (inet_pton(AF_INET6, text, &address) != 1) return "not an IPv6 address between the brackets";
  } else {
    size_t end = slice_find(authority, ":");
    e->host = cut(authority, 0, end);
    rest = cut(authority, end, authority.n);
    for (size_t i = 0; i < e->host.n; i++)
      if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._",
                  e->host.p[i]))
        return "its host name has a character that none may have";
  }
  if (!e->host.n) return "it has no host";
  if (e->host.n >= sizeof((mt_node *)0)->host) return "its host name is too long";
  if (rest.n && rest.p[0] != ':') return "something other than a port follows the host";
  if (rest.n == 1) return "its port is empty";
  if (rest.n) e->port = cut(rest, 1, rest.n);
  return NULL;
}

static const char *split_url(mt_slice text, entry *e) {
  *e = (entry){0};
  if (!text.n) return "it is empty";
  const char *why = split_scheme(&text, e);
  if (why) return why;
  for (size_t i = 0; i < text.n; i++)
    if ((unsigned char)text.p[i] <= ' ' || (unsigned char)text.p[i] >= 127 ||
        strchr("\\\"<>", text.p[i]))
      return "it has a space or a character that no URL may have";
  if (slice_find(text, "?#") < text.n) return "a query or a fragment does not belong in it";
  size_t slash = slice_find(text, "/");
  e->prefix = cut(text, slash, text.n);
  while (e->prefix.n && e->prefix.p[e->prefix.n - 1] == '/') e->prefix.n--;
  if (e->prefix.n > PREFIX_MAX) return "its path is too long";
  return split_host(cut(text, 0, slash), e);
}

static const char *read_port(const entry *e, bool tls, uint16_t *out) {
  uint32_t port = 0;
  *out = tls ? 443 : 9200; /* like the official clients */
  if (!e->port.n) return NULL;
  for (size_t i = 0; i < e->port.n; i++) {
    if (e->port.p[i] < '0' || e->port.p[i] > '9') return "its port is not a number";
    port = port * 10 + (uint32_t)(e->port.p[i] - '0');
    if (port > 65535) return "its port is above 65535";
  }
  if (!port) return "its port is 0";
  *out = (uint16_t)port;
  return NULL;
}

static mortise_status node_fill(mt_node *node, const entry *e, bool tls, mt_slice prefix,
                                size_t number, mortise_error *err) {
  memcpy(node->host, e->host.p, e->host.n);
  node->host[e->host.n] = '\0';
  node->tls = tls;
  node->local = mt_host_is_local(node->host);
  const char *why = read_port(e, tls, &node->port);
  if (why)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "URL of node %zu (%s): %s", number,
                        node->host, why);
  bool v6 = strchr(node->host, ':') != NULL;
  mt_buf url;
  mt_buf_init(&url, LIST_MAX);
  mt_buf_addf(&url, "%s://%s%s%s:%u", tls ? "https" : "http", v6 ? "[" : "", node->host,
              v6 ? "]" : "", node->port);
  mt_buf_addslice(&url, prefix);
  node->url = mt_buf_take(&url, NULL);
  if (!node->url) mt_buf_deinit(&url);
  return node->url ? MORTISE_OK : mt_error_memory(err);
}

/* Splits the list; a path on the last entry alone applies to all. */
static mortise_status split_all(const char *text, entry *entries, size_t *n, mortise_error *err) {
  mt_slice rest = mt_slice_of(text);
  bool own_prefix = false;
  for (*n = 0;; (*n)++) {
    if (*n == MT_NODES_MAX)
      return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "more than %d nodes", MT_NODES_MAX);
    size_t end = slice_find(rest, ",");
    const char *why = split_url(cut(rest, 0, end), &entries[*n]);
    if (why) return bad(err, *n + 1, why);
    if (end == rest.n) break;
    own_prefix |= entries[*n].prefix.n > 0;
    rest = cut(rest, end + 1, rest.n);
  }
  mt_slice last = entries[(*n)++].prefix;
  for (size_t i = 0; !own_prefix && i < *n; i++) entries[i].prefix = last;
  return entries[0].scheme.n ? MORTISE_OK
                             : bad(err, 1, "it does not begin with http:// or https://");
}

/* The name is what the server's administrator wrote, what its certificate names, and what stays when a node gets another
 * IP; the official clients take it too. */
static const char *split_published(mt_slice address, entry *e) {
  const char *slash = memchr(address.p, '/', address.n);
  size_t n = slash ? (size_t)(slash - address.p) : 0;
  mt_slice rest = slash ? cut(address, n + 1, address.n) : address;
  entry named = {0};
  const char *why = slash ? split_url(cut(address, 0, n), &named) : NULL;
  if (!why && named.port.n) why = "there is a port before the slash";
  if (!why) why = split_url(rest, e);
  if (why) return why;
  if (e->scheme.n || memchr(rest.p, '/', rest.n)) return "there is more than a host and a port";
  if (!e->port.n) return "it has no port";
  if (named.host.n) e->host = named.host;
  return NULL;
}

mortise_status mt_node_published(mt_node *node, mt_slice address, const mt_node *like, mortise_error *err) {
  entry e;
  const char *why = split_published(address, &e);
  mt_slice authority = mt_node_authority(like);
  if (why) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "a published address: %s", why);
  *node = (mt_node){0};
  return node_fill(node, &e, like->tls, mt_slice_of(authority.p + authority.n), 1, err);
}

static mortise_status join_nodes(mt_nodes *nodes, mortise_error *err) {
  mt_buf text;
  mt_buf_init(&text, LIST_MAX * 2);
  for (size_t i = 0; i < nodes->n; i++) {
    if (i) mt_buf_addc(&text, ',');
    mt_buf_adds(&text, nodes->v[i].url);
  }
  nodes->text = mt_buf_take(&text, NULL);
  if (nodes->text) return MORTISE_OK;
  mortise_status status = mt_buf_status(&text, "the list of nodes", err);
  mt_buf_deinit(&text);
  return status;
}

mortise_status mt_proxy_check(const char *proxy, mortise_error *err) {
  if (!strcmp(proxy, "none")) return MORTISE_OK;
  if (strchr(proxy, '@'))
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT,
                        "proxy holds '@': a user name and a password for it are taken only from https_proxy "
                        "in the environment");
  entry e;
  const char *why = split_url(mt_slice_of(proxy), &e);
  if (!why && !e.scheme.n) why = "it does not begin with http:// or https://";
  if (!why && !e.port.n) why = "it has no port";
  if (!why && e.prefix.n) why = "it has a path";
  if (why) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "proxy: %s (or `none`)", why);
  return MORTISE_OK;
}

/* ---- Elastic Cloud -------------------------------------------------------------------------- */

enum { CLOUD_MAX = 1024 };

/* "cloud:NAME:BASE64", as Elastic Cloud shows it: of "HOST[:PORT]$UUID[:PORT]$...", the cluster is at
 * https://UUID.HOST. */
static const char *cloud_url(const char *id, char *out, size_t size) {
  const char *coded = strrchr(id, ':');
  coded = coded ? coded + 1 : id;
  size_t n = strlen(coded);
  char text[CLOUD_MAX];
  if (!n || n % 4 || n / 4 * 3 >= sizeof text) return "it is no base64 text";
  int made = EVP_DecodeBlock((unsigned char *)text, (const unsigned char *)coded, (int)n);
  if (made < 0) return "it is no base64 text";
  text[made - (coded[n - 1] == '=') - (n > 1 && coded[n - 2] == '=')] = '\0';
  char *uuid = strchr(text, '$');
  if (!uuid) return "there is no cluster in it";
  *uuid++ = '\0';
  uuid[strcspn(uuid, "$")] = '\0';
  char *own_port = strchr(uuid, ':'), *port = strchr(text, ':');
  if (own_port) *own_port++ = '\0';
  if (port) *port++ = '\0';
  if (!*uuid || !*text) return "there is no cluster in it";
  const char *shown = own_port ? own_port : port ? port : "443";
  int written = snprintf(out, size, "https://%s.%s:%s", uuid, text, shown);
  return written < 0 || (size_t)written >= size ? "it is too long" : NULL;
}

mortise_status mt_nodes_parse(mt_nodes *nodes, const char *text, mortise_error *err) {
  *nodes = (mt_nodes){0};
  char cloud[CLOUD_MAX + 64];
  if (text && !strncmp(text, "cloud:", 6)) {
    const char *why = cloud_url(text + 6, cloud, sizeof cloud);
    if (why) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the cloud's id: %s", why);
    text = cloud;
  }
  if (!text || !*text) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "no node is named");
  /* Checked first, since a password may contain any separator. */
  if (strchr(text, '@'))
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT,
                        "a node's URL holds '@': a user name or a password does not belong there, "
                        "give them by the options for authentication");
  if (strlen(text) > LIST_MAX)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "the list of nodes is too long");
  entry entries[MT_NODES_MAX];
  size_t n;
  mortise_status status = split_all(text, entries, &n, err);
  if (status) return status;
  nodes->v = mt_calloc(n, sizeof *nodes->v);
  if (!nodes->v) return mt_error_memory(err);
  nodes->cap = n;
  for (; !status && nodes->n < n; nodes->n++) {
    mt_slice scheme = entries[nodes->n].scheme.n ? entries[nodes->n].scheme : entries[0].scheme;
    nodes->v[nodes->n].named = true;
    status = node_fill(&nodes->v[nodes->n], &entries[nodes->n], scheme.n == 5,
                       entries[nodes->n].prefix, nodes->n + 1, err);
  }
  return status ? status : join_nodes(nodes, err);
}

void mt_nodes_deinit(mt_nodes *nodes) {
  for (size_t i = 0; i < nodes->n; i++) mt_free(nodes->v[i].url);
  mt_free(nodes->v);
  mt_free(nodes->text);
  *nodes = (mt_nodes){0};
}
