# Part of tools/server: which servers there are, the JDK each one needs, and
# the cache folder with their files.
# shellcheck shell=bash disable=SC2154 # tools/server sets them

if [ -z "${MORTISE_CACHE:-}" ]; then
  # See the header of tools/server for why root has a folder of its own.
  if [ "$(id -u)" = 0 ]; then
    MORTISE_CACHE=/var/cache/mortise
  else
    MORTISE_CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/mortise
  fi
fi
# Servers start in a folder of their own, so no path may be a relative one.
MORTISE_CACHE=$(realpath -m "$MORTISE_CACHE")
MORTISE_RUN=$(realpath -m "${MORTISE_RUN:-$MORTISE_CACHE/run}")

# name, Maven profile, version there, version of the server, log4j-core (the
# OpenSearch library leaves it to its user), first and last JDK. Servers from
# before 2025 need the security manager's classes, which JDK 24 took away.
server_table() {
  cat <<'TABLE'
opensearch-2.19     jars    2.19.4        2.19.4  2.21.0  17  23
opensearch-3.8      jars    3.8.0         3.8.0   2.25.4  21  99
elasticsearch-7.17  folder  9.9.0.65466   7.17.8  -       17  23
elasticsearch-8.14  folder  10.7.0.96327  8.14.1  -       17  23
elasticsearch-9.4   folder  26.9.0.129388 9.4.3   -       21  99
TABLE
}

server_names() { server_table | cut -d' ' -f1; }

# table_row NAME: sets kind, artifact, version, log4j, jdk_min, jdk_max, major,
# family, home.
table_row() {
  local found
  while read -r found kind artifact version log4j jdk_min jdk_max; do
    [ "$found" = "$1" ] || continue
    home=$MORTISE_CACHE/$1-$version
    major=${version%%.*}
    # shellcheck disable=SC2034 # used by the other parts
    family=${1%%-*}
    return 0
  done < <(server_table)
  return 1
}

# ---- the JDK ----

# The `release` file is read, not `java -version`: that takes a JVM's start each.
java_major() {
  local v
  v=$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$1/release" 2>/dev/null) || return 1
  [ -n "$v" ] && [ -x "$1/bin/javac" ] && echo "$v"
}

java_homes() {
  local j
  [ -z "${JAVA_HOME:-}" ] || echo "$JAVA_HOME"
  j=$(command -v javac) && j=$(readlink -f "$j") && echo "${j%/bin/javac}"
  for j in /usr/lib/jvm/*/; do echo "${j%/}"; done
}

# Sets `java` to the oldest JDK that will do, which is the nearest to the one that
# the server's makers have tested it with.
find_java() {
  local best=100 v j
  java=''
  while read -r j; do
    v=$(java_major "$j") || continue
    if [ "$v" -ge "$jdk_min" ] && [ "$v" -le "$jdk_max" ] && [ "$v" -lt "$best" ]; then
      best=$v java=$j
    fi
  done < <(java_homes)
  [ -n "$java" ]
}

java_wanted() {
  if [ "$jdk_max" = 99 ]; then
    echo "a JDK $jdk_min or later"
  else
    echo "a JDK from $jdk_min to $jdk_max"
  fi
}

need_java() { find_java || die "$name needs $(java_wanted), in /usr/lib/jvm or JAVA_HOME"; }

# ---- the cache ----

# Fills the cache, unless it is full already. The table's row must be selected.
fetch() {
  fetch_once "$home" fetch_files
  if [ "$kind" = jars ]; then fetch_once "$(node_classes)" compile_node; fi
}

# fetch_once FOLDER COMMAND...: has COMMAND fill FOLDER.new, unless FOLDER is
# there. The finished folder is moved into place, so a broken download leaves
# nothing that looks whole. The lock is for all names, since Maven's own
# repository must not be written by two at once.
fetch_once() {
  local folder=$1
  shift
  [ -d "$folder" ] && return
  mkdir -p "$MORTISE_CACHE"
  (
    flock 9
    [ -d "$folder" ] && exit
    echo "fetching $name (once, into $folder)" >&2
    rm -rf "$folder.new"
    "$@" || exit 1
    rm -rf "$folder.new/target"
    chmod -R a+rX "$folder.new"
    mv "$folder.new" "$folder"
  ) 9>"$MORTISE_CACHE/fetch.lock" || die "could not fetch $name"
}

fetch_files() {
  local new=$home.new
  maven "-P$kind" "-Dversion=$artifact" "-Dlog4j=$log4j" "-Dout=$new" initialize || return 1
  # The download is many times the size of what is kept of it.
  rm -rf "$MORTISE_CACHE"/maven/org/sonarsource/sonarqube
  # The servers need these folders, even if they are empty.
  mkdir -p "$new/bin" "$new/plugins" "$new/modules"
}

# It is tried once more after a failure, since a first run downloads hundreds of
# files.
maven() { run_maven "$@" || run_maven "$@" || { cat "$MORTISE_CACHE/fetch.log" >&2; return 1; }; }

run_maven() {
  local extra=()
  read -ra extra <<<"${MORTISE_MVN_ARGS:-}"
  mvn -q -B "-Dmaven.repo.local=$MORTISE_CACHE/maven" "${extra[@]}" -f "$here/pom.xml" "$@" \
    >"$MORTISE_CACHE/fetch.log" 2>&1 9>&-
}

# OpenSearch as a library needs a small main of ours; the folder's name follows
# its text, so an edited one is compiled again.
node_main() { echo "$here/OpenSearch${major}Node.java"; }

node_classes() { echo "$home-main-$(cksum <"$(node_main)" | cut -d' ' -f1)"; }

compile_node() {
  find_java || die "$name needs $(java_wanted), in /usr/lib/jvm or JAVA_HOME"
  "$java/bin/javac" -nowarn -d "$(node_classes).new" -cp "$home/lib/*" "$(node_main)"
}
