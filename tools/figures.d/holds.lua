-- Three programs below /clinton and beside it, a fourth that waits for all of it, and the lock table then.
local function client(name) return mortise.connect {program = name} end
local ann, bob, cleo, dan = client "ann", client "bob", client "cleo", client "dan"
local held = {
  ann:acquire {tree = "/clinton/letters"}, bob:acquire {tree = "/clinton/maps/1790"},
  cleo:acquire {tree = "/hoover", mode = "shared"},
}
local task = mortise.spawn(function() return dan:acquire({tree = "/clinton", wait = "1m"}):release() end)
local names, waits = {}, false
repeat
  mortise.sleep(0.05)
  local list = mortise.list()
  for _, each in ipairs(list.sessions) do names[each.session] = each.owner.program end
  local rows = {}
  for _, lock in ipairs(list.locks) do
    for _, kind in ipairs {"holders", "queue"} do
      for _, each in ipairs(lock[kind]) do
        rows[#rows + 1] = table.concat({lock.path, each.mode, names[each.session],
          kind == "queue" and "waits" or "holds"}, ",")
        waits = waits or kind == "queue"
      end
    end
  end
  if waits then print(table.concat(rows, "\n")) end
until waits
for _, lock in ipairs(held) do lock:release() end
task:join()
