# compare.awk EXPECTED ACTUAL: both have lines `id TAB path TAB name`. Prints how many of the expected
# files are lost, how many are there twice or should not be there at all, and how many are somewhere
# else; the first of each kind goes to standard error.
BEGIN { FS = "\t" }

function complain(kind, text) {
  if (++seen[kind] <= 5) print kind ": " text | "cat >&2"
}

FILENAME == ARGV[1] {
  path[$1] = $2
  name[$1] = $3
  places[$2 "/" $3]++
  expected++
  next
}

$1 in found || !($1 in path) {
  complain("duplicated", $1 " " $2 "/" $3)
  duplicated++
  next
}

{
  found[$1] = 1
  if ($2 != path[$1] || $3 != name[$1]) {
    complain("misplaced", $1 " is " $2 "/" $3 ", not " path[$1] "/" name[$1])
    misplaced++
  }
  if (++there[$2 "/" $3] > 1 && there[$2 "/" $3] > places[$2 "/" $3]) {
    complain("duplicated", $1 " " $2 "/" $3)
    duplicated++
  }
}

END {
  for (id in path)
    if (!(id in found)) {
      complain("lost", id " " path[id] "/" name[id])
      lost++
    }
  printf "%d files: %d lost, %d duplicated, %d misplaced\n", expected, lost, duplicated, misplaced
  exit lost + duplicated + misplaced > 0
}
