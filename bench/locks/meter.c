#include "bench.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double seconds(struct timeval t) {
  return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static meter reading(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return (meter){now_us() / 1e6, seconds(u.ru_utime), seconds(u.ru_stime)};
}

void meter_begin(meter *m) {
  *m = reading();
}

void meter_end(const meter *m, sample *s) {
  meter end = reading();
  s->wall += end.wall - m->wall;
  s->user += end.user - m->user;
  s->system += end.system - m->system;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

double median(double *values, size_t n) {
  if (!n) return 0;
  qsort(values, n, sizeof *values, by_value);
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

void percentiles(double *us, size_t n, sample *s) {
  s->p50 = median(us, n);
  s->p99 = n ? us[n - 1 - n / 100] : 0;
  s->most = n ? us[n - 1] : 0;
}
