"""A second client of the lock protocol, written from docs/protocol.md alone.

Python's standard library only, and as small as the protocol allows: one session a Client, and one lock
at a time in it. A program that wants more at once makes more clients.
"""
import hashlib
import http.client
import json
import os
import random
import re
import secrets
import threading
import time
import urllib.parse

QUEUE_LIFE_MS = 5000
ENDED = ("expired", "closed")  # any other state is as good as live
ORDER = ["IS", "IX", "S", "SIX", "X"]
FITS = {"IS": {"IS", "IX", "S", "SIX"}, "IX": {"IS", "IX"}, "S": {"IS", "S"}, "SIX": {"IS"},
        "X": set()}


class LockTimeout(Exception):
    """Not had in time; `blockers` are the entries that were in the way."""

    def __init__(self, place, blockers):
        super().__init__("no lock on %s in time" % (place.partition("//")[0] or "/"))
        self.blockers = blockers


class OrphanedJob(Exception):
    """A dead job's guard is in the way, which waiting does not remove; `job` is its id."""

    def __init__(self, path, job):
        super().__init__("job %s, whose session is dead, guards %s" % (job, path))
        self.job = job


class AdoptionFailed(Exception):
    """Another session has adopted what a job's dead session held."""


class LockLost(Exception):
    """The session's deadline has passed, or somebody has ended it."""


class NoAnswer(Exception):
    """It may have been applied, and may still be."""


def now():
    """Seconds on a clock that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


# ---- Paths and modes ------------------------------------------------------------------------------


def lub(a, b):
    if {a, b} == {"S", "IX"}:
        return "SIX"
    return max(a, b, key=ORDER.index)


COMMANDS = "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"


def check_path(path):
    """The path without a last slash. ValueError where it is none."""
    short = path[:-1] if len(path) > 1 and path.endswith("/") else path
    parts = short.split("/")[1:] if path != "/" else []
    if not short.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise ValueError("no path: %r" % path)
    if len(short.encode()) > 4096 or len(parts) > 128 or re.search(COMMANDS, short):
        raise ValueError("no path to lock: %r" % path[:200])
    return short


def segment(part):
    """A part (bytes) of a document's or a name's path."""
    def escaped(data):
        return "".join("%%%02X" % byte for byte in data)
    if part in (b"", b".", b".."):
        return escaped(part) or "%"
    text = part.decode("utf-8", "surrogateescape")
    wrong = "[/%%]|[\udc80-\udcff]|%s" % COMMANDS
    return re.sub(wrong, lambda m: escaped(m.group().encode("utf-8", "surrogateescape")), text)


def ancestors(path):
    """Of /a/b: /, /a."""
    cuts = [i for i, c in enumerate(path) if c == "/"] if path != "/" else []
    return [path[:i] or "/" for i in cuts]


def stripe_of(session, stripes):
    """The stripe of a session's intentions, where it has none yet; as mortise chooses it, though any would do."""
    total = 0
    for c in session:
        total = (total * 31 + ord(c)) % (1 << 32)
    return total % stripes


def name_of(path, stripe):
    return "%s//%d" % (path.rstrip("/"), stripe) if stripe else path


def path_of(name):
    return name.partition("//")[0] or "/"


def plan(targets, mode):
    """[(path, mode, is it a target?)] in the order of the paths' bytes."""
    targets = {t for t in targets if mode != "X" or not set(ancestors(t)) & set(targets)}
    above = "IX" if mode in ("IX", "SIX", "X") else "IS"
    modes = {t: mode for t in targets}
    for path in {a for t in targets for a in ancestors(t)}:
        modes[path] = lub(modes.get(path, above), above)
    return [(p, modes[p], p in targets) for p in sorted(modes, key=str.encode)]


# ---- Who am I -------------------------------------------------------------------------------------


def start_time(pid):
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as f:
            return int(f.read().rpartition(")")[2].split()[19])
    except OSError:
        return -1


def identity(host=None):
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
        boot = f.read().strip()
    pid = os.getpid()
    return {"host": host or os.uname().nodename, "boot": boot, "pid": pid, "start": start_time(pid),
            "pidns": os.readlink("/proc/self/ns/pid").partition("[")[2].rstrip("]"),
            "program": "mortise_client.py"}


