local parser = require "mortise.cli.parser"

local rows = {
  {name = "store", type = "string", flag = "--store", value = "URL", help = "where"},
  {name = "wait", type = "duration", flag = "--wait", short = "-w", value = "TIME", help = "how long"},
  {name = "json", type = "boolean", flag = "--json", help = "print JSON", default_text = "no"},
  {name = "code", type = "string", flag = "--execute", short = "-e", value = "CODE", last = true,
    help = "run"},
}

local function parse(words, stop)
  local found, others, at = parser.parse(words, 1, rows, stop)
  return found, others, at
end

describe("the parser of the command line", function()
  it("takes values behind a blank or =", function()
    local found, others = parse {"a", "--store", "x", "--wait=2s", "b", "--json", "-"}
    assert.same({store = "x", wait = 2000, json = true}, found)
    assert.same({"a", "b", "-"}, others)
    assert.same({store = "--json"}, (parse {"--store", "--json"}))
    assert.same({store = ""}, (parse {"--store="}))
    assert.same({wait = 1000}, (parse {"-w", "1"}))
  end)

  it("leaves what follows --, a script or code alone", function()
    assert.same({"--json", "x"}, select(2, parse {"--", "--json", "x"}))
    local found, _, at = parse({"--json", "script", "--store", "x"}, true)
    assert.same({{json = true}, 2}, {found, at})
    found, _, at = parse({"-e", "return 1", "--json"}, true)
    assert.same({{code = "return 1"}, 3}, {found, at})
  end)

  it("says what is wrong", function()
    for words, pattern in pairs {
      [{"--stor", "x"}] = "did you mean `%-%-store`", [{"--store"}] = "needs a value",
      [{"--json=1"}] = "takes no value", [{"--wait", "x"}] = "a number of seconds",
      [{"-x"}] = "unknown option `%-x`",
    } do
      local ok, why = pcall(parse, words)
      assert.is_false(ok)
      assert.equal("invalid_argument", why.code)
      assert.matches(pattern, why.message)
    end
  end)

  it("makes the help of the same rows", function()
    local help = parser.help(rows)
    assert.matches("  %-%-store URL%s+where\n", help)
    assert.matches("  %-w, %-%-wait TIME%s+how long\n", help)
    assert.matches("print JSON %(no%)", help)
  end)
end)
