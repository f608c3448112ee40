/* TLS with real certificates, freshly made by the openssl command. */
#include "http_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char ok[] = "{\"ok\":true}";
static char folder[] = "/tmp/mortise-tls-XXXXXX";

static const char make_all[] =
    "set -e; cd %s; exec 2>/dev/null >/dev/null\n"
    "key='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'\n"
    "ca() { openssl req -x509 $key -keyout $1.key -out $1.pem -subj /CN=$1 -days 2; }\n"
    "leaf() {\n"
    "  openssl req $key -keyout $1.key -out $1.csr -subj /CN=$1 ${2:+-addext subjectAltName=$2}\n"
    "  openssl x509 -req -in $1.csr -CA $3.pem -CAkey $3.key -CAcreateserial -out $1.pem \\\n"
    "    -copy_extensions copy -days ${4:-2}\n"
    "}\n"
    "ca ca; ca other\n"
    "leaf server DNS:localhost,IP:127.0.0.1 ca\n"
    "leaf elsewhere DNS:elsewhere.example ca\n"
    "leaf expired IP:127.0.0.1 ca -1\n"
    "leaf client '' ca\n"
    "leaf stranger '' other\n"
    "cat client.pem client.key > both.pem\n"
    "openssl pkcs8 -topk8 -passout pass:sesame -in client.key -out phrase.key\n"
    "openssl ec -aes128 -passout pass:sesame -in client.key -out older.key\n"
    "cat client.pem phrase.key > phrase.pem\n"
    "mkfifo pipe.key\n";

