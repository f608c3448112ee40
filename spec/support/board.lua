-- `mortise board` in the background, and what it answers.
local core = require "mortise.core"
local process = require "spec.support.process"
local program = require "spec.support.program"

local board = {}

local Board = {}
Board.__index = Board

-- `words`: more options, or nil. -> it has `url`, `port` and `process`; closed by <close>
function board.start(store, namespace, words)
  local all = {"board", "--listen", "127.0.0.1:0"}
  table.move(words or {}, 1, #(words or {}), #all + 1, all)
  local running = process.start(store, namespace, 60000, all)
  local self = setmetatable({process = running}, Board)
  self.url = process.wait_for("the board's address", function()
    return running:out():match "http://[%d.]+:%d+"
  end, function() return running:out() .. running:err() end)
  self.port = self.url:match "%d+$"
  return self
end

function Board.__close(self)
  local _ <close> = self.process
  self.process:kill "INT"
end

local function curl(words)
  local quoted = {"env -u LD_PRELOAD curl -sS --max-time 20"}
  for _, word in ipairs(words) do quoted[#quoted + 1] = program.quote(word) end
  local pipe = assert(io.popen(table.concat(quoted, " ") .. " 2>&1"))
  local text = pipe:read "a"
  pipe:close()
  return text
end

-- `given`: {headers = {"Name: value", ...}, body=, method=, arguments = {name = value}}. -> status, body, the
-- headers
function Board:ask(path, given)
  given = given or {}
  local words = {"-i"}
  for _, header in ipairs(given.headers or {}) do table.move({"-H", header}, 1, 2, #words + 1, words) end
  if given.method then table.move({"-X", given.method}, 1, 2, #words + 1, words) end
  if given.body then table.move({"--data-binary", given.body}, 1, 2, #words + 1, words) end
  for name, value in pairs(given.arguments or {}) do
    table.move({"--data-urlencode", name .. "=" .. value}, 1, 2, #words + 1, words)
  end
  if given.arguments then words[#words + 1] = "-G" end
  words[#words + 1] = self.url .. path
  local text = curl(words)
  local head, body = text:match "^(HTTP.-)\r\n\r\n(.*)$"
  if not head then error("no answer: " .. text) end
  if head:find "^HTTP/1.1 100" then head, body = body:match "^(HTTP.-)\r\n\r\n(.*)$" end
  return math.tointeger(tonumber(head:match "^HTTP/1.1 (%d+)")), body, head
end

-- The JSON there. `arguments` as in ask.
function Board:json(path, arguments)
  local status, body = self:ask(path, {arguments = arguments})
  assert(status == 200, body)
  return core.json_decode(body)
end

-- What the page has as soon as fn(data) is true.
function Board:data_when(what, fn)
  return process.wait_for(what, function()
    local data = self:json "/data.json"
    return fn(data) and data
  end)
end

-- The events of so many seconds.
function Board:events(seconds, headers)
  local words = {"-N", "--max-time", ("%d"):format(seconds)}
  for _, header in ipairs(headers or {}) do table.move({"-H", header}, 1, 2, #words + 1, words) end
  words[#words + 1] = self.url .. "/events"
  local list = {}
  for id, text in curl(words):gmatch "id: (%S+)\nretry: 2000\nevent: look\ndata: ([^\n]+)\n\n" do
    list[#list + 1] = {id = id, data = core.json_decode(text), text = text}
  end
  return list
end

-- An order with this token (nil: none). -> status, JSON
function Board:order(token, order)
  local status, body = self:ask("/order.json", {
    body = core.json(order), headers = {token and "X-Mortise-Token: " .. token or nil},
  })
  return status, core.json_decode(body)
end

return board
