# Part of tools/server: one node is one process, with its folder
# RUN/NAME-PORT/node-I: config, data, logs, tmp, pid.
# shellcheck shell=bash disable=SC2154 # tools/server sets them

# As root the server runs under another uid: Elasticsearch refuses root.
SERVER_UID=65534
as_server=()
if [ "$(id -u)" = 0 ]; then
  as_server=(setpriv "--reuid=$SERVER_UID" "--regid=$SERVER_UID" --clear-groups)
fi

node_port() { echo $((port + $1 - 1)); }

node_url() {
  local scheme=http
  [ "$secure" = 0 ] || scheme=https
  echo "$scheme://127.0.0.1:$(node_port "$1")"
}

# ---- configuration ----

node_prepare() {
  local dir=$run/node-$1
  mkdir -p "$dir"/{config,data,logs,tmp}
  node_settings "$1" >"$dir/config/$family.yml"
  sed "s|@LOGS@|$dir/logs|" "$here/log4j2.properties" >"$dir/config/log4j2.properties"
  jvm_options "$dir" >"$dir/config/jvm.options"
  [ "$secure" = 0 ] || secure_node "$dir/config"
  if [ "$(id -u)" = 0 ]; then
    chown -R "$SERVER_UID:$SERVER_UID" "$dir"
    can_reach "$dir/config"
  fi
}

can_reach() {
  "${as_server[@]}" test -w "$1" -a -r "$home/lib" ||
    die "uid $SERVER_UID cannot reach $1 or $home: set MORTISE_CACHE to a folder open to all"
}

# These settings only ease a small machine. None of them weakens durability or the
# cluster's agreement, which the tests are about.
node_settings() {
  local dir=$run/node-$1 p
  p=$(node_port "$1")
  cat <<SETTINGS
cluster.name: $name-$port
node.name: node-$1
path.data: $dir/data
path.logs: $dir/logs
network.host: 127.0.0.1
http.port: $p
transport.port: $((p + 100))
node.store.allow_mmap: false
cluster.routing.allocation.disk.threshold_enabled: false
indices.breaker.total.use_real_memory: false
SETTINGS
  [ "$family" = elasticsearch ] || echo "path.home: $dir"
  discovery_settings
  module_settings
}

discovery_settings() {
  if [ "$nodes" = 1 ]; then
    echo "discovery.type: single-node"
    return
  fi
  local role=master i hosts='' names=''
  [ "$family" = elasticsearch ] || role=cluster_manager
  for ((i = 1; i <= nodes; i++)); do
    hosts+=${hosts:+, }127.0.0.1:$((port + i - 1 + 100))
    names+=${names:+, }node-$i
  done
  echo "discovery.seed_hosts: [$hosts]"
  echo "cluster.initial_${role}_nodes: [$names]"
}

# These settings belong to modules that not every server has. A server refuses to
# start with a setting that it does not know.
module_settings() {
  if [ -d "$home/modules/x-pack-ml" ]; then echo "xpack.ml.enabled: false"; fi
  if [ -d "$home/modules/ingest-geoip" ]; then echo "ingest.geoip.downloader.enabled: false"; fi
  if [ "$secure" = 1 ]; then
    secure_settings
  elif [ -d "$home/modules/x-pack-security" ]; then
    echo "xpack.security.enabled: false"
  fi
}

# PerfDisableSharedMem: else a JVM stands still while the disk that /tmp is on is busy with the file of its statistics.
jvm_options() {
  printf '%s\n' "-Xms$heap" "-Xmx$heap" -XX:+UseSerialGC -XX:-AlwaysPreTouch \
    "-Djava.io.tmpdir=$1/tmp" "-Djna.tmpdir=$1/tmp" -Djna.nosys=true \
    -Dio.netty.noUnsafe=true -Dlog4j2.disable.jmx=true \
    -XX:+PerfDisableSharedMem \
    -Dlog4j.shutdownHookEnabled=false -Dfile.encoding=UTF-8
  # shellcheck disable=SC2086 # words
  [ -z "${MORTISE_JVM_ARGS:-}" ] || printf '%s\n' $MORTISE_JVM_ARGS
}

# ---- starting ----

