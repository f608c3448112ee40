#!/usr/bin/env python3
"""mortise against the second client (mortise_client.py), on each server of MORTISE_TEST_URLS.

    MORTISE_BIN=... MORTISE_TEST_URLS=http://... interop_test.py [SECONDS]

Both contend for overlapping trees for SECONDS (20), and each takes over from the other's dead. Prints
`ok - ...` or `not ok - ...` for each test; the exit status says whether all passed. SEED in the
environment repeats the random choices of a run.
"""
import itertools
import json
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
HISTORY = os.path.join(os.path.dirname(HERE), "history")
sys.path.append(HISTORY)
import mortise_client as client  # noqa: E402
import record  # noqa: E402

PROGRAM = os.environ.get("MORTISE_BIN", "")
MARGIN_MS = 300  # of mortise's sessions here
PATHS = ["/"] + [p for a in "abc" for p in
                 ["/" + a] + ["/%s/%s%s" % (a, b, c) for b in "xyz" for c in ("", "/1")]]
failed = 0


def report(good, name, detail=""):
    global failed
    failed += not good
    print("%s - %s%s" % ("ok" if good else "not ok", name, " (%s)" % detail if detail else ""),
          flush=True)


def now_ms():
    return int(client.now() * 1000)


# ---- The Python side, as processes of its own -----------------------------------------------------


def contend_once(mine, recorder, rng):
    path = PATHS[max(rng.randrange(len(PATHS)), rng.randrange(len(PATHS)))]
    name, lock = recorder.acquire(client, [path], "S" if rng.random() < 0.3 else "X", 30)
    if lock is None:
        raise RuntimeError("%s was not had on %s" % (name, path))
    for _ in range(rng.randint(0, 3)):
        time.sleep(rng.uniform(0.001, 0.015))
    recorder.sure(name, lock)
    recorder.release(client, name, lock)
    time.sleep(rng.uniform(0, 0.01))


def contend_thread(store, table, who, task, ends, rng, out, errors):
    mine = client.Client(store, table)
    recorder = record.Recorder(mine, out.append, who, task, itertools.count(1), lambda: now_ms() * 1000)
    try:
        while client.now() < ends:
            contend_once(mine, recorder, rng)
    except Exception as why:  # a thread's end must be seen
        errors.append("%s: %r" % (who, why))
    finally:
        mine.close()


def child_contend(store, table, file, who, seconds, seed, threads):
    out, errors, ends = [], [], client.now() + float(seconds)
    work = [threading.Thread(target=contend_thread, args=(
        store, table, who, i, ends, random.Random("%s.%d" % (seed, i)), out, errors))
        for i in range(int(threads))]
    for each in work:
        each.start()
    for each in work:
        each.join()
    with open(file, "w", encoding="utf-8") as f:
        f.writelines(out)
    if errors:
        sys.exit("\n".join(errors))


def child_hold(store, table, path, mode, lease, host):
    """As hold.lua."""
    mine = client.Client(store, table, lease=float(lease), margin=MARGIN_MS / 1000, host=host or None)
    lock = mine.acquire(path, "S" if mode == "shared" else "X", 30)
    print("held %d" % lock.fence, flush=True)
    sys.stdin.readline()
    try:
        lock.check()
        print("still", flush=True)
    except client.LockLost:
        print("lock_lost", flush=True)
    lock.release()
    print("released", flush=True)
    mine.close()


def child_job(store, table, path, job, verb):
    """As job.lua."""
    mine = client.Client(store, table, lease=60.0, margin=MARGIN_MS / 1000, job=job or None)
    try:
        lock = mine.acquire(path, wait=20, adopts=verb == "adopt")
    except client.OrphanedJob as why:
        print("orphaned_job %s" % why.job, flush=True)
        mine.close()
        return
    print("held %d" % lock.fence, flush=True)
    sys.stdin.readline()
    lock.check()
    if verb == "adopt":
        lock.release()
    mine.close()  # which leaves what it holds, as the job's guard
    print("left", flush=True)


def child_break(store, table, session, lease):
    client.Client(store, table, lease=float(lease), margin=MARGIN_MS / 1000).break_session(session)
    print("broken", flush=True)


