/* The Authorization header and TLS. */
#include "access/sign.h"
#include "base/clock.h"
#include "base/mem.h"
#include "http/internal.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECRET_MAX = 16384, SKEW_MS = 60 * 1000 };

_Static_assert(SECRET_MAX == (int)MT_SECRET_MAX, "what a command prints is no longer than what is given");

/* Is it printable ASCII, as a header value must be? The parts of basic authentication are encoded,
 * so they may be UTF-8. */
static bool plain(const char *s, bool any_utf8) {
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c < ' ' || c == 127 || (c > 127 && !any_utf8)) return false;
  }
  return true;
}

static mortise_status credential_check(const char *name, const char *value, bool any_utf8,
                                       mortise_error *err) {
  if (!*value) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "%s is empty", name);
  if (strlen(value) > SECRET_MAX)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "%s is too long", name);
  if (!plain(value, any_utf8))
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT,
                        "%s holds a character that it cannot have (a line's end?)", name);
  return MORTISE_OK;
}

static mortise_status token(mt_auth *auth, const char *name, const char *scheme, const char *value,
                            mortise_error *err) {
  mortise_status status = credential_check(name, value, false, err);
  if (status) return status;
  size_t size = sizeof "Authorization:  " + strlen(scheme) + strlen(value);
  auth->header = mt_alloc(size);
  if (!auth->header) return mt_error_memory(err);
  snprintf(auth->header, size, "Authorization: %s %s", scheme, value);
  return MORTISE_OK;
}

static mortise_status basic(mt_auth *auth, const char *user, const char *password,
                            mortise_error *err) {
  if (!user || !password)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "%s is given without %s",
                        user ? "user" : "password", user ? "password" : "user");
  mortise_status status = credential_check("user", user, true, err);
  if (!status) status = credential_check("password", password, true, err);
  if (status) return status;
  if (strchr(user, ':')) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "user holds a ':'");
  size_t n = strlen(user) + 1 + strlen(password);
  char *pair = mt_alloc(n + 1), *coded = mt_alloc((n + 2) / 3 * 4 + 1);
  if (pair && coded) {
    snprintf(pair, n + 1, "%s:%s", user, password);
    EVP_EncodeBlock((unsigned char *)coded, (const unsigned char *)pair, (int)n);
    status = token(auth, "password", "Basic", coded, err);
  } else {
    status = mt_error_memory(err);
    if (pair) *pair = '\0';
    if (coded) *coded = '\0';
  }
  mt_free_secret(pair);
  mt_free_secret(coded);
  return status;
}

/* Amazon's Serverless answers 404 to most of what locks and jobs are made of, and shows late what was written. */
static mortise_status init_aws(mt_auth *auth, const mt_http_config *c, const char *host, mortise_error *err) {
  if (strstr(host, ".aoss."))
    return mt_error_set(err, MORTISE_UNSUPPORTED,
                        "%.200s is a serverless collection, which cannot be used: it has no _refresh, no scroll and no "
                        "stored scripts; a domain of OpenSearch Service can", host);
  if (c->aws_region)
    snprintf(auth->region, sizeof auth->region, "%s", c->aws_region);
  else
    mt_aws_region(host, auth->region, sizeof auth->region);
  bool ok = *auth->region != '\0';
  for (const char *p = auth->region; *p; p++) ok &= (*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') || *p == '-';
  if (ok) return MORTISE_OK;
  if (!*auth->region)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "aws: which region? Give aws_region, or AWS_REGION");
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "aws_region: '%.63s' is no region", auth->region);
}

static mortise_status init_secret(struct mt_http *http, const mt_http_config *c, void (*changed)(void *http),
                                  mortise_error *err) {
  mt_auth *auth = &http->auth;
  const char *command = c->api_key_command ? c->api_key_command : c->bearer_command;
  if (command && !*command)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "%s is empty",
                        c->api_key_command ? "api_key_command" : "bearer_command");
  mortise_status status = c->aws ? init_aws(auth, c, http->nodes.v[0].host, err) : MORTISE_OK;
  if (status) return status;
  if (!c->aws) auth->scheme = c->api_key_command ? "ApiKey" : "Bearer";
  const mt_secret_config config = {.command = command, .aws = c->aws, .changed = changed, .ctx = http};
  auth->secret = mt_secret_new(http->loop, &config, &http->log, err);
  return auth->secret ? MORTISE_OK : err->code;
}

