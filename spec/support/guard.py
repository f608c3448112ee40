"""guard.py HOST:PORT [NAME=VALUE ...]: before a server, lets pass only who proves who they are. Prints where it listens,
then a line for each request: what it answered itself, or "pass". It also is Amazon's places that give out credentials:
an instance's and a container's metadata, and the token service, below /amazon/.
  scheme=aws      a signature of Amazon's, checked with botocore's own signer (the default); or ApiKey, Bearer
  key=FILE        with ApiKey and Bearer: the file has the one that is right now
  shift=SECONDS   what its clock is ahead of this machine's
  life=SECONDS    of credentials that it gives out, and claims=SECONDS, if it tells another
"""
import datetime, hashlib, http.client, http.server, json, sys, threading, urllib.parse

server = sys.argv[1]
options = dict(each.split("=", 1) for each in sys.argv[2:])
scheme, shift, life = options.get("scheme", "aws"), int(options.get("shift", 0)), float(options.get("life", 3600))
claims = float(options.get("claims", life))
utc = datetime.timezone.utc
region = "eu-central-1"
known = {"AKIDEXAMPLE": ("secret/of+the key", "", None)}  # id: secret, session, end
lock = threading.Lock()


def now():
    return datetime.datetime.now(utc) + datetime.timedelta(seconds=shift)


def issue():
    with lock:
        n = len(known)
        end = now() + datetime.timedelta(seconds=life)
        known["ASIA%d" % n] = ("secret%d" % n, "session/%d+=" % n, end)
    told = now() + datetime.timedelta(seconds=claims)
    return "ASIA%d" % n, "secret%d" % n, "session/%d+=" % n, told.strftime("%Y-%m-%dT%H:%M:%SZ")


def as_json(session):
    names = ("AccessKeyId", "SecretAccessKey", session, "Expiration")
    return json.dumps({"Code": "Success", **dict(zip(names, issue()))}).encode()


def metadata(method, path, headers, body):
    if path == "/amazon/latest/api/token":
        ok = method == "PUT" and headers.get("X-aws-ec2-metadata-token-ttl-seconds", "").isdigit()
        return (200, b"of-the-instance") if ok else (403, b"")
    roles = "/amazon/latest/meta-data/iam/security-credentials/"
    if path.startswith(roles):
        if headers.get("X-aws-ec2-metadata-token") != "of-the-instance":
            return 401, b""
        return (200, b"a-role") if path == roles else (200, as_json("Token")) if path == roles + "a-role" else (404, b"")
    if path == "/amazon/container":
        return (200, as_json("Token")) if headers.get("Authorization") == "of-the-container" else (401, b"")
    if path == "/amazon/sts":
        form = dict(urllib.parse.parse_qsl(body.decode()))
        if (method, form.get("Action"), form.get("RoleArn"), form.get("WebIdentityToken")) != (
            "POST", "AssumeRoleWithWebIdentity", "arn:aws:iam::123456789012:role/a", "identity+/="):
            return 400, b""
        xml = "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>%s</Credentials>" \
            "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
        names = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
        return 200, (xml % "".join(f"<{n}>{v}</{n}>" for n, v in zip(names, issue()))).encode()
    return 404, b""


def refuses_signature(method, path, headers, body):
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    text = headers.get("Authorization", "")
    parts = dict(p.split("=", 1) for p in text.removeprefix("AWS4-HMAC-SHA256 ").split(", ")) if "Credential=" in text else {}
    key = parts.get("Credential", "").split("/")[0]
    if key not in known:
        return "The security token included in the request is invalid."
    secret, session, end = known[key]
    if headers.get("x-amz-security-token", "") != session:
        return "The security token included in the request is invalid."
    if end and now() > end:
        return "The security token included in the request is expired"
    stamp = headers["x-amz-date"]
    at = datetime.datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=utc)
    if abs((at - now()).total_seconds()) > 300:
        return f"Signature expired: {stamp} is now earlier than another time"
    if hashlib.sha256(body).hexdigest() != headers["x-amz-content-sha256"]:
        return "The body is another than the one that was signed"
    signed = parts["SignedHeaders"].split(";")
    request = AWSRequest(method, "http://" + headers["Host"] + path, {n: headers[n] for n in signed}, body)
    request.context["timestamp"] = stamp
    signer = SigV4Auth(Credentials(key, secret, session), "es", region)
    canonical = signer.canonical_request(request)
    right = signer.signature(signer.string_to_sign(request, canonical), request)
    scope = f"{key}/{stamp[:8]}/{region}/es/aws4_request"
    if (parts["Signature"], parts["Credential"]) != (right, scope):
        return "The request signature we calculated does not match the signature you provided."


def refuses_key(headers):
    with open(options["key"]) as f:
        return headers.get("Authorization") != f"{scheme} {f.read().strip()}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def date_time_string(self, timestamp=None):
        return now().strftime("%a, %d %b %Y %H:%M:%S GMT")

    def log_message(self, *_):
        pass

    def say(self, text):
        sys.stdout.write(f"{self.command} {self.path} {text}\n")
        sys.stdout.flush()

    def answer(self, status, body, headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def serve(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        own = [("X-Opaque-Id", self.headers["X-Opaque-Id"])] if "X-Opaque-Id" in self.headers else []
        if self.path.startswith("/amazon/"):
            status, text = metadata(self.command, self.path, self.headers, body)
            self.say(status)
            return self.answer(status, text)
        if scheme == "aws":
            why = refuses_signature(self.command, self.path, self.headers, body)
            if why:
                self.say("403 " + why)
                return self.answer(403, json.dumps({"message": why}).encode(), own)
        elif refuses_key(self.headers):
            self.say("401")
            return self.answer(401, b'{"error":{"type":"security_exception","reason":"no such key"},"status":401}', own)
        host, port = server.rsplit(":", 1)
        way = http.client.HTTPConnection(host, int(port))
        headers = {n: v for n, v in self.headers.items() if n.lower() not in ("authorization", "host", "connection")}
        way.request(self.command, self.path, body, headers)
        answer = way.getresponse()
        text = answer.read()
        self.say("pass")
        kept = [(n, v) for n, v in answer.getheaders()
                if n.lower() not in ("content-length", "transfer-encoding", "connection", "date")]
        self.answer(answer.status, text, kept)
        way.close()

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = serve


listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
listener.daemon_threads = True
print(listener.server_address[1], flush=True)
listener.serve_forever()
