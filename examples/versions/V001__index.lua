-- The index. A script without a job must bear being run twice: it is run again if it never finished.
if not mortise.describe("books").exists then
  mortise.create_index("books", {mappings = {properties = {
    path = {type = "keyword"}, title = {type = "text"}, year = {type = "keyword"},
  }}})
end
mortise.index("books", "1", {path = "/novels/emma", title = "Emma", year = "1815"}, {refresh = true})
