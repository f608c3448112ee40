"""What a run consists of: the cluster, the proxies, the clients; and the clock that they share."""
import collections
import json
import mmap
import os
import random
import selectors
import signal
import struct
import subprocess
import threading
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
INDEX = "torture"


def now():
    """Microseconds, as in the histories."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) // 1000


class Journal:
    """What the run itself writes into the history: who was killed and stopped, and what it saw."""

    def __init__(self, file):
        self.file, self.mutex = open(file, "w", encoding="utf-8", buffering=1), threading.Lock()

    def say(self, t, op, **event):
        event.update({"t": t, "op": op})
        with self.mutex:
            self.file.write(json.dumps(event, separators=(",", ":")) + "\n")


# ---- The cluster ----------------------------------------------------------------------------------


class Cluster:
    def __init__(self, name, nodes, port, log):
        self.name, self.nodes, self.port, self.log = name, nodes, port, log
        self.urls = ["http://127.0.0.1:%d" % (port + i) for i in range(nodes)]
        self.calm_since = None  # since when no node was stopped, so that none can show an old state
        self.dead = 0  # the node that was killed
        self.given_up = False  # nobody waits for it any more
        self.frozen = {}
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def tool(self, verb, *words):
        with open(self.log, "a", encoding="utf-8") as log:
            return subprocess.run(self.command(verb, *words), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                  check=False).returncode

    def command(self, verb, *words):
        tool = os.path.join(ROOT, "tools/server")
        return [tool, verb, self.name, *map(str, words), "--port", str(self.port)]

    def start(self):
        if self.tool("start", "--nodes", self.nodes):
            raise RuntimeError("the cluster did not start, see %s" % self.log)
        self.calm_since = time.monotonic()

    def stop(self):
        for node in list(self.frozen):
            self.thaw(node)
        self.tool("stop")

    def request(self, method, path, body=None, node=0, timeout=10):
        data = json.dumps(body).encode() if body is not None else None
        kind = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.urls[node] + path, data, kind, method=method)
        with self.opener.open(request, timeout=timeout) as answer:
            return json.loads(answer.read() or b"{}")

    def pid(self, node):
        folder = subprocess.run(self.command("dir"), capture_output=True, text=True, check=True).stdout.strip()
        with open("%s/node-%d/pid" % (folder, node), encoding="ascii") as f:
            return int(f.read())

    def freeze(self, node):
        self.frozen[node] = self.pid(node)
        os.kill(self.frozen[node], signal.SIGSTOP)

    def thaw(self, node):
        os.kill(self.frozen.pop(node), signal.SIGCONT)

    def whole(self, seconds):
        """Waits until every shard has all its copies again."""
        ends = time.monotonic() + seconds
        path = "/_cluster/health?wait_for_status=green&wait_for_nodes=%d&timeout=5s" % self.nodes
        while time.monotonic() < ends and not self.given_up:
            for node in range(self.nodes):
                try:
                    health = self.request("GET", path, node=node)
                    if health.get("status") == "green" and not health.get("timed_out"):
                        return True
                except (OSError, ValueError):
                    time.sleep(0.2)
        return False

    def stripes(self):
        """How many documents a crowded path has in the lock table."""
        tables = self.request("GET", "/mortise-locks/_mapping")
        return [index["mappings"]["_meta"].get("stripes", 1) for index in tables.values()][0]

    def entries(self):
        """[[path, mode, session, stripe], ...] of all holds in the lock table, as one snapshot."""
        node = 1 if self.dead == 1 else 0
        fresh = self.request("POST", "/mortise-locks/_refresh", node=node, timeout=3)
        query = {"size": 10000, "query": {"term": {"kind": "lock"}}, "_source": ["path", "holders"]}
        answer = self.request("POST", "/mortise-locks/_search", query, node=node, timeout=3)
        if fresh["_shards"]["failed"] or answer["_shards"]["failed"] or answer["timed_out"]:
            raise OSError("no whole listing")
        found = []
        for hit in answer["hits"]["hits"]:
            path, _, stripe = hit["_source"]["path"].partition("//")
            for holder in hit["_source"]["holders"]:
                found.append([path or "/", holder["mode"], holder["session"], int(stripe or 0)])
        return found

    def documents(self):
        """{id: [[w, fence], ...]}"""
        self.request("POST", "/%s/_refresh" % INDEX, timeout=60)
        found, after = {}, None
        while True:
            body = {"size": 1000, "sort": [{"key": "asc"}], "query": {"match_all": {}}}
            if after:
                body["search_after"] = after
            hits = self.request("POST", "/%s/_search" % INDEX, body, timeout=60)["hits"]["hits"]
            for hit in hits:
                found[hit["_id"]] = [entry.rsplit(":", 1) for entry in hit["_source"]["log"].split()]
            if not hits:
                return found
            after = hits[-1]["sort"]


# ---- Proxies --------------------------------------------------------------------------------------


class Proxies:
    """Counts what the proxies of all clients do, from the records that they write."""

    def __init__(self):
        self.selector, self.counts = selectors.DefaultSelector(), collections.Counter()
        self.requests = 0
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def add(self, stream):
        os.set_blocking(stream.fileno(), False)
        self.selector.register(stream, selectors.EVENT_READ, bytearray())

    def read(self):
        while True:
            for key, _ in self.selector.select(0.2):
                chunk = key.fileobj.read(1 << 16)
                if not chunk:
                    self.selector.unregister(key.fileobj)
                    continue
                key.data.extend(chunk)
                *lines, rest = bytes(key.data).split(b"\n")
                key.data[:] = rest
                for line in lines:
                    self.count(line)

    def count(self, line):
        self.requests += 1
        if b'"rule":"' in line:
            rule = json.loads(line)["rule"].split()
            action = " ".join(word for word in rule if "=" not in word)
            self.counts["in a partition" if rule[0] == "times=0" else action] += 1


class Proxy:
    def __init__(self, program, upstream, seed, rules, counter):
        self.rules = rules
        self.process = subprocess.Popen(
            [program, "--upstream", upstream, "--seed", str(seed), "--record", "/dev/stderr", *rules],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        line = self.process.stdout.readline().decode()
        if not line.startswith("listening on "):
            raise RuntimeError("no proxy: %s" % line)
        self.url = "http://" + line.split()[-1]
        counter.add(self.process.stderr)

    def tell(self, *lines):
        self.process.stdin.write(("\n".join(lines) + "\n").encode())
        self.process.stdin.flush()

    def partition(self, kind):
        if kind == "freeze":
            self.process.send_signal(signal.SIGSTOP)
        else:
            self.tell("clear", "times=0 " + kind)

    def heal(self, weather):
        self.process.send_signal(signal.SIGCONT)
        self.tell("clear", *(self.rules if weather else []))

    def end(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()


# ---- Clients --------------------------------------------------------------------------------------


class Skew:
    """The clocks of one slot's clients (skew.c). What sleeps, CLOCK_MONOTONIC does not see."""

    def __init__(self, file, rng, python):
        with open(file, "wb") as f:
            f.write(bytes(24))
        self.file = file
        with open(file, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), 24)
        lowest = -int(min(500, time.clock_gettime(time.CLOCK_BOOTTIME) / 2))
        # Python gives the kernel deadlines on CLOCK_MONOTONIC, and the kernel knows nothing of the skew.
        self.set(1, 0 if python else int(rng.uniform(lowest, 500) * 1e9))
        self.set(2, int(rng.uniform(lowest, 500) * 1e9))
        self.python = python

    def set(self, which, ns):
        self.map[which * 8:which * 8 + 8] = struct.pack("=q", ns)

    def jump(self, seconds):
        self.set(0, int(seconds * 1e9))

    def slept(self, seconds):
        if not self.python:
            old = struct.unpack("=q", self.map[8:16])[0]
            self.set(1, old - int(seconds * 1e9))


