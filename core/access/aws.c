/* Where Amazon's programs find their credentials, in their order: the environment, a web identity, a profile, a
 * container's metadata, an instance's. (boto3's documentation, "Credentials"; the instance's by version 2 of its
 * service alone.) */
#include "access/fetch.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/number.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ANSWER_MAX = 1 << 20, FILE_MAX = 1 << 20, URL_MAX = 2048, CONNECT_MS = 2000, ANSWER_MS = 10000, TRIES = 3 };

enum {
  KEY_ID, KEY_SECRET, KEY_SESSION, REGION, DEFAULT_REGION, PROFILE, CREDENTIALS_FILE, CONFIG_FILE, HOME, ROLE,
  IDENTITY_FILE, ROLE_SESSION, STS_URL, ANY_URL, CONTAINER_PATH, CONTAINER_URL, CONTAINER_TOKEN, CONTAINER_TOKEN_FILE,
  NO_INSTANCE, INSTANCE_URL, NAMES
};

const char *const mt_aws_names[] = {
  [KEY_ID] = "AWS_ACCESS_KEY_ID", [KEY_SECRET] = "AWS_SECRET_ACCESS_KEY", [KEY_SESSION] = "AWS_SESSION_TOKEN",
  [REGION] = "AWS_REGION", [DEFAULT_REGION] = "AWS_DEFAULT_REGION", [PROFILE] = "AWS_PROFILE",
  [CREDENTIALS_FILE] = "AWS_SHARED_CREDENTIALS_FILE", [CONFIG_FILE] = "AWS_CONFIG_FILE", [HOME] = "HOME",
  [ROLE] = "AWS_ROLE_ARN", [IDENTITY_FILE] = "AWS_WEB_IDENTITY_TOKEN_FILE", [ROLE_SESSION] = "AWS_ROLE_SESSION_NAME",
  [STS_URL] = "AWS_ENDPOINT_URL_STS", [ANY_URL] = "AWS_ENDPOINT_URL",
  [CONTAINER_PATH] = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", [CONTAINER_URL] = "AWS_CONTAINER_CREDENTIALS_FULL_URI",
  [CONTAINER_TOKEN] = "AWS_CONTAINER_AUTHORIZATION_TOKEN",
  [CONTAINER_TOKEN_FILE] = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
  [NO_INSTANCE] = "AWS_EC2_METADATA_DISABLED", [INSTANCE_URL] = "AWS_EC2_METADATA_SERVICE_ENDPOINT",
  [NAMES] = NULL,
};

const char *mt_aws_env(size_t i) {
  const char *value = getenv(mt_aws_names[i]);
  return value && *value ? value : NULL;
}

static const char container_host[] = "http://169.254.170.2", instance_host[] = "http://169.254.169.254";

static mortise_status unavailable(mortise_error *err) {
  err->retryable = true;
  return err->code;
}

/* ---- Answers -------------------------------------------------------------------------------- */

/* "2026-11-26T12:00:00Z", or with an offset of nothing else; 0: no such time. */
static int64_t moment_of(const char *text) {
  struct tm t = {0};
  const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &t);
  return rest ? (int64_t)timegm(&t) * 1000 : 0;
}

static bool is_complete(const mt_credentials *c) {
  return *c->id && *c->secret;
}

/* False if something is missing. What has ended already as it is fetched comes from another clock than ours: its end
 * says nothing. */
static bool settle_answer(mt_credentials *c, const char *end) {
  c->expires_ms = moment_of(end);
  if (c->expires_ms <= mt_clock_wall_ms()) c->expires_ms = 0;
  return is_complete(c);
}

/* What containers, instances and commands answer. */
static bool take_json(mt_slice text, const char *session, mt_credentials *out) {
  mt_json root;
  char end[64];
  if (mt_json_parse(text, "the credentials", &root, NULL)) return false;
  mt_json_copy(mt_json_get(root, "AccessKeyId"), out->id, sizeof out->id);
  mt_json_copy(mt_json_get(root, "SecretAccessKey"), out->secret, sizeof out->secret);
  mt_json_copy(mt_json_get(root, session), out->session, sizeof out->session);
  return settle_answer(out, mt_json_copy(mt_json_get(root, "Expiration"), end, sizeof end));
}

