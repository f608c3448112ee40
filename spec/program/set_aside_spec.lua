-- Documents that a job of the program cannot change: what it says, its exit status, and how that ends.
local core = require "mortise.core"
local program = require "spec.support.program"
local says = require "spec.support.says"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP what a job of the program sets aside: MORTISE_BIN is not set"
  return
end

local script = [[
local index, id = ...
return mortise.job {
  id = id, index = index, lock = "/a", batch = 5, concurrency = 1,
  change = {{cast = {field = "n", to = "integer"}}},
}
]]

stores.each("what a job of the program sets aside", function(store)
  local client, index, namespace, file

  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
    stores.use(store, client)
    local all = {["/b/1"] = {path = "/c"}, ["/a/1"] = {path = "/a/first", n = "1"}}
    for i = 1, 40 do all["d" .. i] = {path = "/a/" .. i, n = i % 4 == 0 and "odd" or tostring(i)} end
    index = stores.fill(client, all)
    file = program.write(script, ".lua")
  end)

  after_each(function()
    os.remove(file)
    client:drop_index(index)
    client:close()
  end)

  -- -> its output, its errors, its exit status
  local function mortise(...)
    local status, out, err = program.run {"--store", store.store, "--namespace", namespace, ...}
    return out, err, status
  end

  local function is_free() client:acquire({tree = "/a", wait = 0}):release() end

  it("leaves it done, and says so", function()
    local out, err, status = mortise("job", "run", file, index, "cast")
    assert.same({1, ""}, {status, out})
    says(err, "10 of 41 documents could not be changed", "job cast is done",
      "`mortise jobs show cast --rejected`")
    is_free()
    out = mortise("jobs", "show", "cast", "--rejected")
    assert.equal(10, select(2, out:gsub("\n", "\n")))
    out = mortise("jobs", "show", "cast")
    assert.equal(3, select(2, out:gsub("\n  +a?s?i?d?e? +d%d+: ", "")))
    out = mortise("jobs", "report", "cast")
    says(out, "jobs report cast", "state    done", "\n10 set aside: ")
    assert.equal(10, select(2, out:gsub("\n  d%d+  ", "")))
    assert.equal(10, #core.json_decode((mortise("jobs", "report", "cast", "--json"))).aside)
    out, err, status = mortise("jobs", "resume", "cast") -- it does not forget them
    assert.same({1, ""}, {status, err})
    says(out, "job cast was done already, but for 10 documents", "mortise jobs show cast --rejected")
    assert.equal(10, client:get_job("cast"):resume().rejected)
  end)

  it("makes it stand, where more is than may be, until it is accepted", function()
    local _, err, status = mortise("job", "run", "--max-rejected", "5%", file, index, "cast")
    assert.equal(1, status)
    says(err, "`mortise jobs accept cast` ends it as it is")
    local record = core.json_decode((mortise("jobs", "show", "cast", "--json")))
    local offered = {}
    for _, step in ipairs(record.next) do offered[step.verb] = true end
    assert.same({"stopped", true}, {record.state, offered.accept})
    local out
    out, err, status = mortise("jobs", "accept", "cast")
    assert.same({0, ""}, {status, err})
    says(out, "job cast is done as it is: ", " set aside, ", " not looked at")
    is_free()
    says((mortise("jobs", "show", "cast")), "accepted by ")
    says((mortise("jobs", "accept", "cast")), "was done already")
    says((mortise("jobs", "rollback", "cast")), "is undone")
  end)

  it("makes a rename stand, unless it may", function()
    local _, err, status = mortise("rename", index, "/a", "/b", "--ids")
    assert.equal(1, status)
    says(err, "1 of 41 documents could not be changed, the first is /a/1", "mortise jobs accept")
    local id = err:match "mortise jobs accept (%S+)`"
    _, err, status = mortise("jobs", "resume", id, "--max-rejected", "1")
    assert.equal(1, status)
    says(err, ("job %s is done"):format(id))
    is_free()
    _, err, status = mortise("rename", index, "/b", "/d", "--max-rejected", "x")
    assert.equal(2, status)
    says(err, "max_rejected is a number of documents")
  end)

  it("is an option of resume alone", function()
    local _, err, status = mortise("jobs", "accept", "x", "--max-rejected", "1")
    assert.equal(2, status)
    says(err, "belongs to resume")
  end)
end)
