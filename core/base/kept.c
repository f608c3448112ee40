#include "base/kept.h"

#include "base/mem.h"

struct mt_kept {
  mt_kept *next;
  char *text;
};

bool mt_kept_take(mt_kept **list, mt_buf *from, mt_slice *text) {
  mt_kept *k = mt_alloc(sizeof *k);
  size_t n = 0;
  char *bytes = k ? mt_buf_take(from, &n) : NULL;
  if (!bytes) {
    mt_free(k);
    return false;
  }
  *k = (mt_kept){*list, bytes};
  *list = k;
  *text = (mt_slice){bytes, n};
  return true;
}

void mt_kept_free(mt_kept **list) {
  while (*list) {
    mt_kept *k = *list;
    *list = k->next;
    mt_free(k->text);
    mt_free(k);
  }
}