# ---- Processes ------------------------------------------------------------------------------------


class Process:
    """A child whose lines are read as they come."""

    def __init__(self, command, env=None):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=env)
        self.lines, self.errors = queue.Queue(), []
        self.readers = [threading.Thread(target=self.read, args=(f, put), daemon=True) for f, put in (
            (self.process.stdout, self.lines.put), (self.process.stderr, self.errors.append))]
        for each in self.readers:
            each.start()

    @staticmethod
    def read(file, put):
        for line in file:
            put(line.strip())

    def line(self, timeout=20):
        """The next line it writes; says what it complained of where none comes."""
        try:
            return self.lines.get(timeout=timeout)
        except queue.Empty:
            return "nothing (%s)" % " ".join(self.errors)

    def held(self, timeout=20):
        """The fence; 0 where it says something else."""
        word, _, fence = self.line(timeout).partition(" ")
        return int(fence) if word == "held" else 0

    def let_go(self):
        """What it says of its lock."""
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except OSError:
            pass
        return self.line()

    def signal(self, number):
        self.process.send_signal(number)

    def end(self, timeout=20):
        """Its exit status, once all that it wrote is read."""
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        for each in self.readers:
            each.join(timeout)
        return status

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait()
        return client.now()


class Stage:
    """One server, with a table of our own."""

    def __init__(self, url, folder, seed):
        self.url, self.folder, self.seed = url, folder, seed
        self.table = "interop-%s" % os.urandom(4).hex()
        self.store = client.Table(url, self.table, "default")
        self.processes = []

    def start(self, command, **env):
        # Nothing of the caller's own settings.
        clean = {k: v for k, v in os.environ.items() if not k.startswith("MORTISE_")}
        clean.update(XDG_CONFIG_HOME=self.folder, MORTISE_STORE=self.url, MORTISE_TABLE=self.table,
                     PYTHONDONTWRITEBYTECODE="1", **env)
        self.processes.append(Process(command, clean))
        return self.processes[-1]

    def mortise(self, *args, lease=60):
        return self.start([PROGRAM, *map(str, args)], MORTISE_LEASE="%ss" % lease,
                          MORTISE_MARGIN="%dms" % MARGIN_MS)

    def make(self, stripes, meta=None):
        """The table, with this in its _meta besides."""
        init = self.mortise("init", "--stripes", stripes)
        if init.end():
            raise RuntimeError("mortise init: %s" % " ".join(init.errors))
        if not meta:
            return
        _, answer = self.store.request("GET", "/%s" % self.table)
        mappings = next(iter(answer.values()))["mappings"]
        body = json.dumps({"_meta": dict(mappings["_meta"], **meta)})
        status, answer = self.store.request("PUT", "/%s/_mapping" % self.table, body.encode())
        if status != 200:
            raise RuntimeError("_mapping: status %d: %s" % (status, answer))

    def python(self, what, *args):
        return self.start([sys.executable, os.path.abspath(__file__), what, self.url, self.table,
                           *map(str, args)])

    def hold(self, side, path, mode="exclusive", lease=60, host=""):
        if side == "mortise":
            return self.mortise("run", os.path.join(HERE, "hold.lua"), path, mode, lease=lease)
        return self.python("hold", path, mode, lease, host)

    def job(self, side, path, job, verb):
        if side == "mortise":
            return self.mortise("run", os.path.join(HERE, "job.lua"), path, job, verb)
        return self.python("job", path, job, verb)

    def entries(self, path, field):
        """Of a lock's documents, as they are now."""
        found = self.store.locks(self.store.names(path))
        return [entry for doc in found.values() for entry in doc.get(field, [])]

    def wait_broken(self, session):
        """Until it is marked."""
        ends = client.now() + 10
        while client.now() < ends:
            _, doc = self.store.session(session)
            if doc and doc["state"] == "broken":
                return True
            time.sleep(0.01)
        return False

    def wait_queue(self, path, length):
        """Until so many stand in a path's queue."""
        ends = client.now() + 10
        while client.now() < ends:
            if len(self.entries(path, "queue")) >= length:
                return True
            time.sleep(0.01)
        return False

    def clean(self):
        for each in self.processes:
            if each.process.poll() is None:
                each.signal(signal.SIGCONT)
                each.kill()
        self.store.request("DELETE", "/%s-*?expand_wildcards=all" % self.table)  # it is hidden


