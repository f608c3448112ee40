#include "sqlite/functions.h"

#include "base/mem.h"
#include "sqlite/internal.h"
#include "transform/transform.h"

static void fail_function(sqlite3_context *call, const mortise_error *err) {
  if (err->code == MORTISE_OUT_OF_MEMORY)
    sqlite3_result_error_nomem(call);
  else
    sqlite3_result_error(call, err->message, -1);
}

static mt_slice argument_text(sqlite3_value *value) {
  const char *p = (const char *)sqlite3_value_text(value);
  return (mt_slice){p, p ? (size_t)sqlite3_value_bytes(value) : 0};
}

/* ---- The list, kept with the statement ------------------------------------------------------ */

enum { SOURCE, LIST, ARGUMENTS };

static void free_list(void *list) {
  mt_transforms_deinit(list);
  mt_free(list);
}

static mt_transforms *list_compile(mt_slice json, mortise_error *err) {
  mt_transforms *t = mt_calloc(1, sizeof *t);
  if (!t) {
    mt_error_memory(err);
  } else if (mt_transforms_parse(t, json, err)) {
    mt_free(t);
    t = NULL;
  }
  return t;
}

/* Borrowed from the statement; NULL: `call` has failed. SQLite may forget it at once, for lack of
 * memory. */
static const mt_transforms *list_of(sqlite3_context *call, sqlite3_value **arguments) {
  mortise_error err;
  mt_transforms *t = sqlite3_get_auxdata(call, LIST);
  if (t) return t;
  t = list_compile(argument_text(arguments[LIST]), &err);
  if (!t) {
    fail_function(call, &err);
    return NULL;
  }
  sqlite3_set_auxdata(call, LIST, t, free_list);
  t = sqlite3_get_auxdata(call, LIST);
  if (!t) sqlite3_result_error_nomem(call);
  return t;
}

/* ---- The functions -------------------------------------------------------------------------- */

/* MT_STOP: `call` has failed. */
static mt_transformed list_apply(sqlite3_context *call, sqlite3_value **arguments, mt_buf *out,
                                 mortise_error *err) {
  mt_json source;
  const mt_transforms *t = list_of(call, arguments);
  if (!t) return MT_STOP;
  mortise_status status =
      mt_json_parse(argument_text(arguments[SOURCE]), "the source", &source, err);
  mt_transformed how = status ? MT_STOP : mt_transforms_apply(t, source.raw, out, err);
  if (!status) status = mt_buf_status(out, "the changed document", err);
  if (!status) return how;
  fail_function(call, err);
  return MT_STOP;
}

static void transform(sqlite3_context *call, int n, sqlite3_value **arguments) {
  (void)n;
  mortise_error err;
  mt_buf out;
  mt_buf_init(&out, MT_SQLITE_TEXT_MAX);
  if (list_apply(call, arguments, &out, &err) == MT_CHANGED) {
    size_t length;
    char *text = mt_buf_take(&out, &length);
    sqlite3_result_text64(call, text, length, mt_free, SQLITE_UTF8);
  }
  mt_buf_deinit(&out);
}

static void aside(sqlite3_context *call, int n, sqlite3_value **arguments) {
  (void)n;
  mortise_error err;
  mt_buf out;
  mt_buf_init(&out, MT_SQLITE_TEXT_MAX);
  if (list_apply(call, arguments, &out, &err) == MT_ASIDE)
    sqlite3_result_text(call, err.message, -1, SQLITE_TRANSIENT);
  mt_buf_deinit(&out);
}

int mt_functions_add(sqlite3 *handle) {
  /* Not for what a file's own schema may say. */
  enum { FLAGS = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY };
  int code = sqlite3_create_function_v2(handle, "mortise_transform", ARGUMENTS, FLAGS, NULL,
                                        transform, NULL, NULL, NULL);
  if (code) return code;
  return sqlite3_create_function_v2(handle, "mortise_aside", ARGUMENTS, FLAGS, NULL, aside, NULL,
                                    NULL, NULL);
}
