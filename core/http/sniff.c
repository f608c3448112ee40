/* Asks the cluster for its nodes.
 *
 * When. A node that has just answered shows that asking is of use: so the first answer causes it,
 * later ones every five minutes, and the first one after a node has failed, at least ten seconds
 * after the last time. Nothing is done by the clock: a client that is not used asks nobody.
 *
 * How. The request goes to a node like any other, with the same secrets and an id of its own, but
 * over a connection of its own, and nobody waits for it. The node that is asked asks all others, and
 * waits two seconds for them: one that is slow holds up the answer of another, so a failure here
 * leaves no node out. It changes nothing else either, and the next turn is another try.
 *
 * Whom. Nodes that only rule the cluster (roles `master` or `cluster_manager`, and what goes with
 * them) have other things to do. An address of the loopback is of use only where the node that
 * tells it is on the loopback, too: elsewhere it would lead to a stranger, who would be given the
 * credentials. */
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "http/internal.h"

enum { ADDRESS_MAX = 512 };

static const char sniff_path[] = "/_nodes/http?timeout=2s&filter_path=nodes.*.roles,nodes.*.http.publish_address";
static const char sniff_right[] = "cluster:monitor/nodes/info";

/* ---- The answer ----------------------------------------------------------------------------- */

/* The nodes of an answer that can be used from here. */
typedef struct mt_sniffed {
  mt_node nodes[MT_NODES_MAX]; /* URLs owned */
  size_t n, over;              /* `over` did not fit */
  bool loopback;               /* some were of another machine's */
} mt_sniffed;

static bool rules_only(mt_json roles) {
  static const char *const with_it[] = {"voting_only", "remote_cluster_client"};
  bool rules = false;
  mt_json_iter it = mt_json_items(roles);
  while (mt_json_next(&it)) {
    bool rule = mt_json_is(it.value, "master") || mt_json_is(it.value, "cluster_manager");
    if (!rule && !mt_json_is(it.value, with_it[0]) && !mt_json_is(it.value, with_it[1])) return false;
    rules |= rule;
  }
  return rules;
}

static bool is_any_address(const char *host) {
  return !strcmp(host, "0.0.0.0") || !strcmp(host, "::");
}

/* Adds the node where it is one that can be used. */
static mortise_status read_sniffed_node(struct mt_http *http, mt_json node, bool from_here, mt_sniffed *out,
                                        mortise_error *err) {
  mt_json at = mt_json_at(node, "http", "publish_address", NULL);
  char address[ADDRESS_MAX];
  bool usable = at.type == MT_JSON_STRING && at.raw.n < sizeof address && !rules_only(mt_json_get(node, "roles"));
  if (!usable) return MORTISE_OK;
  if (out->n == MT_NODES_MAX) {
    out->over++;
    return MORTISE_OK;
  }
  mt_node *found = &out->nodes[out->n];
  mt_json_copy(at, address, sizeof address);
  mortise_status status = mt_node_published(found, mt_slice_of(address), &http->nodes.v[0], err);
  if (status == MORTISE_INVALID_ARGUMENT)
    mt_log_write(&http->log, MORTISE_LOG_DEBUG, "sniffing: %s", err->message);
  if (status) return status == MORTISE_INVALID_ARGUMENT ? MORTISE_OK : status;
  if (is_any_address(found->host) || (found->local && !from_here)) {
    out->loopback = true;
    mt_free(found->url);
    return MORTISE_OK;
  }
  out->n++;
  return MORTISE_OK;
}

static void drop_sniffed(mt_sniffed *s) {
  while (s->n) mt_free(s->nodes[--s->n].url);
}

/* OK: there is at least one. */
static mortise_status read_sniffed(struct mt_http *http, const mt_http_req *req, mt_sniffed *out, mortise_error *err) {
  mt_json root;
  mortise_status status = mt_json_parse(mt_buf_slice(&req->answer), "what answered", &root, err);
  if (status) {
    mt_http_distrust(http, req);
    return mt_error_set(err, MORTISE_UNAVAILABLE, "%s: %.300s", req->node_url, err->message);
  }
  mt_json nodes = mt_json_get(root, "nodes");
  if (nodes.type != MT_JSON_OBJECT)
    return mt_error_set(err, MORTISE_UNAVAILABLE, "%s: there are no nodes in its answer", req->node_url);
  bool from_here = http->nodes.v[req->answered_by].local;
  mt_json_iter it = mt_json_items(nodes);
  while (!status && mt_json_next(&it)) status = read_sniffed_node(http, it.value, from_here, out, err);
  if (status) drop_sniffed(out);
  if (status || out->n) return status;
  return mt_error_set(err, MORTISE_UNAVAILABLE,
                      "%s: of the %zu nodes in its answer none has an address that can be used from here%s", req->node_url,
                      mt_json_count(nodes), out->loopback ? ": it would be of this machine" : "");
}