static mortise_status credentials(struct mt_http *http, const mt_http_config *c, void (*changed)(void *http),
                                  mortise_error *err) {
  mt_auth *auth = &http->auth;
  bool fetched = c->api_key_command || c->bearer_command || c->aws;
  int ways = (c->user || c->password) + (c->api_key != NULL) + (c->bearer != NULL) + (c->api_key_command != NULL) +
             (c->bearer_command != NULL) + c->aws;
  if (ways > 1)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT,
                        "more than one way of authentication: give user and password, or one of api_key, bearer, "
                        "api_key_command, bearer_command and aws");
  if (c->aws_region && !c->aws)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "aws_region is given without aws");
  if (fetched) return init_secret(http, c, changed, err);
  if (c->api_key) return token(auth, "api_key", "ApiKey", c->api_key, err);
  if (c->bearer) return token(auth, "bearer", "Bearer", c->bearer, err);
  return ways ? basic(auth, c->user, c->password, err) : MORTISE_OK;
}

/* ---- A secret of each request's own --------------------------------------------------------- */

mt_slice mt_node_authority(const mt_node *node) {
  const char *from = strstr(node->url, "://") + 3;
  return (mt_slice){from, strcspn(from, "/")};
}

/* As libcurl writes the header Host: without the scheme's own port. */
static mt_slice host_header(const mt_node *node) {
  mt_slice host = mt_node_authority(node), own = node->tls ? MT_SLICE(":443") : MT_SLICE(":80");
  if (host.n > own.n && !memcmp(host.p + host.n - own.n, own.p, own.n)) host.n -= own.n;
  return host;
}

static mortise_status sign(mt_transfer *op, const mt_credentials *secret, mortise_error *err) {
  const struct mt_http *http = op->http;
  const mt_node *node = &http->nodes.v[op->node];
  op->signed_ms = mt_clock_wall_ms() + http->auth.skew_ms;
  const mt_sign s = {.method = op->req->method,
                     .host = host_header(node),
                     .target = mt_buf_slice(&op->target),
                     .body = op->body.n ? op->body : MT_SLICE(""),
                     .id = secret->id,
                     .secret = secret->secret,
                     .session = secret->session,
                     .region = http->auth.region,
                     .service = "es",
                     .at_s = op->signed_ms / 1000};
  return mt_sign_request(&s, &op->secret_headers, &op->n_secret_headers, err);
}

mortise_status mt_auth_sign(mt_transfer *op, bool *waits, mortise_error *err) {
  const mt_auth *auth = &op->http->auth;
  const mt_credentials *secret = NULL;
  *waits = false;
  if (!auth->secret) return MORTISE_OK;
  mortise_status status = mt_secret_get(auth->secret, &secret, err);
  if (status) return status;
  *waits = !secret;
  if (!secret) return MORTISE_OK;
  op->secret_round = secret->round;
  op->date_ms = 0;
  if (!auth->scheme) return sign(op, secret, err);
  mt_buf_clear(&op->secret_headers);
  mt_buf_addf(&op->secret_headers, "Authorization: %s %s", auth->scheme, secret->secret);
  mt_buf_addc(&op->secret_headers, '\0');
  op->n_secret_headers = 1;
  return mt_buf_status(&op->secret_headers, "the secret's header", err);
}

/* Is the time in the signature too far from the server's? */
static bool mends_clock(mt_transfer *op) {
  mt_auth *auth = &op->http->auth;
  int64_t off = op->date_ms ? op->date_ms - op->signed_ms : 0;
  if (off < SKEW_MS && off > -SKEW_MS) return false;
  int64_t skew = op->date_ms - mt_clock_wall_ms(), moved = skew - auth->skew_ms;
  if (moved > -SKEW_MS && moved < SKEW_MS) return true; /* another request has found it already */
  auth->skew_ms = skew;
  mt_log_write(&op->http->log, MORTISE_LOG_WARNING,
               "this machine's clock is %lld s %s the server's: requests are signed with its time",
               (long long)(skew < 0 ? -skew : skew) / 1000, skew < 0 ? "ahead of" : "behind");
  return true;
}

