# expected.awk -v from=/a -v to=/b LISTING RECORDS...: where every file must be in the end, as lines
# `id TAB path TAB name`. LISTING has `id path name size mtime`, RECORDS what the renamers were told
# is done: `fence id name ...`. Of two renames of one file the one with the larger fence came last.
BEGIN { FS = OFS = "\t" }

FILENAME == ARGV[1] {
  path[$1] = $2
  name[$1] = $3
  next
}

!($2 in fence) || $1 + 0 > fence[$2] {
  fence[$2] = $1 + 0
  name[$2] = $3
}

END {
  for (id in path) {
    p = path[id]
    if (p == from || index(p, from "/") == 1) p = to substr(p, length(from) + 1)
    print id, p, name[id]
  }
}
