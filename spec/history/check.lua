#!/usr/bin/env lua5.4
-- check.lua [--after T] [--slack MS] FILE...: judges what clients of one lock table recorded.
--
-- Exit status: 0 nothing is wrong, 1 a violation (each with its kind and the lines that show it), 2 this
-- is no history (a line that is cut off, an answer to nothing). --after: a client of which nothing was
-- granted later than T is a violation too. --slack: how late an acknowledgement may be noted down.
--
-- One line of JSON for each event, in the order in which each task saw them; the files may come in any
-- order. Every time is in microseconds on one clock, which all recorders share and nobody sets. A time
-- is read *after* what gives belief (a grant's answer) and *before* what ends it (the sending of a
-- release, a signal) or what proves it (a check that passes), so no interval here is too long.
--
--   t      the time                       who    the client (a process, or a thread with a session)
--   task   which of its tasks; default 0  id     of an acquisition, unique among all clients
--   op     what, and is: "invoke" | "ok" | "fail" | "unknown"
--
--   acquire  invoke  id, locks [[PATH, MODE], ...] (the targets; ancestors are implied), session?
--            ok      id, fence, until?, session?     the lock is believed in from here
--            fail    id                              not had, certainly
--            unknown id                              as is one without an answer: believed by nobody,
--                                                    though an entry of it may stand in the table
--   convert  invoke  id, locks, lower?               other modes for a held lock. lower: weaker ones, and
--                                                    they are all that is believed in from here on
--            ok      id, fence?, until?              stronger ones are believed in from here on;
--                                                    fail, unknown: id
--   sure     id, until?       a check passed: believed in at `t`
--   lost     id               the client was told, or saw, that it is lost
--   release  invoke  id       belief ends; ok, fail, unknown: id
--   write    invoke  id, w, doc, fence?              a protected write, `w` unique among all
--            ok      w, until?                       acknowledged; fail w: certainly not applied;
--                                                    unknown w: it may have been, or may be yet
--   stamp    doc, fence       somebody read this stamp in the document
--   doc      doc, log [[w, FENCE], ...]              at the end: the writes it holds, oldest first
--   table    from, entries [[PATH, MODE, SESSION, STRIPE?], ...], stripes?, rest?   a snapshot of the lock
--                             table with so many stripes (1), taken between `from` and `t`; rest:
--                             everybody has ended and every lease is over
--   killed   who              SIGKILL, and from `t` on it believes nothing
--   stopped, continued  who   SIGSTOP (t from before), SIGCONT (t from after)
--   broken   session          an operator broke its locks
--
-- `until`: how long it will believe without hearing from the store again. Fences are strings of digits.
-- Without `until`, belief is only what events prove; with it, it lasts until then, unless the client
-- releases, is killed, or finds it lost. A task never conflicts with itself (nesting, upgrades).
--
-- Kinds of violations:
--   overlap         incompatible modes on one path, believed in at once
--   fence           a later incompatible holder's fence is not larger
--   after-loss, after-release    a lock used although it was known to be gone
--   lost-early      lost before its own deadline, though nobody broke it
--   late-write      acknowledged when its lock's deadline had passed
--   stale-write     applied after a successor's stamp, or behind a larger fence
--   missing-write, double-write, phantom-write   what a document holds is not what was acknowledged
--   uncovered       a believed hold without its entry, or an ancestor's, in the table
--   table           two sessions with incompatible entries on one path
--   not-empty       entries at rest
--   no-grant        nothing granted after --after
local here = arg[0]:match "^(.*/)" or "./"
package.path = here .. "?.lua;" .. package.path

local report = require "report"
local read = require "read"

local function arguments()
  local options, files, i = {slack = 0}, {}, 1
  while arg[i] do
    if arg[i] == "--after" or arg[i] == "--slack" then
      options[arg[i]:sub(3)] = tonumber(arg[i + 1]) or report.bad("%s takes a number", arg[i])
      i = i + 1
    else
      files[#files + 1] = arg[i]
    end
    i = i + 1
  end
  if #files == 0 then report.bad "no file was given" end
  options.slack = options.slack * 1000
  return options, files
end

local function check_after(history, after)
  for who, last in pairs(history.last_grant) do
    if last <= after then report.violation("no-grant", "%s: nothing was granted after %.0f", who, after) end
  end
end

local options, files = arguments()
local history = read(files)
local holds = require "belief" (history)
require "exclusion" (holds)
require "documents" (history, options.slack)
require "tables" (history, holds)
if options.after then check_after(history, options.after) end
report.finish(history)