# Elasticsearch 8 and later are started by a launcher. With -d it ends as soon as
# the server is ready, and the server then writes its own pid. With the other
# servers, the process that is started is the server itself.
node_launch() {
  local dir=$run/node-$1 java_args=() options=()
  rm -f "$dir"/{pid,pid.own,launcher}
  mapfile -t options <"$dir/config/jvm.options"
  case $name in
    opensearch-*) opensearch_command ;;
    elasticsearch-7*) elastic_7_command ;;
    elasticsearch-8*) elastic_8_command ;;
    *) elastic_9_command ;;
  esac
  (
    # Elasticsearch 8 and later take the working directory as their home.
    cd "$home" || exit
    export HOME=$dir ES_TMPDIR=$dir/tmp LIBFFI_TMPDIR=$dir/tmp ES_JAVA_HOME=$java
    export ES_HOME=$home ES_PATH_CONF=$dir/config ES_DISTRIBUTION_TYPE=zip
    export JAVA=$java/bin/java JAVA_TYPE=ES_JAVA_HOME CLI_JAVA_OPTS="${launcher_jvm[*]}"
    close_descriptors
    exec setsid "${as_server[@]}" "$java/bin/java" "${java_args[@]}" \
      </dev/null >"$dir/logs/out" 2>&1
  ) &
  if launches_detached; then process_save "$dir/launcher" $!; else process_save "$dir/pid" $!; fi
}

# The server must not inherit the caller's pipes and locks. Whoever reads such a
# pipe to its end would otherwise wait until the server ends.
close_descriptors() {
  local fd
  for fd in /proc/self/fd/*; do
    fd=${fd##*/}
    if [ "$fd" -gt 2 ] && [ "$fd" -lt 255 ]; then exec {fd}>&-; fi
  done
}

launches_detached() { [ "$family" = elasticsearch ] && [ "$major" -ge 8 ]; }

launcher_jvm=(-Xms4m -Xmx64m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+PerfDisableSharedMem)

opensearch_command() {
  local path plugins=()
  path="$(node_classes):$home/lib/*"
  if [ "$secure" = 1 ]; then
    path+=":$(opensearch_security_home)/*"
    plugins=(org.opensearch.security.OpenSearchSecurityPlugin)
  fi
  java_args=("${options[@]}" "-Dlog4j2.configurationFile=$dir/config/log4j2.properties"
    -cp "$path" "OpenSearch${major}Node" "$dir" "${plugins[@]}")
}

elastic_7_command() {
  java_args=("${options[@]}" -Djava.security.manager=allow
    "-Des.path.home=$home" "-Des.path.conf=$dir/config"
    -Des.distribution.flavor=default -Des.distribution.type=zip
    -cp "$home/lib/*" org.elasticsearch.bootstrap.Elasticsearch)
}

elastic_8_command() {
  elastic_cli server lib/tools/server-cli
  java_args+=(-d -p "$dir/pid.own")
}

elastic_9_command() {
  java_args=("${launcher_jvm[@]}" -cp "$home/lib/tools/server-launcher/*"
    org.elasticsearch.server.launcher.ServerLauncher -d -p "$dir/pid.own")
}

# elastic_cli TOOL LIBS: the command of one of the server's own tools.
elastic_cli() {
  java_args=("${launcher_jvm[@]}" "-Dcli.name=$1" "-Dcli.script=$home/bin/elasticsearch"
    "-Dcli.libs=$2" "-Des.path.home=$home" "-Des.path.conf=$dir/config"
    -Des.distribution.type=zip -Des.java.type=ES_JAVA_HOME
    -cp "$home/lib/*:$home/lib/cli-launcher/*" org.elasticsearch.launcher.CliToolLauncher)
}

# ---- waiting ----

# request CURL-ARG...: sends a request, as the administrator if the server is a
# secured one.
request() {
  if [ "$secure" = 1 ]; then
    secure_request "$@"
  else
    curl -sS --noproxy '*' --max-time 10 "$@"
  fi
}

wait_healthy() {
  local i deadline=$((SECONDS + START_SECONDS))
  for ((i = 1; i <= nodes; i++)); do
    wait_node "$i" "$deadline" || return 1
  done
}

