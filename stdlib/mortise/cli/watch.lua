-- mortise watch
local blocking = require "mortise.cli.blocking"
local core = require "mortise.core"
local errors = require "mortise.errors"
local mortise = require "mortise"
local output = require "mortise.cli.output"
local overview = require "mortise.cli.overview"
local watch_screen = require "mortise.cli.watch_screen"

local command = {
  summary = "show locks, waits and jobs as they change",
  usage = "[--interval TIME] [--count N] [--json]",
  help = [[
Shows who waits for whom, the jobs that run or stand half-done, and the locks, anew every second. Keys:

  q, ^C       quit
  s           sort the locks by age, path or who; those that are waited for come first
  /           show only what has this in its path, owner or job; Enter takes it, Esc drops it
  up, down    choose a lock, which is followed wherever it goes; also k, j, PgUp, PgDn, Home, End
  Enter       all about that lock, and what may be done about it
  p, blank    hold the picture still, and go on

A look costs the server one search of the lock table, never more than one a second, and never more than half
of the time: where it takes longer than --interval, the next one waits as long as the last one took. Since
when somebody waits is not in the table: >12s means at least so long.

Where the output is no terminal, or cannot move its cursor (TERM=dumb), each look is a line, with who waits
for whom below it; with --json it is an object on a line. --count N ends it after N looks.]],
  options = {
    {name = "interval", type = "duration", flag = "--interval", value = "TIME", default_text = "1s",
      help = "from look to look, 1s or more"},
    {name = "count", type = "count", flag = "--count", value = "N", help = "end after so many looks"},
    output.json_row,
  },
  arguments = {0, 0},
}

local interval_ms, tick_ms = 1000, 50

-- When the next look is due, after one that began then and took so long.
local function next_look(began, took, interval) return began + math.max(interval, 2 * took) end

-- ---- As lines ------------------------------------------------------------------------------------

local function print_look(look, as_json)
  if as_json then
    output.begin_json()
    return output.line(io.stdout, core.json(overview.object(look)))
  end
  output.line(io.stdout, require("mortise.cli.holds").iso(look.at):sub(1, 19), "Z  ", overview.sum(look))
  for _, line in ipairs(blocking.lines(look.waits, look.at, 20)) do output.line(io.stdout, "  ", line) end
end

local function print_looks(client, o)
  local look
  for n = 1, o.count or math.huge do
    local began = core.now_ms()
    look = overview.take(client, look)
    print_look(look, o.json)
    io.stdout:flush()
    if n == o.count or output.is_unread() then return end
    core.sleep(math.max(0, next_look(began, look.took_ms, o.interval) - core.now_ms()))
  end
end

-- ---- On a terminal -------------------------------------------------------------------------------

local has_colour = (os.getenv "NO_COLOR" or "") == ""
local styles = {title = "\27[1m", waits = has_colour and "\27[33m" or "", chosen = "\27[7m"}
local enter, leave = "\27[?1049h\27[?25l", "\27[?25h\27[?1049l"