/* ---- What follows from it ------------------------------------------------------------------- */

static uint64_t nodes_in_use(const struct mt_http *http) {
  uint64_t busy = 0;
  for (const mt_transfer *op = http->active; op; op = op->next) {
    busy |= op->tried;
    if (op->req->node >= 0) busy |= UINT64_C(1) << op->req->node;
  }
  return busy;
}

static void use_sniffed(struct mt_http *http, mt_sniffed *s) {
  mt_nodes_change change = mt_nodes_found(&http->nodes, s->nodes, s->n, nodes_in_use(http), MT_SNIFF_EVERY_MS,
                                          mt_loop_now(http->loop));
  for (size_t i = 0; i < http->nodes.n; i++) {
    const mt_node *node = &http->nodes.v[i];
    if (change.come >> i & 1) {
      mt_log_write(&http->log, MORTISE_LOG_INFO, "%s is a node of the cluster, and is used", node->url);
      mt_auth_warn(http, node);
    }
    if (change.gone >> i & 1)
      mt_log_write(&http->log, MORTISE_LOG_INFO,
                   "%s is none of the nodes that the cluster publishes: it is used where no other is left", node->url);
  }
  size_t over = change.over + s->over;
  if (over && !http->sniff.full)
    mt_log_write(&http->log, MORTISE_LOG_WARNING, "sniffing: of the cluster's nodes %zu are not used: %d are the most",
                 over, MT_NODES_MAX);
  http->sniff.full |= over > 0;
}

/* Once, until one succeeds: else each turn would say the same. */
static void sniff_failed(struct mt_http *http, mortise_error *err) {
  mt_sniff *s = &http->sniff;
  bool unnamed = err->code == MORTISE_AUTH && !strstr(err->message, sniff_right);
  mt_utf8_tame(err->message);
  mt_log_write(&http->log, s->failed ? MORTISE_LOG_DEBUG : MORTISE_LOG_WARNING,
               "sniffing: the nodes stay as they are: %.800s%s%s", err->message,
               unnamed ? "; this needs the right " : "", unnamed ? sniff_right : "");
  s->failed = true;
}

static void on_sniffed(void *ctx, mt_http_req *req) {
  struct mt_http *http = ctx;
  mt_sniff *s = &http->sniff;
  mortise_error err;
  s->busy = false;
  mt_sniffed *found = mt_calloc(1, sizeof *found);
  mortise_status status = found ? mt_http_status(req, "GET /_nodes/http", &err) : mt_error_memory(&err);
  if (!status) status = read_sniffed(http, req, found, &err);
  if (!status) {
    use_sniffed(http, found);
    s->failed = false;
  } else {
    sniff_failed(http, &err);
  }
  mt_free(found);
  mt_http_req_deinit(req);
}

/* ---- When ----------------------------------------------------------------------------------- */

void mt_sniff_turn(struct mt_http *http) {
  mt_sniff *s = &http->sniff;
  int64_t now = mt_loop_now(http->loop);
  if (!s->on || s->busy || now < s->due_ms) return;
  s->busy = true;
  s->asked_ms = now;
  s->due_ms = now + MT_SNIFF_EVERY_MS;
  int64_t wait_ms = http->request_ms < MT_SNIFF_REQUEST_MS ? http->request_ms : MT_SNIFF_REQUEST_MS;
  s->req = (mt_http_req){.done = on_sniffed,
                         .ctx = http,
                         .method = "GET",
                         .path = sniff_path,
                         .deadline_ms = now + wait_ms,
                         .node = -1,
                         .idempotent = true,
                         .aside = true};
  mt_http_submit(http, &s->req);
  if (s->req.answer.max > MT_SNIFF_ANSWER_MAX) s->req.answer.max = MT_SNIFF_ANSWER_MAX;
}

void mt_sniff_sooner(struct mt_http *http) {
  mt_sniff *s = &http->sniff;
  if (s->asked_ms && s->due_ms > s->asked_ms + MT_SNIFF_AGAIN_MS) s->due_ms = s->asked_ms + MT_SNIFF_AGAIN_MS;
}

mortise_status mt_sniff_init(struct mt_http *http, const mt_http_config *config, mortise_error *err) {
  bool cloud = !strncmp(config->nodes, "cloud:", 6);
  if (!config->sniff) return MORTISE_OK;
  if (cloud || config->aws || config->unix_socket)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT,
                        "sniff is given with %s: there all nodes are behind one address, and none can be reached at its own",
                        cloud ? "a cloud's id" : config->aws ? "aws" : "unix_socket");
  http->sniff.on = true;
  return mt_nodes_widen(&http->nodes, err);
}

void mt_sniff_deinit(struct mt_http *http) {
  mt_http_req_deinit(&http->sniff.req);
}
