/* Files compiled in by mortise_embed (cmake/embed.cmake). */
#ifndef MT_BASE_EMBED_H
#define MT_BASE_EMBED_H

#include <stddef.h>

/* One file of a table `const mt_embedded SYMBOL[]`, which ends with a NULL name. */
typedef struct mt_embedded {
  const char *name; /* its path below the folder that was named */
  const unsigned char *bytes; /* terminated by a NUL that `n` does not count */
  size_t n;
} mt_embedded;

#endif
