# Part of tools/server: Elasticsearch with its own security module, under the
# basic licence.
# shellcheck shell=bash disable=SC2154 # tools/server sets them

elasticsearch_admin() { echo elastic; }

elasticsearch_need_secure() {
  [ -d "$home/modules/x-pack-security" ] || die "$name comes without a security module: --secure cannot be had"
}

# A client certificate is checked when shown, but not asked for: then one
# server serves the tests with and without.
elasticsearch_secure_settings() {
  local layer
  echo "xpack.security.enabled: true"
  echo "xpack.security.enrollment.enabled: false"
  for layer in http transport; do
    echo "xpack.security.$layer.ssl.enabled: true"
    echo "xpack.security.$layer.ssl.key: server.key"
    echo "xpack.security.$layer.ssl.certificate: server.pem"
    echo "xpack.security.$layer.ssl.certificate_authorities: ca.pem"
  done
  echo "xpack.security.http.ssl.client_authentication: optional"
  echo "xpack.security.transport.ssl.verification_mode: certificate"
}

# The keystore, with the administrator's first password, is made once and
# copied: that takes a JVM's start.
elasticsearch_secure_node() {
  local first="$run/node-1/config"
  if [ "$1" = "$first" ]; then
    keystore_add "$1" bootstrap.password <"$run/secrets/admin"
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

# The password goes through a descriptor, not through curl's arguments, which
# every user of the machine can read.
elasticsearch_secure_curl() {
  curl -K <(echo "user = \"elastic:$(secret_read admin)\"") "$@"
}

elasticsearch_secure_ready() { true; }

elasticsearch_secure_user() {
  api PUT "_security/role/$1" "$(role "$1")" >/dev/null &&
    api PUT "_security/user/$1" "{\"password\": \"$(secret_read "$1")\", \"roles\": [\"$1\"]}" >/dev/null
}

# Bearer tokens of the OAuth kind are not in the basic licence; a service
# account's are, but those accounts have fixed rights: this one reads and writes
# the index named below.
elasticsearch_bearer_index() { echo profiling-mortise; }

elasticsearch_secure_tokens() {
  secret_from api_key encoded _security/api_key \
    "{\"name\": \"mortise\", \"role_descriptors\": {\"mortise_rw\": $(role mortise_rw)}}" &&
    secret_from bearer value "_security/service/elastic/fleet-server/credential/token/mortise-$(date +%s)"
}
