/* A small HTTP server for tests, on a free port of the loopback: a thread for each connection, and
 * a handler that decides what goes out, down to the bytes. */
#ifndef SPEC_HTTP_SERVER_H
#define SPEC_HTTP_SERVER_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct test_server test_server;
typedef struct test_conn test_conn;

typedef struct test_request {
  unsigned number;     /* 1 is the server's first */
  unsigned connection; /* 1 is the server's first */
  char head[8192];     /* request line and headers as they came */
  char *body;
  size_t n;
  bool whole; /* the body came to its end */
} test_request;

/* Runs in the connection's thread. false closes the connection. */
typedef bool test_handler(test_conn *conn, const test_request *req, void *ctx);

test_server *test_server_start(uint16_t port, SSL_CTX *tls, test_handler *handler, void *ctx);
void test_server_stop(test_server *s);
uint16_t test_server_port(const test_server *s);
unsigned test_server_requests(test_server *s); /* complete ones */
unsigned test_server_connections(test_server *s);

void test_send(test_conn *conn, const void *p, size_t n);
void test_sendf(test_conn *conn, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A whole JSON answer. */
void test_answer(test_conn *conn, int status, const char *json);
void test_sleep(test_conn *conn, int ms); /* ends early when the server is stopped */
void test_reset(test_conn *conn);         /* the peer sees a reset */
bool test_has(const test_request *req, const char *line);

/* A port on which nobody listens. */
uint16_t test_free_port(void);

#endif
