"""The runs whose times the figures show: real processes on an embedded store, killed, stopped and continued. Each writes a
small table beside the figures, whose first line says how it came about."""
import contextlib
import datetime
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
LEASE, MARGIN = 10, 1  # seconds; the margin is what a lease of ten seconds has by default
FILL = """
mortise.create_index("fs", {mappings = {properties = {path = {type = "keyword"}}}})
local items = {}
for i = 1, %d do items[i] = {op = "index", id = "d" .. i, doc = {path = "/clinton/" .. i}} end
mortise.bulk("fs", items)
"""


class Program:
    """mortise at work on a store, with what it has said so far."""

    def __init__(self, world, *words, elsewhere=False):
        self.out = pathlib.Path(world.folder, f"said-{len(world.started)}")
        # In a namespace of its own for processes, nobody outside can see whether it lives, as on another machine.
        apart = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"] if elsewhere else []
        with open(self.out, "wb") as out:
            self.process = subprocess.Popen([*apart, world.program, *words], env=world.environment, cwd=world.folder,
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL)

    def said(self):
        """-> [(what, when, more)]"""
        lines = self.out.read_text().splitlines(keepends=True)
        whole = [line.split() for line in lines if re.match(r"\w+ \d+\.\d+ ?.*\n", line)]
        return [(words[0], float(words[1]), " ".join(words[2:])) for words in whole]

    def when(self, what, more=""):
        """Waits until it says that; -> when that was, and the rest."""
        until = time.monotonic() + 120
        while time.monotonic() < until:
            for said, at, rest in self.said():
                if said == what and more in rest:
                    return at, rest
            time.sleep(0.01)
        sys.exit(f"tools/figures: a program does not say {what} {more}: {self.said()[-5:]}")

    def signal(self, number):
        now = time.time()
        self.process.send_signal(number)
        return now

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class World:
    """A store in a folder of its own, and the processes that work on it."""

    def __init__(self, program, documents):
        self.program, self.started = program, []
        self.folder = tempfile.mkdtemp(prefix="mortise-figures.", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.environment = {"PATH": os.environ["PATH"], "HOME": self.folder, "MORTISE_STORE": "sqlite:store.db"}
        self.run("-e", FILL % documents)

    def start(self, *words, **more):
        self.started.append(Program(self, *words, **more))
        return self.started[-1]

    def script(self, name, *words, **more):
        return self.start("run", *words, str(HERE / (name + ".lua")), **more)

    def run(self, *words):
        """-> its status, what it wrote"""
        done = subprocess.run([self.program, *words], env=self.environment, cwd=self.folder, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def close(self):
        for each in self.started:
            each.end()
        shutil.rmtree(self.folder)


@contextlib.contextmanager
def world(program, documents=1):
    made = World(program, documents)
    try:
        yield made
    finally:
        made.close()


def moments(rows, run, zero, program, who):
    """Adds what a program has said; of a deadline, when the heartbeat was sent from which it counts."""
    for what, at, more in program.said():
        if what == "deadline":
            rows.append((run, who, "heartbeat", at_zero(float(more) - LEASE + MARGIN, zero), ""))
        elif not any(row[:3] == (run, who, what) for row in rows):
            rows.append((run, who, what, at_zero(at, zero), more))


def at_zero(at, zero):
    return f"{at - zero:.3f}"


def in_order(rows):
    return sorted(rows, key=lambda row: float(row[3]))


def killed(program, run, elsewhere):
    """The holder dies by SIGKILL while another waits; -> rows"""
    with world(program) as here:
        watch = here.script("watch")
        holder = here.script("holder", "--lease", f"{LEASE}s", elsewhere=elsewhere)
        holder.when("granted")
        time.sleep(4)
        waiter = here.script("waiter", "--lease", f"{LEASE}s")
        waiter.when("asked")
        time.sleep(3)
        end = holder.signal(signal.SIGKILL)
        holder.end()  # a process that nobody has waited for is still to be seen
        waiter.when("released")
        rows = []
        moments(rows, run, end, holder, "holder")
        rows.append((run, "holder", "killed", at_zero(end, end), ""))
        rows.append((run, "waiter", "verdict", at_zero(watch.when("ended", "holder.lua")[0], end), ""))
        moments(rows, run, end, waiter, "waiter")
        return in_order(rows)


def takeover(program):
    rows = killed(program, "elsewhere", True) + killed(program, "here", False)
    return f"a lease of {LEASE} s; the other machine is a namespace for processes", "run,who,what,s,more", rows


def woken(program):
    """The holder is stopped, another gets in after its lease, and it wakes up."""
    with world(program) as here:
        holder = here.script("holder", "--lease", f"{LEASE}s")
        holder.when("granted")
        time.sleep(4)
        stopped = holder.signal(signal.SIGSTOP)
        waiter = here.script("waiter", "--lease", f"{LEASE}s")
        waiter.when("granted")
        time.sleep(1)
        continued = holder.signal(signal.SIGCONT)
        holder.when("refused")
        waiter.when("released")
        rows = []
        moments(rows, "woken", stopped, holder, "holder")
        rows.append(("woken", "holder", "stopped", at_zero(stopped, stopped), ""))
        rows.append(("woken", "holder", "continued", at_zero(continued, stopped), ""))
        moments(rows, "woken", stopped, waiter, "waiter")
        _, said = here.run("-e", "return mortise.get('fs', 'd1').by")
        rows.append(("woken", "document", "has", at_zero(time.time(), stopped), "by " + said.strip().strip('"')))
        return f"a lease of {LEASE} s", "run,who,what,s,more", in_order(rows)


def tree(program):
    with world(program) as here:
        _, said = here.run("run", str(HERE / "holds.lua"))
        return "ann, bob and cleo hold, dan waits", "path,mode,who,what", [line.split(",") for line in said.splitlines()]


def job(program, documents=10000, rate=2000):
    """A rename is killed in the middle, stands, is resumed and rolled back."""
    with world(program, documents) as here:
        counted = here.script("counted")
        rename = here.start("rename", "fs", "/clinton", "/projects/clinton", "--rate", str(rate), "--batch", "100", "--yes")
        begun = time.time()
        while not any(more != "0" for _, _, more in counted.said()):
            time.sleep(0.01)
        time.sleep(2)
        events = [("killed", rename.signal(signal.SIGKILL))]
        rename.end()
        time.sleep(1)
        _, said = here.run("lock", "/clinton/7", "--wait", "0", "--", "true")
        events.append(("orphaned_job" if "orphaned_job" in said else "let in", time.time()))
        time.sleep(1)
        name = re.search(r"rename-[0-9a-f]+", here.run("jobs")[1]).group()
        for verb in (["resume", name], ["rollback", name, "--yes"]):
            events.append((verb[0], time.time()))
            here.run("jobs", *verb)
            events.append((verb[0] + " done", time.time()))
            time.sleep(1)
        rows = [("documents", at_zero(at, begun), more) for _, at, more in counted.said() if at >= begun - 0.5]
        rows += [(what, at_zero(at, begun), "") for what, at in events]
        return f"{documents} documents, {rate} a second", "what,s,documents", rows


RUNS = {"takeover": takeover, "woken": woken, "tree": tree, "job": job}


def measure(program, folder, names):
    for name in names or RUNS:
        about, columns, rows = RUNS[name](program)
        origin = (f"# tools/figures --measure {name}, {datetime.date.today()}, on an embedded store in memory, "
                  f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}: {about}")
        text = "\n".join([origin, columns, *(",".join(row) for row in rows)]) + "\n"
        (folder / (name + ".csv")).write_text(text)
        print(f"{folder / name}.csv")
