/* Who waits for whom, as the documents of sessions say it (deadlock.c). This file knows no store
 * and no manager: it reads waiting lists, and looks for a cycle. What it reads was written by
 * others: any bytes are borne, and all of it is capped. */
#ifndef MT_LOCK_WAITGRAPH_H
#define MT_LOCK_WAITGRAPH_H

#include "store/store.h"

enum {
  MT_GRAPH_SESSIONS = 64,
  MT_GRAPH_NODES = 256,
  MT_GRAPH_ITEMS = 8192, /* of each kind, of all nodes together */
  MT_GRAPH_TEXT = 1 << 20,
  MT_CYCLE_MAX = 16, /* a longer one is left to the time-outs */
};

typedef struct mt_graph_session {
  char id[MT_SESSION_ID];
  bool known; /* its document was read */
  bool live;
  bool wanted;       /* somebody who was reached waits for it */
  int64_t opened_ms; /* server's clock */
  uint64_t fence;    /* of the version that was read */
  uint64_t after;    /* what it says was so at some time after this write; 0: does not say */
  char *owner;       /* owned JSON, or NULL */
} mt_graph_session;

typedef struct mt_graph_for {
  size_t session;
  bool queued;
} mt_graph_for;

typedef struct mt_graph_hold {
  size_t path, path_n; /* in the graph's text */
  mt_mode mode;
  uint64_t fence;
} mt_graph_hold;

/* A task that waits. */
typedef struct mt_graph_node {
  size_t session;
  uint64_t task, wait;
  uint64_t polled; /* the write after which those who are queued stood before it; 0: none */
  size_t path, path_n;
  uint32_t stripe;
  mt_mode mode;
  size_t fors, n_fors;   /* in the graph's arrays; at the store */
  size_t waits, n_waits; /* for tasks of its own process */
  size_t holds, n_holds;
  bool nested; /* it waits while it holds a lock */
  bool before; /* the node from which is searched gives way before it does */
  bool seen;
  size_t from;
} mt_graph_node;

typedef struct mt_graph {
  mt_graph_session sessions[MT_GRAPH_SESSIONS]; /* the first is our own */
  size_t n_sessions;
  mt_graph_node *nodes;
  size_t n_nodes, cap_nodes;
  mt_graph_for *fors;
  size_t n_fors, cap_fors;
  uint64_t *waits;
  size_t n_waits, cap_waits;
  mt_graph_hold *holds;
  size_t n_holds, cap_holds;
  mt_buf text;
} mt_graph;

void mt_graph_init(mt_graph *g, const char *own);
void mt_graph_deinit(mt_graph *g);
/* The number of that session, added where it is new; SIZE_MAX when there is no room, or `id` is
 * none. */
size_t mt_graph_session_of(mt_graph *g, mt_slice id);
/* Adds the waits of a session: a JSON array as in its document. What does not fit is left out. */
void mt_graph_add(mt_graph *g, size_t session, mt_slice waiting);
size_t mt_graph_find(const mt_graph *g, size_t session, uint64_t wait); /* SIZE_MAX: not there */

/* Does node `a` wait for node `b`? `key` names what it waits for: it stays the same as long as that
 * does. */
bool mt_graph_edge(const mt_graph *g, size_t a, size_t b, uint64_t *key);
/* A shortest cycle through `start` in which it is the one to give way: the youngest of those that
 * are nested, by their sessions' opening, the sessions' ids, the tasks' numbers. Writes the members
 * from `start` on and returns their number; 0 when there is none, and then the sessions that were
 * reached are `wanted`. */
size_t mt_graph_cycle(mt_graph *g, size_t start, size_t members[MT_CYCLE_MAX]);

mt_place mt_graph_place(const mt_graph *g, const mt_graph_node *node);

#endif
