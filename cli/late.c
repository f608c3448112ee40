#include "late.h"

#include <dlfcn.h>
#include <stdio.h>

bool mt_late_load(const char *soname, const mt_late_row *rows, void *functions, char *why, size_t n) {
  void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
  for (; library && rows->name; rows++) {
    void *function = dlsym(library, rows->name);
    *(void **)((char *)functions + rows->offset) = function;
    if (!function) break;
  }
  if (library && !rows->name) return true;
  const char *reason = dlerror();
  snprintf(why, n, "%s", reason ? reason : soname);
  return false;
}