def gone(owner, me):
    """Was it a process of this machine, and is it there no more?"""
    if any(not me[k] or owner.get(k) != me[k] for k in ("host", "boot", "pidns")):
        return False
    pid, start = owner.get("pid", 0), owner.get("start", -1)
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    current = start_time(pid)
    return start >= 0 and current >= 0 and current != start


# ---- Requests -------------------------------------------------------------------------------------


class Table:
    """The lock table's documents, by id. Used by several threads, a connection each."""

    def __init__(self, url, table, namespace, timeout=10.0):
        self.server = urllib.parse.urlsplit(url)
        self.table, self.namespace, self.timeout = table, namespace, timeout
        self.local, self.stripes = threading.local(), 1

    def lock_id(self, name):
        whole = "%s:%s" % (self.namespace, name)
        if len(whole.encode()) <= 512:
            return whole
        return "%s:sha256:%s" % (self.namespace, hashlib.sha256(name.encode()).hexdigest())

    def verify(self):
        """Learns the number of stripes. RuntimeError: this is no table that this client can use."""
        status, answer = self.request("GET", "/%s" % self.table)
        if status != 200 or len(answer) != 1:
            raise RuntimeError("there is no lock table %s: status %d" % (self.table, status))
        index = next(iter(answer.values()))
        meta = index["mappings"].get("_meta", {})
        if meta.get("uuid") != index["settings"]["index"]["uuid"]:
            raise RuntimeError("%s is a copy of a lock table" % self.table)
        stripes = {1: 1, 2: meta.get("stripes")}.get(meta.get("format"))
        if not isinstance(stripes, int) or not 1 <= stripes <= 64:
            raise RuntimeError("a lock table of format %s with %s stripes is not known here" %
                               (meta.get("format"), meta.get("stripes")))
        self.stripes = stripes

    def names(self, path):
        """Of all the path's documents: those of / and of what is directly below it have stripes."""
        stripes = self.stripes if path.count("/") == 1 else 1
        return [name_of(path, stripe) for stripe in range(stripes)]

    def places(self, steps, session, adopted):
        """The plan's steps with names in place of paths. `adopted`: {name: mode} of what the session has already,
        since an intention belongs where it has one."""
        for path, mode, leaf in steps:
            names = self.names(path)
            if mode in ("IS", "IX"):
                has = [n for n in names if n in adopted and lub(adopted[n], mode) == adopted[n]]
                names = has[:1] or [names[stripe_of(session, len(names))]]
            for name in names:
                yield name, mode, leaf

    def request(self, method, path, body=None, timeout=None):
        """(status, parsed answer). NoAnswer where the request may have been applied."""
        connection = getattr(self.local, "connection", None)
        if connection is None:
            connection = http.client.HTTPConnection(self.server.hostname, self.server.port)
            self.local.connection = connection
        connection.timeout = max(0.05, min(self.timeout, timeout or self.timeout))
        if connection.sock:
            connection.sock.settimeout(connection.timeout)
        try:
            connection.request(method, path, body, {"Content-Type": "application/x-ndjson"})
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text)
        except (OSError, http.client.HTTPException, ValueError) as why:
            connection.close()
            raise NoAnswer(str(why)) from why

    def bulk(self, items, timeout=None):
        """The answer to each item; None: it may have been applied. Nothing is sent twice here."""
        body = "".join(json.dumps(line) + "\n" for item in items for line in item)
        path = "/%s/_bulk?require_alias=true&timeout=%ds" % (self.table, self.timeout)
        try:
            status, answer = self.request("POST", path, body.encode(), timeout)
        except NoAnswer:
            return [None] * len(items)
        if status == 429:
            return [{"status": 429}] * len(items)
        if status >= 500:
            return [None] * len(items)
        if status >= 300:
            raise RuntimeError("the lock table: status %d: %s" % (status, answer))
        each = [next(iter(item.values())) for item in answer["items"]]
        return [None if item["status"] >= 500 else item for item in each]

    def apply(self, items, until):
        """As bulk; what met another write, or a busy server, is sent again alone."""
        answers = self.bulk(items, until - now())
        for i, item in enumerate(items):
            scripted = len(item) > 1 and "script" in item[1] and "if_seq_no" not in item[0]["update"]
            while answers[i] and now() < until and (
                    answers[i]["status"] == 429 or scripted and answers[i]["status"] == 409):
                time.sleep(random.uniform(0, 0.01))
                answers[i] = self.bulk([item], until - now())[0]
        return answers

    def session(self, session):
        """(version, document); (None, None) where there is none."""
        key = urllib.parse.quote("%s:@%s" % (self.namespace, session), safe="")
        status, answer = self.request("GET", "/%s/_doc/%s" % (self.table, key))
        if answer.get("found") is True:
            return (answer["_seq_no"], answer["_primary_term"]), answer["_source"]
        if status == 404 and answer.get("found") is False:
            return None, None
        raise NoAnswer("status %d" % status)

    def names_of(self, session):
        """Where it has entries, as a search shows it."""
        self.request("POST", "/%s/_refresh" % self.table)
        return [doc["path"] for name, doc in self.scroll({"term": {"kind": "lock"}})
                if name.startswith(self.namespace + ":")
                and any(e["session"] == session for e in doc["holders"] + doc["queue"])]

    def scroll(self, query, page=1000):
        """Every document that matches: (_id, source)."""
        path = "/%s/_search?scroll=1m&allow_partial_search_results=false" % self.table
        body = {"size": page, "query": query, "sort": ["_doc"]}
        cursor = None
        try:
            while True:
                status, answer = self.request("POST", path, json.dumps(body).encode())
                if status != 200:
                    raise NoAnswer("status %d" % status)
                hits, cursor = answer["hits"]["hits"], answer["_scroll_id"]
                if not hits:
                    return
                for hit in hits:
                    yield hit["_id"], hit["_source"]
                path, body = "/_search/scroll", {"scroll": "1m", "scroll_id": cursor}
        finally:
            if cursor:
                self.request("DELETE", "/_search/scroll", json.dumps({"scroll_id": [cursor]}).encode())

    def session_item(self, session, verb, version=None, **params):
        head = {"_id": "%s:@%s" % (self.namespace, session)}
        if version:
            head.update(if_seq_no=version[0], if_primary_term=version[1])
        body = {"script": {"id": "mortise-session-1", "params": dict(params, verb=verb)}}
        if verb == "open":
            body.update(scripted_upsert=True, upsert={})
        if verb == "beat":
            body.update(_source=["state", "owner.broken_by"])
        return [{"update": head}, body]

    def locks(self, names):
        """The lock documents of these names that exist, by name. They prove nothing."""
        ids = {self.lock_id(name): name for name in names}
        status, answer = self.request("POST", "/%s/_mget" % self.table,
                                      json.dumps({"ids": list(ids)}).encode())
        if status != 200:
            raise NoAnswer("status %d" % status)
        return {ids[doc["_id"]]: doc["_source"] for doc in answer["docs"] if doc.get("found")}

    def adopt_item(self, session, n, name, dead, job):
        params = {"session": session, "n": n, "from": dead, "job": job}
        return [{"update": {"_id": self.lock_id(name)}},
                {"script": {"id": "mortise-lock-adopt-1", "params": params}, "_source": ["blockers"]}]

    def set_item(self, session, n, name, mode, leaf, enqueue, job=None):
        params = {"session": session, "n": n, "mode": mode, "fresh": True}
        if job:
            params["job"] = job
        if leaf:
            params["leaf"] = True
        if enqueue:
            params["enqueue"] = QUEUE_LIFE_MS
        return [{"update": {"_id": self.lock_id(name)}},
                {"script": {"id": "mortise-lock-set-1", "params": params},
                 "_source": ["blockers", "holders", "queue"] if enqueue else ["blockers"],
                 "scripted_upsert": True,
                 "upsert": {"kind": "lock", "path": name, "holders": [], "queue": []}}]

    def create_item(self, session, n, name, mode, job=None):
        holder = {"session": session, "n": n, "mode": mode, "since": int(time.time() * 1000)}
        if job:
            holder["job"] = job
        return [{"create": {"_id": self.lock_id(name)}},
                {"kind": "lock", "path": name, "holders": [holder], "queue": [],
                 "sessions": [session]}]

    def release_item(self, session, n, name):
        params = {"session": session} if n is None else {"session": session, "n": n}
        return [{"update": {"_id": self.lock_id(name)}},
                {"script": {"id": "mortise-lock-release-1", "params": params}}]

    def delete_item(self, name, version):
        return [{"delete": {"_id": self.lock_id(name), "if_seq_no": version[0],
                            "if_primary_term": version[1]}}]


