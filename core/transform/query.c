#include "transform/query.h"

#include "transform/parts.h"

static void add_field_clause(mt_buf *out, const char *kind, mt_slice field, mt_slice value,
                             const char *end) {
  mt_buf_addf(out, "{\"%s\":{", kind);
  mt_json_add_string(out, field);
  mt_buf_addc(out, ':');
  mt_json_add_string(out, value);
  if (out->n) mt_buf_cut(out, out->n - 1);
  mt_buf_adds(out, end);
}

/* Elasticsearch names such fields in _ignored; OpenSearch only leaves them out of the index. */
static void add_hidden(mt_buf *out, mt_slice field, mt_slice hidden) {
  mt_buf_addc(out, ',');
  add_field_clause(out, "term", MT_SLICE("_ignored"), field, "\"}}");
  mt_buf_adds(out, ",{\"bool\":{\"must_not\":[{\"exists\":{\"field\":");
  mt_json_add_string(out, field);
  mt_buf_adds(out, "}}]");
  if (!mt_slice_eq(field, hidden)) {
    mt_buf_adds(out, ",\"filter\":[{\"exists\":{\"field\":");
    mt_json_add_string(out, hidden);
    mt_buf_adds(out, "}}]");
  }
  mt_buf_adds(out, "}}");
}

/* `path` or below it; everything is below "/". */
static void add_tree(mt_buf *out, mt_slice field, mt_slice path) {
  add_field_clause(out, "term", field, path, "\"}}");
  mt_buf_addc(out, ',');
  add_field_clause(out, "prefix", field, path, path.n == 1 ? "\"}}" : "/\"}}");
}

void mt_tree_query(mt_buf *out, mt_slice field, mt_slice path, mt_slice except) {
  mt_buf_adds(out, "{\"bool\":{\"filter\":[{\"bool\":{\"should\":[");
  add_tree(out, field, path);
  mt_buf_adds(out, "],\"minimum_should_match\":1}}]");
  if (except.n) {
    mt_buf_adds(out, ",\"must_not\":[");
    add_tree(out, field, except);
    mt_buf_addc(out, ']');
  }
  mt_buf_adds(out, "}}");
}

void mt_trees_query(mt_buf *out, const mt_slice *fields, size_t n, mt_slice path, mt_slice except) {
  mt_buf_adds(out, "{\"bool\":{\"should\":[");
  for (size_t i = 0; i < n; i++) {
    if (i) mt_buf_addc(out, ',');
    mt_tree_query(out, fields[i], path, except);
  }
  mt_buf_adds(out, "],\"minimum_should_match\":1}}");
}

void mt_prefix_query(mt_buf *out, mt_slice field, mt_slice from, mt_slice hidden, mt_slice also) {
  mt_buf_adds(out, "{\"bool\":{\"filter\":[{\"bool\":{\"should\":[");
  add_tree(out, field, from);
  if (hidden.p) add_hidden(out, field, hidden);
  mt_buf_adds(out, "],\"minimum_should_match\":1}}");
  if (also.n) {
    mt_buf_addc(out, ',');
    mt_buf_addslice(out, also);
  }
  mt_buf_adds(out, "]}}");
}

mortise_status mt_transforms_query(const mt_transforms *t, const mt_search_name *names, mt_buf *out,
                                   mortise_error *err) {
  size_t start = out->n;
  mt_buf_adds(out, "{\"bool\":{\"filter\":[{\"bool\":{\"should\":[");
  for (size_t i = 0; i < t->n; i++) {
    mt_prefix prefix;
    if (!mt_transforms_is_prefix(t, i, &prefix)) {
      mt_buf_cut(out, start);
      return mt_error_set(err, MORTISE_UNSUPPORTED,
                          "transform %zu (%s): no search finds all that it changes", i + 1,
                          mt_step_names[t->steps[i].kind]);
    }
    mt_search_name name = names ? names[i] : (mt_search_name){prefix.field, {NULL, 0}};
    if (i) mt_buf_addc(out, ',');
    mt_prefix_query(out, name.field, prefix.from, name.hidden, (mt_slice){NULL, 0});
  }
  mt_buf_adds(out, "],\"minimum_should_match\":1}}]}}");
  return mt_buf_status(out, "the query", err);
}
