-- What `mortise doctor --fix` mends, beside what dead sessions left (dead_spec) and lost guards
-- (lost_guard_spec).
local program = require "spec.support.program"
local says = require "spec.support.says"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP doctor --fix: MORTISE_BIN is not set"
  return
end

stores.each("doctor --fix", function(store)
  local namespace, client, own

  before_each(function()
    namespace, own = stores.name "ns", stores.name "table"
    client = stores.connect(store, {namespace = namespace, table = own})
    client:init()
    client:acquire({tree = "/used"}):release()
  end)
  after_each(function() client:close() end)

  local function doctor(env, ...)
    return program.run({"--store", store.store, "--namespace", namespace, "--table", own, "doctor", ...},
      {env = env})
  end

  it("makes a file with a secret its owner's alone", function()
    local file = program.write("hush\n", ".secret")
    os.execute("chmod 644 " .. file)
    local env = {MORTISE_USER = "ann", MORTISE_PASSWORD_FILE = file}
    local _, out = doctor(env)
    says(out, "can be read or written by others (mode 0644): chmod 600 it")
    _, out = doctor(env, "--fix")
    says(out, "ok    settings: " .. file .. " (password_file) is mode 0600 now")
    assert.is_nil(out:find("chmod 600 it", 1, true))
    _, out = doctor(env)
    assert.is_nil(out:find(file .. " can be read", 1, true))
    local pipe = io.popen("stat -c %a " .. file)
    assert.equal("600", pipe:read "l")
    pipe:close()
    os.remove(file)
  end)

  it("makes the index of jobs where a table is older", function()
    if store.name == "sqlite" then return end -- an embedded store makes it itself
    client:drop_index(own .. "-jobs")
    local status, out = doctor()
    assert.equal(1, status)
    says(out, "BAD   jobs: their index " .. own .. "-jobs is missing")
    status, out = doctor(nil, "--fix")
    assert.equal(0, status, out)
    says(out, "ok    jobs: their index " .. own .. "-jobs was missing, and is made")
    assert.equal(0, (doctor()))
    assert.same({}, client:jobs())
  end)
end)
