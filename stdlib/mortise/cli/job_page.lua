-- One job as a page for a ticket: one file, without scripts, and without anything from elsewhere. All that it
-- shows of others' is text.
local core = require "mortise.core"
local duration = require "mortise.duration"
local job_orders = require "mortise.cli.job_orders"
local job_shown = require "mortise.cli.job_shown"
local printable = require "mortise.printable"
local records = require "mortise.records"
local sessions = require "mortise.sessions"
local sweeps = require "mortise.sweeps"

local job_page = {}

-- ---- Text ----------------------------------------------------------------------------------------

local entities = {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["'"] = "&#39;"}

local function text(value)
  local plain = printable(type(value) == "string" and value or core.tostring(value), true)
  return (plain:gsub("[&<>\"']", entities))
end

local function time(seconds) return text(job_shown.time_text(seconds)) end

local function took(seconds) return text(duration.text(math.floor(seconds * 1000 + 0.5))) end

local function number(n)
  local digits = core.tostring(n)
  while true do
    local parted, found = digits:gsub("^(-?[0-9]+)([0-9][0-9][0-9])", "%1,%2")
    if found == 0 then return digits end
    digits = parted
  end
end

-- ---- Elements ------------------------------------------------------------------------------------

local Page = {}
Page.__index = Page

