local core = require "mortise.core"
local holds = require "mortise.cli.holds"
local locks = require "mortise.cli.locks"
local output = require "mortise.cli.output"
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
    local live = {session = "s", state = "live", lease_ms = 60000, beat_at = now, owner = owner(own_pid)}
    local function entry(path, also)
      local made = {
        namespace = "default", path = path, mode = "X", session = "sessions", n = 3, since = now - 3000,
        record = live, verdict = sessions.judge(live, now), waits = false,
      }
      for key, value in pairs(also or {}) do made[key] = value end
      return made
    end
    local gone = {namespace = "other", verdict = sessions.judge(nil, now)}
    local list = {
      entry "/b", entry("/a", gone), entry("/a", {waits = true, known = true, more = 2, mode = "S"}),
      entry("/", {waits = true, known = false, mode = "IX"}),
      entry("/j", {job = "job-1", verdict = sessions.guarding(sessions.judge(nil, now), "job-1")}),
      entry("/k", {job = "job-2", verdict = sessions.guarding(sessions.judge(live, now), "job-2")}),
    }
    for i, each in ipairs(list) do each.at = i end
    local living, dead, orphaned = locks.rows(list, now, "default")
    assert.equal(5, #living)
    assert.same({"/", "IX", "waits at"}, {table.unpack(living[2], 1, 3)})
    assert.same({"/a (and 2 more)", "S", "waits"}, {table.unpack(living[3], 1, 3)})
    assert.same({"/b", "X", "holds", "sessions/3", "3s"}, {table.unpack(living[4], 1, 5)})
    assert.equal(2, #dead)
    assert.same({"other:/a", "X", "holds"}, {table.unpack(dead[2], 1, 3)})
    assert.equal(2, #orphaned)
    assert.same({"/j", "its session is gone: guards job job-1"}, {orphaned[2][1], orphaned[2][7]})
  end)

  it("say what they run, and where", function()
    assert.equal("move.lua", sessions.runs_text(owner(7)))
    assert.equal("mover", sessions.runs_text {program = "mover", script = ""})
    assert.equal("?", sessions.runs_text {})
    local me = core.json_decode(core.identity())
    assert.is_true(sessions.is_mine {user = me.user, host = me.host})
    assert.is_false(sessions.is_mine {user = me.user, host = me.host .. "x"})
    assert.is_false(sessions.is_mine {user = me.user .. "x", host = me.host})
    assert.is_false(sessions.is_mine(nil))
    assert.equal(own_pid, me.pid)
  end)
end)

describe("holds", function()
  it("know what is above and below a path", function()
    assert.same({"/"}, holds.chain "/")
    assert.same({"/", "/a"}, holds.chain "/a")
    assert.same({"/", "/a", "/a/b", "/a/b/c"}, holds.chain "/a/b/c")
    assert.is_true(holds.is_below("/a/b", "/a"))
    assert.is_false(holds.is_below("/ab", "/a"))
    assert.is_false(holds.is_below("/a", "/a"))
    assert.is_true(holds.is_below("/a", "/"))
    assert.is_false(holds.is_below("/", "/"))
  end)

  it("write times as ISO 8601", function()
    assert.equal("1970-01-01T00:00:00.001Z", holds.iso(1))
    assert.equal("2000-02-29T23:59:59.999Z", holds.iso(951868799999))
    assert.equal("2000-03-01T00:00:00.000Z", holds.iso(951868800000))
    assert.equal("2023-11-14T22:13:20.000Z", holds.iso(now))
    assert.equal("2026-11-22T01:28:43.120Z", holds.iso(1795310923120))
    assert.is_nil(holds.iso(0))
    assert.is_nil(holds.iso(nil))
  end)
end)

describe("a cell", function()
  it("is shortened in its middle", function()
    assert.equal("/abc", output.shortened("/abc", 4))
    assert.equal("/a…yz", output.shortened("/abcdefxyz", 5))
    assert.equal("ää…äö", output.shortened("äääääö", 5))
    assert.equal(5, utf8.len(output.shortened("/\u{4e2d}\u{6587}/readme.txt", 5)))
  end)
end)
