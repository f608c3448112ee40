#include "base/must.h"

#include <stdio.h>
#include <stdlib.h>

void mt_must_fail(const char *claim, const char *file, int line) {
  fprintf(stderr, "mortise: a bug in mortise: %s:%d: it must hold that %s\n", file, line, claim);
  abort();
}
