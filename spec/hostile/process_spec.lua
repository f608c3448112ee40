-- The process itself: which signals its threads block, and what others can see of it.
local program = require "spec.support.program"
local settings = require "mortise.settings"
local stores = require "spec.support.stores"

local store
before_each(function() store = stores.temporary ".db" end)
after_each(function() os.execute(("rm -f -- '%s'*"):format(store)) end)

describe("a crash", function()
  local crashes = {ILL = 4, TRAP = 5, ABRT = 6, BUS = 7, FPE = 8, SEGV = 11, SYS = 31}

  it("is let through by every thread", function()
    local _, out = program.run {"--store", "sqlite:" .. store, "-e", [[
      mortise.index("x", "1", {a = 1})
      mortise.with_tree_lock("/a", function()
        local pid = io.open("/proc/self/stat"):read "n"
        -- The thread that starts a program blocks all signals until that runs.
        os.execute("sleep 0.2; cat /proc/" .. pid .. "/task/*/status")
      end)]]}
    local n = 0
    for mask in out:gmatch "SigBlk:%s*(%x+)" do
      n = n + 1
      for name, number in pairs(crashes) do
        assert.equal(name .. " 0", name .. " " .. (tonumber(mask, 16) >> (number - 1) & 1))
      end
    end
    assert.is_true(n >= 4, "there were " .. n) -- ours, documents', locks', heartbeat's
  end)
end)

describe("a secret on the command line", function()
  local function shown(...)
    local _, out, errors = program.run {...}
    assert.is_nil(errors:find "hunter", errors)
    return out
  end
  local show = [[for word in io.open("/proc/self/cmdline"):read "a":gmatch "[^%z]+" do print(word) end]]

  it("is overwritten where others see it, and the script gets it", function()
    local out = shown("-e", show .. " print(...)", "--", "http://u:hunter2@h:1/a", "--password", "hunter3",
      "--api-key=hunter4", "--bearer=", "https://a:hunter5@x,b:hunter@6@y", "plain@word", "--passwords", "7",
      "http://h:1?api_key=hunter8", "https://h/#hunter9", "http://h?key=a@hunter0", "http://u:p?hunter1@h")
    local lines, last = out:match "^(.*\n)([^\n]*)\n$"
    assert.is_nil(lines:find "hunter%d")
    assert.is_nil(lines:find "hunter@")
    for _, word in ipairs {"http://*********@h:1/a", "--password\n*******\n", "--api-key=*******\n",
      "--bearer=\n", "@y\n", "plain@word\n", "--passwords\n7\n"} do
      assert.matches(word, lines, 1, true)
    end
    assert.equal("http://u:hunter2@h:1/a\t--password\thunter3\t--api-key=hunter4\t--bearer=\t"
      .. "https://a:hunter5@x,b:hunter@6@y\tplain@word\t--passwords\t7\t"
      .. "http://h:1?api_key=hunter8\thttps://h/#hunter9\thttp://h?key=a@hunter0\thttp://u:p?hunter1@h", last)
  end)

  it("is hidden behind the flag of every setting that is one", function()
    local n = 0
    for _, row in ipairs(settings.rows) do
      if row.secret then
        local flag = "--" .. row.name:gsub("_", "-")
        local lines = shown("-e", show, "--", flag .. "=hunter2", flag, "hunter3")
        assert.is_nil(lines:find "hunter%d", lines)
        assert.matches(flag .. "=*******\n" .. flag .. "\n*******\n", lines, 1, true)
        n = n + 1
      end
    end
    assert.is_true(n > 0)
  end)

  it("is refused where it is ours, and not repeated", function()
    for _, words in ipairs {
      {"--store", "http://u:hunter2@127.0.0.1:1", "locks"},
      {"--store", "http://127.0.0.1:1?api_key=hunter2", "locks"}, {"--password", "hunter2", "locks"},
      {"locks", "--bearer=hunter2"},
    } do
      assert.equal("", shown(table.unpack(words)))
      assert.equal(2, (program.run(words)))
    end
  end)
end)

describe("the prompt's history", function()
  local history = require "mortise.prompt.history"
  local folder, file
  before_each(function()
    folder = stores.temporary ".state"
    file = folder .. "/mortise/history"
  end)
  after_each(function() os.execute(("rm -rf -- '%s'"):format(folder)) end)

  local function mode_of(name)
    local pipe = io.popen(("stat -c %%a '%s'"):format(name))
    local mode = pipe:read "l"
    pipe:close()
    return mode
  end

  it("keeps no secret", function()
    local kept = {
      "x = 1", "mortise.get('fs', 'a')", 'c = mortise.connect {store = "http://h:1", password_file = "/p"}',
      'client = mortise.connect {api_key_file = "/etc/k", bearer_file = "b"}', 'u = "http://h/a@b"',
      "mail = 'a@b'",
    }
    local dropped = {
      'x = mortise.connect{store="http://127.0.0.1:1", user="u", password="hunter2"}',
      'mortise.connect {api_key = "hunter2"}', 'mortise.connect {bearer = "hunter2"}', 'PASSWORD = "hunter2"',
      'u = "http://u:hunter2@h:1"', 'mortise.connect {\n  password = "hunter2",\n}', 'token = "hunter2"',
      'p = {password_file = "x", password = "hunter2"}', 'h = "Authorization: Basic hunter2"',
      "my_secret = 'hunter2'",
    }
    for _, text in ipairs(kept) do history.add(file, text) end
    for _, text in ipairs(dropped) do history.add(file, text) end
    assert.same(kept, history.load(file))
  end)

  it("is for its owner alone, also where it was for all", function()
    history.add(file, "x = 1")
    assert.equal("600", mode_of(file))
    assert.equal("700", mode_of(folder .. "/mortise"))
    local other = folder .. "/other"
    io.open(other, "w"):close()
    os.execute(("chmod 666 '%s'"):format(other))
    history.add(other, "x = 1")
    assert.equal("600", mode_of(other))
    history.trim(other)
    assert.equal("600", mode_of(other))
  end)
end)
