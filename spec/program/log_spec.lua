-- What the program logs: --log-level, --log-format.
local cjson = require "cjson"
local process = require "spec.support.process"
local program = require "spec.support.program"
local says = require "spec.support.says"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP the log: MORTISE_BIN is not set"
  return
end

-- The objects among these lines.
local function objects(text)
  local list = {}
  for line in text:gmatch "[^\n]+" do
    if line:sub(1, 1) == "{" then list[#list + 1] = cjson.decode(line) end
  end
  return list
end

stores.each("the log", function(store)
  local namespace, client

  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
    stores.use(store, client)
  end)
  after_each(function() client:close() end)

  local function run(words, env)
    return program.run({"--store", store.store, "--namespace", namespace, table.unpack(words)}, {env = env})
  end

  it("has an audit trail", function()
    local code = "mortise.acquire {tree = '/audited'} print('held', 1) io.stdout:flush() mortise.sleep(60)"
    local other <close> = process.start(store, namespace, 5000, {"-e", code})
    other:said "held"
    local id = cjson.decode((select(2, run {"locks", "/audited", "--json"}))).holds[1].session
    local words = {"sessions", "end", id:sub(1, 8), "--yes", "--log-level", "info"}
    local status, _, err = run(words)
    assert.equal(0, status, err)
    says(err, "mortise: info: audit: ", "pid ", "namespace " .. namespace .. " of ", "ends session " .. id)
  end)

  it("has it as JSON, of what is done to a job", function()
    local index = stores.fill(client, {a = {path = "/a/1"}})
    local job = client:job {id = stores.name "job", index = index, rename = {from = "/a", to = "/b"}}
    job:run()
    local status, _, err = run({"jobs", "rollback", job.id, "--yes"},
      {MORTISE_LOG_LEVEL = "info", MORTISE_LOG_FORMAT = "json"})
    assert.equal(0, status, err)
    local found
    for _, each in ipairs(objects(err)) do
      assert.matches("^%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d%d%dZ$", each.time)
      if each.level == "info" and each.message:find("undo: job " .. job.id, 1, true) then found = each end
    end
    assert.is_truthy(found, err)
    assert.is_true(found.pid > 0)
  end)

  it("has each request, and no secret", function()
    local secrets = {MORTISE_USER = "joe", MORTISE_PASSWORD = "a-well-kept-secret"}
    local _, _, err = run({"locks", "--log-level", "debug", "--log-format", "json"}, secrets)
    assert.is_nil(err:find("well-kept", 1, true))
    local list = objects(err)
    if store.name == "sqlite" then
      assert.same({}, list)
      return
    end
    assert.is_true(#list >= 2)
    for _, each in ipairs(list) do
      assert.equal("debug", each.level)
      assert.matches("^[A-Z]+ /[^ ]* at http://[0-9.:]+: [%dnoaswer ]+, %d+%.%d ms, %d+ bytes sent, "
        .. "%d+ received, id %x+%-%x+$", each.message)
    end
  end)

  it("is in a file as well, of which each line is whole", function()
    local file = os.tmpname()
    os.remove(file)
    local env = {MORTISE_TRACE_HTTP = file}
    assert.equal("", (select(3, run({"locks", "/audited"}, env))))
    assert.equal("", (select(3, run({"init"}, env))))
    local handle = io.open(file, "rb")
    if store.name == "sqlite" then
      assert.is_truthy(handle)
    else
      local text = handle:read "a"
      assert.equal("\n", text:sub(-1))
      local list = objects(text)
      assert.equal(select(2, text:gsub("\n", "")), #list)
      assert.is_true(#list > 3)
    end
    handle:close()
    os.remove(file)
    local status, _, err = run({"locks"}, {MORTISE_TRACE_HTTP = "/no/such/folder/x"})
    assert.equal(4, status)
    says(err, "/no/such/folder/x")
  end)

  it("says nothing unasked, and refuses what it does not know", function()
    assert.equal("", (select(3, run {"locks", "/audited"})))
    assert.equal(2, (run {"locks", "--log-level", "loud"}))
    local status, _, err = run({"locks"}, {MORTISE_LOG_FORMAT = "xml"})
    assert.equal(2, status)
    says(err, "MORTISE_LOG_FORMAT", "text, json")
  end)
end)
