/* The view of a document, for the files that make, read and change views. */
#ifndef MT_LUA_VIEW_H
#define MT_LUA_VIEW_H

#include "bindings/driver.h"

#include "base/json_edit.h"
#include "store/store.h"

enum { MT_VIEW_TEXT_MAX = 1 << 30 };

typedef struct mt_page_box {
  mt_owned owned;
  mt_page *page; /* NULL: closed and no longer pinned */
  unsigned pins; /* calls that read its bytes; after an error the collector frees the page */
  bool closed;
} mt_page_box;

typedef enum mt_view_kind {
  MT_VIEW_DOC,    /* user values: the keeper of its bytes; its patches or nil */
  MT_VIEW_INSIDE, /* an object in a document; user values: the document; its name there */
  MT_VIEW_FIXED,  /* an array or something in one, read-only; user value: the keeper of its bytes */
} mt_view_kind;

typedef struct mt_view {
  mt_view_kind kind;
  mt_page_box *page;  /* NULL, or the page whose bytes it reads */
  mt_json value;      /* unused for MT_VIEW_INSIDE */
  const mt_doc *meta; /* MT_VIEW_DOC */
  size_t patches;     /* MT_VIEW_DOC: how many fields were assigned */
  size_t edits;       /* MT_VIEW_DOC: number of assignments */
  mt_json_iter it;    /* MT_VIEW_FIXED: stands after item `at` */
  size_t at;
} mt_view;

/* The document of the view at 1, or a part of one that is read-only; NULL: it is no view. Allocates nothing. */
const mt_view *mt_view_whole(lua_State *L);
/* What it takes to make its text, in about as many instructions of Lua: each assignment is made in a copy of all of it. */
static inline uint64_t mt_view_making_steps(const mt_view *root) {
  return (root->value.raw.n / 2 + root->patches) * ((uint64_t)root->patches + 1);
}

#endif