bool mt_auth_renews(mt_transfer *op, int status) {
  const mt_auth *auth = &op->http->auth;
  mt_slice answer = mt_buf_slice(&op->req->answer);
  if (!auth->secret || op->renewed || (status != 401 && (status != 403 || auth->scheme))) return false;
  if (!auth->scheme && mends_clock(op)) return true;
  /* Of Amazon's only a token that has ended, or that a 401 refuses: another signature would be refused alike. */
  bool ended = status == 401 || memmem(answer.p, answer.n, "security token", 14);
  return ended && mt_secret_refused(auth->secret, op->secret_round);
}

/* Only checks the file: each connection reads it again. */
static mortise_status file(char **out, const char *name, const char *path, mortise_error *err) {
  struct stat st;
  if (!path) return MORTISE_OK;
  if (access(path, R_OK) || stat(path, &st))
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "%s %s: %s", name, path, strerror(errno));
  if (!S_ISREG(st.st_mode))
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "%s %s is no regular file", name, path);
  *out = mt_strdup(path);
  return *out ? MORTISE_OK : mt_error_memory(err);
}

static int note_asked(char *to, int size, int writing, void *ctx) {
  (void)to, (void)size, (void)writing;
  *(bool *)ctx = true;
  return -1;
}

/* If the key cannot be read at all, TLS reports it later. */
static bool is_encrypted(const char *path) {
  bool asked = false;
  BIO *in = BIO_new_file(path, "r");
  if (in) EVP_PKEY_free(PEM_read_bio_PrivateKey(in, NULL, note_asked, &asked));
  BIO_free(in);
  ERR_clear_error(); /* libcurl reads this queue */
  return asked;
}

static mortise_status check_key_file(const mt_auth *auth, mortise_error *err) {
  const char *path = auth->key_file ? auth->key_file : auth->cert_file;
  if (!path || !is_encrypted(path)) return MORTISE_OK;
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT,
                      "%s %s: the key has a pass phrase, and none is asked for: give it without "
                      "one, in a file of mode 0600 (openssl pkey -in %s -out FILE)",
                      auth->key_file ? "key_file" : "cert_file", path, path);
}

mortise_status mt_auth_init(struct mt_http *http, const mt_http_config *c, void (*changed)(void *http),
                            mortise_error *err) {
  mt_auth *auth = &http->auth;
  *auth = (mt_auth){.insecure = c->insecure};
  mortise_status status = credentials(http, c, changed, err);
  if (!status && c->key_file && !c->cert_file)
    status = mt_error_set(err, MORTISE_INVALID_ARGUMENT, "key_file is given without cert_file");
  if (!status) status = file(&auth->ca_file, "ca_file", c->ca_file, err);
  if (!status) status = file(&auth->cert_file, "cert_file", c->cert_file, err);
  if (!status) status = file(&auth->key_file, "key_file", c->key_file, err);
  return status ? status : check_key_file(auth, err);
}

void mt_auth_deinit(mt_auth *auth) {
  mt_free_secret(auth->header);
  mt_secret_free(auth->secret);
  mt_free(auth->ca_file);
  mt_free(auth->cert_file);
  mt_free(auth->key_file);
  *auth = (mt_auth){0};
}

void mt_auth_warn(const struct mt_http *http, const mt_node *node) {
  const mt_auth *auth = &http->auth;
  if (node->tls && auth->insecure)
    mt_log_write(&http->log, MORTISE_LOG_WARNING, "%s: its certificate is not checked", node->url);
  if (!node->tls && !node->local && (auth->header || (auth->secret && auth->scheme)))
    mt_log_write(&http->log, MORTISE_LOG_WARNING, "%s: the credentials go over the network in clear text", node->url);
}

/* The empty pass phrase keeps OpenSSL from asking on the terminal. */
bool mt_auth_set_tls(const mt_auth *auth, CURL *easy) {
  return !curl_easy_setopt(easy, CURLOPT_KEYPASSWD, "") &&
         !curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) &&
         !curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, auth->insecure ? 0L : 1L) &&
         !curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, auth->insecure ? 0L : 2L) &&
         (!auth->ca_file || (!curl_easy_setopt(easy, CURLOPT_CAINFO, auth->ca_file) &&
                             !curl_easy_setopt(easy, CURLOPT_CAPATH, NULL))) &&
         (!auth->cert_file || !curl_easy_setopt(easy, CURLOPT_SSLCERT, auth->cert_file)) &&
         (!auth->cert_file || !curl_easy_setopt(easy, CURLOPT_SSLKEY,
                                                auth->key_file ? auth->key_file : auth->cert_file));
}
