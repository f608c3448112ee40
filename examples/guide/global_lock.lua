-- The global lock: one document that only one process can create. Whoever gets 201 has the lock,
-- whoever gets 409 has not, and deleting the document gives it back.
package.path = (arg[0]:match("^(.*)/") or ".") .. "/?.lua;" .. package.path
local requests = require "requests"

local LOCKS = "guide-global-lock"

local function lock()
  local status = requests.expect({201, 409}, "PUT", "/" .. LOCKS .. "/_create/global", {held = true})
  return status == 201
end

local function unlock()
  requests.expect({200}, "DELETE", "/" .. LOCKS .. "/_doc/global")
end

requests.fresh_index(LOCKS, {})

assert(lock(), "nobody has it: the first process gets it")
print("first process: 201, it has the lock")

assert(not lock(), "the second must not get it")
print("second process: 409, it has to wait")

unlock()
assert(lock(), "given back, it can be had again")
print("second process, later: 201")
unlock()

requests.drop_index(LOCKS)