class Client:
    """One process, and its history."""

    def __init__(self, run, slot, generation, ends):
        self.slot, self.who = slot, "%s-%d" % (slot.name, generation)
        self.file = os.path.join(run.folder, "history.%s" % self.who)
        self.errors = os.path.join(run.folder, "errors.%s" % self.who)
        self.killed = False
        rng = random.Random("%s %s" % (run.seed, self.who))
        env = {k: v for k, v in os.environ.items() if not k.startswith("MORTISE_")}
        urls = [proxy.url for proxy in run.proxies[slot.name]]
        rng.shuffle(urls)
        env.update(XDG_CONFIG_HOME=run.folder, MORTISE_SKEW=run.skews[slot.name].file,
                   LD_PRELOAD=run.skew_library, PYTHONDONTWRITEBYTECODE="1",
                   LUA_CPATH=run.build + "/tools/torture.d/?.so;;")
        seed = str(rng.randrange(1 << 31))
        if slot.kind == "python":
            command = ["python3", os.path.join(HERE, "contender.py"), ",".join(urls), self.file, self.who,
                       str(ends), seed, str(slot.tasks), str(slot.lease), "elsewhere" if slot.apart else ""]
        else:
            env.update(MORTISE_STORE=",".join(urls), MORTISE_LEASE="%ds" % slot.lease, MORTISE_TIMEOUT="3s")
            command = [run.program, "run", os.path.join(HERE, "client.lua"), self.file, self.who, str(ends),
                       seed, str(slot.tasks), INDEX]
            if slot.apart and run.namespaces:
                command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *command]
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                                            stdout=errors, stderr=errors, start_new_session=True)
        self.pid = self.process.pid
        if command[0] == "unshare":
            self.pid = self.inner_pid()

    def inner_pid(self):
        for _ in range(500):
            try:
                with open("/proc/%d/task/%d/children" % (self.pid, self.pid), encoding="ascii") as f:
                    children = f.read().split()
                if children:
                    return int(children[0])
            except OSError:
                pass
            time.sleep(0.01)
        return self.pid

    def alive(self):
        return self.process.poll() is None

    def signal(self, number):
        try:
            os.kill(self.pid, number)
            return True
        except ProcessLookupError:
            return False

    def kill(self):
        """-> the moment from which on it believes nothing."""
        self.killed = True
        t = now()
        self.signal(signal.SIGKILL)
        self.process.wait()
        return t

    def whole_history(self):
        """A line that the kill cut off was never written."""
        try:
            with open(self.file, "rb+") as f:
                text = f.read()
                if self.killed and not text.endswith(b"\n"):
                    f.truncate(text.rfind(b"\n") + 1)
        except FileNotFoundError:
            return None
        return self.file

    def complaint(self):
        with open(self.errors, encoding="utf-8", errors="replace") as f:
            return f.read().strip()[-2000:]
