local duration = require "mortise.duration"

describe("durations", function()
  it("are text with units, or seconds", function()
    for text, ms in pairs {
      ["30s"] = 30000, ["250ms"] = 250, ["2m"] = 120000, ["1m30s"] = 90000, ["1.5s"] = 1500,
      ["1h"] = 3600000, ["0"] = 0, ["30"] = 30000, ["0s"] = 0,
    } do
      assert.equal(ms, duration.parse(text))
    end
    assert.equal(30000, duration.parse(30))
    assert.equal(500, duration.parse(0.5))
    assert.equal("integer", math.type(duration.parse(0.0015)))
    assert.equal(2, duration.parse(0.0015)) -- never shorter than what was asked for
  end)

  it("are nothing else", function()
    for _, value in ipairs {"", "s", "30x", "-1s", "1 s", "30s ", "1e3s", -1, 0 / 0, math.huge, true, {}} do
      local ms, why = duration.parse(value)
      assert.is_nil(ms)
      assert.is_string(why)
    end
    assert.is_nil(duration.parse(nil))
  end)

  it("name what was wrong", function()
    local ok, why = pcall(duration.ms, "30x", "sleep")
    assert.is_false(ok)
    assert.equal("invalid_argument", why.code)
    assert.matches('sleep: .*"30x"', why.message)
  end)

  it("are written for people", function()
    assert.equal("950ms", duration.text(950))
    assert.equal("1.5s", duration.text(1500))
    assert.equal("30s", duration.text(30000))
    assert.equal("1m 1s", duration.text(61000))
    assert.equal("2h 1m", duration.text(7260000))
    assert.equal("1d 1h", duration.text(90000000))
  end)
end)
