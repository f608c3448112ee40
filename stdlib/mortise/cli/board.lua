-- mortise board
local core = require "mortise.core"
local errors = require "mortise.errors"
local later = require "mortise.later"
local mortise = require "mortise"
local output = require "mortise.cli.output"

local answers = later "mortise.board.answers"
local board_metrics = later "mortise.board.metrics"
local control = later "mortise.board.control"
local data = later "mortise.board.data"
local history = later "mortise.board.history"
local look = later "mortise.board.look"
local story = later "mortise.board.story"

local command = {
  summary = "serve a page that shows locks, sessions and jobs",
  usage = "[--listen ADDRESS] [--control]",
  help = [[
Serves a page for a browser: the tree of locks with who holds and who waits, and the circle where there is
one; sessions with what is left of their leases; jobs and migrations with plots of their last hour; a
search. For programs: /data.json, /events (server-sent events), /metrics for Prometheus, and /healthz. It
ends at ^C.

It shows, and changes nothing, unless it is started with --control: then the page has buttons that pause,
throttle, resume and roll back jobs and end sessions, each of which asks before it does anything. For that
the page needs the token that is printed once, on the terminal, with the address; where the output is no
terminal, --token-file says where to keep it while the board runs.

It listens on this machine alone, at 127.0.0.1:8787. Whoever reaches the address sees all that is in the lock
table: with --listen ADDRESS:PORT that may be others. Requests that name another host than the address or the
name in --listen are refused, and so is whatever another site's page asks for.

However many look, the store is read at most once in each --interval, and not more than half of the time;
where nobody looks, every 30 seconds.]],
  options = {
    {name = "listen", type = "string", flag = "--listen", value = "ADDRESS", default_text = "127.0.0.1:8787",
      help = "where to listen: HOST:PORT, HOST or PORT; port 0 is any that is free"},
    {name = "interval", type = "duration", flag = "--interval", value = "TIME", default_text = "1s",
      help = "from look to look while somebody looks, 1s or more"},
    {name = "control", type = "boolean", flag = "--control",
      help = "the page may give orders, with the token"},
    {name = "token_file", type = "string", flag = "--token-file", value = "FILE",
      help = "keep the token there, for its owner alone, instead of printing it"},
    {name = "for", type = "duration", flag = "--for", value = "TIME", default_text = "until ^C",
      help = "end after so long"},
  },
  arguments = {0, 0},
}

local default_port = "8787"
local interval_ms, idle_ms, watched_ms, tick_ms = 1000, 30000, 10000, 200
local collector_pause, collector_speed = 110, 400 -- of what 50,000 locks leave behind at each look

-- ---- Where ---------------------------------------------------------------------------------------

-- "host:port", "[::1]:port", a host or a port alone -> host, port, and the name in it that is no address
local function read_listen(text)
  local host, port = text:match "^%[([%x:.]+)%]:(%d+)$"
  if not host then host, port = text:match "^%[([%x:.]+)%]$", default_port end
  if not host and text:find "^%d+$" then host, port = "127.0.0.1", text end
  if not host then host, port = text:match "^([^:]+):(%d+)$" end
  if not host and not text:find "[:%[%]]" and text ~= "" then host, port = text, default_port end
  if not host or #port > 5 or math.tointeger(core.number(port)) > 65535 then
    errors.bad("--listen %s: HOST:PORT, like 127.0.0.1:8787 or [::1]:8787", text)
  end
  return host, port, not (host:find "^[%d.]+$" or host:find ":") and host or nil
end

-- ---- The page ------------------------------------------------------------------------------------

local base64_digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

