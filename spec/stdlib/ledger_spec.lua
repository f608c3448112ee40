-- The ledger of versioned scripts, and the reading of their folder.
local fails = require "spec.support.fails"
local ledger = require "mortise.ledger"
local purge = require "mortise.purge"
local records = require "mortise.records"
local stores = require "spec.support.stores"
local version_files = require "mortise.version_files"

local function entry(version, also)
  local made = {
    version = version, name = "a", checksum = "0", state = "done", began = 1, by = {host = "h", pid = 1},
  }
  for name, value in pairs(also or {}) do made[name] = value end
  return made
end

stores.each("the ledger", function(store)
  local client, namespace

  before_each(function()
    client = stores.connect(store)
    namespace = client:namespace()
    records.ready(client)
  end)
  after_each(function() client:close() end)

  it("keeps its entries in order", function()
    local book = ledger.read(client, namespace)
    assert.same({}, book.entries)
    for _, version in ipairs {3, 1, 2, 3} do book:put(entry(version, {name = "n" .. version})) end
    book:write()
    book:put(entry(2, {name = "again"}))
    book:write()
    local found = ledger.read(client, namespace)
    assert.equal(3, #found.entries)
    assert.same({1, "again", 3}, {found.entries[1].version, found:find(2).name, found.entries[3].version})
    found:remove(2)
    assert.is_nil(found:find(2))
  end)

  it("is written by one who has read it as it is", function()
    local one, two = ledger.read(client, namespace), ledger.read(client, namespace)
    one:put(entry(1))
    one:write()
    two:put(entry(2))
    fails("conflict", two.write, two)
    two = ledger.read(client, namespace)
    one:put(entry(3))
    one:write()
    fails("conflict", two:put(entry(2)) and two.write, two)
    assert.equal(2, #ledger.read(client, namespace).entries)
  end)

  it("is another in another namespace, and no job", function()
    local book = ledger.read(client, namespace)
    book:put(entry(1))
    book:write()
    local other <close> = stores.connect(store)
    assert.same({}, ledger.read(other, other:namespace()).entries)
    assert.same({}, client:jobs())
    client:refresh(records.index(client))
    assert.same({}, purge.list(client, 0))
  end)

  it("is refused where it is not as it was written", function()
    local id = namespace .. ":@versions"
    for _, body in ipairs {{entries = {{version = "1"}}}, {other = 1}, {entries = 1}} do
      client:index(records.index(client), id, {kind = "versions", format = 1, ns = namespace, body = body})
      fails("corrupt_table", ledger.read, client, namespace)
    end
  end)
end)

describe("a folder of versioned scripts", function()
  local folder

  before_each(function()
    folder = stores.temporary ".d"
    os.execute("mkdir " .. folder)
  end)
  after_each(function() os.execute("rm -rf " .. folder) end)

  local function write(name, text)
    local handle = assert(io.open(folder .. "/" .. name, "wb"))
    handle:write(text or "")
    handle:close()
  end

  it("is read in the order of versions", function()
    for _, name in ipairs {"V20260102030405__b.lua", "V0__zero.lua", "V010__c-1.2.lua", "V9__a.lua",
      "notes.txt", ".hidden.lua"} do
      write(name)
    end
    local found = {}
    for i, script in ipairs(version_files.read(folder .. "//")) do
      found[i] = ("%d %s %s"):format(script.version, script.name, script.file:sub(#folder + 2))
    end
    assert.same({"0 zero V0__zero.lua", "9 a V9__a.lua", "10 c-1.2 V010__c-1.2.lua",
      "20260102030405 b V20260102030405__b.lua"}, found)
  end)

  it("has the same checksums whatever its line ends are", function()
    write("V1__a.lua", "return\n")
    write("V2__b.lua", "\xef\xbb\xbfreturn\r\n")
    write("V3__c.lua", "return ")
    local list = version_files.read(folder)
    assert.equal(list[1].checksum, list[2].checksum)
    assert.not_equal(list[1].checksum, list[3].checksum)
  end)

  it("refuses what has no version", function()
    for _, name in ipairs {"a.lua", "V1_a.lua", "v1__a.lua", "V1__.lua", "V1.2__a.lua",
      "V1234567890123456789__a.lua"} do
      write(name)
      fails("invalid_argument", version_files.read, folder)
      os.remove(folder .. "/" .. name)
    end
    fails("invalid_argument", version_files.read, folder)
    fails("invalid_argument", version_files.read, folder .. "/none")
    os.execute(("mkdir '%s/V1__a.lua'"):format(folder))
    fails("invalid_argument", version_files.read, folder)
  end)
end)
