local locks = require "mortise.cli.locks"
local sessions = require "mortise.sessions"

local now = 1700000000000

local function read(file)
  local handle = io.open(file)
  local text = handle:read "l"
  handle:close()
  return text
end

local function pidns()
  local pipe = io.popen "readlink /proc/self/ns/pid"
  local text = pipe:read "l"
  pipe:close()
  return text
end

local function owner(pid)
  return {
    host = "h", user = "u", program = "mortise", script = "move.lua", pid = pid,
    boot = read "/proc/sys/kernel/random/boot_id", pidns = pidns(),
  }
end

local own_pid = math.tointeger(tonumber(read("/proc/self/stat"):match "^%d+"))

describe("sessions", function()
  it("are judged for people", function()
    local function verdict(also)
      local session = {
        session = "s", state = "live", lease_ms = 60000, beat_at = now - 5000, owner = {host = "far"},
      }
      for key, value in pairs(also) do session[key] = value end
      return sessions.judge(session, now)
    end
    assert.same({false, "alive 5s ago"}, {verdict({}).dead, verdict({}).text})
    assert.is_true(verdict({beat_at = now - 62000}).dead)
    assert.matches("no heartbeat for 1m 2s %(lease 1m 0s%)", verdict({beat_at = now - 62000}).text)
    assert.is_true(verdict({state = "expired"}).dead)
    assert.is_true(sessions.judge(nil, now).dead)
    assert.is_false(verdict({beat_at = now + 9000}).dead) -- another machine's clock is ahead
  end)

  it("are dead when their process is gone from this machine", function()
    assert.is_true(sessions.is_gone(owner(0x3fffffff)))
    assert.is_false(sessions.is_gone(owner(own_pid)))
    local reused = owner(own_pid)
    reused.start = 1
    assert.is_true(sessions.is_gone(reused))
    local elsewhere = owner(0x3fffffff)
    elsewhere.boot = "another"
    assert.is_nil(sessions.is_gone(elsewhere))
    assert.is_nil(sessions.is_gone(nil))
    assert.equal("move.lua, u@h, pid 7", sessions.owner_text(owner(7)))
  end)

  it("are shown beside their locks", function()
    local list = {
      sessions = {{session = "s", state = "live", lease_ms = 60000, beat_at = now, owner = owner(own_pid)}},
      locks = {
        {path = "/b", holders = {{session = "s", n = 3, mode = "X", since = now - 3000}}, queue = {}},
        {path = "/", holders = {{session = "s", n = 1, mode = "IX", since = now}}, queue = {}},
        {path = "/a", holders = {{session = "gone", n = 1, mode = "IX", since = now}},
          queue = {{session = "s", n = 4, mode = "S"}}},
      },
    }
    local rows = locks.rows(list, now, false)
    assert.equal(4, #rows)
    assert.same({"/a", "IX", "holds"}, {table.unpack(rows[2], 1, 3)})
    assert.matches("^DEAD%?", rows[2][7])
    assert.same({"/a", "S", "waits"}, {table.unpack(rows[3], 1, 3)})
    assert.same({"/b", "X", "holds", "s/3", "3s"}, {table.unpack(rows[4], 1, 5)})
    assert.equal(5, #locks.rows(list, now, true))
  end)
end)
