/* A client and a server of its own for a test of core/http. */
#ifndef SPEC_HTTP_FIXTURE_H
#define SPEC_HTTP_FIXTURE_H

#include "base/pump.h"
#include "http/http.h"
#include "http_server.h"

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
/* clang-format on */

/* No message, log line or list of nodes may ever hold these. */
#define SECRET "s3cr3t-Zq9"
#define SECRET_CODED "dXNlcjpzM2NyM3QtWnE5" /* base64 of "user:" SECRET */

typedef struct fixture {
  mt_loop *loop;
  mt_http *http;
  test_server *server;
  mt_buf logged;
  mt_http_config config; /* nodes is set by fixture_open where it is NULL */
  char nodes[512];
} fixture;

/* Starts a server with the handler (NULL: none) and a client of it. */
void fixture_open(fixture *f, test_handler *handler, void *ctx);
/* The same of a node that is not taken for local: 0.0.0.0 reaches the loopback, but does not say so. */
void fixture_open_far(fixture *f, test_handler *handler, void *ctx);
void fixture_close(fixture *f);

/* A request as most tests want it: any node, five seconds. */
mt_http_req fixture_request(fixture *f, const char *method, const char *path, const char *body);
/* Submits and steps until it is done; at most ten seconds. */
void fixture_run(fixture *f, mt_http_req *req);
/* Steps until all n are done. */
void fixture_wait(fixture *f, mt_http_req *const *reqs, size_t n);
void fixture_step_for(fixture *f, int64_t ms);
bool fixture_done(const mt_http_req *req);

/* The request failed so; no secret in what it says. */
void assert_failed(const mt_http_req *req, mortise_status code, bool ambiguous, const char *says);
void assert_answer(const mt_http_req *req, int status, const char *text);
void assert_no_secret(const char *text);

#endif
