/* Makes and frees many hosts, each of which runs a script; fails if the process grows by it. */
#include <mortise/host.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static long resident_kib(void) {
  long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%*s %ld", &pages) != 1) exit(2);
  fclose(file);
  return pages * 4;
}

static int descriptors(void) {
  int n = 0;
  DIR *folder = opendir("/proc/self/fd");
  if (!folder) exit(2);
  while (readdir(folder)) n++;
  closedir(folder);
  return n;
}

static int live(void) {
  mortise_error err;
  mortise_host *host = mortise_host_new(NULL, &err);
  if (!host || mortise_host_run_string(host, "mortise.sleep(0)", "=life", NULL, 0, &err)) {
    fprintf(stderr, "%s\n", err.message);
    return 1;
  }
  mortise_host_free(host);
  return 0;
}

int main(int argc, char **argv) {
  enum { WARM = 500, GROWTH_KIB = 1024 };
  long n = argc > 1 ? strtol(argv[1], NULL, 10) : 10000;
  for (int i = 0; i < WARM; i++)
    if (live()) return 1;
  long before = resident_kib();
  int open_before = descriptors();
  for (long i = 0; i < n; i++)
    if (live()) return 1;
  printf("%ld hosts: from %ld to %ld KiB, %d descriptors more\n", n, before, resident_kib(), descriptors() - open_before);
  return resident_kib() - before > GROWTH_KIB || descriptors() != open_before;
}