function Page:add(format, ...) self[#self + 1] = select("#", ...) > 0 and format:format(...) or format end

function Page:section(title, fn)
  self:add("<section><h2>%s</h2>", text(title))
  fn()
  self:add "</section>"
end

-- `rows`: {{name, what, as HTML}, ...}
function Page:facts(rows)
  self:add "<dl>"
  for _, row in ipairs(rows) do self:add("<dt>%s</dt><dd>%s</dd>", text(row[1]), row[2]) end
  self:add "</dl>"
end

-- `rows`: lists of HTML; `right`: the first column that is numbers
function Page:table(caption, head, rows, right)
  self:add("<div class=wide><table><caption>%s</caption><thead><tr>", text(caption))
  for i, name in ipairs(head) do
    self:add("<th scope=col%s>%s</th>", i >= right and " class=number" or "", text(name))
  end
  self:add "</tr></thead><tbody>"
  for _, row in ipairs(rows) do
    self:add "<tr>"
    for i, cell in ipairs(row) do self:add("<td%s>%s</td>", i >= right and " class=number" or "", cell) end
    self:add "</tr>"
  end
  self:add "</tbody></table></div>"
end

local function code(value) return "<code>" .. text(value) .. "</code>" end

-- ---- Plots ---------------------------------------------------------------------------------------

local width, height, left, below, above = 640, 170, 70, 24, 10

local function rounded(x) return core.tostring(math.floor(x * 10 + 0.5) / 10) end

-- `list`: {{at=, value=, turn=}, ...}, by time; a new turn begins a new line. `what`: what the values are.
function Page:plot(title, what, list)
  if #list < 2 then return end
  local first, last, most = list[1].at, list[#list].at, 0
  for _, each in ipairs(list) do most = math.max(most, each.value) end
  local span = math.max(last - first, 1)
  local function x(at) return left + (at - first) / span * (width - left - 10) end
  local function y(value) return above + (1 - value / math.max(most, 1)) * (height - above - below) end
  self:add("<figure><figcaption>%s</figcaption>", text(title))
  self:add('<svg viewBox="0 0 %d %d" role="img" aria-label="%s">', width, height,
    text(("%s: at most %s %s, within %s"):format(title, number(math.floor(most)), what,
      duration.text(math.floor(span * 1000)))))
  for _, part in ipairs {0, 0.5, 1} do
    local at = rounded(y(most * part))
    self:add('<line class="grid" x1="%d" x2="%d" y1="%s" y2="%s"/>', left, width - 10, at, at)
    self:add('<text class="y" x="%d" y="%s">%s</text>', left - 6, rounded(y(most * part) + 4),
      number(math.floor(most * part)))
  end
  self:add('<text x="%d" y="%d">%s</text>', left, height - 6, time(first))
  self:add('<text class="y" x="%d" y="%d">+%s</text>', width - 10, height - 6, took(span))
  local path, turn = {}, nil
  for _, each in ipairs(list) do
    if turn and turn ~= each.turn then
      local at = rounded(x(each.at))
      self:add('<line class="turn" x1="%s" x2="%s" y1="%d" y2="%d"/>', at, at, above, height - below)
    end
    path[#path + 1] = ("%s%s %s"):format(turn == each.turn and "L" or "M", rounded(x(each.at)),
      rounded(y(each.value)))
    turn = each.turn
  end
  self:add('<path class="line" d="%s"/></svg>', table.concat(path, " "))
  self:add "<details><summary>The numbers</summary>"
  local rows = {}
  for i, each in ipairs(list) do
    rows[i] = {time(each.at), text(each.turn), number(math.floor(each.value + 0.5))}
  end
  self:table(title, {"at", "turn", what}, rows, 3)
  self:add "</details></figure>"
end

-- What records.went gives, for plots.
local function series(went)
  local done, aside, rate, before = {}, {}, {}, nil
  for _, p in ipairs(went.points) do
    local turn = ("%d%s"):format(p.attempt, p.undoing and ", undoing" or "")
    done[#done + 1] = {at = p.at, value = p.done, turn = turn}
    aside[#aside + 1] = {at = p.at, value = p.aside, turn = turn}
    if before and before.turn == turn and p.at > before.at then
      local done_since = math.max(0, p.done - before.done)
      rate[#rate + 1] = {at = p.at, value = done_since / (p.at - before.at), turn = turn}
    end
    before = {at = p.at, done = p.done, turn = turn}
  end
  return done, aside, rate
end

-- ---- Its parts -----------------------------------------------------------------------------------

local asked_already = {
  index = true, query = true, lock = true, change = true, rename = true, migrate = true, name = true,
  tuned = true, unborn = true,
}

local function asked(page, record)
  local spec, names = record.spec, {}
  local rows = {{"index", code(spec.index)}, {"change", text(job_shown.change_text(spec))}}
  local body = spec.rename or spec.migrate or type(spec.change) == "table" and spec.change
  if body then rows[#rows + 1] = {"in full", code(core.json(body))} end
  rows[#rows + 1] = {"documents", spec.query and code(core.json(spec.query)) or "all that its lock names"}
  rows[#rows + 1] = {"locks", code(job_shown.paths_text(spec.lock))}
  for name in pairs(spec) do
    if not asked_already[name] then names[#names + 1] = name end
  end
  table.sort(names, core.before)
  for _, name in ipairs(names) do rows[#rows + 1] = {name, code(core.json(spec[name]))} end
  page:facts(rows)
end

local function planned(page, record)
  local rows = {}
  rows[1] = {"found", record.found > 0 and number(record.found) .. " documents, before any was written"
    or "not known: nobody counted them before"}
  local how = record.strategy and text(record.strategy .. ": " .. (record.strategy_reason or ""))
    or "by this program"
  rows[2] = {"how", how}
  if record.server then rows[3] = {"the server", text(sweeps.text(record.server))} end
  page:facts(rows)
end

local function who(page, record, more, went)
  local rows = {}
  for i, turn in ipairs(went.turns) do
    rows[i] = {
      time(turn.at), text(("%d%s"):format(turn.attempt, turn.undoing and ", undoing" or "")),
      text(sessions.owner_text(turn.by)),
    }
  end
  local facts = {}
  if #rows > 0 then page:table("Who began each turn at it", {"at", "turn", "who"}, rows, 4) end
  if record.owner then facts[1] = {"at it now", text(record.owner)} end
  if more.steered then
    local at = more.steered.at and time(more.steered.at / 1000) or ""
    local told = ("by %s: told %s "):format(more.steered.by, more.steered.what)
    facts[#facts + 1] = {"steered", text(told) .. at}
  end
  if more.limits then facts[#facts + 1] = {"limits", text(job_orders.limits_text(more.limits))} end
  if #facts == 0 then facts[1] = {"steered", "by nobody, as far as its orders tell"} end
  page:facts(facts)
end

local count_names = {
  {"matched", "looked at"}, {"changed", "changed"}, {"deleted", "deleted"},
  {"unchanged", "had nothing to change"}, {"rejected", "refused, set aside"},
  {"conflicts", "in conflict, set aside"}, {"restored", "put back"}, {"kept", "left as others made them"},
}

local function counted(page, record)
  local rows = {}
  for i, each in ipairs(count_names) do rows[i] = {text(each[2]), number(record.counts[each[1]] or 0)} end
  local caption = record.at_least and "Documents, at least: its process was killed" or "Documents"
  page:table(caption, {"", "documents"}, rows, 2)
end

local function verified(page, record)
  local counts, spec, work = record.counts, record.spec, record.work or {}
  local rows = {}
  if spec.migrate then
    rows[1] = {"compared", text(spec.migrate.verify or "counts")
      .. (work.compared and ", " .. number(work.compared) .. " documents" or "")}
    rows[2] = {"phase", text(work.phase or "none")}
  else
    local sum = counts.changed + counts.deleted + counts.unchanged + counts.conflicts + counts.rejected
    rows[1] = {"writes", ("each against the version that was read: %s were in conflict, and stay as others "
      .. "made them"):format(number(counts.conflicts))}
    rows[2] = {"counts", counts.matched == sum
      and "each document that was looked at is in one of the counts above"
      or "its process was killed: what it did last is counted when it is resumed or undone"}
  end
  if record.reason then rows[#rows + 1] = {"note", text(record.reason)} end
  page:facts(rows)
end

local function next_steps(page, record)
  local steps = records.next_steps(nil, record)
  if #steps == 0 then return page:add "<p>Nothing is left to do.</p>" end
  page:add "<ul>"
  for _, step in ipairs(steps) do page:add("<li>%s: %s</li>", code(step.command), text(step.why)) end
  page:add "</ul>"
end

local function set_aside(page, aside)
  if #aside.names == 0 then return page:add "<p>Nothing.</p>" end
  for _, name in ipairs(aside.names) do
    local rows = {}
    for _, each in ipairs(aside.list) do
      if (each.type or "conflict") == name then
        rows[#rows + 1] = {code(each.index or ""), code(each.id), text(each.reason or "")}
      end
    end
    page:table(("%s: %s"):format(name, number(aside.counts[name])), {"index", "id", "why"}, rows, 4)
  end
  if aside.is_part then
    page:add("<p>The first %s are listed.</p>", number(#aside.list))
  end
end

local style = [[
:root {
  color-scheme: light dark;
  --ground: #fff; --ink: #1c1e21; --soft: #565b62; --line: #d4d6d9; --accent: #0b5cad;
}
@media (prefers-color-scheme: dark) {
  :root { --ground: #15171a; --ink: #e7e9ec; --soft: #a6acb4; --line: #383d44; --accent: #7ab8ff; }
}
html { font: 16px/1.45 system-ui, sans-serif; background: var(--ground); color: var(--ink); }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; border-bottom: 1px solid var(--line); }
code { font-family: ui-monospace, monospace; font-size: .9em; unicode-bidi: isolate; white-space: pre-wrap; }
dl { display: grid; grid-template-columns: minmax(6rem, max-content) 1fr; gap: .3rem 1rem; }
dt, figcaption, caption, summary { color: var(--soft); } dd { margin: 0; min-width: 0; }
.wide { overflow-x: auto; } table { border-collapse: collapse; margin: .5rem 0; }
caption, th, td { text-align: left; vertical-align: top; }
th, td { padding: .15rem .8rem .15rem 0; border-bottom: 1px solid var(--line); }
.number { text-align: right; font-variant-numeric: tabular-nums; }
figure { margin: 1rem 0; } svg { width: 100%; height: auto; } svg text { font-size: 11px; fill: var(--soft); }
svg .y { text-anchor: end; } .grid { stroke: var(--line); }
.turn { stroke: var(--soft); stroke-dasharray: 3 3; }
.line { fill: none; stroke: var(--accent); stroke-width: 2; }
@media (max-width: 30rem) { dl { display: block; } dd { margin: 0 0 .4rem 1rem; } }
@media print { details > * { display: block; } section { break-inside: avoid-page; } }
]]

-- `about`: {record=, more= as of job_shown.print_one, went= of records.went, aside= {list=, names=, counts=,
-- is_part=}, store=, namespace=}. -> the page
function job_page.of(about)
  local record, went = about.record, about.went
  local page = setmetatable({}, Page)
  page:add "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>"
  page:add '<meta http-equiv="Content-Security-Policy"'
  page:add [[ content="default-src 'none'; style-src 'unsafe-inline'">]]
  page:add '<meta name=viewport content="width=device-width, initial-scale=1">'
  page:add("<title>%s: %s</title><style>", text("job " .. record.job), text(record.state))
  page:add(style)
  page:add "</style></head><body><main>"
  page:add("<h1>%s</h1><p>%s</p>", text("job " .. record.job), text(job_shown.line(record)))
  page:facts {
    {"store", code(about.store)}, {"namespace", code(about.namespace)}, {"of", time(core.wall_ms() / 1000)},
    {"begun", time(record.created)},
    {records.over[record.state] and "ended" or "updated", time(record.updated) .. ", "
      .. took(record.updated - record.created) .. " after it was begun"},
    {"attempts", number(record.attempts)},
  }
  page:section("What was asked", function() asked(page, record) end)
  page:section("The plan", function() planned(page, record) end)
  page:section("Who ran it, who steered it", function() who(page, record, about.more, went) end)
  page:section("How it went", function()
    local done, aside, rate = series(went)
    page:plot("Documents done", "documents", done)
    page:plot("Documents a second", "documents/s", rate)
    local any = record.counts.conflicts + record.counts.rejected > 0
    if any then page:plot("Set aside", "documents", aside) end
    if #done < 2 then page:add "<p>It was over before there was anything to plot.</p>" end
    counted(page, record)
  end)
  page:section("What was set aside", function() set_aside(page, about.aside) end)
  page:section("How it was verified", function() verified(page, record) end)
  page:section("What is next", function() next_steps(page, record) end)
  page:add "</main></body></html>\n"
  return table.concat(page, "\n")
end

return job_page
