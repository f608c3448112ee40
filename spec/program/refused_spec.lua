-- Jobs on a server behind a proxy that answers 429, 503 and 413 now and then, for whole requests and items:
-- each document is accounted for and as it is to be, and the job ends.
local proxy = require "spec.support.proxy"
local stores = require "spec.support.stores"

if not proxy.file then
  print "SKIP refused requests: MORTISE_BIN is not set, or has no faultproxy beside it"
  return
end

local documents = 1500
local payload = ("abcdefgh "):rep(60)

-- Only what has documents is too large: neither half of a batch of the journal would do.
local too_large = "path=_bulk body=abcdefgh larger=100000 times=0 status 413"
local item_too_large = "path=_bulk body=abcdefgh nth=4 times=2 item-status 1 413"
local refusals = {
  too_large, item_too_large,
  "path=_bulk rate=60 status 429", "path=_bulk rate=60 status 503",
  "path=_search rate=50 status 429", "path=_count rate=50 status 503",
  "path=_refresh rate=50 status 503", "path=_mget rate=50 status 429",
  "path=_bulk body=abcdefgh rate=150 item-status 0 429",
  "path=_bulk body=abcdefgh rate=100 item-status 0 503",
  "path=_bulk body=abcdefgh rate=50 late-status 503",
}

local kinds = {
  ["a rename without a journal"] = {rename = {from = "/a", to = "/b"}, path = "/b/", n = 0},
  ["a rename with a journal"] = {
    rename = {from = "/a", to = "/b"}, merge = true, beside = true, path = "/b/", n = 0,
  },
  ["a list"] = {change = {{rename_field = {from = "n", to = "m"}}}, lock = "/a", path = "/a/", n = 0},
  -- would be seen if it were called for what it has made
  ["a function"] = {
    change = function(doc) doc.n, doc.m = doc.n + 1000, true end, lock = "/a", path = "/a/", n = 1000,
  },
}

local function fill(client, beside)
  local all = {}
  for i = 1, documents do all["d" .. i] = {path = "/a/" .. i, n = i, text = payload} end
  if beside then all.there = {path = "/b/there", n = 0} end
  return stores.fill(client, all)
end

-- What is wrong with the documents; nil: nothing.
local function wrong(client, index, kind)
  local seen = 0
  client:refresh(index)
  for doc in client:scan(index, {query = {prefix = {path = kind.path}}}) do
    local i = math.tointeger(tonumber(doc._id:match "^d(%d+)$"))
    local value = kind.rename and doc.n or kind.n == 0 and doc.m or doc.n
    if i then
      seen = seen + 1
      local right = value == i + kind.n and doc.path == kind.path .. i and doc.text == payload
      if not right then return doc:_source() end
    end
  end
  if seen ~= documents then return ("%d documents"):format(seen) end
end

-- Until it is done: what was refused for good, and a request without a second try, need a resume.
local function run(job)
  local ends, verb = {}, "run"
  for _ = 1, 10 do
    local ok, result = pcall(job[verb], job)
    ends[#ends + 1] = ok and "done" or result.code
    local counts = job:status().counts
    local done = counts.changed + counts.deleted + counts.unchanged
    assert.equal(counts.matched, done + counts.conflicts + counts.rejected)
    if ok then return ends, counts end
    assert.is_true(result.code == "rejected" or result.code == "unavailable", result.message)
    verb = "resume"
  end
  error("it does not end: " .. table.concat(ends, ", "))
end

stores.each("a job whose requests are refused", function(store)
  if not store.store:match "^http:" then return end

  for name, kind in pairs(kinds) do
    it("changes every document once: " .. name, function()
      local namespace = stores.name "ns"
      local direct <close> = stores.connect(store, {namespace = namespace})
      local index = fill(direct, kind.beside)
      local seed = tonumber(os.getenv "MORTISE_TEST_SEED" or os.time())
      local between = proxy.start(store.store, seed, refusals)
      -- Where giving up its session is refused, too, a resume has to wait for its lease.
      local client <close> = stores.connect({store = between.url, ready = true},
        {namespace = namespace, lease = "5s", wait = "30s"})
      local job = client:job {
        name = "refused", index = index, rename = kind.rename, change = kind.change, lock = kind.lock,
        merge = kind.merge, max_rejected = 0, query = kind.change and {prefix = {path = "/a/"}} or nil,
      }
      local ok, ends, counts = pcall(run, job)
      local hits = between:stop()
      local how = ("seed %d, %s"):format(seed, tostring(ends))
      if ok then
        how = ("seed %d, %s, %d changed, %d unchanged"):format(seed, table.concat(ends, ", "), counts.changed,
          counts.unchanged)
      end
      assert.is_true(ok, how)
      assert.is_nil(wrong(direct, index, kind), how)
      -- One that was refused after a request of it had no answer may be found as it is to be; a rename that
      -- is resumed does not find it at all, since it looks for what is still to be moved.
      local found = counts.changed + counts.unchanged
      local least = kind.rename and ends[1] == "rejected" and documents - 2 or documents
      assert.is_true(found >= least and found <= documents, how)
      assert.equal(0, counts.rejected + counts.conflicts + counts.deleted, how)
      assert.is_true((hits[too_large] or 0) > 0 and (hits[item_too_large] or 0) > 0, how)
      direct:drop_index(index)
    end)
  end
end)