/* The text of the first element of that name: the values here hold nothing that XML escapes. */
static void take_element(mt_slice xml, const char *name, char *out, size_t size) {
  char tag[64];
  int n = snprintf(tag, sizeof tag, "<%s>", name);
  const char *from = xml.n ? memmem(xml.p, xml.n, tag, (size_t)n) : NULL;
  *out = '\0';
  if (!from) return;
  from += n;
  const char *to = memchr(from, '<', xml.n - (size_t)(from - xml.p));
  if (to && (size_t)(to - from) < size) snprintf(out, size, "%.*s", (int)(to - from), from);
}

/* ---- Requests ------------------------------------------------------------------------------- */

typedef struct question {
  const mt_fetch *of;
  const char *method, *url, *what;
  const char *header; /* or NULL */
  const char *body;   /* or NULL; a form */
  bool direct;        /* by no proxy */
} question;

static size_t on_bytes(char *p, size_t size, size_t count, void *ctx) {
  mt_buf *out = ctx;
  mt_buf_add(out, p, size * count);
  return out->failed ? 0 : size * count;
}

static int on_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
  (void)a, (void)b, (void)c, (void)d;
  return atomic_load((const atomic_bool *)ctx);
}

#define SET(option, value) (curl_easy_setopt(easy, CURLOPT_##option, value) == CURLE_OK)

static bool set_question(CURL *easy, const question *q, struct curl_slist *headers, mt_buf *out) {
  return SET(URL, q->url) && SET(NOSIGNAL, 1L) && SET(PROTOCOLS_STR, "http,https") && SET(FOLLOWLOCATION, 0L) &&
         SET(NETRC, (long)CURL_NETRC_IGNORED) && SET(CONNECTTIMEOUT_MS, (long)CONNECT_MS) &&
         SET(TIMEOUT_MS, (long)ANSWER_MS) && SET(USERAGENT, "mortise") && SET(NOPROGRESS, 0L) &&
         SET(XFERINFOFUNCTION, on_progress) && SET(XFERINFODATA, (void *)q->of->stop) &&
         SET(WRITEFUNCTION, on_bytes) && SET(WRITEDATA, out) && SET(HTTPHEADER, headers) &&
         (!q->direct || SET(PROXY, "")) &&
         (q->body ? SET(POSTFIELDS, q->body) : SET(CUSTOMREQUEST, q->method));
}

/* Once. The answer's body in `out`; AUTH if it refuses, UNAVAILABLE for any other but of status 200. */
static mortise_status ask_once(const question *q, mt_buf *out, mortise_error *err) {
  long status = 0;
  CURL *easy = curl_easy_init();
  struct curl_slist *headers = q->header ? curl_slist_append(NULL, q->header) : NULL;
  CURLcode code = CURLE_OUT_OF_MEMORY;
  mt_buf_clear(out);
  if (easy && (headers || !q->header) && set_question(easy, q, headers, out)) code = curl_easy_perform(easy);
  if (easy) curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  curl_slist_free_all(headers);
  curl_easy_cleanup(easy);
  if (code == CURLE_OUT_OF_MEMORY) return mt_error_memory(err);
  if (code)
    mt_error_set(err, MORTISE_UNAVAILABLE, "%s at %.300s: %s", q->what, q->url, curl_easy_strerror(code));
  else if (status != 200)
    mt_error_set(err, status >= 400 && status < 500 ? MORTISE_AUTH : MORTISE_UNAVAILABLE,
                 "%s at %.300s answers with status %ld", q->what, q->url, status);
  else
    return MORTISE_OK;
  return err->code == MORTISE_AUTH ? err->code : unavailable(err);
}

/* Again where another try may help. */
static mortise_status ask(const question *q, mt_buf *out, mortise_error *err) {
  mortise_status status = MORTISE_OK;
  for (int i = 0; i < TRIES && !atomic_load(q->of->stop); i++) {
    mt_error_clear(err);
    status = ask_once(q, out, err);
    if (!status || status == MORTISE_AUTH) break;
  }
  return status;
}

