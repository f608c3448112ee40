-- The line that a job shows while it runs.
local progress = require "mortise.cli.progress"

describe("the progress of a job", function()
  local function line(now)
    now.conflicts, now.rejected = now.conflicts or 0, now.rejected or 0
    return progress.line(now)
  end

  it("is one line", function()
    assert.equal("0%  0 of 7 documents", line {done = 0, all = 7})
    assert.equal("42%  1,234,567 of 2,900,000 documents, 12,346/s, 2m 15s left", line {
      done = 1234567, all = 2900000, rate = 12345.6, seconds_left = 135,
    })
    assert.equal("50%  500 of 1,000 documents, 100/s, limited to 100/s, 1 conflicts, 2 rejected, held", line {
      done = 500, all = 1000, rate = 100.0, limit = 100, conflicts = 1, rejected = 2, waits = "held",
    })
  end)
end)