# ---- Tests ----------------------------------------------------------------------------------------


def test_contention(stage, seconds):
    files, work = [], []
    for i in range(2):
        for side in ("mortise", "python"):
            who, seed = "%s%d" % (side, i), stage.seed * 10 + i
            files.append(os.path.join(stage.folder, who))
            if side == "mortise":
                work.append(stage.mortise("run", os.path.join(HERE, "contend.lua"),
                                          HISTORY, files[-1], who, seconds, seed, 2))
            else:
                work.append(stage.python("contend", files[-1], who, seconds, seed, 2))
    wrong = [" ".join(each.errors) for each in work if each.end(seconds + 60)]
    if wrong:
        report(False, "contention: a process failed", "; ".join(wrong))
        return
    count = {side: sum('"acquire"' in line and '"ok"' in line for file in files
                       if os.path.basename(file).startswith(side) for line in open(file, encoding="utf-8"))
             for side in ("mortise", "python")}
    judge = subprocess.run(["lua5.4", os.path.join(HISTORY, "check.lua"), *files], capture_output=True,
                           text=True, check=False)
    report(judge.returncode == 0, "no two incompatible holds at once, and fences grow", judge.returncode and
           judge.stdout or "%d s, mortise %d holds, Python %d" % (seconds, count["mortise"], count["python"]))
    report(min(count.values()) >= seconds, "both make progress")


def test_at_once(stage, dead, heir):
    """Same host, killed: no waiting for a lease of a minute."""
    victim = stage.hold(dead, "/t/%s" % dead)
    fence = victim.held()
    killed = victim.kill()
    next_one = stage.hold(heir, "/t/%s/x" % dead)
    after = next_one.held()
    took = client.now() - killed
    report(0 < fence < after and took < 5, "%s takes over at once from a killed %s" % (heir, dead),
           "%.2f s" % took)
    report(next_one.let_go() == "still", "and holds it")


def test_after_lease(stage, dead, heir, lease=3):
    """Another host's, killed: its lease from the first look on, and not before it could still write."""
    victim = stage.hold(dead, "/l", lease=lease, host="elsewhere" if dead == "python" else "")
    fence = victim.held()
    killed = victim.kill()
    next_one = stage.hold(heir, "/l/x", host="elsewhere" if heir == "python" else "")
    after = next_one.held(lease + 10)
    took = client.now() - killed
    report(0 < fence < after and lease - lease / 6 <= took < lease + 4,
           "%s takes over from a silent %s after its lease" % (heir, dead), "%.2f s" % took)
    next_one.let_go()


def test_stopped(stage, asleep, heir, lease=3):
    """One that sleeps past its lease and wakes up: it knows, and harms nobody."""
    sleeper = stage.hold(asleep, "/s", lease=lease)
    fence = sleeper.held()
    sleeper.signal(signal.SIGSTOP)
    next_one = stage.hold(heir, "/s")
    after = next_one.held(lease + 10)
    sleeper.signal(signal.SIGCONT)
    says = sleeper.let_go()
    sleeper.end()
    report(0 < fence < after and says == "lock_lost",
           "%s, stopped past its lease, knows that %s has its lock" % (asleep, heir), says)
    kept = len(stage.entries("/s", "holders"))
    report(kept == len(stage.store.names("/s")) and next_one.let_go() == "still",
           "and does not take it away")


