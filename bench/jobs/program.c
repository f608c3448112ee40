#include "jobs.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SAID_MAX = 1 << 20 };

static void be_program(char *const words[], int out) {
  dup2(out, STDOUT_FILENO);
  execv(words[0], words);
  perror(words[0]);
  _exit(127);
}

static bool take_result(mt_slice said, sample *s) {
  mt_json root;
  mt_slice last = said;
  while (last.n && last.p[last.n - 1] == '\n') last.n--;
  const char *line = last.n ? memrchr(last.p, '\n', last.n) : NULL;
  if (line) last = (mt_slice){line + 1, (size_t)(last.p + last.n - line - 1)};
  return !mt_json_parse(last, "what the program says", &root, NULL) &&
         mt_json_uint(mt_json_get(root, "changed"), &s->docs) &&
         mt_json_uint(mt_json_get(root, "round_trips"), &s->trips) &&
         mt_json_uint(mt_json_get(root, "bytes"), &s->bytes) &&
         mt_json_uint(mt_json_get(root, "peak_kb"), &s->peak);
}

bool run_program(const char *program, const char *store, const char *way, const char *index,
                 size_t documents, sample *s) {
  char number[32], *words[] = {(char *)(uintptr_t)program,
                               (char *)"--store",
                               (char *)(uintptr_t)store,
                               (char *)"--table",
                               (char *)"mortise-bench-locks",
                               (char *)"run",
                               (char *)BENCH_JOBS_SCRIPT,
                               (char *)(uintptr_t)way,
                               (char *)(uintptr_t)index,
                               number,
                               NULL};
  char part[4096];
  int ends[2], status = 1;
  mt_buf said;
  snprintf(number, sizeof number, "%zu", documents);
  if (pipe(ends)) return false;
  pid_t pid = fork();
  if (!pid) be_program(words, ends[1]);
  close(ends[1]);
  mt_buf_init(&said, SAID_MAX);
  for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) mt_buf_add(&said, part, (size_t)n);
  close(ends[0]);
  bool ok = pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
  ok = ok && take_result(mt_buf_slice(&said), s);
  mt_buf_deinit(&said);
  return ok;
}
