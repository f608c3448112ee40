-- The checker of histories: the small ones of pass/ and fail/, and random ones, unchanged and with one event
-- changed.
local cjson = require "cjson"
local modes = require "spec.history.modes"
local mutate = require "spec.history.mutate"
local reference = require "spec.history.reference"

local function check(...)
  local pipe = assert(io.popen("lua5.4 spec/history/check.lua " .. table.concat({...}, " ") .. " 2>&1"))
  local text = pipe:read "a"
  local _, _, status = pipe:close()
  return status, text
end

local function files(folder)
  local list = {}
  for name in io.popen("ls spec/history/" .. folder):lines() do list[#list + 1] = name end
  assert.is_true(#list > 10)
  return ipairs(list)
end

describe("the checker of histories", function()
  for _, name in files "pass" do
    it("passes " .. name, function()
      local status, text = check("spec/history/pass/" .. name)
      assert.equal(0, status, text)
    end)
  end

  for _, name in files "fail" do
    local kind = name:match "^[^.]+"
    it("refuses " .. name, function()
      local status, text = check("spec/history/fail/" .. name)
      if kind == "bad" then
        assert.equal(2, status, text)
        assert.matches("^bad history: %S+:%d+: ", text)
      else
        assert.equal(1, status, text)
        assert.truthy(text:find("violation: " .. kind .. ":", 1, true), text)
      end
    end)
  end

  it("asks for progress", function()
    local file = "spec/history/pass/one-after-the-other.jsonl"
    assert.equal(0, (check("--after 9", file)))
    local status, text = check("--after 10", file)
    assert.equal(1, status)
    assert.matches("violation: no%-grant: a: ", text)
  end)
end)

-- ---- Random ones ---------------------------------------------------------------------------------

local seed = tonumber(os.getenv "MORTISE_TEST_SEED") or os.time()
local rounds = 6

local function write(events)
  local name = os.tmpname()
  local file = assert(io.open(name, "w"))
  for _, event in ipairs(events) do file:write(cjson.encode(event), "\n") end
  file:close()
  return name
end

local function judged(events)
  local name = write(events)
  local status, text = check(name)
  os.remove(name)
  return status, text
end

describe("random histories, seed " .. seed, function()
  it("of a correct lock pass", function()
    math.randomseed(seed)
    for _ = 1, rounds do
      local status, text = judged(reference.history(math.random, 400))
      assert.equal(0, status, text)
    end
  end)

  for kind, change in pairs(mutate) do
    it("with a change of the kind " .. kind .. " fail", function()
      math.randomseed(seed)
      local changed = 0
      for _ = 1, rounds do
        local events = reference.history(math.random, 400)
        if change(events, math.random) then
          changed = changed + 1
          local status, text = judged(events)
          assert.equal(1, status, kind .. ": " .. text)
          assert.truthy(text:find(kind, 1, true), text)
        end
      end
      assert.is_true(changed > 0)
    end)
  end
end)

describe("modes", function()
  it("fit and cover as the matrix says", function()
    for _, a in ipairs(modes.all) do
      for _, b in ipairs(modes.all) do
        assert.equal(modes.fits[a][b] or false, modes.fits[b][a] or false)
        if modes.covers[a][b] then
          for _, c in ipairs(modes.all) do
            assert.is_true(not modes.fits[a][c] or modes.fits[b][c])
          end
        end
      end
    end
  end)

  it("are expanded to the ancestors", function()
    assert.same({["/"] = "IX", ["/a"] = "SIX", ["/a/b"] = "X"}, modes.expand {{"/a/b", "X"}, {"/a", "S"}})
    assert.same({["/"] = "S"}, modes.expand {{"/", "S"}})
  end)
end)