def test_broken(stage, victim, breaker, lease=3):
    """One whose heartbeat goes on is broken by hand: it knows before another gets in."""
    holder = stage.hold(victim, "/k", lease=lease)
    fence = holder.held()
    entry = (stage.entries("/k", "holders") or [{"session": "-", "n": 0}])[0]
    next_one = stage.hold(victim, "/k/x")
    waits = stage.wait_queue("/k", 1)
    if breaker == "mortise":
        shown = "%s/%d" % (entry["session"][:8], entry["n"])
        work = stage.mortise("locks", "break", "/k", "--hold", shown, "--yes", lease=lease)
    else:
        work = stage.python("break", entry["session"], lease)
    marked = stage.wait_broken(entry["session"])
    began = client.now()
    time.sleep(lease / 2)
    early, says = not next_one.lines.empty(), holder.let_go()
    after = next_one.held(lease + 10)
    took = client.now() - began
    report(waits and marked and 0 < fence < after and not early and says == "lock_lost" and took < lease + 4,
           "%s breaks the lock of %s, who knows before another has it" % (breaker, victim),
           "%.2f s, %s" % (took, says))
    good = work.end() == 0
    report(next_one.let_go() == "still" and good, "and it ends well", " ".join(work.errors[-1:]))


def test_queue(stage, waits, passes):
    """A waiter is not overtaken by one that comes later, at a path without stripes."""
    other = stage.hold(passes, "/q/q")
    first = other.held()
    waiter = stage.hold(waits, "/q/q")
    queued = stage.wait_queue("/q/q", 1)
    newcomer = stage.hold(passes, "/q/q/sub")
    queued = queued and stage.wait_queue("/q/q", 2)
    other.let_go()
    second = waiter.held()
    time.sleep(0.5)
    early = not newcomer.lines.empty()
    waiter.let_go()
    third = newcomer.held()
    newcomer.let_go()
    report(queued and not early and 0 < first < second < third,
           "a queued %s is not overtaken by %s" % (waits, passes))


def test_shared(stage):
    both = [stage.hold(side, "/r", "shared") for side in ("mortise", "python")]
    fences = [each.held() for each in both]
    writer = stage.hold("python", "/r/w")
    waits = stage.wait_queue("/r", 1)
    listing = stage.mortise("locks", "--all")
    listing.end()
    text = "\n".join(listing.lines.queue)
    report(all(fences) and waits and writer.lines.empty(), "both hold a shared lock, a writer waits")
    report("mortise_client.py" in text, "mortise locks shows the other client")
    says = [each.let_go() for each in both]
    report(says == ["still"] * 2 and writer.held() > max(fences), "the writer comes after both")
    writer.let_go()


def test_job(stage, one, other):
    """`one` is a job that dies, and `other` learns of it, then adopts its lock."""
    for way in "leaves", "is killed":
        dead = stage.job(one, "/j/k", "job-%s" % one, "take")
        first = dead.held()
        if way == "is killed":
            dead.kill()
        else:
            dead.let_go()
        told = stage.job(other, "/j/k/l", "", "take")
        said = told.line()
        told.end()
        heir = stage.job(other, "/j/k", "job-%s" % one, "adopt")
        second = heir.held()
        kept = [e.get("job") for path in ("/", "/j", "/j/k") for e in stage.entries(path, "holders")]
        heir.let_go()
        report(said == "orphaned_job job-%s" % one and 0 < first < second and kept == ["job-%s" % one] * 3,
               "a job of %s %s: %s is told, and adopts its lock" % (one, way, other), said)
        free = stage.hold(one, "/j")
        report(free.held() > second, "and gives it back")
        free.let_go()


def random_name(rng):
    pieces = ["/", "a", "b", ".", "..", "%", "%2F", "\\n", " ", "\n", "\x1b", "\x7f", "\x85", "\u00a0",
              "\u061c", "\u200d", "\u200e", "\u2028", "\u202e", "\u2069", "\u206a", "\u96ea", "\U0001f600"]
    return "".join(rng.choice(pieces) for _ in range(rng.randint(1, 4)))


def locked_path(text):
    try:
        return client.check_path(text)
    except ValueError:
        return False


def test_paths(stage, rng, count=100):
    names = [random_name(rng) for _ in range(count)]
    names += ["/" + name for name in names]
    asked = stage.mortise("run", os.path.join(HERE, "paths.lua"), *[n.encode().hex() for n in names])
    asked.end(60)
    answers = [json.loads(asked.line()) for _ in names]
    wrong = [name for name, (named, tree) in zip(names, answers)
             if named != "/_named/c/" + client.segment(name.encode()) or tree != locked_path(name)]
    report(not wrong, "both make the same paths of the same names, and refuse the same", repr(wrong[:3])
           if wrong else "")


