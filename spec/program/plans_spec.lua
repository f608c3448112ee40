-- What a command says before it changes much, and plans that are kept.
local core = require "mortise.core"
local job = require "mortise.job"
local program = require "spec.support.program"
local says = require "spec.support.says"
local stores = require "spec.support.stores"
local terminal = require "spec.support.terminal"

if not program.file then
  print "SKIP plans of the program: MORTISE_BIN is not set"
  return
end

local script = [[
local index, id, value = ...
return {
  id = id ~= "-" and id or nil, name = "n", index = index, lock = "/a", query = {prefix = {path = "/a/"}},
  change = {{set = {field = "value", value = value or "x"}}},
}
]]

stores.each("before much is changed", function(store)
  local client, index, namespace, file, kept

  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
    stores.use(store, client)
    file, kept = program.write(script, ".lua"), stores.temporary ".plan"
  end)

  after_each(function()
    os.remove(file)
    os.remove(kept)
    client:drop_index(index)
    client:close()
  end)

  local function fill(n)
    local all = {}
    for i = 1, n do all["d" .. i] = {path = "/a/" .. i} end
    index = stores.fill(client, all)
  end

  local function words(...) return {"--store", store.store, "--namespace", namespace, ...} end

  local function mortise(...) return program.run(words(...)) end

  local function ok(...)
    local status, out, err = mortise(...)
    assert.equal(0, status, err)
    return out
  end

  local function count(query)
    client:refresh(index)
    return client:count(index, query)
  end

  local function moved() return count {prefix = {path = "/b/"}} end
  local function set(value) return count {term = {value = value}} end

  it("it is said at a terminal where and how much, and asked", function()
    fill(1001)
    local rename = {"rename", index, "/a", "/b"}
    local status, text = terminal.answer("n", words(table.unpack(rename)))
    assert.equal(1, status, text)
    says(text, "store      " .. store.store, "namespace  " .. namespace,
      index .. ": /a becomes /b: 1001 documents match", "- path: \"/a/", "+ path: \"/b/",
      "Change 1001 documents? (y/N)", "nothing was changed")
    assert.same({0, {}}, {moved(), client:jobs()})
    status, text = terminal.answer("n", words("job", "run", file, index, "many"))
    assert.equal(1, status, text)
    says(text, "job many on " .. index .. ": 1001 documents match", "+ value: \"x\"")
    assert.equal(0, set "x")
    status, text = terminal.answer("y", words(table.unpack(rename)))
    assert.equal(0, status, text)
    assert.equal(1001, moved())
    local id = client:jobs()[1].job
    status, text = terminal.answer("", words("jobs", "rollback", id))
    assert.equal(1, status, text)
    says(text, "store      " .. store.store, "has changed 1001 documents of " .. index,
      "Undo 1001 documents? (y/N)")
    assert.equal(1001, moved())
    status, text = terminal.answer("n", words("jobs", "rollback", id, "--yes"))
    assert.equal(0, status, text)
    assert.is_nil(text:find("y/N", 1, true))
    assert.equal(0, moved())
    ok(table.unpack(rename)) -- nobody is asked where there is no terminal
    assert.equal(1001, moved())
  end)

  it("nothing is asked where it is little, or cannot be done", function()
    fill(1000)
    local status, text = terminal.answer("n", words("rename", index, "/none", "/b"))
    assert.equal(1, status)
    says(text, "not_found")
    status, text = terminal.answer("n", words("rename", index, "/a", "/b"))
    assert.equal(0, status, text)
    assert.equal(1000, moved())
  end)

  it("a dry-run says with its status whether there is something to do", function()
    fill(3)
    assert.equal(0, (mortise("job", "run", file, index, "some", "--dry-run")))
    ok("job", "run", file, index, "some")
    assert.equal(7, (mortise("job", "run", file, index, "other", "--dry-run")))
    assert.equal(7, (mortise("job", "run", file, index, "other", "--dry-run", "--json")))
    assert.equal(7, (mortise("jobs", "plan", "some")))
    assert.equal(0, (mortise("rename", index, "/a", "/b", "--dry-run")))
    assert.equal(1, (mortise("rename", index, "/none", "/b", "--dry-run")))
    assert.equal(7, (mortise("rename", index, "/none", "/b", "--dry-run", "--allow-empty")))
  end)

  it("a dry-run promises nothing that the run would refuse", function()
    fill(3)
    local function refused(what, ...)
      local status, out, err = mortise(...)
      assert.same({1, ""}, {status, out})
      says(err, what)
      return err
    end
    ok("job", "run", file, index, "some")
    ok("jobs", "rollback", "some")
    local run = {"job", "run", file, index, "some"}
    local why = refused("there is a job some already, which is undone", table.unpack(run))
    assert.equal(why, refused("conflict", "job", "run", file, index, "some", "--dry-run"))
    refused("job some is undone: it cannot be resumed", "jobs", "plan", "some")
    if store.name == "sqlite" then return end -- which makes its tables itself
    local rename = {"--table", stores.name "typo", "rename", index, "/a", "/b"}
    why = refused("there is no index", table.unpack(rename))
    table.insert(rename, "--dry-run")
    assert.equal(why, refused("init` once", table.unpack(rename)))
  end)

  it("documents that could not be changed are a part of what is said", function()
    fill(1001)
    for i = 1, 20 do client:index(index, "d" .. i, {path = "/a/" .. i, size = "large"}) end
    client:refresh(index)
    local cast = program.write(([[return {id = "cast", index = %q, lock = "/a",
      change = {{cast = {field = "size", to = "integer"}}, {set = {field = "value", value = "x"}}}}]]):format(
      index), ".lua")
    local status, out, err = mortise("job", "run", cast, "--dry-run", "--plan", kept)
    assert.same({1, ""}, {status, err})
    says(out, "981 of 1001 documents that match would change", "20 could not be changed, the first is d")
    assert.equal(20, core.json_decode(assert(io.open(kept)):read "a").effect.rejected)
    local text
    status, text = terminal.answer("n", words("job", "run", cast))
    os.remove(cast)
    assert.equal(1, status)
    says(text, "Change 1001 documents? (y/N)", "nothing was changed")
    assert.equal(0, set "x")
  end)

  it("a kept plan is done exactly", function()
    fill(20)
    ok("job", "run", file, index, "-", "--dry-run", "--plan", kept)
    local plan = core.json_decode(assert(io.open(kept)):read "a")
    assert.same({20, store.store, namespace, index}, {plan.effect.changed, plan.store, plan.namespace,
      plan.spec.index})
    assert.is_true(#plan.samples == 10 and plan.samples[1].after ~= nil)
    ok("job", "run", file, index, "-", "--from-plan", kept)
    assert.equal(20, set "x")
    local status, _, err = mortise("job", "run", file, index, "-", "--from-plan", kept)
    assert.equal(1, status)
    says(err, "conflict", kept, "changed 0 documents, planned were 20", "nothing was changed")
    ok("rename", index, "/a", "/b", "--dry-run", "--plan", kept, "--json")
    ok("rename", index, "/a", "/b", "--from-plan", kept)
    assert.equal(20, moved())
    status, _, err = mortise("rename", index, "/a", "/b", "--from-plan", kept)
    assert.equal(1, status)
    says(err, "matched 0 documents, planned were 20")
    assert.is_nil(err:find("--merge", 1, true))
  end)

  it("a kept plan is refused if it is to do something else, or it would", function()
    fill(20)
    local function refused(what, ...)
      local status, _, err = mortise(...)
      assert.equal(1, status, err)
      says(err, "conflict", "the plan in " .. kept, what, "nothing was changed")
      assert.same({0, 0}, {set "x", set "y"})
    end
    local run = {"job", "run", "--from-plan", kept, file, index}
    local function with(...)
      local all = {table.unpack(run)}
      for _, word in ipairs {...} do all[#all + 1] = word end
      return table.unpack(all)
    end
    ok("job", "run", file, index, "j1", "--dry-run", "--plan", kept)
    refused("job is another", with "j2")
    refused("spec.change is another", with("j1", "y"))
    refused("namespace is another", "job", "run", "--from-plan", kept, file, index, "j1", "--namespace",
      namespace .. "x")
    refused("spec.index is another", "job", "run", "--from-plan", kept, file, index .. "x", "j1")
    local handle = io.open(file, "a")
    handle:write "-- more\n"
    handle:close()
    refused("script.sha256 is another", with "j1")
    handle = io.open(file, "w")
    handle:write(script)
    handle:close()
    client:create(index, "more", {path = "/a/more"}, {refresh = true})
    refused("matched 21 documents, planned were 20", with "j1")
    client:delete(index, "more", {refresh = true})
    client:index(index, "d7", {path = "/a/7", n = 1}, {refresh = true})
    refused("as many documents, but others, or other changes", with "j1")
    client:index(index, "d7", {path = "/a/7"}, {refresh = true}) -- as it was, by another write
    ok(with "j1")
    assert.equal(20, set "x")
  end)

  it("options of plans that do not go together are refused", function()
    fill(1)
    for _, each in ipairs {
      {"rename", index, "/a", "/b", "--plan", kept},
      {"rename", index, "/a", "/b", "--dry-run", "--from-plan", kept},
      {"job", "run", file, index, "j", "--rollback", "--from-plan", kept},
      {"job", "run", file, index, "j", "--from-plan", kept}, -- there is no such file
      {"job", "run", file, index, "j", "--from-plan", file},
      {"job", "run", file, index, "j", "--dry-run", "--plan", file .. "/x"},
    } do
      assert.equal(2, (mortise(table.unpack(each))), table.concat(each, " "))
    end
    assert.equal(0, set "x" + moved())
  end)

  it("two plans share their identity only if they would do the same", function()
    fill(20)
    local function identity(value, batch)
      local made = client:job {
        name = "n", index = index, lock = "/a", batch = batch,
        change = {{set = {field = "value", value = value}}},
      }
      return job.foretell(made, {identifies = true}).identity
    end
    local first = identity("x", 7)
    assert.matches("^%x+$", first)
    assert.equal(first, identity("x", 20))
    assert.not_equal(first, identity "y")
    client:index(index, "d1", {path = "/a/1", n = 2}, {refresh = true})
    assert.not_equal(first, identity "x")
    client:index(index, "d1", {path = "/a/1"}, {refresh = true})
    assert.equal(first, identity "x")
  end)
end)
