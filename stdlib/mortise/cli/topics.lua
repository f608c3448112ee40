-- What `mortise help TOPIC` explains, beside commands and functions.
local core = require "mortise.core"
local query_words = require "mortise.cli.query_words"
local settings = require "mortise.settings"

local columns = require("mortise.cli.parser").columns

local topics = {}

-- Each error: its code, what it means, what to do.
topics.errors = {
  {"lock_timeout", "others hold the lock", "mortise locks --who PATH says who, and what may be done"},
  {"deadlock", "each waits for another", "give back what is held and try again; take all paths in one call"},
  {"lock_lost", "the lease ran out, somebody ended the session, or it was released",
    "look what was written, then begin again; was the process stopped, or the store away?"},
  {"orphaned_job", "a job that stands half-done guards it", "mortise jobs show ID, then resume or rollback"},
  {"conflict", "somebody else changed or created it", "read it again, and decide"},
  {"not_found", "there is no such document, index, job or lock table", "mortise doctor; mortise init, once"},
  {"rejected", "the store refused it; of a job: documents were set aside", "mortise jobs show ID --rejected"},
  {"unsupported", "this store cannot do that, or it would not be safe", "the message says why"},
  {"unavailable", "no answer, or too late", "mortise doctor; is it up, and is this its address?"},
  {"auth", "credentials or rights are missing", "mortise doctor names them"},
  {"corrupt_table", "the lock table is not set up as it must be", "mortise doctor says what differs"},
  {"interrupted", "^C, SIGTERM, or a cancelled task", "a job stands, and can be resumed"},
  {"invalid_argument", "a mistake in the call or on the command line", "the message says which"},
  {"script_error", "a mistake in the script", "its traceback stands below the message"},
  {"out_of_memory", "there is no memory left", ""},
}

local function errors_text()
  local rows = {}
  for _, row in ipairs(topics.errors) do
    rows[#rows + 1] = {("%s (%d)"):format(row[1], core.exit_status(row[1])), row[2]}
    if row[3] ~= "" then rows[#rows + 1] = {"", "- " .. row[3]} end
  end
  return "The code of an error, the exit status that it gives, and what to do.\n\n" .. columns(rows, "  ")
end

local list = {
  {"errors", "codes of errors, and what to do", errors_text},
  {"status", "exit statuses", function()
    return [[
0    done
1    a script's error, an answer of no, or documents that were set aside
2    wrong usage
3    the lock was not had in time
4    the store is unavailable, refuses the credentials, or has a lock table that is not as it must be
5    the lock was lost
6    a job needs recovery: mortise jobs show ID
7    there is nothing to do (--dry-run, jobs plan)
130  interrupted
141  nobody reads the output any more

mortise lock gives the status of its program, or 128 and its signal; its own are 123 the lock was lost, 124 it
was not had in time, 125 another failure before the program began, 126 and 127 the program cannot be run.]]
  end},
  {"store", "how to name a store", function() return settings.ways:format "~/.config/mortise/config.lua" end},
  {"query", "queries in words", function() return query_words.help end},
  {"time", "times, sizes and rates", function()
    return [[
A time is 250ms, 30s, 1m30s, 2h, 7d, or a number of seconds. A size is a number of bytes, or like 64MB. A rate
is in documents a second; 0 takes a limit away.]]
  end},
  {"modes", "modes of locks", function()
    return [[
X    exclusive: nobody else has a lock there or below
S    shared: others may have shared locks, nobody an exclusive one
IX   intention: something below is locked exclusively. A lock leaves it on each directory above its path
IS   the same for a shared lock
SIX  shared, with something below locked exclusively]]
  end},
}

-- {name, summary} of each.
topics.list = {}
for i, each in ipairs(list) do topics.list[i] = {each[1], each[2]} end

-- The text of a topic; nil: there is none of this name.
function topics.text(name)
  for _, each in ipairs(list) do
    if each[1] == name then return each[3]() .. "\n" end
  end
end

return topics