static mortise_status bad_answer(const char *what, mortise_error *err) {
  mt_error_set(err, MORTISE_UNAVAILABLE, "%s answers without credentials", what);
  return unavailable(err);
}

/* ---- Profiles ------------------------------------------------------------------------------- */

/* OK with nothing where there is no such file. */
static mortise_status read_small_file(const char *name, mt_buf *out, mortise_error *err) {
  mt_buf_init(out, FILE_MAX);
  FILE *f = fopen(name, "re");
  if (!f) return MORTISE_OK;
  char *room;
  size_t n = 1;
  while (n && (room = mt_buf_room(out, 4096))) out->n += n = fread(room, 1, 4096, f);
  bool broken = ferror(f);
  fclose(f);
  if (broken) return mt_error_set(err, MORTISE_UNAVAILABLE, "%.300s cannot be read", name);
  return mt_buf_status(out, name, err);
}

/* What stands alone in a file, without its line's end. */
static void cut_line_end(mt_buf *token) {
  while (token->n && strchr("\r\n", token->p[token->n - 1])) mt_buf_cut(token, token->n - 1);
}

static mt_slice trimmed(mt_slice s) {
  while (s.n && strchr(" \t\r", *s.p)) s.p++, s.n--;
  while (s.n && strchr(" \t\r", s.p[s.n - 1])) s.n--;
  return s;
}

/* Is this "[name]"? */
static bool is_heading(mt_slice line, const char *name) {
  line = trimmed((mt_slice){line.p + 1, line.n - 1});
  if (!line.n || line.p[line.n - 1] != ']') return false;
  return mt_slice_eq(trimmed((mt_slice){line.p, line.n - 1}), mt_slice_of(name));
}

/* The value of a key in a section of such a file, "" if it has none. */
static void profile_value(mt_slice text, const char *section, const char *key, char *out, size_t size) {
  bool inside = false;
  *out = '\0';
  while (text.n) {
    mt_slice line = trimmed(mt_slice_cut(&text, '\n'));
    if (!line.n || *line.p == '#' || *line.p == ';') continue;
    if (*line.p == '[') {
      inside = is_heading(line, section);
      continue;
    }
    const char *sign = inside ? memchr(line.p, '=', line.n) : NULL;
    if (!sign || !mt_slice_eq(trimmed((mt_slice){line.p, (size_t)(sign - line.p)}), mt_slice_of(key))) continue;
    mt_slice value = trimmed((mt_slice){sign + 1, line.n - (size_t)(sign + 1 - line.p)});
    if (value.n < size) snprintf(out, size, "%.*s", (int)value.n, value.p);
    return;
  }
}

/* Two files, read at each fetch. */
typedef struct profiles {
  const char *name;
  char section[300]; /* of the second file */
  char credentials_name[1024], config_name[1024];
  mt_buf credentials, config;
} profiles;

static void name_file(const char *given, const char *home, const char *name, char *out, size_t size) {
  if (given)
    snprintf(out, size, "%s", given);
  else
    snprintf(out, size, "%s/.aws/%s", home ? home : "", name);
}

static mortise_status read_profiles(const char *const *env, profiles *p, mortise_error *err) {
  *p = (profiles){.name = env[PROFILE] ? env[PROFILE] : "default"};
  bool is_default = !strcmp(p->name, "default");
  snprintf(p->section, sizeof p->section, "%s%s", is_default ? "" : "profile ", p->name);
  name_file(env[CREDENTIALS_FILE], env[HOME], "credentials", p->credentials_name, sizeof p->credentials_name);
  name_file(env[CONFIG_FILE], env[HOME], "config", p->config_name, sizeof p->config_name);
  mortise_status status = read_small_file(p->credentials_name, &p->credentials, err);
  return status ? status : read_small_file(p->config_name, &p->config, err);
}

static void free_profiles(profiles *p) {
  mt_buf_wipe(&p->credentials);
  mt_buf_wipe(&p->config);
}

static void take_profile(mt_slice text, const char *section, mt_credentials *out) {
  profile_value(text, section, "aws_access_key_id", out->id, sizeof out->id);
  profile_value(text, section, "aws_secret_access_key", out->secret, sizeof out->secret);
  profile_value(text, section, "aws_session_token", out->session, sizeof out->session);
}

