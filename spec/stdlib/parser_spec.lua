local parser = require "mortise.cli.parser"

local rows = {
  {name = "store", type = "string", flag = "--store", value = "URL", help = "where"},
  {name = "wait", type = "duration", flag = "--wait", short = "-w", value = "TIME", help = "how long"},
  {name = "json", type = "boolean", flag = "--json", help = "print JSON", default_text = "no"},
  {name = "code", type = "string", flag = "--execute", short = "-e", value = "CODE", instead = true,
    help = "run"},
}

local function parse(words, hint) return parser.parse(words, rows, hint) end

describe("the parser of the command line", function()
  it("takes values behind a blank or =", function()
    local found, others = parse {"a", "--store", "x", "--wait=2s", "b", "--json", "-"}
    assert.same({store = "x", wait = 2000, json = true}, found)
    assert.same({"a", "b", "-"}, others)
    assert.same({store = ""}, (parse {"--store="}))
    assert.same({wait = 1000}, (parse {"-w", "1"}))
  end)

  it("takes no option for another's value, but numbers and what is attached", function()
    for _, word in ipairs {"--json", "-w", "--no-such", "--wait=2s", "--"} do
      local ok, why = pcall(parse, {"--store", word})
      assert.is_false(ok)
      assert.matches("%-%-store needs a value: %-%-store URL %(", why.message)
      assert.not_matches("2s", why.message)
      assert.same({store = word}, (parse {"--store=" .. word}))
    end
    for _, word in ipairs {"-1", "-", "-- a comment\nprint()", "x--y"} do
      assert.same({store = word}, (parse {"--store", word}))
    end
  end)

  it("knows options wherever they stand, and leaves what follows -- alone", function()
    local found, others = parse {"x", "--json", "y", "-w", "1", "--", "--json", "--", "z"}
    assert.same({json = true, wait = 1000}, found)
    assert.same({"x", "y", "--json", "--", "z"}, others)
  end)

  it("finds the first word that is no option", function()
    local function first(...)
      return (parser.first({...}, function(flag) return parser.find(rows, flag) end))
    end
    assert.equal("a", first("--store", "x", "--json", "-w", "1", "a", "b"))
    assert.equal("--a", first("--json", "--", "--a"))
    assert.equal("-", first("-", "a"))
    assert.is_nil(first("--json", "-e", "return 1", "a"))
    assert.is_nil(first("--store"))
    assert.is_nil(first())
  end)

  it("says what is meant for a script, if it may be that", function()
    local _, why = pcall(parse, {"--jsno"}, "there")
    assert.matches("unknown option `%-%-jsno`: did you mean `%-%-json`%? %(there%)", why.message)
    _, why = pcall(parse, {"-5"}, "there")
    assert.matches("unknown option `%-5` %(there%)", why.message)
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
