-- mortise rename
local core = require "mortise.core"
local duration = require "mortise.duration"
local mortise = require "mortise"
local output = require "mortise.cli.output"
local printable = require "mortise.printable"

local command = {
  summary = "rename a tree of documents",
  usage = "INDEX FROM TO [--merge] [--json]",
  help = [[
Renames a directory: in every document of INDEX whose field is FROM or lies below it, that prefix
becomes TO. It locks both trees, and ends when none is left under the old path. Documents that lie
below TO already are in its way, unless --merge joins them. One that was killed has left some of its
own there: the same again with --merge does what is left.]],
  options = {
    {name = "merge", type = "boolean", flag = "--merge",
      help = "there may be documents below TO already"},
    {name = "allow_empty", type = "boolean", flag = "--allow-empty",
      help = "there may be none below FROM"},
    {name = "field", type = "string", flag = "--field", value = "NAME", default_text = "path",
      help = "the field that holds the path"},
    output.json_row,
  },
  arguments = {3, 3},
}

-- ---- What to type -------------------------------------------------------------------------------

local function quoted(word)
  if word:find "^[0-9A-Za-z_@%%+=:,./-]+$" then return word end
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

-- The command as it was typed with these options added, before any "--".
local function same_with(ctx, ...)
  local words, wanted = {"mortise"}, {...}
  local function add_wanted()
    for _, flag in ipairs(wanted) do
      local name = flag:sub(3):gsub("-", "_")
      if not ctx.options[name] then words[#words + 1] = flag end
    end
    wanted = {}
  end
  for _, word in ipairs(ctx.words) do
    if word == "--" then add_wanted() end
    words[#words + 1] = quoted(word)
  end
  add_wanted()
  return table.concat(words, " ")
end

-- The command that finishes a rename. If only answers are missing, the rename may already be complete.
local function to_finish(ctx, changed, unknown, total)
  if changed + unknown < total then return same_with(ctx, "--merge") end
  return same_with(ctx, "--merge", "--allow-empty")
end

local function how_far(ctx, changed, unknown, total)
  local index, _, to = table.unpack(ctx.arguments)
  local perhaps = unknown > 0 and (", perhaps %d more"):format(unknown) or ""
  return ("%d of %d documents of %s are below %s now%s\nto finish: %s"):format(changed, total, index, to,
    perhaps, to_finish(ctx, changed, unknown, total))
end

local function set_lines(why, message) why.message, why.lines = message, true end

-- The error's own text stays one line; only text added here has several.
local function add_line(why, format, ...)
  set_lines(why, printable(why.message) .. "\n" .. format:format(...))
end

-- Adds to the error what to type next, if that is known.
local function advise(ctx, why)
  local r = core.is_error(why) and why.result
  if not r then return end
  if r.changed + r.unknown == 0 then
    if why.code == "conflict" and r.beside > 0 and not ctx.options.merge then
      add_line(why, "to do so: %s", same_with(ctx, "--merge"))
    end
  elseif why.code == "interrupted" then
    set_lines(why, how_far(ctx, r.changed, r.unknown, r.matched))
  elseif why.message:find("documents had been changed", 1, true) then -- the message already says how far
    add_line(why, "to finish: %s", to_finish(ctx, r.changed, r.unknown, r.matched))
  else
    set_lines(why, printable(why.message) .. "; " .. how_far(ctx, r.changed, r.unknown, r.matched))
  end
end

-- ---- Doing it -----------------------------------------------------------------------------------

-- Shows the progress and keeps the last words up to date.
local function watcher(ctx)
  return function(done, total)
    if done == 0 then return end
    output.last_words("mortise: interrupted: at least " .. how_far(ctx, done, 0, total))
    if not ctx.options.json then output.status(("%d of %d documents"):format(done, total)) end
  end
end

local function print_result(ctx, result)
  if ctx.options.json then
    output.json(result)
    return
  end
  local index, from, to = table.unpack(ctx.arguments)
  local beside = result.beside > 0 and (", beside %d that lay there"):format(result.beside) or ""
  io.stdout:write(("%s: %s is now %s: %d documents changed in %s%s\n"):format(index, from, to,
    result.changed, duration.text(result.seconds * 1000), beside))
  if ctx.verbose then
    for _, name in ipairs {"matched", "unchanged", "redone", "passes", "round_trips", "bytes"} do
      io.stdout:write(("  %s %s\n"):format(name, core.tostring(result[name])))
    end
  end
end

function command.works_on(arguments)
  return "rename " .. table.concat(arguments, " ")
end

function command.run(ctx)
  local index, from, to = table.unpack(ctx.arguments)
  local client <close> = mortise.connect {}
  output.last_words("mortise: interrupted before it was known how far it came\nto finish: " ..
    same_with(ctx, "--merge", "--allow-empty"))
  local ok, result = pcall(client.rename, client, {
    index = index, from = from, to = to, field = ctx.options.field,
    merge = ctx.options.merge, allow_empty = ctx.options.allow_empty,
    on_progress = watcher(ctx),
  })
  output.status(nil)
  if not ok then -- the last words stay until it is reported, since releasing the locks takes a while
    advise(ctx, result)
    error(result, 0)
  end
  print_result(ctx, result)
  output.last_words(nil)
end

return command
