/* The functions of libcurl and libcrypto that the core calls, for the program alone: each library is loaded
 * when it is first needed. Loading libcurl at the start, with the thirty libraries that it needs, takes longer
 * than all else that a short command does on an embedded store.
 *
 * The linker finds the functions here instead of in the libraries, so the core calls them as ever, and a
 * function that is missing here is an error of the build. MORTISE_CURL and MORTISE_CRYPTO are the sonames of
 * the libraries that the build has found. */
#include "late.h"

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#undef curl_easy_getinfo /* macros of the same names */
#undef curl_easy_setopt
#undef curl_multi_setopt

MT_LATE_NOTE(loads_note, MT_LATE_LIBRARY("server", "required", MORTISE_CURL) ","
             MT_LATE_LIBRARY("server", "required", MORTISE_CRYPTO));

#define FUNCTION_ROW(name) MT_LATE_ROW(FUNCTIONS, name)

/* Another library that calls one of these finds the same function: they must not be hidden from it. */
#pragma GCC visibility push(default)

/* ---- libcurl: the core calls curl_global_init first, and nothing else if that fails ----------------- */

#define CURL_FUNCTIONS(EACH) \
  EACH(curl_easy_cleanup) EACH(curl_easy_getinfo) EACH(curl_easy_init) EACH(curl_easy_setopt) \
  EACH(curl_easy_strerror) EACH(curl_easy_escape) EACH(curl_easy_perform) EACH(curl_free) EACH(curl_getdate) \
  EACH(curl_slist_append) EACH(curl_slist_free_all) EACH(curl_global_init) EACH(curl_multi_add_handle) EACH(curl_multi_assign) \
  EACH(curl_multi_cleanup) EACH(curl_multi_info_read) EACH(curl_multi_init) EACH(curl_multi_remove_handle) \
  EACH(curl_multi_setopt) EACH(curl_multi_socket_action) EACH(curl_multi_strerror)

static struct curl_functions { CURL_FUNCTIONS(MT_LATE_MEMBER) } curl;

static char no_curl[256]; /* why there is none */

CURLcode curl_global_init(long flags) {
#define FUNCTIONS struct curl_functions
  static const mt_late_row rows[] = {CURL_FUNCTIONS(FUNCTION_ROW) {NULL, 0}};
#undef FUNCTIONS
  if (!mt_late_load(MORTISE_CURL, rows, &curl, no_curl, sizeof no_curl)) return CURLE_FAILED_INIT;
  return curl.curl_global_init(flags);
}

const char *curl_easy_strerror(CURLcode code) {
  return *no_curl ? no_curl : curl.curl_easy_strerror(code);
}

CURL *curl_easy_init(void) {
  return curl.curl_easy_init();
}

void curl_easy_cleanup(CURL *easy) {
  curl.curl_easy_cleanup(easy);
}

CURLcode curl_easy_getinfo(CURL *easy, CURLINFO info, ...) {
  va_list args;
  va_start(args, info);
  void *out = va_arg(args, void *);
  va_end(args);
  return curl.curl_easy_getinfo(easy, info, out);
}

CURLcode curl_easy_perform(CURL *easy) {
  return curl.curl_easy_perform(easy);
}

char *curl_easy_escape(CURL *easy, const char *text, int n) {
  return curl.curl_easy_escape(easy, text, n);
}

void curl_free(void *text) {
  curl.curl_free(text);
}

time_t curl_getdate(const char *text, const time_t *unused) {
  return curl.curl_getdate(text, unused);
}

struct curl_slist *curl_slist_append(struct curl_slist *list, const char *text) {
  return curl.curl_slist_append(list, text);
}

void curl_slist_free_all(struct curl_slist *list) {
  curl.curl_slist_free_all(list);
}

/* An option's number tells the type of its value (curl.h, CURLOPTTYPE_LONG and so on). */
#define PASS_ON(function, handle, option) \
  do { \
    va_list args; \
    va_start(args, option); \
    __typeof__(function(handle, option)) code_; \
    if ((long)option < CURLOPTTYPE_OBJECTPOINT) \
      code_ = function(handle, option, va_arg(args, long)); \
    else if ((long)option >= CURLOPTTYPE_OFF_T && (long)option < CURLOPTTYPE_BLOB) \
      code_ = function(handle, option, va_arg(args, curl_off_t)); \
    else \
      code_ = function(handle, option, va_arg(args, void *)); \
    va_end(args); \
    return code_; \
  } while (0)

