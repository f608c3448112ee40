/* The wait-for graph, built from the waiting lists in session documents, and the search for a cycle
 * in it (deadlock.c). The lists were written by others: any bytes are accepted, and all sizes are
 * capped. */
#ifndef MT_LOCK_WAITGRAPH_H
#define MT_LOCK_WAITGRAPH_H

#include "store/store.h"

enum {
  MT_GRAPH_SESSIONS = 64,
  MT_GRAPH_NODES = 256,
  MT_GRAPH_ITEMS = 8192, /* of each kind, in all nodes together */
  MT_GRAPH_TEXT = 1 << 20,
  MT_CYCLE_MAX = 16, /* longer cycles are left to time-outs */
};

typedef struct mt_graph_session {
  char id[MT_SESSION_ID];
  bool known; /* its document was read */
  bool live;
  bool wanted;       /* a node that was reached waits for it */
  int64_t opened_ms; /* server's clock */
  uint64_t fence;    /* of the version read */
  uint64_t after;    /* its list was true at some moment after this write; 0: unknown */
  char *owner;       /* owned JSON, or NULL */
} mt_graph_session;

typedef struct mt_graph_for {
  size_t session;
  bool queued;
} mt_graph_for;

typedef struct mt_graph_hold {
  bool in_one; /* in this stripe of its path alone; else in any */
  uint32_t stripe;
  size_t path, path_n; /* in the graph's text */
  mt_mode mode;
  uint64_t fence;
} mt_graph_hold;

/* A task that waits. */
typedef struct mt_graph_node {
  size_t session;
  uint64_t task, wait;
  uint64_t polled; /* its last poll, when those queued ahead of it were there; 0: none */
  size_t path, path_n;
  uint32_t stripe;
  mt_mode mode;
  size_t fors, n_fors;   /* blocking sessions, in the graph's arrays */
  size_t waits, n_waits; /* waits of its own process that block it */
  size_t holds, n_holds;
  bool nested; /* its task holds a lock while it waits */
  bool before; /* the search's start would give way before this one */
  bool seen;
  size_t from;
} mt_graph_node;

typedef struct mt_graph {
  mt_graph_session sessions[MT_GRAPH_SESSIONS]; /* the first is ours */
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
/* The index of that session, added if it is new; SIZE_MAX if there is no room or `id` is
 * invalid. */
size_t mt_graph_session_of(mt_graph *g, mt_slice id);
/* Adds the waits of a session from the JSON array in its document. What does not fit is left
 * out. */
void mt_graph_add(mt_graph *g, size_t session, mt_slice waiting);
size_t mt_graph_find(const mt_graph *g, size_t session, uint64_t wait); /* SIZE_MAX: none */

/* Does node `a` wait for node `b`? `key` identifies what it waits for, so that two readings can be
 * compared. */
bool mt_graph_edge(const mt_graph *g, size_t a, size_t b, uint64_t *key);
/* Finds a shortest cycle of which `start` is the victim: the youngest nested member, by its
 * session's opening, session id, and task number. Writes the members from `start` on and returns
 * their count. Returns 0 if there is none, and marks the sessions that were reached `wanted`. */
size_t mt_graph_cycle(mt_graph *g, size_t start, size_t members[MT_CYCLE_MAX]);

mt_place mt_graph_place(const mt_graph *g, const mt_graph_node *node);

#endif
