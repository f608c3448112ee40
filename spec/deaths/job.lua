-- One of the jobs that spec/deaths kills: job.lua KIND INDEX ID
local kind, index, id = ...
local kinds = {
  rename = {rename = {from = "/a", to = "/b"}},
  join = {rename = {from = "/a", to = "/b"}, merge = true},
  list = {
    lock = "/a",
    query = {prefix = {path = "/a/"}},
    change = {{cast = {field = "n", to = "string"}}, {rename_field = {from = "n", to = "number"}}},
  },
}
local spec = kinds[kind]
spec.id, spec.index, spec.batch, spec.concurrency = id, index, 4, 2
print(mortise.job(spec):run().state)
