local options = require "mortise.options"
local suggest = require "mortise.suggest"

local rows = {
  {name = "wait", type = "duration", help = "how long"},
  {name = "mode", type = "string", default = "exclusive", values = {"exclusive", "shared"}, help = "x"},
  {name = "limit", type = "count", help = "how many"},
  {name = "bytes", type = "size", help = "how large"},
  {name = "flag", type = "boolean", default = true, help = "whether"},
  {name = "query", type = "query", help = "which"},
}

local function complaint(...)
  local ok, why = pcall(options.check, "call", ...)
  assert.is_false(ok)
  assert.equal("invalid_argument", why.code)
  return why.message
end

describe("options", function()
  it("are converted and have defaults", function()
    assert.same({wait = 2000, mode = "shared", limit = 3, bytes = 2048, flag = false, query = "{}"},
      options.check("call", rows,
        {wait = "2s", mode = "shared", limit = 3.0, bytes = "2KB", flag = false, query = "{}"}))
    assert.same({mode = "exclusive", flag = true}, options.check("call", rows, nil))
  end)

  it("suggest the near name", function()
    assert.equal("call: unknown option `wiat`: did you mean `wait`?", complaint(rows, {wiat = 1}))
    assert.matches("there are: wait, mode", complaint(rows, {zzzzzzz = 1}))
  end)

  it("say what is wanted", function()
    assert.matches("`wait` is a number of seconds", complaint(rows, {wait = "soon"}))
    assert.matches('one of exclusive, shared, not "x"', complaint(rows, {mode = "x"}))
    assert.matches("`limit` is a whole number above 0, not 0", complaint(rows, {limit = 0}))
    assert.matches("`flag` is true or false, not 1", complaint(rows, {flag = 1}))
    assert.matches("options are a table, not a number", complaint(rows, 5))
    assert.matches("name of an option is a string", complaint(rows, {"wait"}))
  end)

  it("may be required", function()
    local required = {{name = "index", type = "string", required = true, help = "the index"}}
    assert.equal("call: option `index` is missing (the index)", complaint(required, {}))
  end)

  it("reads sizes", function()
    assert.equal(64 << 20, options.parse_size "64MB")
    assert.equal(1 << 30, options.parse_size "1GiB")
    assert.equal(17, options.parse_size(17))
    assert.is_nil(options.parse_size "many")
    assert.is_nil(options.parse_size(-1))
  end)
end)

describe("suggestions", function()
  local names = {"store", "namespace", "timeout", "wait"}
  it("find slips of the fingers", function()
    assert.equal("store", suggest("stroe", names))
    assert.equal("store", suggest("stor", names))
    assert.equal("namespace", suggest("namspace", names))
    assert.equal("wait", suggest("wiat", names))
  end)
  it("stay silent for strangers", function()
    assert.is_nil(suggest("xyzzy", names))
    assert.is_nil(suggest(("s"):rep(1000), names))
  end)
end)
