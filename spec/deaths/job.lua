-- One of the jobs that spec/deaths kills: job.lua KIND INDEX ID [resume]
local kind, index, id, verb = ...
local kinds = {
  rename = {rename = {from = "/a", to = "/b"}},
  server = {rename = {from = "/a", to = "/b"}, strategy = "server"},
  join = {rename = {from = "/a", to = "/b"}, merge = true},
  list = {
    lock = "/a",
    query = {prefix = {path = "/a/"}},
    change = {{cast = {field = "n", to = "string"}}, {rename_field = {from = "n", to = "number"}}},
  },
  ["function"] = {
    lock = "/",
    change = function(view) -- would be seen if it were called for what it has made
      if view.n % 8 == 0 then return mortise.delete end
      view.n = view.n + 1000
    end,
  },
}
local spec = kinds[kind]
spec.id, spec.index, spec.batch, spec.concurrency = id, index, 4, 2
local job = mortise.job(spec)
print(job[verb or "run"](job).state)
