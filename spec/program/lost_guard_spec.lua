-- A job that stands half-done and has lost its lock: who is told of it, and how.
local core = require "mortise.core"
local program = require "spec.support.program"
local says = require "spec.support.says"
local standing = require "spec.support.standing"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP lost guards: MORTISE_BIN is not set"
  return
end

stores.each("a job that has lost its lock", function(store)
  local client, index, namespace

  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
    index = stores.fill(client, {d1 = {path = "/a/1"}, d2 = {path = "/other/1"}})
    client:acquire({tree = "/"}):release() -- the namespace is not a new one
    standing(client, "lost", {"/a/b", "/c"})
  end)

  after_each(function()
    client:drop_index(index)
    client:close()
  end)

  local function mortise(input, ...)
    local words = {"--store", store.store, "--namespace", namespace, ...}
    local status, out, err = program.run(words, {input = input})
    return out .. err, status
  end

  it("is named by `locks`", function()
    local text, status = mortise("", "locks")
    assert.equal(0, status, text)
    says(text, "Jobs that stand half-done and have lost their lock, so that they keep nobody away:",
      "lost  /a/b /c  mortise jobs show lost")
    for path, is_near in pairs {
      ["/a"] = true, ["/a/b"] = true, ["/c/d"] = true, ["/ab"] = false, ["/a/c"] = false,
    } do
      assert.equal(is_near, mortise("", "locks", path):find("jobs show lost", 1, true) ~= nil, path)
      local who = mortise("", "locks", "--who", path)
      local line = "/a/b /c  job lost stands half-done, and has lost its lock"
      assert.equal(is_near, who:find(line, 1, true) ~= nil, who)
      local seen = core.json_decode((mortise("", "locks", path, "--json")))
      local one = {job = "lost", state = "stopped", paths = {"/a/b", "/c"}}
      assert.same(is_near and {one} or {}, seen.unguarded)
    end
    says(mortise("", "locks", namespace .. ":/a"), "jobs show lost")
    for _, words in ipairs {{"--mine"}, {"--waiting"}, {"another:/a"}} do
      assert.is_nil(mortise("", "locks", table.unpack(words)):find("jobs show lost", 1, true))
    end
  end)

  it("is named no more once it has a guard again", function()
    says(mortise("", "doctor", "--fix"), "job lost stands half-done without its lock, which was taken anew")
    local text = mortise("", "locks")
    says(text, "Guards of jobs, until they are resumed or rolled back:")
    assert.is_nil(text:find("jobs show lost", 1, true))
  end)

  local warning = "is locked, but a job that has lost its lock has left it half%-changed: job lost stands"
  local function times(text) return select(2, text:gsub(warning, "")) end

  it("is told once to who locks its paths at the prompt", function()
    local lines = "mortise.acquire({tree = '/a'}):release()\nmortise.acquire {tree = '/c/d'}\n"
    local said = mortise(lines, "repl")
    assert.equal(1, times(said), said)
    says(said, "/a/b is locked", "`mortise jobs resume lost` goes on, `mortise jobs rollback lost` undoes it")
    said = mortise("mortise.acquire {tree = '/d'}\n", "repl")
    assert.equal(0, times(said), said)
  end)

  it("is told once to who renames under a lock", function()
    local text = [[
      local index = ...
      mortise.with_tree_lock({"/other", "/c"}, function(lock)
        for _, way in ipairs {{"/other", "/c/new"}, {"/c/new", "/other"}} do
          mortise.rename {index = index, from = way[1], to = way[2], lock = lock}
        end
      end)]]
    local said, status = mortise("", "-e", text, index)
    assert.equal(0, status, said)
    assert.equal(1, times(said), said)
    said = mortise("", "-e", "mortise.with_tree_lock('/a', function() end)")
    assert.equal(0, times(said), said)
  end)
end)