local function base64(bytes)
  local out = {}
  for at = 1, #bytes, 3 do
    local a, b, c = bytes:byte(at, at + 2)
    local n = (a << 16) | ((b or 0) << 8) | (c or 0)
    for shift = 18, 0, -6 do
      local digit = ((n >> shift) & 63) + 1
      out[#out + 1] = base64_digits:sub(digit, digit)
    end
    if not b then out[#out - 1] = "=" end
    if not c then out[#out] = "=" end
  end
  return table.concat(out)
end

local function of_hex(digit) return ("0123456789abcdef"):find(digit, 1, true) - 1 end

-- As a policy names what a page may run.
local function source_of(text)
  local bytes = core.sha256(text):gsub("(%x)(%x)", function(high, low)
    return string.char(16 * of_hex(high) + of_hex(low))
  end)
  return "'sha256-" .. base64(bytes) .. "'"
end

-- -> the page, and the policy by which a browser runs nothing in it but its own script
local function make_page(files)
  local style, script = files["page.css"], files["page.js"]
  local page = files["page.html"]:gsub("{{([a-z]+)}}", {style = style, script = script})
  local policy = ("default-src 'none'; script-src %s; style-src %s; connect-src 'self'; img-src data:; "
    .. "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    .. "trusted-types 'none'"):format(source_of(script), source_of(style))
  return page, policy
end

-- ---- Looking -------------------------------------------------------------------------------------

local function publish(board)
  local web = board.web
  local object = data.object(board, board.found)
  object.deeds = control.deeds(board.control)
  local text = core.json(object)
  web:publish("data", 200, text .. "\n")
  web:tell(("id: %s-%d\nretry: 2000\nevent: look\ndata: %s\n\n"):format(board.start, board.number, text))
  local readers = web:looks()
  web:publish("metrics", 200, board_metrics.text(board.found, not board.failure, readers))
  local health = core.object {
    status = board.failure and "unavailable" or "ok", at = board.found and board.found.at,
  }
  web:publish("health", board.failure and 503 or 200, core.json(health) .. "\n")
  board.changed = false
end

-- Looks once; that it cannot is shown on the page.
local function look_once(board)
  local before = board.found
  local ok, found = pcall(look.take, board.client, before)
  if ok then
    board.found, board.failure = found, nil
    history.add(board.history, found)
    story.note(board.story, before, found)
  else
    if errors.code(found) == "interrupted" then error(found, 0) end
    board.failure = core.is_error(found) and found.message or core.tostring(found)
  end
  board.number = board.number + 1
end

local function is_watched(web)
  local readers, _, ago_ms = web:looks()
  return readers > 0 or ago_ms ~= nil and ago_ms < watched_ms
end

-- Until `serving` has failed, or the time is over.
local function watch(board, serving, interval, until_ms)
  local looked_ms, took_ms, swept_ms = core.now_ms(), 0, 0
  while not serving:done() do
    local now = core.now_ms()
    if now >= until_ms then return end
    local apart = is_watched(board.web) and math.max(interval, 2 * took_ms) or math.max(idle_ms, 10 * took_ms)
    if now - looked_ms >= apart then
      looked_ms = now
      look_once(board)
      took_ms = core.now_ms() - now
      publish(board)
      board.web:healthy_for(2 * idle_ms + 20 * took_ms)
    elseif board.changed then
      publish(board)
    end
    if now - swept_ms >= 1000 then
      swept_ms = now
      board.web:sweep()
    end
    core.sleep(tick_ms)
  end
  serving:join()
end

-- ---- Beginning -----------------------------------------------------------------------------------

local function server()
  local there, web = pcall(require, "mortise.web")
  if there then return web end
  errors.raise("unsupported", "this program was built without the board (cmake -DMORTISE_BOARD=ON, with "
    .. "libmicrohttpd-dev)")
end

local function check(o)
  if (o.interval or interval_ms) < interval_ms then
    errors.bad "--interval: 1s or more, since each look reads the lock table"
  end
  if o.token_file and not o.control then errors.bad "--token-file belongs to --control" end
  if o.control and not o.token_file and not output.is_terminal(1) then
    errors.bad "--control: the output is no terminal, so the token needs another place: --token-file FILE"
  end
end

local function say(board, o, token)
  local address, is_own = board.web:address()
  if not is_own then
    output.line(io.stderr, "mortise: warning: whoever reaches ", address, " sees all locks and jobs of ",
      board.url, o.control and ", and changes them with the token, which goes there unencrypted" or "")
  end
  output.line(io.stdout, "mortise board: http://", address, "/  (", board.url, ", namespace ",
    board.namespace, ")")
  if token and not o.token_file then output.line(io.stdout, "token: ", token) end
  io.stdout:flush()
end

-- Removes the token's file at the end, whatever happens.
local function keep_token(web, file, token)
  if not file then return nil end
  web.keep_secret(file, token .. "\n")
  return setmetatable({}, {__close = function() os.remove(file) end})
end

function command.run(ctx)
  local o = ctx.options
  check(o)
  local host, port, name = read_listen(o.listen or "127.0.0.1:8787")
  local web = server()
  local page, policy = make_page(web.page())
  local client <close> = mortise.connect {}
  client:verify()
  local token = o.control and web.random() or nil
  local kept <close> = keep_token(web, o.token_file, token) -- luacheck: ignore
  local served <close> = web.listen(host, port, {name = name, token = token, policy = policy})
  local board = {
    web = served, client = client, url = client:url(), namespace = client:namespace(), version = core.version,
    start = web.random():sub(1, 12), page = core.sha256(page):sub(1, 12), number = 0, began = core.wall_ms(),
    control = control.new(client), history = history.new(), story = story.new(), kept = {n = 0},
    interval_ms = o.interval or interval_ms,
  }
  board.steered = o.control or false
  collectgarbage("incremental", collector_pause, collector_speed)
  served:publish("page", 200, page)
  look_once(board)
  if board.failure then errors.raise("unavailable", "%s", board.failure) end
  publish(board)
  served:healthy_for(2 * idle_ms)
  say(board, o, token)
  local serving <close> = core.spawn(answers.serve, board)
  watch(board, serving, board.interval_ms, o["for"] and core.now_ms() + o["for"] or math.huge)
  board.ending = true
  served:close()
end

return command
