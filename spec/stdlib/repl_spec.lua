local complete = require "mortise.prompt.complete"
local history = require "mortise.prompt.history"
local mortise = require "mortise"
local loop = require "mortise.prompt.loop"

-- Runs these lines ("^C" an interrupt). -> output, complaints, statements, did all go well
local function session(lines, env)
  local at, out, bad, statements, prompts = 0, {}, {}, {}, {}
  local good = loop.run({
    read = function(prompt)
      at = at + 1
      prompts[at] = prompt
      if lines[at] == "^C" then return nil, "interrupt" end
      if lines[at] == nil then return nil, "eof" end
      return lines[at]
    end,
    write = function(text) out[#out + 1] = text end,
    complain = function(text) bad[#bad + 1] = text end,
    remember = function(text) statements[#statements + 1] = text end,
  }, env or setmetatable({}, {__index = _G}))
  return {
    out = table.concat(out), bad = table.concat(bad), statements = statements, good = good,
    prompts = prompts,
  }
end

describe("the prompt", function()
  it("prints what expressions give", function()
    assert.equal('2\n"a", nil\n{1, 2}\n', session {"1+1", "='a', nil", "{1, 2}"}.out)
    assert.equal("", session({"x = 1", "local y = 2", "", "  "}).out)
  end)

  it("waits for the end of a statement", function()
    local s = session {
      "for i = 1, 2 do", "  x = i", "end", "x", "f(", "^C", "'a' ..", "'b'", "s = [[a", "b]]", "s",
    }
    assert.equal('2\n"ab"\n"a\\nb"\n', s.out)
    assert.equal("for i = 1, 2 do\n  x = i\nend", s.statements[1])
    assert.equal("'a' ..\n'b'", s.statements[3])
    assert.same({"> ", ">> ", ">> ", "> "}, {table.unpack(s.prompts, 1, 4)})
  end)

  it("says what is wrong and goes on", function()
    local s = session {"x +* 1", "error('boom')", "error{}", "1"}
    assert.matches("syntax error near", s.bad)
    assert.matches("stdin:1: boom\nstack traceback:", s.bad)
    assert.matches("the error is a table value", s.bad)
    assert.equal("1\n", s.out)
    assert.is_false(s.good)
    assert.is_false(session({"x ="}).good)
  end)

  it("keeps globals", function()
    assert.equal("3\n", session {"a = 1", "b = 2", "a + b"}.out)
  end)
end)

describe("the words of the prompt", function()
  it("help", function()
    local all = session {"help"}.out
    for _, word in ipairs {"with_tree_lock", "quit", "help lock:upgrade", "next_page"} do
      assert.truthy(all:find(word, 1, true), word)
    end
    for _, way in ipairs {"?", "help()", " help ", "help(mortise)"} do
      assert.equal(all, session({way}, setmetatable({mortise = mortise}, {__index = _G})).out, way)
    end
    local scan = session {"help mortise.scan"}.out
    assert.matches("^mortise%.scan%(index, %[options%]%): every document", scan)
    assert.matches("\n  query +Query DSL", scan)
    local function with_module() return setmetatable({mortise = mortise}, {__index = _G}) end
    assert.equal(scan, session({"help(mortise.scan)"}, with_module()).out)
    local both = session {"?scan"}.out
    assert.equal(scan, both:sub(1, #scan))
    assert.matches("\nlock:scan%(", both)
    assert.equal(both, session {"help scan"}.out)
    assert.equal(both, session {'help "scan"'}.out)
    assert.matches("did you mean `scan`", session {"help sacn"}.out)
    assert.matches("\n  wait +how long", session {"help lock:upgrade"}.out)
    assert.matches("lock:release", session {"?lock"}.out)
    assert.matches("doc[^\n]*_source", session({"help(mortise.view '{}')"}, with_module()).out)
  end)

  it("quit and exit", function()
    for _, way in ipairs {"quit", "exit", "quit()", " exit ;"} do
      assert.equal("1\n", session({"1", way, "2"}).out, way)
    end
  end)

  it("give way to variables", function()
    assert.equal("5\n", session {"help = 5", "help"}.out)
    assert.equal("6\n7\n", session {"quit = 6", "quit", "7"}.out)
  end)

  it("are none of a script's", function()
    assert.is_nil(rawget(_G, "help"))
    assert.is_nil(rawget(_G, "quit"))
  end)

  it("hint at what was meant", function()
    for line, says in pairs {
      ["locks"] = "here it is \\locks", ["locks /a"] = "shell: mortise locks", ["ls"] = "not a shell",
      ["mortise rename fs /a /b"] = "mortise%.rename {", ["scan fs"] = "there is mortise%.scan%(",
      ["get('fs', '1')"] = "there is mortise%.get%(",
    } do
      assert.matches(says, session({line}, {mortise = mortise}).bad)
    end
    assert.equal("", session({"total", "x"}, {}).bad)
    assert.equal("", session({"ls"}, {ls = 1}).bad)
  end)
end)

describe("results", function()
  it("are kept", function()
    local s = session {"1, 'b'", "_1, _2", "_", "x = 5", "_", "nil, 3", "_2"}
    assert.equal('1, "b"\n1, "b"\n1\n1\nnil, 3\n3\n', s.out)
    assert.equal("3, nil\n", session({"3", "_, _2"}).out:match "\n(.*)$")
  end)

  it("are Lua, a table, or JSON", function()
    local s = session {
      "\\format table", "{{path = '/a', n = 1}, {path = '/b', x = {y = 1}}}", "{a = {}, b = {{id = 1}}}",
      "{1, 2}",
      "{{1}}", "\\format json", "{1, {a = 'b'}}", "print", "\\format lua", "{{id = 1}}", "\\format yaml",
    }
    assert.equal(table.concat({
      "format is table",
      "PATH  N  X", "/a    1", '/b       {"y":1}', "(2 rows)",
      "a:", "(none)", "", "b:", "ID", "1", "(1 row)",
      "{1, 2}", "{{1}}",
      "format is json",
      "[", "  1,", "  {", '    "a": "b"', "  }", "]",
    }, "\n"), s.out:match "^(.*)\n%-%-%[%[function")
    assert.matches("format is lua\n{{id = 1}}\n$", s.out)
    assert.matches("\\format lua, table, json", s.bad)
  end)

  it("of a search are its documents", function()
    local hits = "{{_id = 'd1', _source = {path = '/a', n = 1}}, {_id = 'd2', _source = {path = '/b'}}}"
    local s = session {
      "\\format table", "{took = 1, hits = {total = {value = 5000, relation = 'eq'}, hits = " .. hits .. "}}",
      "{hits = {total = {value = 10000, relation = 'gte'}, hits = " .. hits .. "}}", "{hits = {hits = {}}}",
      "{hits = {hits = {}}, aggregations = {a = {value = 1}}}",
    }
    assert.equal(table.concat({
      "format is table",
      "_ID  PATH  N", "d1   /a    1", "d2   /b", "(2 rows of 5000)",
      "_ID  PATH  N", "d1   /a    1", "d2   /b", "(2 rows of at least 10000)", "(none)",
      "{aggregations = {a = {value = 1}}, hits = {hits = {}}}", "",
    }, "\n"), s.out)
  end)

  it("of an unsafe text cannot control a terminal", function()
    local s = session {
      "\\format table", "{{id = 'a\\27[31m'}}", "\\format json", "'a\\u{9b}b'", "\\format lua",
    }
    assert.is_nil(s.out:find "[\27\x9b]")
  end)
end)

describe("what begins with a backslash", function()
  local function words(line) return session {line} end

  it("leaves", function()
    local s = session {"1", "\\q", "2"}
    assert.equal("1\n", s.out)
    assert.is_true(s.good)
  end)

  it("is no Lua", function()
    assert.matches("\\timing.*\\locks", words("\\help").out)
    assert.equal(words("\\help").out, words("\\?").out)
    assert.equal(words("\\help").out, words("\\").out)
    assert.matches("usage: mortise locks", words("\\help locks").out)
    assert.matches("edit the last statement", words("\\help \\e").out)
    for _, line in ipairs {
      "\\nope", "\\timing 5", "\\format x", "\\i", "\\i /no/such", "\\watch 1ms 1", "\\who",
      "\\watch 2s x =", "\\get fs 'x",
    } do
      local s = words(line)
      assert.is_false(s.good, line)
      assert.is_true(#s.bad > 0, line)
    end
  end)

  it("says how long a statement takes", function()
    assert.matches("^timing is on\n%d+ ms\n3\n%d+ ms\ntiming is off\n4\n$",
      session({"\\timing on", "3", "\\timing off", "4"}).out)
  end)

  it("runs a file, with the globals of the prompt", function()
    local file = os.tmpname()
    local handle = assert(io.open(file, "w"))
    handle:write "y = x + 1 return y, 'z'"
    handle:close()
    assert.equal('4, "z"\n4\n', session({"x = 3", "\\i " .. file, "y"}).out)
    os.remove(file)
  end)
end)

describe("functions", function()
  it("say how they are called", function()
    local env = {mortise = mortise}
    assert.equal("function mortise.scan(index, [options]): every document that matches, once; for `for`\n",
      session({"mortise.scan"}, env).out)
    assert.equal("{f = nil --[[function mortise.get(index, id, [options])]]}\n",
      session({"{f = mortise.get}"}, env).out)
  end)
end)

describe("completion", function()
  local env = {mortise = mortise, string = string, value = {alpha = 1, beta = print, [1] = 2, ["a b"] = 1}}
  local function words(text) return (complete(text, env)) end

  it("knows globals and keywords", function()
    assert.same({"mortise"}, words "mort")
    assert.same({"function"}, words "x = fun")
    assert.same({"value"}, words "print(val")
  end)
  it("knows the words of the prompt, and the names that help knows", function()
    assert.same({"quit"}, words "qui")
    assert.same({"help"}, words "hel")
    assert.same({}, words "x = qui")
    assert.same({"with_document_locks", "with_global_lock", "with_lock", "with_tree_lock"},
      words "help with_")
    assert.same({"downgrade"}, words "?down")
    assert.same({"up", "update", "upgrade"}, words 'help "up')
    assert.equal(6, select(2, complete("help with_", env)))
  end)
  it("knows fields and methods", function()
    assert.same({"with_document_locks", "with_global_lock", "with_lock", "with_tree_lock"},
      words "mortise.with_")
    assert.same({"alpha", "beta"}, words "value.")
    assert.same({"beta"}, words "value:")
    env.s = "text"
    assert.same({"rep", "reverse"}, words "s:re")
  end)
  it("knows the options of a call inside its table", function()
    assert.same({"query = "}, words "mortise.scan('fs', {que")
    assert.same({"query = "}, words "mortise.scan ('fs', {query = {a = {'}'}}, --[[ x ]] que")
    assert.same({"index = "}, words "mortise.rename {ind")
    assert.same({"index = "}, words "x = f(1) mortise.rename({ind")
    assert.same({"exclusive"}, words "mortise.acquire {tree = '/a', mode = 'ex")
    assert.same({"false", "true"}, words "mortise.init {print = ")
    assert.same({}, words "mortise.scan('fs', {query = {que")
    assert.same({}, words "x = {ind")
    assert.same({"mortise"}, words "mortise.rename {index = mort")
    assert.same({}, words "mortise.rename {'ind")
    assert.same({}, words "-- mort")
    assert.same({"mortise"}, words "x = [[text]] mort")
    assert.same({}, words "x = [[mort")
  end)
  it("says how a function is called", function()
    local function note(text) return (select(3, complete(text, env))) end
    assert.matches("^mortise.get%(index, id, %[options%]%): ", note "mortise.get(")
    assert.matches("^mortise.get%(index", note "mortise.get('fs', ")
    assert.matches("^mortise.mget%(index", note "mortise.mget")
    assert.is_nil(note "print(")
    assert.is_nil(note "mortise.ge")
  end)
  it("knows what begins with a backslash", function()
    assert.same({"timing", "trace"}, words "\\t")
    assert.same({"lua"}, words "\\format l")
    assert.same({"--waiting"}, words "\\locks tree --wai")
    assert.same({"locks"}, words "\\help lo")
    assert.equal(2, select(2, complete("\\ti", env)))
  end)
  it("raises nothing, whatever is typed", function()
    math.randomseed(7)
    local parts = {
      "mortise", ".", ":", "(", "{", "[", "[[", "]]", "}", ")", "'", '"', "--", "\n", "\\", "=", ",", " ",
      "get", "scan", "acquire", "tree", "x", "1", "\0", "\xff",
    }
    for _ = 1, 3000 do
      local list = {}
      for i = 1, math.random(12) do list[i] = parts[math.random(#parts)] end
      local text = table.concat(list)
      local found, from = complete(text, env)
      assert(type(found) == "table" and math.type(from) == "integer", text)
      assert(from >= 1 and from <= #text + 1, text)
    end
  end)
  it("knows views and where the word begins", function()
    env.doc = mortise.view '{"path":"/a","size":1}'
    assert.same({"path"}, words "doc.p")
    assert.equal(5, select(2, complete("doc.p", env)))
    assert.same({}, words "nothing.here.at")
  end)
end)

describe("history", function()
  it("keeps whole statements", function()
    local file = os.tmpname()
    for _, text in ipairs {"a", "for\n  x\nend", "back\\slash\\n"} do
      assert.equal(text, history.unescape(history.escape(text)))
      history.add(file, text)
    end
    assert.same({"a", "for\n  x\nend", "back\\slash\\n"}, history.load(file))
    os.remove(file)
  end)
  it("is cut", function()
    local file = os.tmpname()
    for i = 1, 2500 do history.add(file, "s" .. i) end
    history.trim(file)
    local list = history.load(file)
    assert.is_true(#list <= 2000 and #list >= 1000)
    assert.equal("s2500", list[#list])
    os.remove(file)
    assert.same({}, history.load(file))
  end)
end)
