/* An HTTP server for a page and its data (libmicrohttpd's, with a thread of its own). What is published is
 * answered by that thread; anything else becomes a request for whoever calls mt_web_next. All is bounded:
 * connections, what each may hold, how long each may take.
 *
 * Each request must be for an address that a person typed, and come from the page itself or nobody's page
 * (web_guard.h). A POST is an order, which must bring the token in the header X-Mortise-Token. */
#ifndef MT_WEB_H
#define MT_WEB_H

#include "base/buf.h"

typedef struct mt_web mt_web;

typedef struct mt_web_options {
  int listener;              /* a socket that listens; the server closes it, also if it is not started */
  const char *name;          /* the host that it was told to listen on; NULL: an address */
  const char *token;         /* of orders; NULL: there are none */
  const char *policy;        /* Content-Security-Policy of the page */
  void (*asked)(void *ctx);  /* in the server's thread: mt_web_next may have something */
  void *ctx;
} mt_web_options;

mt_web *mt_web_start(const mt_web_options *o, mortise_error *err); /* all is copied; NULL with `err` */
void mt_web_stop(mt_web *web); /* ends what is under way; afterwards `asked` is not called */

typedef enum mt_web_slot {
  MT_WEB_PAGE,    /* GET / */
  MT_WEB_DATA,    /* GET /data.json */
  MT_WEB_METRICS, /* GET /metrics */
  MT_WEB_HEALTH,  /* GET /healthz */
  MT_WEB_SLOTS,
} mt_web_slot;

/* From now on the answer there is this text, with this status. */
mortise_status mt_web_publish(mt_web *web, mt_web_slot slot, unsigned status, mt_slice text, mortise_error *err);
/* The newest event (text/event-stream) of GET /events: each client gets the newest when it has read the last. */
mortise_status mt_web_tell(mt_web *web, mt_slice event, mortise_error *err);
/* Until it is published again, /healthz says 503 after this time. */
void mt_web_health_until(mt_web *web, int64_t boot_ms);

typedef struct mt_web_request {
  uint64_t id;
  bool is_order;
  const char *path;
  mt_slice arguments; /* name, NUL, value, NUL and so on, decoded */
  mt_slice body;      /* of an order */
} mt_web_request;

/* Is there a request for mt_web_next? */
bool mt_web_is_asked(mt_web *web);
/* The next request, borrowed until it is answered; false: there is none. */
bool mt_web_next(mt_web *web, mt_web_request *out);
/* Its answer, JSON. An id that is not known (any more) is ignored. */
mortise_status mt_web_answer(mt_web *web, uint64_t id, unsigned status, mt_slice text, mortise_error *err);

/* How many read events, and when somebody last asked for anything but /metrics and /healthz. */
typedef struct mt_web_looks {
  size_t readers, connections;
  int64_t last_ms; /* of mt_clock_boot_ms; 0: never */
} mt_web_looks;
mt_web_looks mt_web_look(mt_web *web);

/* Ends the connections that take too long. To be called about once a second. */
void mt_web_sweep(mt_web *web);

#endif
