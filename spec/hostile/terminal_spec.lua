-- Names chosen by others are shown, and have no other effect: they cannot control a terminal, start a line or
-- reverse its direction.
local fails = require "spec.support.fails"
local mortise = require "mortise"
local printable = require "mortise.printable"
local printer = require "mortise.printer"
local program = require "spec.support.program"
local stores = require "spec.support.stores"
local tables = require "spec.support.tables"

local nasty = {
  "\27[2J", "\27]0;title\7", "a\rb", "a\nb", "\8\8", "\127", "\xc2\x9b2J", "\xc2\x85", "\u{202e}txt",
  "\u{2066}x\u{2069}", "\u{2028}", "\u{200f}", "\u{61c}", "\x9b2J", "\xff",
}

-- Has the text only printable characters, and line breaks only where they are meant?
local function is_tame(text)
  text = text:gsub("\n", "")
  if text:find "[\0-\31\127]" or not utf8.len(text) then return false end
  for _, c in utf8.codes(text) do
    if c >= 0x80 and c <= 0x9f or c == 0x61c or c >= 0x200e and c <= 0x200f or c >= 0x2028 and c <= 0x202e
      or c >= 0x2066 and c <= 0x2069 then
      return false
    end
  end
  return true
end

describe("text of others", function()
  it("is shown with escapes", function()
    for _, text in ipairs(nasty) do
      local shown = printable(text)
      assert.is_true(is_tame(shown) and not shown:find "\n", ("%q"):format(text))
      assert.is_true(is_tame(printer.format(text)))
      assert.equal(text, load("return " .. printer.format(text))())
    end
    assert.equal("a\\x1b[2Jb\\u{202e}c", printable "a\27[2Jb\u{202e}c")
    assert.equal("a\nb\tc", printable("a\nb\tc", true))
    assert.equal("grün ☃ 雪", printable "grün ☃ 雪")
  end)

  it("is tamed in the messages of errors, and in what is said of blockers", function()
    for _, text in ipairs(nasty) do
      if not text:find "\0" then
        local ok, why = pcall(mortise.connect, {store = "sqlite:/no/such" .. text .. "/folder/x.db"})
        assert.is_false(ok)
        assert.is_true(is_tame(tostring(why)) and not tostring(why):find "\n")
      end
    end
  end)
end)

stores.each("a lock's path", function(store)
  local forged = "/x\n/forged  X     holds  00000000/1  1s     nobody\27[2J\u{202e}"

  it("forges no row of mortise locks, and no line of an error", function()
    local client <close> = stores.connect(store)
    client:acquire({tree = "/"}):release() -- so that there is a table
    tables.hold(store, client, forged, ("ab"):rep(16))
    local commands = {{"locks"}, {"locks", "--all"}, {"locks", "/"}, {"locks", "--who", "/"}, {"doctor"}}
    for _, words in ipairs(commands) do
      local _, out, errors = program.run({"--store", store.store, "--namespace", client:namespace(),
        table.unpack(words)})
      local all = (out or "") .. (errors or "")
      assert.is_true(is_tame(all), table.concat(words, " "))
      for line in all:gmatch "[^\n]+" do assert.is_nil(line:find "^/forged") end
    end
    local state <close> = client:_break_session(("ab"):rep(16))
    repeat mortise.sleep(0.01) until state:progress().phase == "done"
  end)

  it("has nothing of that in it when it is taken here", function()
    local client <close> = stores.connect(store)
    for _, text in ipairs(nasty) do
      local why = fails("invalid_argument", client.acquire, client, {tree = "/a" .. text})
      assert.is_true(is_tame(why.message) and not why.message:find "\n")
      local lock <close> = client:acquire {named = {"category", text}} -- names may be any
      assert.is_true(is_tame(lock.paths[1]))
    end
  end)
end)

stores.each("a document's id", function(store)
  local id = "x\nmortise: all is well\27]0;title\7\u{202e}"

  -- In the program, as a script and at the prompt.
  local function errors_of(namespace, script)
    local words = {"--store", store.store, "--namespace", namespace}
    local all = {}
    for i, more in ipairs {{"-e", script}, {"repl"}} do
      local given = {table.unpack(words)}
      table.move(more, 1, #more, #given + 1, given)
      local _, out, err = program.run(given, {input = i == 2 and script .. "\n" or ""})
      all[i] = out .. err
    end
    return (table.concat(all):gsub("\n\t", "\n  ")) -- a traceback's
  end

  it("forges no line of an error, and commands no terminal, wherever it is shown", function()
    local client <close> = stores.connect(store)
    local index = stores.name "docs"
    client:create(index, id, {path = "/x"}, {refresh = true})
    local quoted = ("%q"):format(id):gsub("\n", "n")
    for _, script in ipairs {
      ("mortise.create(%q, %s, {path = '/y'})"):format(index, quoted),
      ("for d in mortise.scan(%q) do mortise.create(%q, d.id, {path = '/y'}) end"):format(index, index),
      ("for d in mortise.scan(%q) do error 'bad' end"):format(index),
    } do
      local all = errors_of(client:namespace(), script)
      assert.is_true(is_tame(all), all)
      for line in all:gmatch "[^\n]+" do assert.is_nil(line:find "^mortise: all is well", line) end
    end
    local shown = tostring(client:get(index, id))
    assert.is_true(is_tame(shown) and not shown:find "\n", shown)
    client:drop_index(index)
  end)
end)

describe("a script's name", function()
  it("forges no line of an error, whether it can be read or not", function()
    for _, text in ipairs {"x x", "error 'bad'", "local s = '\27[2J' + + 1"} do
      local file = program.write(text, "\27[2J\nmortise: all is well.lua")
      local status, out, err = program.run {"run", file}
      os.remove(file)
      assert.equal(1, status, err)
      assert.is_true(is_tame((out .. err:gsub("\n\t", "\n  "))), err)
      assert.is_nil(err:find "\nmortise: all is well", err)
    end
  end)
end)
