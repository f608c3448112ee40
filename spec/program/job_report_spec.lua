-- `mortise jobs report ID --html`.
local process = require "spec.support.process"
local program = require "spec.support.program"
local stores = require "spec.support.stores"

if not program.file then
  print "SKIP reports of jobs: MORTISE_BIN is not set"
  return
end

local hostile = "<script>alert(1)</script>\27[2J\u{202e}'\"&"

stores.each("the report of a job", function(store)
  local client, index, namespace, files

  before_each(function()
    namespace, files = stores.name "ns", {}
    client = stores.connect(store, {namespace = namespace})
    stores.use(store, client)
    local documents = {}
    for i = 1, 60 do documents["d" .. i] = {path = "/a/" .. i, n = i % 20 == 0 and "none" or tostring(i)} end
    documents[hostile] = {path = "/a/" .. hostile, n = "none"}
    index = stores.fill(client, documents)
  end)

  after_each(function()
    for _, file in ipairs(files) do os.remove(file) end
    client:drop_index(index)
    client:close()
  end)

  local function mortise(...) return program.run {"--store", store.store, "--namespace", namespace, ...} end

  local function report(id)
    local status, out, err = mortise("jobs", "report", id, "--html")
    assert.same({0, ""}, {status, err})
    return out
  end

  -- One page, in which what others wrote is text, and nothing comes from elsewhere.
  local function is_safe(page)
    assert.matches("^<!DOCTYPE html>\n<html lang=en>", page)
    assert.matches("</html>\n$", page)
    assert.truthy(page:find("default-src 'none'", 1, true))
    assert.is_nil(page:find "[\0-\8\11-\31\127]")
    assert.is_nil(page:find "\u{202e}")
    local words = {
      "<script", "<img", "<link", "<iframe", "<object", " src=", " href=", "url%(", "@import", "javascript:",
      " on%w+=",
    }
    for _, word in ipairs(words) do
      assert.is_nil(page:lower():find(word), word)
    end
    local open = {}
    for closing, name in page:gmatch "<(/?)(%a[%w]*)" do
      local void = name == "meta" or name == "line" or name == "path"
      if closing == "" and not void then open[#open + 1] = name end
      if closing == "/" then assert.equal(table.remove(open), name) end
    end
    assert.same({}, open)
  end

  local function has(page, ...)
    for _, text in ipairs {...} do assert.truthy(page:find(text, 1, true), text) end
  end

  local function script(body)
    local file = program.write(body, ".lua")
    files[#files + 1] = file
    return file
  end

  it("says what was asked, how it went, and what was set aside", function()
    local file = script(([[
      return {id = "cast", index = %q, lock = "/a", rate = 40, batch = 10, name = %q,
        change = {{cast = {field = "n", to = "integer"}}, {set = {field = "s", value = %q}}}}]]):format(index,
      hostile, hostile))
    local status = mortise("job", "run", "--yes", file)
    assert.equal(1, status)
    local page = report "cast"
    is_safe(page)
    has(page, "job cast is done: 57 documents changed, 4 rejected", "<h2>What was asked</h2>",
      "&lt;script&gt;alert(1)", "<dt>rate</dt><dd><code>40</code>", "61 documents, before any was written",
      "<h2>How it went</h2>", "<svg ", "Documents a second", "<summary>The numbers</summary>", "rejected: 4",
      "n is no integer", "d20", "\\u{202e}", "each against the version that was read", "jobs rollback cast",
      "Who began each turn at it")
    assert.equal(0, (mortise("jobs", "rollback", "cast", "--yes")))
    page = report "cast"
    is_safe(page)
    has(page, "job cast is undone", "1, undoing", "put back")
  end)

  it("tells of each turn of one that was killed and resumed", function()
    local file = script(([[
      return {id = "cut", index = %q, lock = "/a", rate = 20, batch = 5,
        change = {{set = {field = "s", value = 1}}},
        on_progress = function() print("begun", 1) io.stdout:flush() end}]]):format(index))
    do
      local running <close> = process.start(store, namespace, 2000, {"job", "run", "--yes", file})
      running:said "begun"
      process.wait_for("a checkpoint", function()
        local record = client:get_job("cut"):status()
        return record and record.counts.changed > 0
      end)
      running:kill "KILL"
      running:status()
    end
    has(report "cut", "at least: its process was killed", "jobs resume cut")
    assert.equal(0, (mortise("jobs", "resume", "cut")))
    local page = report "cut"
    is_safe(page)
    has(page, "job cut is done: 61 documents changed", "<dt>attempts</dt><dd>2</dd>", 'class="turn"')
    local _, turns = page:gsub("<tr>\n<td>[^<]*</td>\n<td>[12]</td>\n<td>[^<]*, pid", "")
    assert.equal(2, turns)
  end)

  it("shows what there is where others have written into its document", function()
    local file = script(([[
      return {id = "odd", index = %q, lock = "/a",
        change = {{set = {field = "s", value = 1}}}}]]):format(index))
    assert.equal(0, (mortise("job", "run", "--yes", file)))
    local jobs = client:_open_core():jobs_index()
    for _, body in ipairs {
      {points = hostile, turns = {hostile}}, {points = {{1, 2}, {"a", 1, 1, 1, 1}}, turns = {a = 1}},
      {
        points = {{5, 1, 2, 3, 0}, {-5, 1, math.maxinteger, 3, 0}},
        turns = {{at = 1, attempt = 1, by = {user = hostile}}},
      },
    } do
      client:update(jobs, namespace .. ":odd", function(view)
        for name, value in pairs(body) do view.body[name] = value end
      end)
      is_safe(report "odd")
    end
  end)

  it("is refused of a job that is not there", function()
    local status, out, err = mortise("jobs", "report", "nothing", "--html")
    assert.same({"", true}, {out, status ~= 0})
    assert.matches("there is no job nothing", err)
  end)
end)