static const char *in_folder(const char *name) {
  static char paths[8][128];
  static unsigned next;
  char *path = paths[next++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static int make_certificates(void **state) {
  (void)state;
  char command[4096];
  if (!mkdtemp(folder)) return 1;
  snprintf(command, sizeof command, make_all, folder);
  return system(command);
}

static int remove_certificates(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

static bool answer_ok(test_conn *c, const test_request *req, void *ctx) {
  (void)ctx;
  if (req->whole) test_answer(c, 200, ok);
  return true;
}

static SSL_CTX *server_context(const char *name, bool ask_client) {
  char file[64];
  SSL_CTX *tls = SSL_CTX_new(TLS_server_method());
  assert_non_null(tls);
  snprintf(file, sizeof file, "%s.pem", name);
  assert_int_equal(SSL_CTX_use_certificate_file(tls, in_folder(file), SSL_FILETYPE_PEM), 1);
  snprintf(file, sizeof file, "%s.key", name);
  assert_int_equal(SSL_CTX_use_PrivateKey_file(tls, in_folder(file), SSL_FILETYPE_PEM), 1);
  if (!ask_client) return tls;
  assert_int_equal(SSL_CTX_load_verify_locations(tls, in_folder("ca.pem"), NULL), 1);
  SSL_CTX_set_verify(tls, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
  return tls;
}

typedef struct secured {
  fixture f;
  SSL_CTX *tls;
  char nodes[64];
} secured;

static void secured_open(secured *s, test_handler *handler, void *ctx) {
  s->f.server = test_server_start(0, s->tls, handler, ctx);
  snprintf(s->nodes, sizeof s->nodes, "https://127.0.0.1:%u", test_server_port(s->f.server));
  s->f.config.nodes = s->nodes;
  s->f.config.user = "user";
  s->f.config.password = SECRET;
  fixture_open(&s->f, NULL, NULL);
}

static void secured_close(secured *s) {
  fixture_close(&s->f);
  SSL_CTX_free(s->tls);
}

static void works(secured *s) {
  secured_open(s, answer_ok, NULL);
  for (int i = 0; i < 4; i++) {
    mt_http_req req = fixture_request(&s->f, "POST", "/", "{}");
    fixture_run(&s->f, &req);
    assert_answer(&req, 200, ok);
    mt_http_req_deinit(&req);
  }
  assert_int_equal(test_server_connections(s->f.server), 1);
  secured_close(s);
}

static void fails(secured *s, mortise_status code, const char *says) {
  secured_open(s, answer_ok, NULL);
  for (int i = 0; i < 2; i++) {
    mt_http_req req = fixture_request(&s->f, "POST", "/", "{}");
    fixture_run(&s->f, &req);
    assert_failed(&req, code, false, says);
    assert_non_null(strstr(req.error.message, s->nodes));
    mt_http_req_deinit(&req);
  }
  assert_int_equal(test_server_requests(s->f.server), 0);
  secured_close(s);
}

static void trusted(void **state) {
  (void)state;
  secured s = {.tls = server_context("server", false), .f.config.ca_file = in_folder("ca.pem")};
  works(&s);
}

static void not_checked(void **state) {
  (void)state;
  secured s = {.tls = server_context("elsewhere", false), .f.config.insecure = true};
  secured_open(&s, answer_ok, NULL);
  assert_non_null(strstr(s.f.logged.p, "certificate is not checked"));
  mt_http_req req = fixture_request(&s.f, "POST", "/", "{}");
  fixture_run(&s.f, &req);
  assert_answer(&req, 200, ok);
  mt_http_req_deinit(&req);
  secured_close(&s);
}

static void wrong_authority(void **state) {
  (void)state;
  secured s = {.tls = server_context("server", false), .f.config.ca_file = in_folder("other.pem")};
  fails(&s, MORTISE_AUTH, "`ca_file` (--ca FILE) names the certificates to trust");
  secured system = {.tls = server_context("server", false)};
  fails(&system, MORTISE_AUTH, "`ca_file` (--ca FILE) names the certificates to trust");
}

static void wrong_host(void **state) {
  (void)state;
  secured s = {.tls = server_context("elsewhere", false), .f.config.ca_file = in_folder("ca.pem")};
  fails(&s, MORTISE_AUTH, "127.0.0.1");
}

static void expired(void **state) {
  (void)state;
  secured s = {.tls = server_context("expired", false), .f.config.ca_file = in_folder("ca.pem")};
  fails(&s, MORTISE_AUTH, "expired");
}

static void client_certificate(void **state) {
  (void)state;
  for (int version = 0; version < 2; version++) {
    mt_http_config good = {.ca_file = in_folder("ca.pem"),
                           .cert_file = in_folder("client.pem"),
                           .key_file = in_folder("client.key")};
    secured s = {.tls = server_context("server", true), .f.config = good};
    if (version) SSL_CTX_set_max_proto_version(s.tls, TLS1_2_VERSION);
    works(&s);
  }
  mt_http_config both = {.ca_file = in_folder("ca.pem"), .cert_file = in_folder("both.pem")};
  secured s = {.tls = server_context("server", true), .f.config = both};
  works(&s);
}

static void client_certificate_refused(void **state) {
  (void)state;
  for (int version = 0; version < 2; version++) {
    secured none = {.tls = server_context("server", true), .f.config.ca_file = in_folder("ca.pem")};
    if (version) SSL_CTX_set_max_proto_version(none.tls, TLS1_2_VERSION);
    /* TLS 1.2 has no alert of its own for a missing certificate. */
    fails(&none, version ? MORTISE_UNAVAILABLE : MORTISE_AUTH, "alert");
    mt_http_config strange = {.ca_file = in_folder("ca.pem"),
                              .cert_file = in_folder("stranger.pem"),
                              .key_file = in_folder("stranger.key")};
    secured s = {.tls = server_context("server", true), .f.config = strange};
    if (version) SSL_CTX_set_max_proto_version(s.tls, TLS1_2_VERSION);
    fails(&s, MORTISE_AUTH, "alert");
  }
}

static void key_of_another(void **state) {
  (void)state;
  mt_http_config config = {.ca_file = in_folder("ca.pem"),
                           .cert_file = in_folder("client.pem"),
                           .key_file = in_folder("stranger.key")};
  secured s = {.tls = server_context("server", true), .f.config = config};
  fails(&s, MORTISE_AUTH, "");
}

/* Nobody is asked for the pass phrase: waiting for a terminal might never end. */
static void key_with_pass_phrase(void **state) {
  (void)state;
  static const char *const files[][2] = {
      {"client.pem", "phrase.key"}, {"client.pem", "older.key"}, {"phrase.pem", NULL}};
  mortise_error err;
  mt_loop *loop = mt_loop_new(&err);
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    const char *cert = in_folder(files[i][0]), *key = files[i][1] ? in_folder(files[i][1]) : NULL;
    mt_http_config config = {.nodes = "https://127.0.0.1:1", .cert_file = cert, .key_file = key};
    assert_null(mt_http_new(loop, &config, NULL, &err));
    assert_int_equal(err.code, MORTISE_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, key ? key : cert));
    assert_non_null(strstr(err.message, "pass phrase"));
  }
  mt_http_config pipe = {.nodes = "https://127.0.0.1:1",
                         .cert_file = in_folder("client.pem"),
                         .key_file = in_folder("pipe.key")};
  assert_null(mt_http_new(loop, &pipe, NULL, &err));
  assert_non_null(strstr(err.message, "is no regular file"));
  mt_loop_free(loop);
}

/* The key had no pass phrase when it was checked. */
static void key_that_gets_a_pass_phrase(void **state) {
  (void)state;
  char command[256];
  snprintf(command, sizeof command, "cp %s %s", in_folder("client.key"), in_folder("moved.key"));
  assert_int_equal(system(command), 0);
  secured s = {.tls = server_context("server", true),
               .f.config = {.ca_file = in_folder("ca.pem"),
                            .cert_file = in_folder("client.pem"),
                            .key_file = in_folder("moved.key")}};
  secured_open(&s, answer_ok, NULL);
  snprintf(command, sizeof command, "mv %s %s", in_folder("phrase.key"), in_folder("moved.key"));
  assert_int_equal(system(command), 0);
  mt_http_req req = fixture_request(&s.f, "POST", "/", "{}");
  fixture_run(&s.f, &req);
  assert_failed(&req, MORTISE_AUTH, false, "moved.key");
  mt_http_req_deinit(&req);
  secured_close(&s);
}

static void too_old(void **state) {
  (void)state;
  secured s = {.tls = server_context("server", false), .f.config.ca_file = in_folder("ca.pem")};
  SSL_CTX_set_security_level(s.tls, 0);
  SSL_CTX_set_min_proto_version(s.tls, TLS1_VERSION);
  SSL_CTX_set_max_proto_version(s.tls, TLS1_1_VERSION);
  fails(&s, MORTISE_UNAVAILABLE, "no TLS");
}

static void plain_where_tls_is_meant(void **state) {
  (void)state;
  secured s = {.f.config.ca_file = in_folder("ca.pem")};
  fails(&s, MORTISE_UNAVAILABLE, "if this port speaks plain HTTP, its URL begins with http://");
}

static void tls_where_plain_is_meant(void **state) {
  (void)state;
  fixture f = {.config = {.user = "user", .password = SECRET}};
  SSL_CTX *tls = server_context("server", false);
  f.server = test_server_start(0, tls, answer_ok, NULL);
  snprintf(f.nodes, sizeof f.nodes, "http://127.0.0.1:%u", test_server_port(f.server));
  f.config.nodes = f.nodes;
  fixture_open(&f, NULL, NULL);
  mt_http_req req = fixture_request(&f, "POST", "/", "{}");
  fixture_run(&f, &req);
  assert_failed(&req, MORTISE_UNAVAILABLE, true, f.nodes);
  assert_non_null(strstr(req.error.message, "if this port speaks TLS, its URL begins with https://"));
  mt_http_req_deinit(&req);
  fixture_close(&f);
  SSL_CTX_free(tls);
}

/* The peer is gone while megabytes are written: an error, not a signal. */
static bool vanish(test_conn *c, const test_request *req, void *ctx) {
  (void)ctx;
  if (test_has(req, "/large"))
    test_reset(c);
  else
    test_answer(c, 200, ok);
  return !test_has(req, "/large");
}

static bool always(void *ctx) {
  (void)ctx;
  return true;
}

static void peer_vanishes(void **state) {
  (void)state;
  signal(SIGPIPE, SIG_DFL);
  static char large[8 << 20];
  memset(large, 'x', sizeof large - 1);
  for (int hook = 0; hook < 2; hook++) {
    secured s = {.tls = server_context("server", false), .f.config.ca_file = in_folder("ca.pem")};
    secured_open(&s, vanish, NULL);
    mt_http_req first = fixture_request(&s.f, "GET", "/", NULL);
    fixture_run(&s.f, &first);
    assert_answer(&first, 200, ok);
    mt_http_req req = fixture_request(&s.f, "POST", "/large", large);
    if (hook) req.may_send = always;
    fixture_run(&s.f, &req);
    assert_failed(&req, MORTISE_UNAVAILABLE, true, s.nodes);
    mt_http_req_deinit(&first);
    mt_http_req_deinit(&req);
    secured_close(&s);
  }
}

static bool answer_nodes(test_conn *c, const test_request *req, void *ctx) {
  if (req->whole) test_answer(c, 200, strstr(req->head, "/_nodes/http?") ? ctx : ok);
  return true;
}

/* The name of a published address is taken, which is what a certificate names. A node whose
 * certificate is another's gets nothing. */
static void nodes_that_are_found(void **state) {
  (void)state;
  char text[256];
  SSL_CTX *tls = server_context("elsewhere", false);
  test_server *other = test_server_start(0, tls, answer_ok, NULL);
  secured s = {.tls = server_context("server", false), .f.config.ca_file = in_folder("ca.pem"), .f.config.sniff = true};
  secured_open(&s, answer_nodes, text);
  snprintf(text, sizeof text, "{\"nodes\":{\"a\":{\"http\":{\"publish_address\":\"localhost/10.255.255.1:%u\"}},"
           "\"b\":{\"http\":{\"publish_address\":\"127.0.0.1:%u\"}}}}",
           test_server_port(s.f.server), test_server_port(other));
  for (int i = 0; i < 6; i++) {
    mt_http_req req = fixture_request(&s.f, "POST", "/", "{}");
    fixture_run(&s.f, &req);
    assert_answer(&req, 200, ok);
    if (i) assert_non_null(strstr(req.node_url, "https://localhost:"));
    mt_http_req_deinit(&req);
    for (int k = 0; k < 100 && !(s.f.logged.n && strstr(s.f.logged.p, "is a node of the cluster")); k++)
      fixture_step_for(&s.f, 20);
  }
  assert_int_equal(test_server_requests(other), 0);
  secured_close(&s);
  test_server_stop(other);
  SSL_CTX_free(tls);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(trusted),
      cmocka_unit_test(not_checked),
      cmocka_unit_test(wrong_authority),
      cmocka_unit_test(wrong_host),
      cmocka_unit_test(expired),
      cmocka_unit_test(client_certificate),
      cmocka_unit_test(client_certificate_refused),
      cmocka_unit_test(key_of_another),
      cmocka_unit_test(key_with_pass_phrase),
      cmocka_unit_test(key_that_gets_a_pass_phrase),
      cmocka_unit_test(too_old),
      cmocka_unit_test(plain_where_tls_is_meant),
      cmocka_unit_test(tls_where_plain_is_meant),
      cmocka_unit_test(peer_vanishes),
      cmocka_unit_test(nodes_that_are_found),
  };
  return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
