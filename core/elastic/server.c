/* Which server answers. */
#include "elastic/internal.h"

#include <stdio.h>
#include <stdlib.h>

/* The first words of an unknown answer, for the message. */
static void quote(const mt_call *c, char *out, size_t size) {
  mt_slice text = mt_buf_slice(&c->http.answer);
  size_t n = 0;
  for (size_t i = 0; i < text.n && n + 1 < size && n < 80; i++) {
    unsigned char b = (unsigned char)text.p[i];
    if (b >= ' ' && b < 127) out[n++] = (char)b;
  }
  out[n] = '\0';
}

static void refuse_stranger(mt_call *c) {
  char text[96];
  quote(c, text, sizeof text);
  mt_call_error(c, MORTISE_UNSUPPORTED,
                "%s is no Elasticsearch and no OpenSearch: GET / answered %d \"%s\"",
                c->e->store.url, c->http.status, text);
}

static bool read_number(const char *number, mt_server *s) {
  return sscanf(number, "%u.%u", &s->major, &s->minor) == 2;
}

static void on_server(mt_call *c) {
  mortise_status status = mt_call_check(c, "ask the server's version", NULL);
  mt_json root = {0};
  bool json = !c->http.error.code &&
              !mt_json_parse(mt_buf_slice(&c->http.answer), "the answer", &root, NULL);
  if (c->http.error.code || status == MORTISE_AUTH || status == MORTISE_UNAVAILABLE ||
      c->http.status >= 429) {
    mt_call_finish(c);
    return;
  }
  mt_json version = mt_json_get(root, "version");
  char number[32];
  mt_server s = {.known = true};
  mt_json_copy(mt_json_get(version, "number"), number, sizeof number);
  s.opensearch = mt_json_is(mt_json_get(version, "distribution"), "opensearch");
  bool ours = s.opensearch || mt_json_is(mt_json_get(root, "tagline"), "You Know, for Search");
  if (!json || status || !ours || !read_number(number, &s)) {
    refuse_stranger(c);
    return;
  }
  if (!s.opensearch && (s.major < 7 || (s.major == 7 && s.minor < 17))) {
    mt_call_error(c, MORTISE_UNSUPPORTED, "%s is Elasticsearch %s; 7.17 or later is needed",
                  c->e->store.url, number);
    return;
  }
  c->e->server = s;
  mt_call_again(c);
  c->server_known(c);
}

void mt_server_need(mt_call *c, void (*next)(mt_call *c)) {
  if (c->e->server.known) {
    next(c);
    return;
  }
  c->server_known = next;
  c->http.idempotent = true;
  mt_buf_adds(&c->path, "/");
  mt_call_send(c, "GET", on_server);
}