CURLcode curl_easy_setopt(CURL *easy, CURLoption option, ...) {
  PASS_ON(curl.curl_easy_setopt, easy, option);
}

CURLMcode curl_multi_setopt(CURLM *multi, CURLMoption option, ...) {
  PASS_ON(curl.curl_multi_setopt, multi, option);
}

CURLM *curl_multi_init(void) {
  return curl.curl_multi_init();
}

CURLMcode curl_multi_cleanup(CURLM *multi) {
  return curl.curl_multi_cleanup(multi);
}

CURLMcode curl_multi_add_handle(CURLM *multi, CURL *easy) {
  return curl.curl_multi_add_handle(multi, easy);
}

CURLMcode curl_multi_remove_handle(CURLM *multi, CURL *easy) {
  return curl.curl_multi_remove_handle(multi, easy);
}

CURLMcode curl_multi_assign(CURLM *multi, curl_socket_t fd, void *ours) {
  return curl.curl_multi_assign(multi, fd, ours);
}

CURLMcode curl_multi_socket_action(CURLM *multi, curl_socket_t fd, int what, int *running) {
  return curl.curl_multi_socket_action(multi, fd, what, running);
}

CURLMsg *curl_multi_info_read(CURLM *multi, int *left) {
  return curl.curl_multi_info_read(multi, left);
}

const char *curl_multi_strerror(CURLMcode code) {
  return curl.curl_multi_strerror(code);
}

/* ---- libcrypto: where it is missing, the program ends as the dynamic loader would end it at the start -- */

#define CRYPTO_FUNCTIONS(EACH) \
  EACH(BIO_free) EACH(BIO_new_file) EACH(ERR_clear_error) EACH(EVP_DecodeBlock) EACH(EVP_Digest) \
  EACH(EVP_EncodeBlock) EACH(EVP_PKEY_free) EACH(EVP_sha256) EACH(HMAC) \
  EACH(PEM_read_bio_PrivateKey)

typedef struct crypto_functions { CRYPTO_FUNCTIONS(MT_LATE_MEMBER) } crypto_functions;

static crypto_functions crypto_loaded;

static void load_crypto(void) {
#define FUNCTIONS crypto_functions
  static const mt_late_row rows[] = {CRYPTO_FUNCTIONS(FUNCTION_ROW) {NULL, 0}};
#undef FUNCTIONS
  char why[256];
  if (mt_late_load(MORTISE_CRYPTO, rows, &crypto_loaded, why, sizeof why)) return;
  fprintf(stderr, "mortise: %s\n", why);
  _Exit(127);
}

static const crypto_functions *crypto(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_crypto);
  return &crypto_loaded;
}

const EVP_MD *EVP_sha256(void) {
  return crypto()->EVP_sha256();
}

int EVP_Digest(const void *data, size_t n, unsigned char *digest, unsigned int *size, const EVP_MD *type,
               ENGINE *engine) {
  return crypto()->EVP_Digest(data, n, digest, size, type, engine);
}

unsigned char *HMAC(const EVP_MD *type, const void *key, int key_n, const unsigned char *data, size_t n,
                    unsigned char *out, unsigned int *size) {
  return crypto()->HMAC(type, key, key_n, data, n, out, size);
}

int EVP_EncodeBlock(unsigned char *to, const unsigned char *from, int n) {
  return crypto()->EVP_EncodeBlock(to, from, n);
}

int EVP_DecodeBlock(unsigned char *to, const unsigned char *from, int n) {
  return crypto()->EVP_DecodeBlock(to, from, n);
}

BIO *BIO_new_file(const char *file, const char *mode) {
  return crypto()->BIO_new_file(file, mode);
}

int BIO_free(BIO *bio) {
  return crypto()->BIO_free(bio);
}

EVP_PKEY *PEM_read_bio_PrivateKey(BIO *from, EVP_PKEY **key, pem_password_cb *ask, void *ctx) {
  return crypto()->PEM_read_bio_PrivateKey(from, key, ask, ctx);
}

void EVP_PKEY_free(EVP_PKEY *key) {
  crypto()->EVP_PKEY_free(key);
}

void ERR_clear_error(void) {
  crypto()->ERR_clear_error();
}

#pragma GCC visibility pop
