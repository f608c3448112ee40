local core = require "mortise.core"

describe("packed text", function()
  it("is small, and is unpacked to the same", function()
    local text = ('{"id":"d%d","n":1}\n\0'):rep(2000)
    local packed = core.pack(text)
    assert.is_true(#packed < #text // 10)
    assert.is_nil(packed:find '["\\%c]')
    assert.equal(text, core.unpack(packed))
    assert.equal("", core.unpack(core.pack ""))
  end)

  it("is refused where it was changed", function()
    local packed = core.pack(("some text "):rep(10))
    for _, wrong in ipairs {"", "x", packed:sub(1, -5), "A" .. packed} do
      local ok, why = pcall(core.unpack, wrong)
      assert.is_false(ok)
      assert.equal("invalid_argument", why.code)
    end
  end)
end)
