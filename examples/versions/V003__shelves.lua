-- Novels move to another shelf.
return {name = "shelves", index = "books", rename = {from = "/novels", to = "/fiction/novels"}}
