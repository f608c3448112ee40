-- What the board makes of what it has read: levels of the tree, circles, its history, what it has seen.
local circles = require "mortise.board.circles"
local core = require "mortise.core"
local history = require "mortise.board.history"
local levels = require "mortise.board.levels"
local shown = require "mortise.board.shown"
local story = require "mortise.board.story"

local live = {text = "alive", state = "live", dead = false}

local function session_of(id) return {id = id, who = "who " .. id, verdict = live, holds = 0, waits = 0} end

-- A look with these paths held, each {path, session, mode}, and these waits.
local function look_of(rows, waits, at)
  table.sort(rows, function(a, b) return a[1] < b[1] end)
  local columns = {path = {}, mode = {}, session = {}, since = {}, n = {}, job = {}, count = #rows, waits = 0}
  local sessions = {}
  for i, row in ipairs(rows) do
    local id = row[2] or "s"
    sessions[id] = sessions[id] or session_of(id)
    columns.path[i], columns.session[i], columns.mode[i] = row[1], sessions[id], row[3] or "X"
    columns.since[i], columns.n[i], columns.job[i] = 1, row[4] or i, false
  end
  return {columns = {ns = columns}, waits = waits or {}, at = at or 0, left_out = 0, session_list = {}}
end

local function waiter_at(path)
  return {
    waiter = {namespace = "ns", path = path, mode = "X", session = "w", queued_at = path, record = {}},
    blockers = {}, seen = 1,
  }
end

describe("levels of the tree", function()
  it("are the same as counting each path by itself", function()
    local random = math.random
    math.randomseed(7)
    local names = {"a", "a-b", "a!", "a0", "b", "c.d", "a/b"}
    for _ = 1, 60 do
      local rows, waits, all = {}, {}, {}
      for i = 1, random(1, 40) do
        local parts = {}
        for k = 1, random(1, 4) do parts[k] = names[random(#names)] end
        rows[i] = {"/" .. table.concat(parts, "/")}
        all[i] = rows[i][1]
      end
      for i = 1, random(0, 4) do waits[i] = waiter_at(all[random(#all)]) end
      local found = look_of(rows, waits)
      for _, path in ipairs {"/", "/a", "/a/a", "/a-b", "/b/a", "/none"} do
        local expected, here = {}, 0
        local below = path == "/" and "/" or path .. "/"
        for _, each in ipairs(all) do
          local child = each ~= path and each:sub(1, #below) == below and each:match("^[^/]+", #below + 1)
          if child then expected[child] = (expected[child] or 0) + 1 end
          if each == path then here = here + 1 end
        end
        local level, got = levels.of(found, "ns", path), {}
        for _, child in ipairs(level.children) do
          assert.is_nil(got[child.name], child.name)
          got[child.name] = child.n
        end
        assert.same({path, expected, here}, {path, got, level.here})
      end
    end
  end)

  it("are bounded, with what is waited for first", function()
    local rows = {}
    for i = 1, 5000 do rows[i] = {("/many/%05d"):format(i)} end
    local level = levels.of(look_of(rows, {waiter_at "/many/04999"}), "ns", "/many")
    assert.same({60, 4940, "04999", 1},
      {#level.children, level.more, level.children[1].name, level.children[1].waits})
    assert.is_true(#core.json(level) < 30000)
    local locks, _, _, n = levels.search(look_of(rows), "/many/0", 50)
    assert.same({50, 1000}, {#locks, n})
    locks, _, _, n = levels.search(look_of(rows), "/00123", 50)
    assert.same({1, "/many/00123"}, {n, locks[1].path})
    locks, _, _, n = levels.search(look_of {{"/ab"}, {"/ab/ab/ab"}, {"/b"}}, "ab", 50)
    assert.same({2, "/ab", "/ab/ab/ab"}, {n, locks[1].path, locks[2].path})
  end)
end)

describe("a circle", function()
  -- {waiter, blocker, ...}, each by the name of its session
  local function waits_of(...)
    local list = {}
    for i, each in ipairs {...} do
      local function entry(name) return {namespace = "ns", session = name, path = "/" .. name, mode = "X"} end
      list[i] = {waiter = entry(each[1]), blockers = {}}
      for k = 2, #each do list[i].blockers[k - 1] = entry(each[k]) end
    end
    return list
  end

  local function names_of(found)
    local list = {}
    for i, steps in ipairs(found) do
      local names = {}
      for k, step in ipairs(steps) do names[k] = step.wait.waiter.session end
      list[i] = table.concat(names, " ")
    end
    return list
  end

  it("is found where each waits for the next, and only there", function()
    assert.same({}, names_of(circles.find(waits_of({"a", "b"}, {"b", "c"}), 5)))
    assert.same({"a b"}, names_of(circles.find(waits_of({"a", "b"}, {"b", "a"}), 5)))
    assert.same({"b c d"},
      names_of(circles.find(waits_of({"a", "b"}, {"b", "x", "c"}, {"c", "d"}, {"d", "b"}), 5)))
    assert.same({"a b", "c d"},
      names_of(circles.find(waits_of({"a", "b"}, {"b", "a"}, {"c", "d"}, {"d", "c"}), 5)))
    assert.same({"a b"}, names_of(circles.find(waits_of({"a", "b"}, {"b", "a"}, {"c", "d"}, {"d", "c"}), 1)))
  end)

  it("is looked for in a time that grows with the waits, not with their paths", function()
    local all = {}
    for i = 1, 300 do
      all[i] = {("s%d"):format(i)}
      for k = i + 1, 300 do all[i][#all[i] + 1] = ("s%d"):format(k) end
    end
    assert.same({}, circles.find(waits_of(table.unpack(all)), 5))
  end)
end)

describe("the history", function()
  it("has a point for each five seconds of the last hour, and no more", function()
    local h = history.new()
    for second = 0, 3 * 3600 do
      history.add(h, {
        at = 1000 * second, locks = second, n_sessions = 1, waiting = 0, took_ms = 5,
        running = 1, standing = 0,
        jobs = {{
          job = "j", rate = 10, left = 5, done = second, batches = second // 2,
          counts = {conflicts = 1, rejected = 2},
        }},
      })
    end
    local points = history.object(h).points
    assert.is_true(#points <= 721 and #points > 600, #points)
    assert.same({3 * 3600, 3 * 3600 * 1000}, {points[#points][2], points[#points][1]})
    local of_job = history.of_job(h, "j").points
    assert.same({10, 1, 2}, table.move(of_job[#of_job], 2, 4, 1, {}))
    assert.is_true(of_job[#of_job][5] >= 1000 and of_job[#of_job][5] <= 2000, of_job[#of_job][5])
    for i = 1, 100 do
      history.add(h, {
        at = 4e6 * 3 // 1 | 0, locks = 0, n_sessions = 0, waiting = 0, running = 1, standing = 0, took_ms = 0,
        jobs = {{job = "j" .. i, counts = {conflicts = 0, rejected = 0}}},
      })
    end
    assert.is_nil(history.of_job(h, "j"))
    assert.is_table(history.of_job(h, "j100"))
  end)
end)

describe("a lock's story", function()
  it("is what differs from look to look", function()
    local s = story.new()
    local first = look_of({{"/a", "one"}, {"/b", "two", "S", 1}, {"/b", "three", "S", 2}}, nil, 1000)
    local second = look_of({{"/a", "four"}, {"/b", "two", "S", 1}, {"/c", "one"}}, nil, 2000)
    story.note(s, nil, first)
    assert.same({}, story.of(s, "ns", "/a", 10))
    story.note(s, first, second)
    local function text(path)
      local list = {}
      for i, event in ipairs(story.of(s, "ns", path, 10)) do list[i] = event.who .. " " .. event.what end
      table.sort(list)
      return table.concat(list, ", ")
    end
    assert.same({"who four got, who one gave back", "who three gave back", "who one got"},
      {text "/a", text "/b", text "/c"})
    local before = second
    for i = 1, 20000 do
      local now = look_of({{"/x", "s" .. i}}, nil, 2000 + i)
      story.note(s, before, now)
      before = now
    end
    assert.is_true(s.n - s.first < 4001)
    assert.equal(10, #story.of(s, "ns", "/x", 10))
  end)
end)

describe("what is shown", function()
  it("is of bounded length, with all that cannot be seen made visible", function()
    assert.equal("\\u{202e}x", shown.text "\u{202e}x")
    assert.is_true(utf8.len(shown.text(("\u{20ac}"):rep(5000))) <= 160)
    assert.is_truthy(utf8.len(shown.text("\xff\xfe" .. ("a"):rep(5000))))
    assert.is_truthy(utf8.len(shown.text(("a"):rep(4095) .. "\u{20ac}")))
    assert.equal('"/a "', shown.path "/a ")
    assert.is_nil(shown.raw("/" .. ("x"):rep(1024)))
    assert.is_nil(shown.raw "/\xff")
  end)
end)