# A node counts as up when it answers and sees the whole cluster.
wait_node() {
  local deadline=${2:-$((SECONDS + START_SECONDS))} url
  while [ "$SECONDS" -lt "$deadline" ]; do
    url="$(node_url "$1")/_cluster/health?wait_for_status=yellow&wait_for_nodes=$(live_count)&timeout=2s"
    # Early requests may get no answer at all, while the security module starts.
    request -f --max-time 3 -o /dev/null "$url" 2>/dev/null && return
    node_running "$1" || return 1
    sleep 0.2
  done
  return 1
}

# A server with a launcher writes its own pid file, and removes it before it ends.
# So the file is copied.
node_adopt() {
  local dir=$run/node-$1
  if [ ! -f "$dir/pid" ] && [ -s "$dir/pid.own" ]; then process_save "$dir/pid" "$(cat "$dir/pid.own")"; fi
}

report_up() {
  local i urls=''
  for ((i = 1; i <= nodes; i++)); do urls+=${urls:+,}$(node_url "$i"); done
  echo "$name $version up: $urls"
}

port_is_free() {
  local p
  for p in "$(node_port "$1")" $(($(node_port "$1") + 100)); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null; then
      die "port $p is in use by something else"
    fi
  done
}

log_tail() {
  local f
  for f in "$run/node-$1"/logs/{out,server.log}; do
    [ -s "$f" ] && { echo "--- node $1, $(basename "$f")"; tail -n 30 "$f"; }
  done
  return 0
}

# ---- processes ----

# A pid alone may by now be somebody else's; with its start time (field 22 of
# stat, counted after the name, which may hold spaces) it is one process.
process_started() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  stat=${stat##*) }
  # shellcheck disable=SC2086 # split on purpose
  set -- $stat
  [ "$1" != Z ] && echo "${20}"
}

process_save() {
  echo "$2" >"$1"
  process_started "$2" >"$1.started" || true
}

# process_alive FILE: is the process that was noted there still that one?
process_alive() {
  local pid started
  pid=$(cat "$1" 2>/dev/null) && started=$(process_started "$pid") || return 1
  [ "$started" = "$(cat "$1.started" 2>/dev/null)" ]
}

process_signal() { process_alive "$2" && kill "-$1" "$(cat "$2")" 2>/dev/null; }

node_alive() {
  node_adopt "$1"
  process_alive "$run/node-$1/pid"
}

# Is the node up, or starting?
node_running() { node_alive "$1" || process_alive "$run/node-$1/launcher"; }

live_nodes() {
  local i
  for i in 1 2 3; do if node_running "$i"; then echo "$i"; fi; done
}

live_count() { live_nodes | wc -l; }

# A server whose start was broken off has not written its pid yet, and lives for
# seconds longer than its launcher. It is found as the launcher's child.
node_claim() {
  local dir=$run/node-$1 child
  node_adopt "$1"
  [ ! -f "$dir/pid" ] && process_alive "$dir/launcher" || return 0
  child=$(cat /proc/"$(cat "$dir/launcher")"/task/*/children 2>/dev/null) || return 0
  [ -z "$child" ] || process_save "$dir/pid" "${child%% *}"
}

node_term() {
  node_claim "$1"
  process_signal TERM "$run/node-$1/launcher" || true
  process_signal TERM "$run/node-$1/pid" || true
}

# Sends TERM, waits for a bounded time, and then sends KILL. The launcher is ended
# first, because the server may write its pid until then.
node_stop() {
  process_end "$run/node-$1/launcher" $((STOP_SECONDS * 10))
  node_term "$1"
  process_end "$run/node-$1/pid" $((STOP_SECONDS * 10))
  rm -f "$run/node-$1/pid.own"
}

# Sends SIGKILL at once, as if the machine had failed.
node_kill() {
  process_end "$run/node-$1/pid" 0
  rm -f "$run/node-$1/pid.own"
}

# process_end FILE TENTHS: waits so many tenths of a second for the process to end,
# and then kills it.
process_end() {
  process_gone "$1" "$2" || { process_signal KILL "$1" || true; process_gone "$1" 100 || true; }
  rm -f "$1" "$1.started"
}

process_gone() {
  local i
  for ((i = 0; i < $2; i++)); do
    process_alive "$1" || return 0
    sleep 0.1
  done
  ! process_alive "$1"
}
