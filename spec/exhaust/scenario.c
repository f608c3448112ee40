/* One tree lock, three writes, release, in a host of its own. */
#include "sweep.h"

#include "base/clock.h"

#include <lauxlib.h>
#include <mortise/host.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t mt_now_ms(void) {
  return mt_clock_boot_ms();
}

mt_names mt_names_of(uint32_t number) {
  mt_names names;
  snprintf(names.folder, sizeof names.folder, "/exhaust/p%u", (unsigned)number);
  snprintf(names.tree, sizeof names.tree, "%s/tree", names.folder);
  for (int i = 0; i < 3; i++)
    snprintf(names.ids[i], sizeof names.ids[i], "p%u-%d", (unsigned)number, i);
  return names;
}

/* The witness checks the lock's own folder, and so its intention lock too. A write counts as
 * acknowledged once the script got its answer, even if the call raises afterwards. */
static const char script[] = "local index, tree, wait, a, b, c = ...\n"
                             "local function sent(w, n, bit)\n"
                             "  local ok, why = pcall(w.flush, w)\n"
                             "  local report = w:report()\n"
                             "  if report.applied + report.already == n then told(bit) end\n"
                             "  if not ok then error(why, 0) end\n"
                             "end\n"
                             "mortise.with_tree_lock(tree, {wait = wait}, function(lock)\n"
                             "  mortise.update(index, a, function(doc) doc.v = 1 doc.w = 1 end)\n"
                             "  told(1)\n"
                             "  local w <close> = lock:bulk(index)\n"
                             "  w:index(b, {v = 1, pad = ('x'):rep(64), w = 1})\n"
                             "  sent(w, 1, 2)\n"
                             "  local view = mortise.get(index, c)\n"
                             "  view.v = 1\n"
                             "  view.w = 1\n"
                             "  w:save(view)\n"
                             "  sent(w, 2, 4)\n"
                             "  w:finish()\n"
                             "end)\n"
                             "told(8)\n";

static uint32_t *told_here;

static int told(lua_State *L) {
  *told_here |= (uint32_t)lua_tointeger(L, 1);
  return 0;
}

static int add_told(lua_State *L) {
  lua_pushcfunction(L, told);
  lua_setglobal(L, "told");
  return 0;
}

static void no_log(void *ctx, mortise_log_level level, const char *line) {
  (void)ctx;
  (void)level;
  (void)line;
}

/* With a permanent failure, time-outs are short. */
static mortise_options options_for(const mt_sweep *s, bool ever) {
  mortise_options o;
  mortise_options_init(&o);
  o.store = s->part.url;
  o.table = s->part.table;
  o.ns = "exhaust";
  o.lease_ms = MT_LEASE_MS;
  o.margin_ms = MT_MARGIN_MS;
  o.request_ms = ever ? 400 : 3000;
  o.connect_ms = ever ? 200 : 1000;
  o.program = "exhaust_test";
  o.log = no_log;
  return o;
}

static mortise_status run_script(const mt_sweep *s, mortise_host *host, uint32_t number, bool ever,
                                 mortise_error *err) {
  mt_names names = mt_names_of(number);
  const char *args[] = {s->index,     names.tree,   ever ? "200ms" : "2s",
                        names.ids[0], names.ids[1], names.ids[2]};
  lua_State *L = mortise_host_state(host);
  lua_pushcfunction(L, add_told);
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) {
    lua_pop(L, 1);
    snprintf(err->message, sizeof err->message, "the test's own function finds no memory");
    return err->code = MORTISE_OUT_OF_MEMORY;
  }
  return mortise_host_run_string(host, script, "=scenario", args, sizeof args / sizeof *args, err);
}

/* The whole life of an interpreter. */
static mortise_status live(mt_sweep *s, uint32_t number, bool ever, bool *no_host,
                           mortise_error *err) {
  mortise_options o = options_for(s, ever);
  mortise_host *host = mortise_host_new(&o, err);
  *no_host = !host;
  if (!host) return err->code;
  mortise_status status = run_script(s, host, number, ever, err);
  mortise_host_free(host);
  return status;
}

void mt_scenario_warm(mt_sweep *s, uint32_t number, bool count) {
  const mt_fault_plan nothing = {0};
  mortise_error err = {0};
  bool no_host;
  uint32_t were_told = 0;
  told_here = &were_told;
  mt_fault_arm(&nothing);
  mortise_status status = live(s, number, false, &no_host, &err);
  mt_fault_disarm();
  if (!count) return;
  for (mt_fault_kind k = 0; k < MT_FAULT_KINDS; k++) s->counted[k] = mt_fault_count(k);
  s->clean = !status && were_told == MT_TOLD_ALL;
  if (!s->clean)
    snprintf(s->message, sizeof s->message, "where nothing fails: told %x, %s", were_told,
             err.message);
}

void mt_scenario_run(mt_sweep *s, uint32_t point) {
  mt_point *p = &s->points[point];
  const mt_fault_plan plan = {.kind = p->kind,
                              .n = p->n,
                              .ever = p->ever,
                              .trace = getenv("MORTISE_EXHAUST_TRACE") != NULL,
                              .seed = s->seed};
  mortise_error err = {0};
  told_here = &p->told;
  int64_t began = mt_now_ms();
  mt_fault_arm(&plan);
  p->status = live(s, MT_SPARE + point, p->ever, &p->no_host, &err);
  p->failed = mt_fault_disarm();
  p->ended_ms = mt_now_ms();
  p->took_ms = (int32_t)(p->ended_ms - began);
  snprintf(p->message, sizeof p->message, "%s", err.message);
  snprintf(p->where, sizeof p->where, "%s", mt_fault_where());
}