/* A key that a profile has in either file. */
static void either_value(const profiles *p, const char *key, char *out, size_t size) {
  profile_value(mt_buf_slice(&p->credentials), p->name, key, out, size);
  if (!*out) profile_value(mt_buf_slice(&p->config), p->section, key, out, size);
}

static void region_of_env(const char *const *env, char *out, size_t size) {
  profiles p;
  const char *given = env[REGION] ? env[REGION] : env[DEFAULT_REGION];
  *out = '\0';
  if (given) {
    snprintf(out, size, "%s", given);
    return;
  }
  if (!read_profiles(env, &p, NULL)) either_value(&p, "region", out, size);
  free_profiles(&p);
}

static mortise_status run_process(const mt_fetch *f, const char *command, mt_credentials *out, mortise_error *err) {
  mt_buf text;
  mortise_status status = mt_command_output(f, command, &text, err);
  if (!status && !take_json(mt_buf_slice(&text), "SessionToken", out)) status = bad_answer("the profile's command", err);
  mt_buf_wipe(&text);
  return status;
}

/* OK without credentials: the profile has none. */
static mortise_status from_profile(const mt_fetch *f, const profiles *p, mt_credentials *out, mortise_error *err) {
  static const char *const others[] = {"role_arn", "sso_session", "sso_start_url", "login_session"};
  char command[2048], value[512];
  take_profile(mt_buf_slice(&p->credentials), p->name, out);
  if (is_complete(out)) return MORTISE_OK;
  either_value(p, "credential_process", command, sizeof command);
  if (*command) return run_process(f, command, out, err);
  take_profile(mt_buf_slice(&p->config), p->section, out);
  if (is_complete(out)) return MORTISE_OK;
  *out = (mt_credentials){0};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    either_value(p, others[i], value, sizeof value);
    if (*value)
      return mt_error_set(err, MORTISE_UNSUPPORTED,
                          "aws: the profile %.100s has %s: let Amazon's own program carry it out, by another profile "
                          "with credential_process = aws configure export-credentials --profile %.100s",
                          p->name, others[i], p->name);
  }
  return MORTISE_OK;
}

/* ---- A web identity ------------------------------------------------------------------------- */

static void add_form_field(mt_buf *out, const char *name, const char *value) {
  char *text = curl_easy_escape(NULL, value, 0);
  if (!text) mt_buf_fail(out, MORTISE_OUT_OF_MEMORY);
  if (text) mt_buf_addf(out, "&%s=%s", name, text);
  curl_free(text);
}

