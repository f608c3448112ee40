/* What must hold, or the program itself is wrong. It ends then, in every build: one that went on could spin for ever
 * and keep its locks, or write what it should not. What a caller or the store can do wrong is an error instead. */
#ifndef MT_BASE_MUST_H
#define MT_BASE_MUST_H

#define MT_MUST(claim) ((claim) ? (void)0 : mt_must_fail(#claim, __FILE__, __LINE__))

/* A struct that is linked through a member of its own is in one list at most, and once: a second time it would be its
 * own successor. `element` is not in the list yet; found also where it was initialised anew meanwhile. */
#define MT_MUST_BE_NEW(type, head, link, element)                                                  \
  do {                                                                                             \
    for (const type *mt_each = (head); mt_each; mt_each = mt_each->link)                           \
      MT_MUST(mt_each != (element));                                                               \
  } while (0)

_Noreturn void mt_must_fail(const char *claim, const char *file, int line);

#endif
