/* All memory of the core comes from here, so that one hook can count it or make it fail. */
#ifndef MT_BASE_MEM_H
#define MT_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>

void *mt_alloc(size_t size);                 /* uninitialised; NULL when there is none */
void *mt_calloc(size_t count, size_t size);  /* zeroed; NULL on overflow of count * size too */
void *mt_realloc(void *p, size_t size);      /* NULL leaves `p` as it was */
void mt_free(void *p);                       /* NULL is fine */
void mt_free_secret(char *text);             /* wipes it first */
char *mt_strndup(const char *p, size_t n);   /* terminated copy; owned by the caller */
char *mt_strdup(const char *s);

/* Grows an array of `size`-byte elements to hold at least `need`, doubling from 8, never above
 * `max` elements. false when over `max` or out of memory; the array is then unchanged. */
bool mt_grow(void **array, size_t *cap, size_t need, size_t size, size_t max);

/* For tests: called before each allocation; false makes it fail. NULL removes the hook. */
void mt_mem_hook(bool (*allow)(void *ctx, size_t size), void *ctx);

#endif