static mortise_status from_identity(const mt_fetch *f, mt_credentials *out, mortise_error *err) {
  char url[URL_MAX], region[64], end[64];
  mt_buf token, body, answer;
  region_of_env(f->env, region, sizeof region);
  const char *given = f->env[STS_URL] ? f->env[STS_URL] : f->env[ANY_URL];
  if (given)
    snprintf(url, sizeof url, "%s", given);
  else
    snprintf(url, sizeof url, "https://sts.%s%samazonaws.com%s/", region, *region ? "." : "",
             strncmp(region, "cn-", 3) ? "" : ".cn");
  mortise_status status = read_small_file(f->env[IDENTITY_FILE], &token, err);
  mt_buf_init(&body, FILE_MAX);
  mt_buf_init(&answer, ANSWER_MAX);
  cut_line_end(&token);
  if (!status && !token.n)
    status = mt_error_set(err, MORTISE_UNAVAILABLE, "aws: %.300s has no token", f->env[IDENTITY_FILE]);
  if (!status) {
    mt_buf_addc(&token, '\0');
    mt_buf_adds(&body, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15");
    add_form_field(&body, "RoleArn", f->env[ROLE]);
    add_form_field(&body, "RoleSessionName", f->env[ROLE_SESSION] ? f->env[ROLE_SESSION] : "mortise");
    add_form_field(&body, "WebIdentityToken", token.p);
    status = mt_buf_status(&body, "a web identity", err);
  }
  const question q = {f, "POST", url, "aws: the token service", NULL, body.p, false};
  if (!status) status = ask(&q, &answer, err);
  mt_slice xml = mt_buf_slice(&answer);
  if (!status) {
    take_element(xml, "AccessKeyId", out->id, sizeof out->id);
    take_element(xml, "SecretAccessKey", out->secret, sizeof out->secret);
    take_element(xml, "SessionToken", out->session, sizeof out->session);
    take_element(xml, "Expiration", end, sizeof end);
    if (!settle_answer(out, end)) status = bad_answer(q.what, err);
  }
  mt_buf_wipe(&token);
  mt_buf_wipe(&body);
  mt_buf_wipe(&answer);
  return status;
}

/* ---- Metadata of containers and instances --------------------------------------------------- */

static bool starts_with(const char *text, const char *prefix) {
  return !strncmp(text, prefix, strlen(prefix));
}

/* In clear text only to this machine and to the addresses that Amazon names, with nothing behind them that would make
 * them another's. */
static bool is_trusted(const char *url) {
  static const char *const near[] = {"http://127.0.0.1", "http://localhost", "http://[::1]", "http://169.254.170.2",
                                     "http://169.254.170.23", "http://[fd00:ec2::23]"};
  if (starts_with(url, "https://")) return true;
  for (size_t i = 0; i < sizeof near / sizeof *near; i++) {
    const char *rest = url + strlen(near[i]);
    if (starts_with(url, near[i]) && (*rest == '/' || *rest == '\0' || (*rest == ':' && !strchr(rest, '@')))) return true;
  }
  return false;
}

static mortise_status from_container(const mt_fetch *f, mt_credentials *out, mortise_error *err) {
  char url[URL_MAX], header[4096] = "";
  mt_buf token, answer;
  if (f->env[CONTAINER_PATH])
    snprintf(url, sizeof url, "%s%s", container_host, f->env[CONTAINER_PATH]);
  else
    snprintf(url, sizeof url, "%s", f->env[CONTAINER_URL]);
  if (!is_trusted(url))
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "aws: %s names a host that credentials are not asked of: %.200s",
                        mt_aws_names[CONTAINER_URL], url);
  mt_buf_init(&token, FILE_MAX);
  mt_buf_init(&answer, ANSWER_MAX);
  mortise_status status = MORTISE_OK;
  if (f->env[CONTAINER_TOKEN_FILE]) status = read_small_file(f->env[CONTAINER_TOKEN_FILE], &token, err);
  else if (f->env[CONTAINER_TOKEN]) mt_buf_adds(&token, f->env[CONTAINER_TOKEN]);
  cut_line_end(&token);
  if (token.n) snprintf(header, sizeof header, "Authorization: %.*s", (int)token.n, token.p);
  const question q = {f, "GET", url, "aws: the container's credentials", *header ? header : NULL, NULL, true};
  if (!status) status = ask(&q, &answer, err);
  if (!status && !take_json(mt_buf_slice(&answer), "Token", out)) status = bad_answer(q.what, err);
  explicit_bzero(header, sizeof header);
  mt_buf_wipe(&token);
  mt_buf_wipe(&answer);
  return status;
}

static mortise_status from_instance(const mt_fetch *f, mt_credentials *out, mortise_error *err) {
  static const char roles[] = "latest/meta-data/iam/security-credentials/";
  const char *host = f->env[INSTANCE_URL] ? f->env[INSTANCE_URL] : instance_host;
  const char *slash = *host && host[strlen(host) - 1] == '/' ? "" : "/";
  char url[URL_MAX], header[1024];
  mt_buf answer;
  question q = {f, "PUT", url, "aws: the instance's metadata", "X-aws-ec2-metadata-token-ttl-seconds: 21600", NULL, true};
  mt_buf_init(&answer, ANSWER_MAX);
  snprintf(url, sizeof url, "%s%slatest/api/token", host, slash);
  mortise_status status = ask(&q, &answer, err);
  if (!status) {
    snprintf(header, sizeof header, "X-aws-ec2-metadata-token: %.*s", (int)answer.n, answer.n ? answer.p : "");
    q.method = "GET";
    q.header = header;
    snprintf(url, sizeof url, "%s%s%s", host, slash, roles);
    status = ask(&q, &answer, err);
  }
  mt_slice text = mt_buf_slice(&answer);
  if (!status) {
    mt_slice role = trimmed(mt_slice_cut(&text, '\n')); /* one role */
    snprintf(url, sizeof url, "%s%s%s%.*s", host, slash, roles, (int)role.n, role.p);
    status = ask(&q, &answer, err);
  }
  if (!status && !take_json(mt_buf_slice(&answer), "Token", out)) status = bad_answer(q.what, err);
  explicit_bzero(header, sizeof header);
  mt_buf_wipe(&answer);
  return status;
}

