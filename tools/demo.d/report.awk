# report.awk -v who=... -v names='PID=NAME;...' RECORDS: prints one line of the table that shows who waited for whom.
BEGIN {
  FS = "\t"
  n = split(names, list, ";")
  for (i = 1; i <= n; i++) {
    split(list[i], pair, "=")
    name[pair[1]] = pair[2]
  }
}

{
  if ($4 ~ /^\/keep\//) outside++
  else inside++
}

$5 > 0 { waits++ }
$5 > longest { longest = $5; whom = $6 in name ? name[$6] : "" }

END {
  printf "%-12s %8d %8d %8d %6d %10d ms  %s\n", who, NR, inside, outside, waits, longest, whom
}
