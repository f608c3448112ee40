# Part of tools/server: --secure. TLS on both ports, a client certificate, an
# administrator, and the users mortise_rw and mortise_ro with the roles of
# roles.json, which are the least that mortise needs; mortise_look may lock, but
# not change documents.
#
# RUN/NAME-PORT/ then holds ca.pem, client.pem, client.key, secrets/ (one secret
# a file, open to the owner only) and secure.env, for the shell:
#   MORTISE_TEST_URL, _CA, _CERT, _KEY; MORTISE_TEST_{ADMIN,RW,RO,LOOK}_USER and
#   _PASSWORD_FILE; MORTISE_TEST_BEARER_FILE, and _BEARER_INDEX: the index it may
#   read and write; with Elasticsearch MORTISE_TEST_API_KEY_FILE (the rights of
#   mortise_rw).
# What both families share is here, the rest in functions named after them.
# shellcheck shell=bash disable=SC2154 # tools/server sets them

# shellcheck source=tools/servers/secure_elasticsearch.sh
. "$here/secure_elasticsearch.sh"
# shellcheck source=tools/servers/secure_opensearch.sh
. "$here/secure_opensearch.sh"

need_secure() { "${family}_need_secure"; }
secure_settings() { "${family}_secure_settings"; }

# ---- before the nodes start ----

secure_files() {
  mkdir -m 700 "$run/secrets"
  local user
  for user in admin mortise_rw mortise_ro mortise_look; do secret_write "$user" "$(openssl rand -hex 16)"; done
  certificates || die "openssl could not make the certificates"
}

secret_write() { (umask 077 && echo "$2" >"$run/secrets/$1"); }

secret_read() { cat "$run/secrets/$1"; }

certificates() {
  (
    umask 077
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 \
      -subj "/CN=mortise test CA" -keyout "$run/secrets/ca.key" -out "$run/secrets/ca.pem"
  ) 2>/dev/null || return 1
  install -m 644 "$run/secrets/ca.pem" "$run/ca.pem"
  certificate server /CN=localhost 'subjectAltName=IP:127.0.0.1,DNS:localhost' &&
    certificate client /CN=mortise-client 'extendedKeyUsage=clientAuth' &&
    certificate admin /CN=mortise-admin 'extendedKeyUsage=clientAuth'
}

# certificate FILE SUBJECT EXTENSION: FILE.pem and FILE.key, signed by the CA.
certificate() {
  (
    umask 077
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "$2" \
      -keyout "$run/$1.key" -out "$run/secrets/$1.csr"
  ) 2>/dev/null &&
    openssl x509 -req -in "$run/secrets/$1.csr" -days 365 -set_serial "0x$(openssl rand -hex 8)" \
      -CA "$run/ca.pem" -CAkey "$run/secrets/ca.key" -extfile <(echo "$3") \
      -out "$run/$1.pem" 2>/dev/null
}

# The server reads key material from its own configuration folder only.
secure_node() {
  cp "$run"/{server.key,server.pem,ca.pem} "$1/"
  "${family}_secure_node" "$1"
}

# ---- once they answer ----

secure_request() {
  "${family}_secure_curl" -sS --noproxy '*' --max-time 10 --cacert "$run/ca.pem" "$@"
}

# api METHOD PATH [BODY]: prints the body of the answer. Fails on an HTTP error, and
# says which.
api() {
  local body=() answer
  [ -z "${3:-}" ] || body=(-H 'Content-Type: application/json' --data-binary "@-")
  if answer=$(secure_request --fail-with-body -X "$1" "${body[@]}" "$(node_url 1)/$2" <<<"${3:-}"); then
    echo "$answer"
  else
    echo "$2: $answer" >&2
    return 1
  fi
}

# role NAME: prints its definition. For this, roles.json has each role on one line.
role() { sed -n "s/^ *\"$family $1\": \(.*}\),*$/\1/p" "$here/roles.json"; }

secure_users() {
  "${family}_secure_ready" && "${family}_secure_user" mortise_rw && "${family}_secure_user" mortise_ro &&
    "${family}_secure_user" mortise_look &&
    "${family}_secure_tokens" || return 1
  secure_env >"$run/secure.env"
}

# secret_from FILE FIELD PATH [BODY]: sends a POST, and keeps one string of the
# answer in FILE.
secret_from() {
  local answer
  answer=$(api POST "$3" "${4:-}") || return 1
  answer=${answer#*"\"$2\":\""}
  secret_write "$1" "${answer%%\"*}"
}

secure_env() {
  local who
  cat <<ENV
MORTISE_TEST_URL='$(node_url 1)'
MORTISE_TEST_CA='$run/ca.pem'
MORTISE_TEST_CERT='$run/client.pem'
MORTISE_TEST_KEY='$run/client.key'
ENV
  for who in "ADMIN $("${family}_admin") admin" "RW mortise_rw mortise_rw" "RO mortise_ro mortise_ro" \
    "LOOK mortise_look mortise_look"; do
    # shellcheck disable=SC2086 # split on purpose
    set -- $who
    echo "MORTISE_TEST_$1_USER='$2'"
    echo "MORTISE_TEST_$1_PASSWORD_FILE='$run/secrets/$3'"
  done
  [ ! -f "$run/secrets/api_key" ] || echo "MORTISE_TEST_API_KEY_FILE='$run/secrets/api_key'"
  echo "MORTISE_TEST_BEARER_FILE='$run/secrets/bearer'"
  echo "MORTISE_TEST_BEARER_INDEX='$("${family}_bearer_index")'"
}
