#include "base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static bool (*hook_allow)(void *ctx, size_t size);
static void *hook_ctx;

void mt_mem_hook(bool (*allow)(void *ctx, size_t size), void *ctx) {
  hook_allow = allow;
  hook_ctx = ctx;
}

static bool allowed(size_t size) {
  return !hook_allow || hook_allow(hook_ctx, size);
}

void *mt_alloc(size_t size) {
  return allowed(size) ? malloc(size ? size : 1) : NULL;
}

void *mt_calloc(size_t count, size_t size) {
  return allowed(count * size) ? calloc(count ? count : 1, size ? size : 1) : NULL;
}

void *mt_realloc(void *p, size_t size) {
  return allowed(size) ? realloc(p, size ? size : 1) : NULL;
}

void mt_free(void *p) {
  free(p);
}

void mt_free_secret(char *text) {
  if (text) explicit_bzero(text, strlen(text));
  free(text);
}

char *mt_strndup(const char *p, size_t n) {
  char *copy = mt_alloc(n + 1);
  if (!copy) return NULL;
  if (n) memcpy(copy, p, n);
  copy[n] = '\0';
  return copy;
}

char *mt_strdup(const char *s) {
  return mt_strndup(s, strlen(s));
}

bool mt_grow(void **array, size_t *cap, size_t need, size_t size, size_t max) {
  if (need <= *cap) return true;
  if (need > max || max > SIZE_MAX / size) return false;
  size_t room = *cap ? *cap : 8;
  while (room < need) room = room > max / 2 ? max : room * 2;
  if (room > max) room = max;
  void *grown = mt_realloc(*array, room * size);
  if (!grown) return false;
  *array = grown;
  *cap = room;
  return true;
}
