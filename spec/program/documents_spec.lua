-- A look at documents and a single edit without a script: `mortise get`, `search`, `count`, `put`, `edit`.
local cjson = require "cjson"
local core = require "mortise.core"
local json_text = require "mortise.cli.json_text"
local process = require "spec.support.process"
local program = require "spec.support.program"
local says = require "spec.support.says"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP documents: MORTISE_BIN is not set"
  return
end

stores.each("documents by commands", function(store)
  local namespace, client, index

  before_each(function()
    namespace = stores.name "ns"
    client = stores.connect(store, {namespace = namespace})
    index = stores.fill(client, {
      ["1"] = {path = "/a/1", size = 5, tag = "red", deep = {x = "y"}},
      ["2"] = {path = "/a/2", size = 50, tag = "blue"},
      ["3"] = {path = "/b/1", size = 500},
    })
  end)
  after_each(function() client:close() end)

  local function run(words, input, env)
    return program.run({"--store", store.store, "--namespace", namespace, table.unpack(words)},
      {input = input, env = env})
  end

  local function ok(words, input, env)
    local status, out, err = run(words, input, env)
    assert.equal(0, status, err)
    return out, err
  end

  -- The ids that a search finds.
  local function found(...)
    local ids = {}
    for line in ok({"search", index, "--json", ...}):gmatch "[^\n]+" do
      ids[#ids + 1] = cjson.decode(line)._id
    end
    table.sort(ids, core.before)
    return table.concat(ids, " ")
  end

  it("are printed as they are", function()
    client:index(index, "n", '{"f":1.50,"big":1234567890123456789,"e":{},"l":[],"t":"a \\" : [b"}')
    assert.equal('{\n  "f": 1.50,\n  "big": 1234567890123456789,\n  "e": {},\n  "l": [],\n'
      .. '  "t": "a \\" : [b"\n}\n', (ok {"get", index, "n"}))
    local one = cjson.decode((ok {"get", index, "1", "--json", "--fields", "deep.x,size,none"}))
    assert.same({"1", index, {["deep.x"] = "y", size = 5}}, {one._id, one._index, one._source})
    local status, out, err = run {"get", index, "none", "2"}
    assert.equal(1, status)
    says(out, '"tag": "blue"')
    says(err, "there is no document none")
  end)

  it("are found by words", function()
    assert.equal("1 2 3", found())
    assert.equal("1 2", found "path:/a/*")
    assert.equal("2", found("path:/a/*", "size>=10"))
    assert.equal("3", found "!path:/a/*")
    assert.equal("1 2", found "tag:*")
    assert.equal("1", found("size<50", "tag:red"))
    assert.equal("2 3", found("size>5", "size<=500"))
    assert.equal("2", found "_id:2")
    assert.equal("1", found "deep.x:y")
    assert.equal("3", found '{"range":{"size":{"gt":50}}}')
    assert.equal("3\n", (ok {"count", index}))
    assert.same({index = index, count = 2}, cjson.decode((ok {"count", index, "path:/a/*", "--json"})))
    for _, words in ipairs {{"size"}, {"size:"}, {"{"}, {"{}", "size:5"}, {"--sort", "size:up"}} do
      local status, _, err = run {"search", index, table.unpack(words)}
      assert.truthy(status ~= 0 and err ~= "", table.concat(words, " "))
    end
  end)

  it("are a table, with the number of all", function()
    local out, err = ok {"search", index, "--fields", "size,path", "--limit", "2", "--sort", "size:desc"}
    assert.matches("^_ID +size +path\n3 +500 +/b/1\n2 +50 +/a/2\n$", out)
    says(err, "2 of 3 are shown")
    says((ok {"search", index, "size:7"}), "no document of " .. index .. " matches")
  end)

  it("are put, created, merged and compared", function()
    says((ok({"put", index, "new"}, '{"path": "/n", "n": 1.50}')), "/new created")
    assert.equal('{"path": "/n", "n": 1.50}', client:get(index, "new"):_source())
    says((ok({"put", index, "new", "--merge"}, '{"n":null,"m":2}')), "/new changed")
    assert.same({path = "/n", m = 2}, client:get(index, "new"):_table())
    assert.equal(1, (run({"put", index, "new", "--create"}, "{}")))
    assert.equal(1, (run({"put", index, "new", "--if", "0:1"}, "{}")))
    local now = client:get(index, "new")
    says((ok({"put", index, "new", "--if", now._seq_no .. ":" .. now._term}, '{"path":"/m"}')), "replaced")
    assert.equal(1, (run({"put", index, "none", "--merge"}, '{"a":1}')))
    assert.equal(2, (run({"put", index, "new"}, '{"path":')))
    assert.equal(2, (run({"put", index, "new"}, "[]")))
    assert.equal(2, (run({"put", index, "new", "--if", "x"}, "{}")))
    assert.equal(2, (run({"put", index, "new", "--create", "--merge"}, "{}")))
    assert.equal(1, (run({"put", "no-such-index", "1"}, "{}")))
    assert.equal("/m", client:get(index, "new").path)
  end)

  it("wait for who has locked the tree that they are in, or come into", function()
    local code = "mortise.acquire {tree = '/a'} print('held', 1) io.stdout:flush() mortise.sleep(60)"
    local holder <close> = process.start(store, namespace, 60000, {"-e", code}) -- luacheck: ignore
    holder:said "held"
    for _, words in ipairs {
      {{"put", index, "1"}, '{"path":"/z"}'}, {{"put", index, "3"}, '{"path":"/a/3"}'},
      {{"put", index, "9", "--create"}, '{"path":"/a/1"}'},
    } do
      table.insert(words[1], "--wait")
      table.insert(words[1], "0s")
      local status, _, err = run(words[1], words[2])
      assert.equal(3, status, err)
    end
    ok({"put", index, "3", "--wait", "0s"}, '{"path":"/b/2"}')
    assert.equal(3, (run({"edit", index, "1", "--wait", "0s"}, nil, {EDITOR = "false"})))
  end)

  it("are edited, and written if they were changed", function()
    says((ok({"edit", index, "1"}, nil, {EDITOR = "sed -i s/red/green/"})), "/1 changed")
    assert.equal("green", client:get(index, "1").tag)
    local before = client:get(index, "1")._seq_no
    says((ok({"edit", index, "1"}, nil, {VISUAL = "touch", EDITOR = "false"})), "is as it was")
    assert.equal(before, client:get(index, "1")._seq_no)
    local status, _, err = run({"edit", index, "none"}, nil, {EDITOR = "true"})
    assert.equal(1, status)
    says(err, "no such document")
  end)

  it("keep what could not be written", function()
    local status, _, err = run({"edit", index, "1"}, nil, {EDITOR = "sed -i s/.path/x/"})
    assert.equal(2, status)
    local file = err:match "what you have edited is in ([^\n]+)"
    assert.truthy(io.open(file), err)
    os.remove(file)
    status, _, err = run({"edit", index, "1"}, nil, {EDITOR = "false"})
    assert.equal(1, status)
    assert.is_nil(err:find("what you have edited", 1, true), err)
  end)

  it("are not written over what others, who take no lock, have written meanwhile", function()
    local other = program.write(([[
      mortise.index(%q, "1", {path = "/a/1", tag = "theirs"})
      local f = io.open(arg[1], "w")
      f:write('{"path":"/a/1","tag":"mine"}')
      f:close()]]):format(index), ".lua")
    local status, _, err = run({"edit", index, "1"}, nil, {
      EDITOR = ("%s run %s"):format(program.file, other),
    })
    assert.equal(1, status, err)
    says(err, "conflict", "what you have edited is in")
    assert.equal("theirs", client:get(index, "1").tag)
    os.remove((err:match "what you have edited is in ([^\n]+)"))
    os.remove(other)
  end)
end)

describe("JSON for people", function()
  it("has the same tokens", function()
    for _, text in ipairs {
      '{}', '[]', '[{}]', '{"a":[1,2,{"b":[]}],"c":"\\\\"}', '[1e5,-0.0,true,null,"}]{[,:"]', '"a\\"b"', '1',
    } do
      assert.equal(text, json_text.compact(json_text.pretty(text)))
      assert.equal(json_text.pretty(text), json_text.pretty(json_text.pretty(text)))
    end
    assert.equal('{\n  "a": [\n    1,\n    {}\n  ]\n}', json_text.pretty '{"a":[1,{}]}')
  end)
end)
