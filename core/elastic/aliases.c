/* Aliases: which indices they name, and moving one. */
#include "base/mem.h"
#include "elastic/internal.h"

static void get_aliases(mt_call *c, const char *name, void (*answered)(mt_call *c)) {
  if (!mt_call_index(c, name, true)) return;
  mt_buf_adds(&c->path, "/_alias");
  c->http.idempotent = true;
  mt_call_send(c, "GET", answered);
}

static void on_aliases(mt_call *c) {
  mt_aliases *r = (mt_aliases *)c->req;
  mt_json root;
  mortise_status status = mt_call_check(c, "aliases of", r->name);
  if (status == MORTISE_NOT_FOUND && !c->http.error.code) {
    mt_error_clear(&r->req.error);
    r->json = mt_strdup("{}");
  } else if (!status) {
    if (!mt_call_json(c, "the aliases of an index", &root)) return;
    r->json = mt_buf_take(&c->http.answer, NULL);
  }
  if (!r->req.error.code && !r->json) mt_error_memory(&r->req.error);
  mt_call_finish(c);
}

void mt_elastic_aliases(mt_store *s, mt_aliases *r) {
  r->json = NULL;
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (c) get_aliases(c, r->name, on_aliases);
}

/* ---- Moving one ----------------------------------------------------------------------------- */

static void on_alias_moved(mt_call *c) {
  if (mt_call_ok(c, "move alias", ((mt_alias_move *)c->req)->alias)) mt_call_finish(c);
}

static void add_alias_of(mt_buf *b, const char *action, const char *index, const char *alias) {
  mt_buf_adds(b, action);
  mt_json_add_string(b, mt_slice_of(index));
  mt_json_add_text(b, "alias", mt_slice_of(alias));
}

static void add_removal(mt_buf *b, const char *index, const char *alias) {
  add_alias_of(b, "{\"remove\":{\"index\":", index, alias);
  mt_buf_adds(b, ",\"must_exist\":true}}");
}

/* `definition` is what `from` has: an object with its filter and so on. */
static void send_move(mt_call *c, mt_json definition) {
  const mt_alias_move *r = (const mt_alias_move *)c->req;
  mt_call_again(c);
  mt_buf_adds(&c->path, "/_aliases");
  mt_call_add_timeout(c, '?');
  mt_buf_adds(&c->body, "{\"actions\":[");
  if (r->mark) {
    add_removal(&c->body, r->from, r->mark);
    mt_buf_addc(&c->body, ',');
  }
  if (r->from) add_removal(&c->body, r->from, r->alias);
  if (r->from && r->to) mt_buf_addc(&c->body, ',');
  if (r->to) add_alias_of(&c->body, "{\"add\":{\"index\":", r->to, r->alias);
  if (r->to && mt_json_count(definition)) {
    mt_buf_adds(&c->body, ",");
    mt_buf_add(&c->body, definition.raw.p + 1, definition.raw.n - 2);
  }
  mt_buf_adds(&c->body, r->to ? "}}]}" : "]}");
  mt_call_send(c, "POST", on_alias_moved);
}

static mt_json alias_on(mt_json root, const char *index, const char *alias) {
  mt_json aliases = mt_json_get(mt_json_member(root, mt_slice_of(index)), "aliases");
  return mt_json_member(aliases, mt_slice_of(alias));
}

static void on_found(mt_call *c) {
  mt_alias_move *r = (mt_alias_move *)c->req;
  mt_json root;
  if (!mt_call_ok(c, "move alias", r->alias)) return;
  if (!mt_call_json(c, "the aliases of an index", &root)) return;
  mt_json definition = alias_on(root, r->from, r->alias);
  if (definition.type == MT_JSON_OBJECT)
    send_move(c, definition);
  else if (alias_on(root, r->to, r->alias).type)
    mt_call_finish(c);
  else
    mt_call_error(c, MORTISE_NOT_FOUND, "move alias %s: index %s does not have it", r->alias, r->from);
}

void mt_elastic_alias_move(mt_store *s, mt_alias_move *r) {
  mt_call *c = mt_call_new(mt_elastic_of(s), &r->req);
  if (!c) return;
  if (r->from && r->to)
    get_aliases(c, r->alias, on_found);
  else if (r->from || (r->to && !r->mark))
    send_move(c, (mt_json){0});
  else
    mt_call_error(c, MORTISE_INVALID_ARGUMENT, "move alias %s: from which index, or to which?", r->alias);
}
