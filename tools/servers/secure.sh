# Part of tools/server: --secure. TLS on both ports, a client certificate, the
# built-in administrator `elastic`, and the users mortise_rw and mortise_ro with
# the roles of roles.json, which are the least that mortise needs.
#
# RUN/NAME-PORT/ then holds ca.pem, client.pem, client.key, secrets/ (one secret
# a file, open to the owner only) and secure.env, for the shell:
#   MORTISE_TEST_URL, _CA, _CERT, _KEY; MORTISE_TEST_{ADMIN,RW,RO}_USER and
#   _PASSWORD_FILE; MORTISE_TEST_API_KEY_FILE (the role of mortise_rw);
#   MORTISE_TEST_BEARER_FILE, and _BEARER_INDEX: the index it may read and write.
# shellcheck shell=bash disable=SC2154 # tools/server sets them

ADMIN=elastic

need_secure() {
  [ -d "$home/modules/x-pack-security" ] || die "$name comes without a security module: --secure cannot be had"
}

# ---- before the nodes start ----

secure_files() {
  local user
  mkdir -m 700 "$run/secrets"
  for user in "$ADMIN" mortise_rw mortise_ro; do random_secret >"$run/secrets/$user"; done
  chmod 600 "$run"/secrets/*
  certificates || die "openssl could not make the certificates"
}

random_secret() { openssl rand -hex 16; }

certificates() {
  local key="$run/secrets/ca.key"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 \
    -subj "/CN=mortise test CA" -keyout "$key" -out "$run/ca.pem" 2>/dev/null || return 1
  certificate server /CN=localhost 'subjectAltName=IP:127.0.0.1,DNS:localhost' || return 1
  certificate client /CN=mortise-client 'extendedKeyUsage=clientAuth'
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

# A client certificate is checked when shown, but not asked for: then one
# server serves the tests with and without.
secure_settings() {
  local layer
  echo "xpack.security.enabled: true"
  echo "xpack.security.enrollment.enabled: false"
  echo "xpack.security.authc.token.enabled: true"
  for layer in http transport; do
    echo "xpack.security.$layer.ssl.enabled: true"
    echo "xpack.security.$layer.ssl.key: server.key"
    echo "xpack.security.$layer.ssl.certificate: server.pem"
    echo "xpack.security.$layer.ssl.certificate_authorities: ca.pem"
  done
  echo "xpack.security.http.ssl.client_authentication: optional"
  echo "xpack.security.transport.ssl.verification_mode: certificate"
}

# The server reads key material from its own configuration folder only. The
# keystore, with the administrator's first password, is made once and copied.
secure_node() {
  cp "$run"/{server.key,server.pem,ca.pem} "$1/"
  local first="$run/node-1/config"
  if [ "$1" = "$first" ]; then
    keystore_add "$1" bootstrap.password <"$run/secrets/$ADMIN"
  else
    cp "$first/elasticsearch.keystore" "$1/"
  fi
}

keystore_add() {
  local dir java_args=()
  dir=$(dirname "$1")
  elastic_cli keystore lib/tools/keystore-cli
  (cd "$home" && "$java/bin/java" "${java_args[@]}" add --force --stdin "$2") >"$dir/logs/out" 2>&1 ||
    { cat "$dir/logs/out" >&2; die "could not make the keystore"; }
}

# ---- once they answer ----

# The password goes through a descriptor, not through curl's arguments, which
# every user of the machine can read.
secure_request() {
  curl -sS --noproxy '*' --max-time 10 --cacert "$run/ca.pem" \
    -K <(echo "user = \"$ADMIN:$(cat "$run/secrets/$ADMIN")\"") "$@"
}

# api METHOD PATH [BODY]: the answer's body; fails on an HTTP error.
api() {
  local body=()
  [ -z "${3:-}" ] || body=(-H 'Content-Type: application/json' --data-binary "@-")
  secure_request --fail-with-body -X "$1" "${body[@]}" "$(node_url 1)/$2" <<<"${3:-}"
}

# role NAME: its definition; roles.json has one role a line for that.
role() { sed -n "s/^ *\"$1\": \(.*}\),*$/\1/p" "$here/roles.json"; }

# Tokens of the OAuth kind are not in the basic licence; a service account's
# are, but those accounts have fixed rights: this one reads and writes what
# BEARER_INDEX names.
BEARER_ACCOUNT=elastic/fleet-server
BEARER_INDEX=profiling-mortise

secure_users() {
  secure_user mortise_rw && secure_user mortise_ro || return 1
  secret api_key encoded _security/api_key \
    "{\"name\": \"mortise\", \"role_descriptors\": {\"mortise_rw\": $(role mortise_rw)}}" || return 1
  secret bearer value "_security/service/$BEARER_ACCOUNT/credential/token/mortise-$(date +%s)" || return 1
  secure_env >"$run/secure.env"
}

secure_user() {
  local password
  password=$(cat "$run/secrets/$1")
  api PUT "_security/role/$1" "$(role "$1")" >/dev/null || return 1
  api PUT "_security/user/$1" "{\"password\": \"$password\", \"roles\": [\"$1\"]}" >/dev/null
}

# secret FILE FIELD PATH [BODY]: POSTs, and keeps one string of the answer.
secret() {
  local answer
  answer=$(api POST "$3" "${4:-}") || { echo "$3: $answer" >&2; return 1; }
  answer=${answer#*"\"$2\":\""}
  (umask 077 && echo "${answer%%\"*}" >"$run/secrets/$1")
}

secure_env() {
  local who
  cat <<ENV
MORTISE_TEST_URL='$(node_url 1)'
MORTISE_TEST_CA='$run/ca.pem'
MORTISE_TEST_CERT='$run/client.pem'
MORTISE_TEST_KEY='$run/client.key'
ENV
  for who in "ADMIN $ADMIN" "RW mortise_rw" "RO mortise_ro"; do
    echo "MORTISE_TEST_${who% *}_USER='${who#* }'"
    echo "MORTISE_TEST_${who% *}_PASSWORD_FILE='$run/secrets/${who#* }'"
  done
  echo "MORTISE_TEST_API_KEY_FILE='$run/secrets/api_key'"
  echo "MORTISE_TEST_BEARER_FILE='$run/secrets/bearer'"
  echo "MORTISE_TEST_BEARER_INDEX='$BEARER_INDEX'"
}