def test_empty(stage):
    for each in stage.processes:
        each.end()
    stage.store.request("POST", "/%s/_refresh" % stage.table)
    docs = [doc for _, doc in stage.store.scroll({"match_all": {}})]
    left = [d for d in docs if d["kind"] == "lock" or d["state"] == "live"]
    report(docs and not left, "nothing is left in the table but ended sessions", str(left or ""))


def refusal(mine, path, kind=RuntimeError):
    try:
        mine.acquire(path).release()
        return None
    except kind as why:
        return str(why) or repr(why)


def test_unverified(stage):
    """Whose first look at the table has no answer does not lock by a number that it only supposes."""
    def silent():
        raise client.NoAnswer("lost on its way")

    mine = client.Client(stage.url, stage.table, lease=3.0)
    verify, mine.table.verify = mine.table.verify, silent
    refused = refusal(mine, "/t", client.NoAnswer)
    mine.table.verify = verify
    lock = mine.acquire("/t")
    held = stage.entries("/t", "holders")
    lock.release()
    mine.close()
    report(refused and len(held) == stage.store.stripes, "a table is verified before its first lock, or no lock",
           "%s; %d of %d stripes" % (refused, len(held), stage.store.stripes))


def test_tables(url, folder, seed):
    """What is no table that it knows is refused before anything is locked in it."""
    wrong = {"a newer format": {"format": 3, "stripes": 3}, "no number of stripes": {"format": 2},
             "65 stripes": {"format": 2, "stripes": 65}, "a copy": {"uuid": "A" * 22}}
    for what, meta in wrong.items():
        stage = Stage(url, folder, seed)
        try:
            stage.make(1, meta)
            mine = client.Client(url, stage.table, lease=3.0)
            refused = [refusal(mine, "/a"), refusal(mine, "/a")]
            report(all(refused) and not stage.store.locks(stage.store.names("/a")),
                   "Python refuses a table, however often: %s" % what, str(refused))
        finally:
            stage.clean()


def test_server(url, seconds, seed, stripes):
    sides = (("python", "mortise"), ("mortise", "python"))
    with tempfile.TemporaryDirectory(prefix="mortise-interop.") as folder:
        stage = Stage(url, folder, seed)
        try:
            stage.make(stripes)
            stage.store.verify()
            test_contention(stage, seconds)
            test_shared(stage)
            test_paths(stage, random.Random(seed))
            test_unverified(stage)
            for one, other in sides:
                test_queue(stage, one, other)
                test_at_once(stage, one, other)
                test_after_lease(stage, one, other)
                test_stopped(stage, one, other)
                test_broken(stage, one, other)
                test_job(stage, one, other)
            test_empty(stage)
        finally:
            stage.clean()
        if stripes == 1:
            test_tables(url, folder, seed)


def main():
    urls = [u for u in os.environ.get("MORTISE_TEST_URLS", "").split(",") if u]
    if not urls:
        print("SKIP interop: MORTISE_TEST_URLS names no server")
        return
    if not os.access(PROGRAM, os.X_OK):
        sys.exit("not ok - there is no program MORTISE_BIN=%s" % PROGRAM)
    seed = int(os.environ.get("SEED") or random.randrange(1 << 30))
    print("SEED=%d" % seed)
    for url, stripes in [(url, stripes) for url in urls for stripes in (1, 3)]:
        print("# %s, %s" % (url, "%d stripes" % stripes if stripes > 1 else "without stripes"))
        test_server(url, int(sys.argv[1]) if len(sys.argv) > 1 else 20, seed, stripes)
    sys.exit(failed > 0)


CHILDREN = {"contend": child_contend, "hold": child_hold, "break": child_break, "job": child_job}
if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in CHILDREN:
        CHILDREN[sys.argv[1]](*sys.argv[2:])
    else:
        main()
