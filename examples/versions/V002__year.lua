-- A year is a number. The job is gone on with wherever it was cut off, and can be undone.
return {
  name = "year", index = "books", lock = "/",
  change = {{cast = {field = "year", to = "integer"}}},
}
