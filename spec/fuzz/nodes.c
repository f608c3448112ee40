/* The list of nodes in a store's URL, and an address that a node publishes. */
#include "base/mem.h"
#include "fuzz.h"
#include "http/internal.h"

static void check(const mt_node *node) {
  MUST(!strncmp(node->url, node->tls ? "https://" : "http://", node->tls ? 8 : 7));
  MUST(node->port && node->host[0] && strlen(node->host) < sizeof node->host);
  MUST(node->url[strlen(node->url) - 1] != '/');
  for (const char *p = node->url; *p; p++) MUST((unsigned char)*p > ' ' && *p != 127);
  const char *slash = strchr(node->url + 8, '/'), *at = strchr(node->url, '@');
  MUST(!at || (slash && at > slash)); /* no user, no password */
  MUST(!strpbrk(node->url, "?#"));
  (void)mt_host_is_local(node->host);
}

static void check_published(const uint8_t *data, size_t n) {
  mt_node node, like = {.url = (char[]){"https://a:1/b"}, .tls = true};
  mortise_error err = {0};
  if (mt_node_published(&node, (mt_slice){n ? (const char *)data : "", n}, &like, &err)) {
    MUST(err.code == MORTISE_INVALID_ARGUMENT && err.message[0]);
    return;
  }
  check(&node);
  MUST(!memchr(data, '@', n) && !strcmp(strchr(node.url + 8, '/'), "/b"));
  mt_free(node.url);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  char text[4096];
  mt_nodes nodes = {0};
  mortise_error err = {0};
  if (n >= sizeof text) return 0;
  check_published(data, n);
  if (n) memcpy(text, data, n);
  text[n] = '\0';
  if (mt_nodes_parse(&nodes, text, &err)) {
    MUST(err.code == MORTISE_INVALID_ARGUMENT && err.message[0]);
    mt_nodes_deinit(&nodes);
    return 0;
  }
  MUST(nodes.n && nodes.n <= MT_NODES_MAX && nodes.text);
  uint64_t tried = 0;
  for (size_t i = 0; i < nodes.n; i++) check(&nodes.v[i]);
  for (size_t i = 0; i < nodes.n; i++) {
    int node = mt_nodes_pick(&nodes, 0, tried);
    MUST(node >= 0 && (size_t)node < nodes.n && !(tried >> node & 1));
    tried |= UINT64_C(1) << node;
    mt_nodes_failed(&nodes, node, 0);
  }
  MUST(mt_nodes_pick(&nodes, 0, tried) == -1);
  mt_nodes_deinit(&nodes);
  return 0;
}
