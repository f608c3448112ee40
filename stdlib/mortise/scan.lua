-- A scan returns every matching document once. Use it in `for` or with :next(); closable.
local argument = require "mortise.argument"
local context = require "mortise.context"
local core = require "mortise.core"
local errors = require "mortise.errors"
local json = require "mortise.json"
local options = require "mortise.options"
local printable = require "mortise.printable"

local Scan = {__name = "mortise.scan"}
Scan.__index = Scan

-- Only the next document is available, not a list.
function Scan._no_list() errors.bad "a scan is no list: `for doc in scan do`, or scan:next_page()" end

Scan.__len = Scan._no_list
Scan.__pairs = Scan._no_list

local scan = {class = Scan}

scan.rows = {
  {name = "query", type = "query", help = "Query DSL; all documents without it"},
  {name = "page", type = "count", default_text = core.scan_page, help = "documents a page and slice"},
  {name = "slices", type = "count", help = "read side by side; the store decides"},
  {name = "source", type = "boolean", default = true, help = "false: ids and versions only"},
}

options.register({"scan", "lock:scan"}, scan.rows)

-- The approximate size of a page, for the collector, which does not see bytes outside Lua's heap.
local page_kilobytes = 512

-- `before` (or nil), a lock's check, is called before each page.
function scan.open(client, index, given, before)
  argument.name("scan", "index", index)
  local o = options.check("scan", scan.rows, given)
  local source = client:_open_core():scan(index, {
    query = json.body(o.query), page = o.page, slices = o.slices, no_source = not o.source,
  })
  local self = setmetatable({
    _source = source, total = source.total, _at = 0, _passed = 0, _before = before, _index = index,
  }, Scan)
  return self, nil, nil, self
end

-- Goes on to the page after this one (nil: to the first).
local function fetch(self, page)
  if page then
    self._passed, self._page = self._passed + #page, nil -- there is none while the next one is fetched
    collectgarbage("step", page_kilobytes)
  end
  if self._ended or not self._source then return end
  if self._before then self._before() end
  self._page, self._at = self._source:next(), 0
  self._ended = not self._page
end

-- The next view, or nil at the end.
function Scan:next()
  while self._page or not self._ended and self._source do
    local page = self._page
    if page and self._at < #page then
      self._at = self._at + 1
      if page[self._at] then return page[self._at] end -- else it is gone since the scan began
    else
      fetch(self, page)
    end
  end
end

-- The rest of the current page, or the next page, as a list of views. nil at the end.
function Scan:next_page()
  local list = {self:next()}
  local page = self._page
  if not list[1] then return nil end
  if not page then errors.bad "the scan was closed" end -- by a finalizer
  for i = self._at + 1, #page do list[#list + 1] = page[i] or nil end
  self._at, self._lists = #page, true
  return list
end

function Scan:close()
  local source = self._source
  self._source, self._page, self._ended = nil, nil, true
  if source then source:close() end
end

Scan.__call = Scan.next

-- Where the loop was when an error left it.
local function where(self)
  local n = self._passed + self._at
  local view = self._page and not self._lists and self._page[self._at]
  if not view then
    return ("after %d of %d documents of the scan of %s"):format(self._page and n or self._passed,
      self.total, self._index)
  end
  return ("at %s/%s, document %d of %d of the scan"):format(view._index, printable(view._id), n, self.total)
end

function Scan:__close(why)
  local text = why ~= nil and where(self)
  self:close()
  if text then context.add(why, text) end
end

function Scan:__tostring()
  return ("scan of %d documents%s"):format(self.total, self._source and "" or " (closed)")
end

return scan
