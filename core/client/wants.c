#include "base/mem.h"
#include "client/client.h"
#include "lock/path.h"

#include <stdio.h>

enum { TEXT_MAX = 1 << 30 };

mortise_status mortise_path_normalise(const char *path, char *out, mortise_error *err) {
  mt_slice checked;
  mortise_status status = mt_path_check(mt_slice_of(path), &checked, err);
  if (status) return status;
  memcpy(out, checked.p, checked.n);
  out[checked.n] = '\0';
  return MORTISE_OK;
}

/* Appends the path that one name of the request means. */
static mortise_status add_path(const mortise_lock_request *r, const char *name, mt_buf *text,
                               mortise_error *err) {
  if (r->kind == MORTISE_LOCK_TREE) {
    mt_slice checked;
    mortise_status status = mt_path_check(mt_slice_of(name), &checked, err);
    if (!status) mt_buf_addslice(text, checked);
    return status;
  }
  mt_buf_adds(text, r->kind == MORTISE_LOCK_DOCUMENT ? "/_doc/" : "/_named/");
  mt_path_add_segment(text, mt_slice_of(r->index));
  mt_buf_addc(text, '/');
  mt_path_add_segment(text, mt_slice_of(name));
  return MORTISE_OK;
}

static mortise_status check_request(const mortise_lock_request *r, mortise_error *err) {
  bool needs_index = r->kind == MORTISE_LOCK_DOCUMENT || r->kind == MORTISE_LOCK_NAMED;
  if (needs_index && (!r->index || !*r->index))
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "a %s lock needs %s",
                        r->kind == MORTISE_LOCK_NAMED ? "named" : "document",
                        r->kind == MORTISE_LOCK_NAMED ? "a category" : "an index");
  if (r->kind != MORTISE_LOCK_GLOBAL && !r->n)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "a lock needs at least one %s",
                        r->kind == MORTISE_LOCK_TREE ? "path" : "name");
  return MORTISE_OK;
}

mortise_status mt_wants_make(const mortise_lock_request *r, mt_wants *out, mortise_error *err) {
  static const char *const root[] = {"/"};
  *out = (mt_wants){0};
  mt_buf_init(&out->text, TEXT_MAX);
  mortise_lock_request global = {
      .kind = MORTISE_LOCK_TREE, .paths = root, .n = 1, .shared = r->shared};
  mortise_status status = check_request(r, err);
  if (status) return status;
  if (r->kind == MORTISE_LOCK_GLOBAL) r = &global;
  out->wants = mt_calloc(r->n, sizeof *out->wants);
  if (!out->wants) return mt_error_memory(err);
  /* Lengths first: the text moves while it grows. */
  for (size_t i = 0; i < r->n && !status; i++) {
    size_t before = out->text.n;
    status = add_path(r, r->paths[i], &out->text, err);
    out->wants[i].mode = r->shared ? MT_S : MT_X;
    out->wants[i].path.n = out->text.n - before;
  }
  if (!status) status = mt_buf_status(&out->text, "the set of paths", err);
  if (status) {
    mt_wants_deinit(out);
    return status;
  }
  const char *p = out->text.p;
  for (; out->n < r->n; out->n++) {
    out->wants[out->n].path.p = p;
    p += out->wants[out->n].path.n;
    if (r->kind == MORTISE_LOCK_TREE) continue; /* checked already */
    mt_slice checked;
    status = mt_path_check(out->wants[out->n].path, &checked, err);
    if (!status) continue;
    mt_wants_deinit(out);
    return status;
  }
  return MORTISE_OK;
}

void mt_wants_deinit(mt_wants *w) {
  mt_free(w->wants);
  mt_buf_deinit(&w->text);
  w->wants = NULL;
  w->n = 0;
}