def applied(answer):
    return bool(answer and answer["status"] < 300 and answer["result"] not in ("noop", "not_found"))


# ---- Sessions -------------------------------------------------------------------------------------


class Session:
    """Opened, kept alive by a thread, closed. Believes in its holds until its deadline."""

    def __init__(self, table, owner, lease, margin):
        self.table, self.lease, self.margin = table, lease, margin
        self.id, self.n, self.ghost, self.lost = secrets.token_hex(16), 0, False, False
        self.refused, self.why = False, "the session's deadline has passed"
        self.deadline = now() + lease
        self.ended, self.mutex = threading.Event(), threading.Lock()
        while not self.write("open", owner=owner, lease=int(lease * 1000)):
            if not self.alive():
                raise NoAnswer("the session could not be opened")
            time.sleep(0.05)
        self.thread = threading.Thread(target=self.beat, daemon=True)
        self.thread.start()

    def write(self, verb, **params):
        """True when acknowledged; a refusal ends the session."""
        sent = now()
        answer = self.table.apply([self.table.session_item(self.id, verb, **params)],
                                  sent + self.lease / 2)[0]
        if answer and answer["status"] < 300 or answer and answer["status"] == 404:
            with self.mutex:
                if not applied(answer) or now() >= self.deadline:
                    self.lost, self.refused = True, not applied(answer)
                    if self.refused:
                        self.why = why_refused(answer)
                elif verb != "close":
                    self.deadline = sent + self.lease - self.margin
            return applied(answer)
        return False

    def beat(self):
        while not self.ended.wait(self.lease / 6) and self.alive():
            self.write("beat", waiting=[])

    def alive(self):
        with self.mutex:
            self.lost = self.lost or now() >= self.deadline
            return not self.lost

    def check(self):
        if not self.alive():
            raise LockLost(self.why)

    def next_number(self):
        self.n += 1
        return self.n

    def close(self):
        """Ended by another before its deadline it is not closed: nobody may get in before that."""
        self.ended.set()
        self.thread.join()
        if not self.refused:
            self.write("close")


