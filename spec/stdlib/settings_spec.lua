-- The documentation of settings: it has no number that differs from the program's.
local settings = require "mortise.settings"

local function code(text) return text and "`" .. text .. "`" or "" end

-- "1s to 1h" of "a time from 1s to 1h".
local function bounds(row)
  return (row.range or ""):gsub("^a time from ", ""):gsub("^a size of ", "")
end

local function line(row)
  return ("| %s | %s | %s | %s | %s | %s | %s |"):format(code(row.name), code(row.member), code(row.flag),
    code(row.env), row.default_text or "", bounds(row), row.help)
end

local function expected()
  local lines = {
    "| setting | in C | flag | environment | default | range | what it is |",
    "| --- | --- | --- | --- | --- | --- | --- |",
  }
  for _, row in ipairs(settings.rows) do lines[#lines + 1] = line(row) end
  return table.concat(lines, "\n") .. "\n"
end

describe("the settings", function()
  it("are in docs/operations.md as they are here", function()
    local text = assert(io.open "docs/operations.md"):read "a"
    local wanted = expected()
    local first = text:find("| setting | in C |", 1, true)
    assert.equal(wanted, first and text:sub(first, first + #wanted - 1), "the table of docs/operations.md")
  end)

  it("have a default that can be given, within the range", function()
    local options = require "mortise.options"
    for _, row in ipairs(settings.rows) do
      if row.least and row.default_value then
        assert.equal(row.default_value, options.read(row, row.default_text), row.name)
      end
    end
  end)

  it("have one name each", function()
    local seen = {}
    for _, row in ipairs(settings.rows) do
      for _, name in ipairs {row.name, row.flag, row.env} do
        assert.is_nil(seen[name], name)
        seen[name] = true
      end
    end
  end)
end)
