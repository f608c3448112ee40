-- A question of the program at a terminal, and what comes while it waits for input.
local program = require "spec.support.program"
local says = require "spec.support.says"
local stores = require "spec.support.stores"
local terminal = require "spec.support.terminal"

if not program.file then
  print "SKIP questions: MORTISE_BIN is not set"
  return
end

local build = program.file:match "^(.*)/cli/[^/]*$"

-- A sanitized program needs the sanitizer's runtime to be loaded first.
local function preloaded(library)
  local pipe = io.popen(([[case $(ldd %s) in
    *libasan*) printf '%%s:' "$(gcc -print-file-name=libasan.so)";;
    esac]]):format(program.quote(program.file)))
  local sanitizer = pipe:read "a"
  pipe:close()
  return "LD_PRELOAD=" .. sanitizer .. library
end

describe("a question at a terminal", function()
  if not terminal.is_there() then
    print "SKIP questions: expect is not installed"
    return
  end

  local store, client, words

  before_each(function()
    store = "sqlite:" .. stores.temporary ".db"
    client = stores.connect({store = store}, {namespace = "ns"})
    local index = stores.fill(client, {a = {path = "/a/1"}})
    client:job {id = "asked", index = index, rename = {from = "/a", to = "/b"}}:run()
    words = {"--store", store, "--namespace", "ns", "jobs", "purge", "asked"}
  end)

  after_each(function()
    client:close()
    os.execute("rm -f -- " .. store:sub(8) .. "*")
  end)

  for answer, status in pairs {
    y = 0, YES = 0, [("n"):rep(4000)] = 1, [("y"):rep(70000)] = 1, ["y" .. ("n"):rep(200)] = 1, ["^D"] = 1,
    ["^C"] = 130, SIGTERM = 130,
  } do
    it("takes " .. answer:sub(1, 10), function()
      local found, text = terminal.answer(answer, words)
      assert.equal(status, found, text)
      says(text, status == 0 and "removed job asked, with" or status == 1 and "nothing was removed"
        or "interrupted")
      assert.equal(status ~= 0, pcall(client.get_job, client, "asked"))
    end)
  end

  it("loses no signal, however shortly before it waits that comes", function()
    local late = preloaded(build .. "/spec/program/liblate_signal.so")
    for at = 1, 2 do
      local found, text = terminal.answer("nothing", words, {late, "MORTISE_LATE_AT=" .. at})
      assert.equal(130, found, text)
      says(text, "(y/N)", "asked to stop")
    end
  end)
end)