def why_refused(answer):
    found = answer.get("get", {}).get("_source", {})
    by = found.get("owner", {}).get("broken_by", {})
    return "the session is %s%s" % (
        found.get("state", "over"), " by %s, pid %s" % (by.get("host"), by.get("pid")) if by else "")


# ---- Locks ----------------------------------------------------------------------------------------


class Lock:
    """What was granted. A context manager; `fence` grows with each later incompatible lock."""

    def __init__(self, client, session, grants):
        self.client, self.session, self.grants = client, session, grants
        self.fence = max(term << 40 | seq for _, _, (seq, term), _ in grants)

    def check(self):
        """Raises LockLost; without it, the lock is held for self.remaining() seconds at least."""
        self.session.check()

    def remaining(self):
        return self.session.deadline - now()

    def release(self):
        if self.client:
            client, self.client = self.client, None
            client.give_back(self.grants)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()


class Client:
    """`host` stands for this machine's name: with another, only observation proves a death. What the client
    of a `job` holds guards the job's paths when its session is over."""

    def __init__(self, url, table="mortise-locks", namespace="default", lease=60.0, margin=1.0,
                 host=None, job=None):
        self.table, self.owner = Table(url, table, namespace), identity(host)
        if job:
            self.owner["job"] = job
        self.lease, self.margin, self.session, self.job = lease, margin, None, job
        self.seen, self.next_look, self.dead = {}, 0.0, set()

    def acquire(self, targets, mode="X", wait=30.0, adopts=False):
        """Takes the trees (a path or a list of them) in mode X or S. LockTimeout, LockLost, OrphanedJob.
        `adopts`: first takes over what dead sessions of the same job hold there; AdoptionFailed."""
        session, until = self.ready(), now() + wait
        targets = [targets] if isinstance(targets, str) else targets
        steps = plan([check_path(target) for target in targets], mode)
        adopted = self.adopt(session, [path for path, _, _ in steps], until) if adopts else {}
        places = list(self.table.places(steps, session.id, adopted))
        grants = self.take(session, places, until, adopted=adopts)
        rest = set(adopted) - {name for name, _, _ in places}
        self.give_back([(name, None, None, False) for name in sorted(rest)])
        return Lock(self, session, grants)

    def take(self, session, steps, until, adopted=False):
        """What was adopted is not given back by a failure: it stays the job's guard."""
        grants = []  # (name, n, version, created)
        try:
            while len(grants) < len(steps):
                self.ask(session, steps, grants, until)
                session.check()
                if len(grants) < len(steps):
                    self.wait_at(session, steps[len(grants)], grants, until)
        except BaseException:
            if not adopted:
                self.give_back(grants)
            raise
        return grants

    def close(self):
        if self.session:
            self.session.close()
            self.session = None

    def ready(self):
        """The session; a new one in place of a lost one, or after a grant without an answer."""
        if self.session and (self.session.ghost or not self.session.alive()):
            self.close()
        if not self.session:
            session = Session(self.table, self.owner, self.lease, self.margin)
            try:
                self.table.verify()  # while it beats, this is the table
            except BaseException:
                session.close()  # no lock is taken by a number of stripes that is only supposed
                raise
            self.session = session
        return self.session

    def ask(self, session, steps, grants, until):
        """All that is left in one bulk. What comes after the first denial is given back."""
        todo = [(p, m, leaf, session.next_number()) for p, m, leaf in steps[len(grants):]]
        until = max(until, now() + 1)  # even without waiting, one answer is wanted
        answers = self.table.apply(
            [self.table.create_item(session.id, n, p, m, self.job) if leaf and m == "X"
             else self.table.set_item(session.id, n, p, m, leaf, False, self.job)
             for p, m, leaf, n in todo], until)
        granted = []
        for i, (path, mode, leaf, n) in enumerate(todo):
            created = applied(answers[i]) and answers[i]["result"] == "created" and leaf and mode == "X"
            if answers[i] and answers[i]["status"] == 409 and leaf and mode == "X":
                answers[i] = self.table.apply(
                    [self.table.set_item(session.id, n, path, mode, leaf, False, self.job)], until)[0]
            session.ghost = session.ghost or answers[i] is None
            granted.append(grant_of(path, n, answers[i], created))
        first = granted.index(None) if None in granted else len(granted)
        grants += granted[:first]
        self.give_back([granted[i] or (t[0], t[3], None, False) for i, t in enumerate(todo)
                        if i > first and (granted[i] or answers[i] is None)])

    def wait_at(self, session, step, grants, until):
        path, mode, leaf = step
        n, pause, answer, blockers = session.next_number(), 0.005, None, []
        while True:
            item = self.table.set_item(session.id, n, path, mode, leaf, True, self.job)
            answer = self.table.apply([item], max(until, now() + 1))[0]
            source = answer and answer.get("get", {}).get("_source", {})
            session.ghost = session.ghost or answer is None
            if applied(answer) and all(e["session"] != session.id for e in source["queue"]):
                grants.append(grant_of(path, n, answer, False))
                return
            if not session.alive() or now() >= until:
                self.give_back([(path, n, None, False)])
                session.check()
                raise LockTimeout(path, blockers)
            head = True
            if applied(answer):
                ahead = [e["session"] for e in source["queue"]].index(session.id)
                head = ahead == 0
                blockers = [e for e in source["holders"] + source["queue"][:ahead]
                            if e["session"] != session.id and e["mode"] not in FITS[mode]]
                self.check_guards(session, path, n, blockers)
                if self.take_over([e["session"] for e in blockers if "until" not in e], path):
                    continue
            time.sleep(max(0.0, min(random.uniform(pause / 2, pause), until - now())))
            pause = min(pause * 1.5, 0.05 if head else 0.4)

    def give_back(self, grants):
        """In reverse order, again and again until acknowledged or the lease has passed."""
        session, left = self.session, list(reversed(grants))
        until = session.deadline + self.margin
        while left and now() < until:
            answers = self.table.apply(
                [self.table.delete_item(p, version) if created
                 else self.table.release_item(session.id, n, p)
                 for p, n, version, created in left], until)
            # A delete that met somebody else's write becomes a release; a noop had nothing to remove.
            left = [(p, n, None, False) for (p, n, _, created), a in zip(left, answers)
                    if a is None or a["status"] == 429 or created and a["status"] == 409]
            if left and None in answers:
                time.sleep(0.1)

    # ---- Jobs

    def check_guards(self, session, path, n, blockers):
        """Whose session is proven dead, and which blocks all the same, is a guard."""
        for each in blockers:
            if "until" not in each and each.get("job") and each["session"] in self.dead:
                self.give_back([(path, n, None, False)])
                session.check()
                raise OrphanedJob(path, each["job"])

    def adopt(self, session, paths, until):
        """Root to leaves: the first alone, and once that is acknowledged, the others. {name: mode}."""
        names = [name for path in paths for name in self.table.names(path)]
        held = self.guards(session, names)
        while not all(s in self.dead or self.is_dead(s) for s in {dead for _, dead, _ in held}):
            if now() >= until:
                raise LockTimeout(held[0][0], [])
            time.sleep(0.05)
            held = self.guards(session, names)
        for part in held[:1], held[1:]:
            self.adopt_each(session, [(name, dead, session.next_number()) for name, dead, _ in part], until)
        adopted = {}
        for name, _, mode in held:
            adopted[name] = lub(adopted.get(name, mode), mode)
        return adopted

    def guards(self, session, names):
        """[(name, session, mode)] of what others hold there for this job."""
        found = self.table.locks(names)
        return [(name, e["session"], e["mode"]) for name in names
                for e in found.get(name, {"holders": []})["holders"]
                if e.get("job") == self.job and e["session"] != session.id]

    def adopt_each(self, session, left, until):
        while left:
            answers = self.table.apply(
                [self.table.adopt_item(session.id, n, path, dead, self.job) for path, dead, n in left], until)
            if any(answer and answer["status"] < 300 and not applied(answer) for answer in answers):
                raise AdoptionFailed(left[0][0])
            left = [each for each, answer in zip(left, answers) if not applied(answer)]
            session.check()
            if left and now() >= until:
                raise LockTimeout(left[0][0], [])

    # ---- Taking over from the dead

    def take_over(self, sessions, path):
        """True when somebody's entries were removed."""
        if not sessions or now() < self.next_look:
            return False
        self.next_look = now() + min(1.0, self.lease / 8)
        dead = [s for s in set(sessions) if self.is_dead(s)]
        if not dead:
            return False
        path = path_of(path)
        names = [name for p in ancestors(path) + [path] for name in self.table.names(p)]
        self.table.apply([self.table.release_item(s, None, name) for s in dead for name in names], now() + 10)
        return True

    def is_dead(self, session):
        """Only an acknowledged write of our own says so."""
        try:
            version, doc = self.table.session(session)
        except NoAnswer:
            return False
        if doc is None:
            item = [{"create": {"_id": "%s:@%s" % (self.table.namespace, session)}},
                    {"kind": "session", "owner": {}, "lease_ms": int(self.lease * 1000),
                     "state": "expired", "waiting": []}]
        elif doc["state"] in ENDED:
            item = self.table.session_item(session, "prove")
        else:
            seen = self.seen.get(session)
            if not seen or seen[0] != version:
                seen = self.seen[session] = (version, now())
            silent = now() - seen[1] >= doc["lease_ms"] / 1000 + self.margin
            if not silent and not gone(doc["owner"], self.owner):
                return False
            item = self.table.session_item(session, "expire", version)
        if not applied(self.table.apply([item], now() + 5)[0]):
            return False
        self.dead.add(session)
        return True

    # ---- Breaking by hand

    def break_session(self, session):
        """Ends it against its owner's will, and removes all of its entries. NoAnswer: do it again."""
        while not self.is_dead(session):
            _, doc = self.table.session(session)
            if doc and doc["state"] == "live":
                marked = self.table.apply(
                    [self.table.session_item(session, "break", by=self.owner)], now() + 5)[0]
                if applied(marked):  # from now on its owner's deadline stands still
                    self.seen[session] = ((marked["_seq_no"], marked["_primary_term"]), now())
            time.sleep(0.1)
        left = self.table.names_of(session)
        while left:
            self.table.apply([self.table.release_item(session, None, p) for p in left], now() + 10)
            left = self.table.names_of(session)


def grant_of(path, n, answer, created):
    if not applied(answer):
        return None
    return path, n, (answer["_seq_no"], answer["_primary_term"]), created