local function draw(terminal, look, view)
  local width, height = terminal.width(), terminal.height()
  local out = {"\27[H"}
  for i, line in ipairs(watch_screen.lines(look, view, height)) do
    local style = styles[line.style]
    out[#out + 1] = (i > 1 and "\r\n" or "") .. (style or "") .. output.cut(line[1], width)
      .. (style and "\27[0m" or "") .. "\27[K"
  end
  out[#out + 1] = "\27[J"
  view.width, view.height = width, height
  io.stdout:write(table.concat(out))
  io.stdout:flush()
end

local escapes = {
  ["[A"] = "up", ["[B"] = "down", ["OA"] = "up", ["OB"] = "down", ["[5~"] = "page up", ["[6~"] = "page down",
  ["[H"] = "home", ["[F"] = "end", ["[1~"] = "home", ["[4~"] = "end", ["OH"] = "home", ["OF"] = "end",
}

-- The key that was typed: a byte as a string, or a name; nil: none; false: the end of the input.
local function next_key(terminal)
  local byte = terminal.key()
  if not byte then return nil end
  if byte < 0 then return false end
  if byte ~= 27 then return string.char(byte) end
  local rest = ""
  for _ = 1, 6 do
    local more = terminal.key()
    if not more or more < 0 then break end
    rest = rest .. string.char(more)
    if escapes[rest] then return escapes[rest] end
  end
  return rest == "" and "escape" or "unknown"
end

local function move(view, to)
  view.at = math.max(1, math.min(view.n or 1, to))
  view.followed = nil
end

local function page(view) return math.max(1, (view.height or 24) // 2) end

local actions = {
  q = function() return "quit" end,
  s = function(view) view.sort = view.sort % #watch_screen.sorts + 1 end,
  ["/"] = function(view) view.typing = view.filter end,
  p = function(view) view.paused = not view.paused end,
  up = function(view) move(view, view.at - 1) end,
  down = function(view) move(view, view.at + 1) end,
  ["page up"] = function(view) move(view, view.at - page(view)) end,
  ["page down"] = function(view) move(view, view.at + page(view)) end,
  home = function(view) move(view, 1) end,
  ["end"] = function(view) move(view, view.n or 1) end,
  ["\n"] = function(view) view.details = not view.details end,
  ["\26"] = function() return "suspend" end,
}
actions[" "], actions["\r"], actions.k, actions.j = actions.p, actions["\n"], actions.up, actions.down

local filter_most = 200

local function type_filter(view, key)
  if key == "\n" or key == "\r" then
    view.filter, view.typing = view.typing, nil
  elseif key == "escape" then
    view.filter, view.typing = "", nil
  elseif key == "\127" or key == "\8" then
    view.typing = view.typing:gsub("[^\128-\191][\128-\191]*$", "")
  elseif #key == 1 and key >= " " and #view.typing < filter_most then
    view.typing = view.typing .. key
  end
end

-- Handles what was typed. -> "quit", "suspend", or whether anything was
local function handle_keys(terminal, view)
  local any = false
  while true do
    local key = next_key(terminal)
    if key == nil then return any end
    if key == false then return "quit" end
    any = true
    if view.typing then
      type_filter(view, key)
    else
      local said = actions[key] and actions[key](view)
      if said then return said end
    end
  end
end

local function set_up(terminal)
  terminal.keys(true)
  output.last_words(leave .. "\nmortise: interrupted")
  io.stdout:write(enter)
end

local function put_back(terminal)
  io.stdout:write(leave)
  io.stdout:flush()
  terminal.keys(false)
  output.last_words(nil)
end

-- A new look, or the old one with the reason why there is none. The first one must be had.
local function look_again(client, look, view)
  if not look then return overview.take(client) end
  local ok, new = pcall(overview.take, client, look)
  if ok then
    view.failure = nil
    return new
  end
  if errors.code(new) == "interrupted" then error(new, 0) end
  view.failure = core.is_error(new) and new.message or core.tostring(new)
  return look
end

-- Until the next look: keys and new sizes. -> is it the end?
local function wait(terminal, look, view, due)
  while core.now_ms() < due or view.paused do
    core.sleep(tick_ms)
    local said = handle_keys(terminal, view)
    if said == "quit" then return true end
    if said == "suspend" then
      put_back(terminal)
      terminal.suspend()
      set_up(terminal)
    end
    local sized = terminal.width() ~= view.width or terminal.height() ~= view.height
    if said or sized then draw(terminal, look, view) end
  end
  return false
end

local function show_looks(client, o)
  local terminal = require "mortise.terminal"
  local view = {sort = 1, filter = "", at = 1, top = 1, namespace = client:namespace(), url = client:url()}
  local look = overview.take(client) -- an error of the first one is shown where it can be read
  local restored <close> = setmetatable({}, {__close = function() put_back(terminal) end}) -- luacheck: ignore
  set_up(terminal)
  for n = 1, o.count or math.huge do
    local began = core.now_ms()
    if n > 1 then look = look_again(client, look, view) end
    draw(terminal, look, view)
    if n == o.count or wait(terminal, look, view, next_look(began, core.now_ms() - began, o.interval)) then
      return
    end
  end
end

local function can_redraw()
  local term = os.getenv "TERM" or ""
  return output.is_terminal(0) and output.is_terminal(1) and term ~= "" and term ~= "dumb"
end

function command.run(ctx)
  local o = ctx.options
  o.interval = o.interval or interval_ms
  if o.interval < interval_ms then
    errors.bad "--interval: 1s or more, since each look searches the lock table"
  end
  local client <close> = mortise.connect {}
  client:verify()
  if o.json or not can_redraw() then return print_looks(client, o) end
  return show_looks(client, o)
end

return command
