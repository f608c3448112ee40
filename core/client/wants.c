#include "base/mem.h"
#include "client/client.h"
#include "client/options.h"
#include "lock/path.h"

#include <stdio.h>

enum { TEXT_MAX = 1 << 30 };

mortise_status mortise_path_normalise(const char *path, char *out, mortise_error *err) {
  mt_slice checked;
  if (!path || !out) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "a path is NULL");
  mortise_status status = mt_path_check(mt_slice_of(path), &checked, err);
  if (status) return status;
  mt_error_clear(err);
  memcpy(out, checked.p, checked.n);
  out[checked.n] = '\0';
  return MORTISE_OK;
}

mt_mode mt_wants_mode(mortise_lock_mode mode) {
  return mode == MORTISE_SHARED ? MT_S : mode == MORTISE_SIX ? MT_SIX : MT_X;
}

/* Appends the path for one name of the request; all but tree paths begin with `above`. */
static mortise_status add_want_path(const mortise_lock_request *r, const char *name, mt_slice above,
                                    mt_buf *text, mortise_error *err) {
  if (r->kind == MORTISE_LOCK_TREE) {
    mt_slice checked;
    mortise_status status = mt_path_check(mt_slice_of(name), &checked, err);
    if (!status) mt_buf_addslice(text, checked);
    return status;
  }
  mt_buf_addslice(text, above);
  mt_path_add_segment(text, mt_slice_of(name));
  return MORTISE_OK;
}

static void add_above(const mortise_lock_request *r, mt_buf *out) {
  if (r->kind == MORTISE_LOCK_TREE) return;
  mt_buf_adds(out, r->kind == MORTISE_LOCK_DOCUMENT ? "/_doc/" : "/_named/");
  mt_path_add_segment(out, mt_slice_of(r->index));
  mt_buf_addc(out, '/');
}

mortise_status mt_wants_check(mortise_lock_mode mode, int64_t wait_ms, mortise_error *err) {
  if ((unsigned)mode > MORTISE_SIX)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "there is no lock mode %d", (int)mode);
  if (wait_ms >= -1 && wait_ms <= MORTISE_TIME_MAX_MS) return MORTISE_OK;
  char range[MT_OPTION_RANGE];
  mt_client_option_range(&mt_client_option_rows[MT_AT_wait_ms], range);
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "wait_ms: %s, or -1, not %lld ms", range,
                      (long long)wait_ms);
}

static mortise_status check_names(const mortise_lock_request *r, mortise_error *err) {
  const char *what = r->kind == MORTISE_LOCK_TREE ? "path" : "name";
  if (!r->n || !r->paths)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "a lock needs at least one %s", what);
  for (size_t i = 0; i < r->n; i++)
    if (!r->paths[i] || !*r->paths[i])
      return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "%s %zu of the lock is %s", what, i + 1,
                          r->paths[i] ? "empty" : "NULL");
  return MORTISE_OK;
}

static mortise_status check_request(const mortise_lock_request *r, mortise_error *err) {
  if (!r) return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "a lock request is NULL");
  if ((unsigned)r->kind > MORTISE_LOCK_NAMED)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "there is no lock kind %d", (int)r->kind);
  mortise_status status = mt_wants_check(r->mode, r->wait_ms, err);
  if (status) return status;
  bool needs_index = r->kind == MORTISE_LOCK_DOCUMENT || r->kind == MORTISE_LOCK_NAMED;
  if (needs_index && (!r->index || !*r->index))
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "a %s lock needs %s",
                        r->kind == MORTISE_LOCK_NAMED ? "named" : "document",
                        r->kind == MORTISE_LOCK_NAMED ? "a category" : "an index");
  return r->kind == MORTISE_LOCK_GLOBAL ? MORTISE_OK : check_names(r, err);
}

/* Fills the text and the lengths; pointers follow later, since the text moves while it grows. */
static mortise_status add_paths(const mortise_lock_request *r, mt_wants *out, mortise_error *err) {
  mt_buf above;
  mt_buf_init(&above, TEXT_MAX);
  add_above(r, &above);
  mortise_status status = mt_buf_status(&above, "the set of paths", err);
  for (size_t i = 0; i < r->n && !status; i++) {
    size_t before = out->text.n;
    status = add_want_path(r, r->paths[i], mt_buf_slice(&above), &out->text, err);
    out->wants[i].mode = mt_wants_mode(r->mode);
    out->wants[i].path.n = out->text.n - before;
  }
  if (!status) status = mt_buf_status(&out->text, "the set of paths", err);
  mt_buf_deinit(&above);
  return status;
}

/* A path of escaped segments can only be too long; tree paths were checked before. */
static mortise_status place_paths(const mortise_lock_request *r, mt_wants *out,
                                  mortise_error *err) {
  const char *p = out->text.p;
  mt_slice checked;
  for (; out->n < r->n; out->n++) {
    mt_want *w = &out->wants[out->n];
    w->path.p = p;
    p += w->path.n;
    mortise_status status =
        w->path.n > MT_PATH_MAX ? mt_path_check(w->path, &checked, err) : MORTISE_OK;
    if (status) return status;
  }
  return MORTISE_OK;
}

mortise_status mt_wants_make(const mortise_lock_request *r, mt_wants *out, mortise_error *err) {
  static const char *const root[] = {"/"};
  *out = (mt_wants){0};
  mt_buf_init(&out->text, TEXT_MAX);
  mortise_status status = check_request(r, err);
  if (status) return status;
  const mortise_lock_request global = {
      .kind = MORTISE_LOCK_TREE, .paths = root, .n = 1, .mode = r->mode};
  if (r->kind == MORTISE_LOCK_GLOBAL) r = &global;
  out->wants = mt_calloc(r->n, sizeof *out->wants);
  if (!out->wants) return mt_error_memory(err);
  status = add_paths(r, out, err);
  if (!status) status = place_paths(r, out, err);
  if (status) mt_wants_deinit(out);
  return status;
}

void mt_wants_deinit(mt_wants *w) {
  mt_free(w->wants);
  mt_buf_deinit(&w->text);
  w->wants = NULL;
  w->n = 0;
}
