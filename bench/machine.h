/* What this machine does just now without anything of mortise's: a raw pair, measured in the same run as a benchmark's
 * figures and printed beside them, so that figures of two days can be compared. */
#ifndef MT_BENCH_MACHINE_H
#define MT_BENCH_MACHINE_H

typedef struct machine machine;

/* A document's `_create` and its delete, prepared, one connection. The index is made, and removed at the end. */
machine *machine_server(const char *url);
/* A row: an SQLite file in `folder` is opened, written, synced and closed. */
machine *machine_file(const char *folder);
/* Measures so many pairs more; called between the parts of a run, so that they see the same conditions. */
void machine_sample(machine *m, unsigned times);
/* Prints the median of all pairs so far, and what `us` microseconds of `what` are of it; NULL: the pair alone. JSON on
 * standard output, a line on standard error. */
void machine_say(const machine *m, const char *what, double us);
void machine_free(machine *m);

#endif
