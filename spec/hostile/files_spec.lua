-- An embedded store's files: who may read them, what they may contain, where their names may lead.
local fails = require "spec.support.fails"
local mortise = require "mortise"
local stores = require "spec.support.stores"

local file
before_each(function() file = stores.temporary ".db" end)
after_each(function() os.execute(("rm -f -- '%s'* './file:luaspec'*"):format(file)) end)

local function output(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read "a"
  pipe:close()
  return text
end

local function sql(statement)
  local pipe = assert(io.popen(("sqlite3 '%s'"):format(file), "w"))
  pipe:write(statement, "\n")
  assert(pipe:close())
end

local function fill(name)
  local client <close> = mortise.connect {store = "sqlite:" .. (name or file)}
  client:index("x", "1", {a = "v"})
  client:with_tree_lock("/a", function() end)
end

describe("an embedded store's files", function()
  it("are for their user alone, whatever the umask", function()
    fill()
    local modes = output(("stat -c '%%a %%n' '%s'*"):format(file))
    local n = 0
    for mode in modes:gmatch "(%d+) [^\n]+" do
      n = n + 1
      assert.equal("600", mode)
    end
    assert.is_true(n >= 4) -- documents, locks, and a turnstile each
  end)

  it("keep the mode that they were given", function()
    fill()
    os.execute(("rm -f '%s'*.turn; chmod 640 '%s' '%s-locks'"):format(file, file, file))
    fill()
    local modes = output(("stat -c %%a '%s' '%s.turn' '%s-locks'"):format(file, file, file))
    assert.equal("640\n640\n640\n", modes)
  end)

  it("are not where a link leads", function()
    for _, suffix in ipairs {"", ".turn", "-locks"} do
      fill()
      local target = file .. ".target"
      os.execute(("rm -f '%s%s'; ln -s '%s' '%s%s'"):format(file, suffix, target, file, suffix))
      local why = fails("invalid_argument", fill)
      assert.matches("is a symbolic link", why.message, 1, true)
      assert.equal("", output(("ls '%s' 2>/dev/null"):format(target)))
      os.execute(("rm -f -- '%s'*"):format(file))
    end
  end)

  it("are no URIs", function()
    fill "file:luaspec?mode=memory"
    assert.equal("./file:luaspec?mode=memory\n", output "ls './file:luaspec?mode=memory'")
  end)

  it("are not found where their folder is not there, which is named", function()
    local why = fails("not_found", fill, file .. ".none/x.db")
    assert.matches("there is no folder " .. file .. ".none", why.message, 1, true)
  end)

  it("are no pipes", function()
    os.execute(("mkfifo '%s'"):format(file))
    assert.matches("is no regular file", fails("invalid_argument", fill).message, 1, true)
  end)
end)

local endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

describe("a file that someone else has worked on", function()
  it("runs no trigger of theirs", function()
    fill()
    sql(("CREATE TRIGGER t AFTER UPDATE ON docs BEGIN SELECT * FROM (%s); END;"):format(endless))
    local client <close> = mortise.connect {store = "sqlite:" .. file, timeout = "5s"}
    client:index("x", "1", {a = "w"})
    assert.equal("w", client:get("x", "1").a)
  end)

  it("reads no view of theirs in a table's place", function()
    fill()
    sql(("ALTER TABLE docs RENAME TO mine; CREATE VIEW docs AS %s;"):format(endless))
    fails("corrupt_table", function()
      local client <close> = mortise.connect {store = "sqlite:" .. file, timeout = "5s"}
      client:get("x", "1")
    end)
  end)

  it("says that it is damaged where what belongs there is not there, or is something else", function()
    for _, statement in ipairs {"DROP TABLE docs", "UPDATE indices SET body = '{'",
      "UPDATE indices SET body = '[1]'"} do
      fill()
      sql(statement)
      local why = fails("corrupt_table", function()
        local client <close> = mortise.connect {store = "sqlite:" .. file, timeout = "5s"}
        client:get("x", "1")
      end)
      assert.matches(file .. " is damaged", why.message, 1, true)
      os.execute(("rm -f -- '%s'*"):format(file))
    end
  end)

  it("has a document whose id is no text: whoever reads all of them is told", function()
    fill()
    sql "UPDATE docs SET id = x'32'; UPDATE entries SET id = x'32';"
    local client <close> = mortise.connect {store = "sqlite:" .. file}
    local why = fails("corrupt_table", function() for _ in client:scan "x" do error "a document" end end)
    assert.matches("a document's id is no text", why.message, 1, true)
    fails("corrupt_table", client.count, client, "x")
  end)

  it("holds a lock in a mode that there is not: nobody gets in, and it is listed", function()
    for _, mode in ipairs {-1, 0, 6, 99, -5, 2147483648, "9223372036854775807"} do
      fill()
      local holder = mortise.connect {store = "sqlite:" .. file}
      local lock = holder:acquire {tree = "/a/b", mode = "shared"}
      local change = [[UPDATE holders SET mode = %s WHERE path = '/a/b']]
      os.execute(('sqlite3 %s-locks "' .. change .. '"'):format(file, mode))
      local other <close> = mortise.connect {store = "sqlite:" .. file}
      local had, why = other:try_lock {tree = "/a/b", mode = "shared"}
      assert.is_nil(had)
      assert.equal("lock_timeout", why.code)
      lock:release()
      holder:close()
      os.execute(("rm -f -- '%s'*"):format(file))
    end
  end)
end)
