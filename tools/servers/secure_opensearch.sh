# Part of tools/server: OpenSearch with its security plugin, where the plugin is
# among the Maven artifacts.
# shellcheck shell=bash disable=SC2154 # tools/server sets them

opensearch_admin() { echo admin; }

opensearch_security_home() { echo "$home-security"; }

opensearch_need_secure() {
  [ "$major" = 2 ] || die "no security plugin for $name is published: --secure cannot be had"
  fetch_once "$(opensearch_security_home)" opensearch_fetch_security
}

opensearch_fetch_security() {
  maven -Psecurity "-Dversion=$version.0" "-Dout=$(opensearch_security_home).new" initialize
}

# A client certificate is checked when shown, but not asked for: then one
# server serves the tests with and without.
opensearch_secure_settings() {
  local layer
  for layer in http transport; do
    echo "plugins.security.ssl.$layer.pemkey_filepath: server.key"
    echo "plugins.security.ssl.$layer.pemcert_filepath: server.pem"
    echo "plugins.security.ssl.$layer.pemtrustedcas_filepath: ca.pem"
  done
  echo "plugins.security.ssl.http.enabled: true"
  echo "plugins.security.ssl.http.clientauth_mode: OPTIONAL"
  echo "plugins.security.ssl.transport.enforce_hostname_verification: false"
  echo "plugins.security.nodes_dn: ['CN=localhost']"
  echo "plugins.security.authcz.admin_dn: ['CN=mortise-admin']"
  echo "plugins.security.audit.type: noop"
  echo "plugins.security.allow_default_init_securityindex: true"
}

# The plugin starts from files: its own, but without its well-known users and
# the mapping that gives every user an index.
opensearch_secure_node() {
  local config=$1/opensearch-security
  cp -r "$(opensearch_security_home)/config" "$config"
  [ -f "$run/secrets/jwt.key" ] || secret_write jwt.key "$(openssl rand -hex 32)"
  echo '{"_meta": {"type": "internalusers", "config_version": 2}}' >"$config/internal_users.yml"
  echo '{"_meta": {"type": "rolesmapping", "config_version": 2}, "all_access": {"users": ["admin"]}}' \
    >"$config/roles_mapping.yml"
  (umask 077 && opensearch_authentication >"$config/config.yml.new")
  mv "$config/config.yml.new" "$config/config.yml"
}

# Passwords, and signed tokens that carry the user's name and roles.
opensearch_authentication() {
  cat <<CONFIG
_meta: {type: config, config_version: 2}
config:
  dynamic:
    authc:
      token:
        http_enabled: true
        order: 0
        http_authenticator:
          type: jwt
          challenge: false
          config: {signing_key: $(jwt_key_base64), subject_key: sub, roles_key: roles}
        authentication_backend: {type: noop}
      password:
        http_enabled: true
        order: 1
        http_authenticator: {type: basic, challenge: true}
        authentication_backend: {type: intern}
CONFIG
}

# The administrator's certificate may do everything, even before there are users.
opensearch_secure_curl() { curl --cert "$run/admin.pem" --key "$run/admin.key" "$@"; }

# The cluster reports that it is healthy before the plugin has made its index.
opensearch_secure_ready() {
  local deadline=$((SECONDS + 60))
  until secure_request -f --max-time 3 -o /dev/null "$(node_url 1)/_plugins/_security/api/roles" 2>/dev/null; do
    [ "$SECONDS" -lt "$deadline" ] || return 1
    sleep 0.2
  done
}

opensearch_secure_user() {
  local base=_plugins/_security/api
  api PUT "$base/roles/$1" "$(role "$1")" >/dev/null &&
    api PUT "$base/internalusers/$1" "{\"password\": \"$(secret_read "$1")\"}" >/dev/null &&
    api PUT "$base/rolesmapping/$1" "{\"users\": [\"$1\"], \"backend_roles\": [\"$1\"]}" >/dev/null
}

opensearch_bearer_index() { echo mortise-bearer; }

opensearch_secure_tokens() {
  api PUT _plugins/_security/api/internalusers/admin "{\"password\": \"$(secret_read admin)\"}" >/dev/null || return 1
  secret_write bearer "$(json_web_token mortise_bearer mortise_rw)"
}

# json_web_token USER ROLE: valid for a year, as the certificates are.
json_web_token() {
  local text
  text=$(echo -n '{"alg":"HS256","typ":"JWT"}' | base64_url).$(
    echo -n "{\"sub\":\"$1\",\"roles\":\"$2\",\"exp\":$(($(date +%s) + 31536000))}" | base64_url)
  echo "$text.$(echo -n "$text" |
    openssl dgst -sha256 -mac HMAC -macopt "hexkey:$(secret_read jwt.key)" -binary | base64_url)"
}

# The plugin wants the bytes of the key in base64. printf makes them from the digits.
jwt_key_base64() {
  # shellcheck disable=SC2059 # the format is made here
  printf "$(secret_read jwt.key | sed 's/../\\x&/g')" | base64 -w 0
}

base64_url() { base64 -w 0 | tr '+/' '-_' | tr -d '='; }
