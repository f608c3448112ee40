# What the scripts of this folder share. Each is called with a base PORT and with MORTISE_BIN; a server that
# runs already is in MORTISE_TEST_URLS. For servers of its own secure takes PORT + 20, bad-input PORT + 25 and
# cluster PORT + 30 to 32, for a service of its own examples PORT + 50, so that they can run side by side.
# One line is printed for each test: `ok - ...`, `not ok - ...` or `SKIP ...`.
# shellcheck shell=bash

set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
root=$PWD
# shellcheck disable=SC2034 # for the scripts
PORT=${1:-19500}
MORTISE_BIN=${MORTISE_BIN:-$root/build/release/cli/mortise}
[ -x "$MORTISE_BIN" ] || { echo "not ok - there is no program $MORTISE_BIN"; exit 1; }
# Nothing of the caller's own settings.
unset MORTISE_STORE MORTISE_CONFIG MORTISE_PROFILE MORTISE_USER MORTISE_PASSWORD MORTISE_NAMESPACE
work=$(mktemp -d "${TMPDIR:-/tmp}/mortise-system.XXXXXX")
export XDG_CONFIG_HOME=$work/config # empty

failed=0
servers=()
children=()
out=$work/out err=$work/err status=0

clean_up() {
  local code=$? each
  trap - EXIT
  trap '' INT TERM HUP
  for each in "${children[@]}"; do kill_now "$each"; done
  for each in "${servers[@]}"; do tools/server stop "${each%:*}" --port "${each#*:}" >/dev/null 2>&1; done
  if declare -F clean_up_more >/dev/null; then clean_up_more; fi
  rm -rf "$work"
  exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# ---- results ------------------------------------------------------------------------------------

ok() { echo "ok - $1"; }

not_ok() { # not_ok NAME [DETAIL...]
  failed=$((failed + 1))
  echo "not ok - $1"
  shift
  [ $# = 0 ] || printf '%s\n' "$@" | sed 's/^/#   /'
}

skip() { echo "SKIP $1"; }

# check NAME COMMAND...: the command succeeds.
check() {
  local name=$1
  shift
  if "$@" >"$work/check.log" 2>&1; then ok "$name"; else not_ok "$name" "$*" "$(tail -n 20 "$work/check.log")"; fi
}

# mortise ARG...: runs it; its exit status in $status, what it wrote in $out and $err. Everything is
# kept in $work/all.log as well.
mortise() {
  status=0
  timeout -k 5 "${LIMIT:-60}" "$MORTISE_BIN" "$@" >"$out" 2>"$err" </dev/null || status=$?
  { echo "## mortise $*"; cat "$out" "$err"; echo "## status $status"; } >>"$work/all.log"
}

# functions error|client|lock|write|host: those that the header declares.
functions() {
  tr '\n' ' ' <"core/include/mortise/$1.h" | grep -oE 'MORTISE_API [^;(]*\(' | grep -oE 'mortise_[a-z_]+\($' | tr -d '('
}

# expect NAME STATUS[|STATUS] [PATTERN...]: the last run ended with it and wrote something like each of
# these (extended) patterns.
expect() {
  local name=$1 wanted=$2 pattern
  shift 2
  if [[ "|$wanted|" != *"|$status|"* ]]; then
    not_ok "$name" "status $status, not $wanted" "$(tail -n 20 "$out")" "$(tail -n 20 "$err")"
    return
  fi
  for pattern in "$@"; do
    if ! cat "$out" "$err" | grep -qE -e "$pattern"; then
      not_ok "$name" "nothing like: $pattern" "$(tail -n 20 "$out")" "$(tail -n 20 "$err")"
      return
    fi
  done
  ok "$name"
}

finish() {
  [ $failed = 0 ] || exit 1
  exit 0
}

# ---- processes and servers ----------------------------------------------------------------------

# begin FILE ARG...: starts mortise in the background, what it writes in FILE.out and FILE.err; its
# own pid in $pid. (With job control, for without it the shell makes children deaf to ^C.)
begin() {
  local file=$1
  shift
  set -m
  "${BEFORE[@]}" "$MORTISE_BIN" "$@" >"$file.out" 2>"$file.err" </dev/null &
  pid=$!
  set +m
  children+=("$pid")
}
BEFORE=() # a command that starts the program, such as unshare

# ended PID: waits for it; its exit status in $status.
ended() {
  status=0
  wait "$1" || status=$?
}

kill_now() { # kill_now PID: the shell does not say so
  kill -KILL "$1" 2>/dev/null
  wait "$1" 2>/dev/null
}

# wait_for SECONDS COMMAND...: until it succeeds.
wait_for() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $deadline ] || return 1
    sleep 0.05
  done
}

# start_server NAME PORT [ARGS...]: its URLs in $urls. It is stopped when the script ends.
start_server() {
  local name=$1 port=$2
  shift 2
  servers+=("$name:$port")
  tools/server start "$name" --port "$port" "$@" >"$work/server.log" 2>&1 ||
    { not_ok "start $name" "$(tail -n 20 "$work/server.log")"; exit 1; }
  # shellcheck disable=SC2034 # for the scripts
  urls=$(sed -nE 's/.* up: //p' "$work/server.log")
}

first_url() { echo "${MORTISE_TEST_URLS%%,*}"; }
