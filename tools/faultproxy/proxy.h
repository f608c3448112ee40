/* A proxy between a client and a server that makes chosen requests go wrong (rule.h). It runs on a
 * loop of the caller's and belongs to that loop's thread; it listens on the loopback only. */
#ifndef MT_FAULT_PROXY_H
#define MT_FAULT_PROXY_H

#include "base/loop.h"

#include <stdio.h>

typedef struct fault_proxy fault_proxy;

typedef struct fault_config {
  const char *upstream; /* "http://HOST:PORT" or "HOST:PORT"; resolved once */
  uint16_t port;        /* 0: a free one */
  uint64_t seed;        /* seed of the random numbers for rules with a rate */
  bool anonymous;       /* X-Opaque-Id is taken out of every request, so no answer has it */
  FILE *record;         /* borrowed: a line of JSON for each request; NULL none */
} fault_config;

/* NULL with `err`. Owned: fault_proxy_free. */
fault_proxy *fault_proxy_new(mt_loop *loop, const fault_config *config, mortise_error *err);
void fault_proxy_free(fault_proxy *p); /* closes every connection; NULL is fine */
uint16_t fault_proxy_port(const fault_proxy *p);

/* Adds a rule. If several rules apply to a request, the first one counts. */
mortise_status fault_proxy_rule(fault_proxy *p, const char *line, mortise_error *err);
void fault_proxy_clear(fault_proxy *p);          /* forgets all rules */
unsigned fault_proxy_hits(const fault_proxy *p); /* requests that rules were applied to */
/* How many requests are held back, or have no answer from the server yet. */
size_t fault_proxy_busy(const fault_proxy *p);

#endif