/* ---- All of them ---------------------------------------------------------------------------- */

static mortise_status from_environment(const mt_fetch *f, mt_credentials *out, mortise_error *err) {
  if (!f->env[KEY_SECRET])
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "aws: %s is set, and %s is not", mt_aws_names[KEY_ID],
                        mt_aws_names[KEY_SECRET]);
  const char *session = f->env[KEY_SESSION] ? f->env[KEY_SESSION] : "";
  if (strlen(f->env[KEY_ID]) >= sizeof out->id || strlen(f->env[KEY_SECRET]) >= sizeof out->secret ||
      strlen(session) >= sizeof out->session)
    return mt_error_set(err, MORTISE_INVALID_ARGUMENT, "aws: the environment's key is too long");
  snprintf(out->id, sizeof out->id, "%s", f->env[KEY_ID]);
  snprintf(out->secret, sizeof out->secret, "%s", f->env[KEY_SECRET]);
  snprintf(out->session, sizeof out->session, "%s", session);
  return MORTISE_OK;
}

static bool is_off(const char *value) {
  return value && mt_slice_like(mt_slice_of(value), MT_SLICE("true"));
}

static mortise_status none_found(const profiles *p, mortise_error *err) {
  char why[400] = "";
  if (err->code) snprintf(why, sizeof why, "; %.380s", err->message);
  mt_error_set(err, err->code ? err->code : MORTISE_INVALID_ARGUMENT,
               "aws: no credentials: none in the environment, nor for the profile %.100s in %.200s or %.200s%s", p->name,
               p->credentials_name, p->config_name, why);
  return err->code;
}

static mortise_status from_others(const mt_fetch *f, mt_credentials *out, mortise_error *err) {
  profiles p;
  if (f->env[ROLE] && f->env[IDENTITY_FILE]) return from_identity(f, out, err);
  mortise_status status = read_profiles(f->env, &p, err);
  if (!status) status = from_profile(f, &p, out, err);
  if (!status && !is_complete(out)) {
    if (f->env[CONTAINER_PATH] || f->env[CONTAINER_URL])
      status = from_container(f, out, err);
    else if (is_off(f->env[NO_INSTANCE]) || from_instance(f, out, err))
      status = none_found(&p, err);
  }
  free_profiles(&p);
  return status;
}

mortise_status mt_fetch_aws(const mt_fetch *f, mt_credentials *out, mortise_error *err) {
  mortise_status status = f->env[KEY_ID] ? from_environment(f, out, err) : from_others(f, out, err);
  if (!status && !mt_is_plain(mt_slice_of(out->id), "/,"))
    status = mt_error_set(err, MORTISE_INVALID_ARGUMENT, "aws: the key's id has a byte that it cannot have");
  if (!status && !mt_is_plain(mt_slice_of(out->session), ""))
    status = mt_error_set(err, MORTISE_INVALID_ARGUMENT, "aws: the session's token has a byte that it cannot have");
  return status;
}

/* "NAME.REGION.es.amazonaws.com", "NAME.aos.REGION.on.aws". */
static bool region_of_host(const char *host, char *out, size_t size) {
  static const char *const ends[] = {".es.amazonaws.com", ".on.aws"};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    const char *end = strstr(host, ends[i]), *from = end;
    while (from && from > host && from[-1] != '.') from--;
    if (!end || from == host) continue;
    snprintf(out, size, "%.*s", (int)(end - from), from);
    return true;
  }
  return false;
}

void mt_aws_region(const char *host, char *out, size_t size) {
  const char *env[NAMES];
  if (region_of_host(host, out, size)) return;
  for (size_t i = 0; i < NAMES; i++) env[i] = mt_aws_env(i);
  region_of_env(env, out, size);
}
