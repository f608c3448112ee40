/* The Authorization header and TLS. */
#include "base/mem.h"
#include "http/internal.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECRET_MAX = 16384 };

static void wipe_secret(char *p) {
  if (!p) return;
  explicit_bzero(p, strlen(p));
  mt_free(p);
}

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
  wipe_secret(pair);
  wipe_secret(coded);
  return status;
}

static mortise_status credentials(mt_auth *auth, const mt_http_config *c, mortise_error *err) {
  int ways = (c->user || c->password) + (c->api_key != NULL) + (c->bearer != NULL);
  if (ways > 1)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT,
                        "more than one way of authentication: give user and password, or api_key, "
                        "or bearer");
  if (c->api_key) return token(auth, "api_key", "ApiKey", c->api_key, err);
  if (c->bearer) return token(auth, "bearer", "Bearer", c->bearer, err);
  return ways ? basic(auth, c->user, c->password, err) : MORTISE_OK;
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

mortise_status mt_auth_init(mt_auth *auth, const mt_http_config *c, mortise_error *err) {
  *auth = (mt_auth){.insecure = c->insecure};
  mortise_status status = credentials(auth, c, err);
  if (!status && c->key_file && !c->cert_file)
    status = mt_error_set(err, MORTISE_INVALID_ARGUMENT, "key_file is given without cert_file");
  if (!status) status = file(&auth->ca_file, "ca_file", c->ca_file, err);
  if (!status) status = file(&auth->cert_file, "cert_file", c->cert_file, err);
  if (!status) status = file(&auth->key_file, "key_file", c->key_file, err);
  return status ? status : check_key_file(auth, err);
}

void mt_auth_deinit(mt_auth *auth) {
  wipe_secret(auth->header);
  mt_free(auth->ca_file);
  mt_free(auth->cert_file);
  mt_free(auth->key_file);
  *auth = (mt_auth){0};
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
