/* What the files of this benchmark share. */
#ifndef MT_BENCH_JOBS_H
#define MT_BENCH_JOBS_H

#include "bench.h"

/* ---- program.c: the program `mortise`, as a process of its own ------------------------------- */

/* Runs job.lua WAY in it, and fills what it says and its peak. */
bool run_program(const char *program, const char *store, const char *way, const char *index,
                 size_t documents, sample *s);

/* ---- memory.c -------------------------------------------------------------------------------- */

/* Renames so many documents of an embedded store, and tells its peaks. -> exit status */
int measure_memory(const char *program, const char *way, const size_t *documents, size_t n);

#endif
