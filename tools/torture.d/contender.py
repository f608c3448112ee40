"""contender.py URL FILE WHO END SEED THREADS LEASE HOST: the second client of the protocol (spec/interop)
as a client of tools/torture, recorded as client.lua is. HOST: its machine's name, or empty."""
import itertools
import json
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../spec/interop"))
import mortise_client as client

PATHS = ["/", "/a", "/b", "/c", "/d"] + [a + b + c for a in ("/a", "/b", "/c", "/d")
                                          for b in ("/x", "/y", "/z") for c in ("", "/1")]


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) // 1000


class Contender:
    """One thread with a session of its own."""

    def __init__(self, url, out, who, task, lease, host, seed, numbers):
        self.client = client.Client(url, lease=lease, margin=lease / 10, host=host or None)
        self.out, self.who, self.task, self.numbers = out, who, task, numbers
        self.rng = random.Random("%s.%d.%d" % (seed, task, next(numbers)))

    def say(self, t, op, outcome=None, **event):
        event = {k: v for k, v in event.items() if v is not None}
        event.update({"t": t, "who": self.who, "task": self.task, "op": op})
        if outcome:
            event["is"] = outcome
        self.out(json.dumps(event, separators=(",", ":")) + "\n")

    def deadline(self, lock, t):
        left = lock.remaining()
        return t + int(left * 1e6) if left > 0 else None

    def acquire(self):
        """(id, lock); the lock None where it was not had."""
        name = "%s.%d.%d" % (self.who, self.task, next(self.numbers))
        mode = "S" if self.rng.random() < 0.3 else "X"
        paths = {PATHS[max(self.rng.randrange(len(PATHS)), self.rng.randrange(len(PATHS)))]
                 for _ in range(self.rng.choice([1, 1, 2]))}
        self.say(now(), "acquire", "invoke", id=name, locks=[[p, mode] for p in sorted(paths)])
        try:
            lock = self.client.acquire(sorted(paths), mode, self.rng.choice([0, 0.1, 1, 5]))
        except client.LockTimeout:
            self.say(now(), "acquire", "fail", id=name)
            return name, None
        except (client.LockLost, client.NoAnswer) as why:
            self.say(now(), "acquire", "unknown", id=name, code=type(why).__name__)
            return name, None
        t = now()
        self.say(t, "acquire", "ok", id=name, fence=str(lock.fence), until=self.deadline(lock, t),
                 session=lock.session.id)
        return name, lock

    def hold(self, name, lock):
        try:
            for _ in range(self.rng.randint(1, 4)):
                time.sleep(self.rng.uniform(0, 0.03))
                t = now()
                lock.check()
                self.say(t, "sure", id=name, until=self.deadline(lock, t))
        except client.LockLost:
            self.say(now(), "lost", id=name)

    def once(self):
        name, lock = self.acquire()
        if lock is None:
            time.sleep(self.rng.uniform(0, 0.1))
            return
        self.hold(name, lock)
        self.say(now(), "release", "invoke", id=name)
        try:
            lock.release()
            self.say(now(), "release", "ok", id=name)
        except (client.LockLost, client.NoAnswer):
            self.say(now(), "release", "unknown", id=name)

    def run(self, ends):
        while now() < ends:
            self.once()
        self.client.close()


def work(ends, errors, *arguments):
    # The session may not be had while its node is away: begin again.
    numbers = itertools.count(1)
    while now() < ends:
        try:
            Contender(*arguments, numbers).run(ends)
            return
        except client.NoAnswer:
            time.sleep(0.1)
        except Exception as why:  # a thread's end must be seen
            errors.append(repr(why))
            raise


def main():
    url, file, who, ends, seed, threads, lease, host = sys.argv[1:9]
    errors, mutex = [], threading.Lock()
    with open(file, "w", encoding="utf-8", buffering=1) as f:
        def out(line):
            with mutex:
                f.write(line)
        threads = [threading.Thread(target=work, args=(
            int(ends), errors, url, out, who, i, float(lease), host, seed)) for i in range(int(threads))]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    sys.exit("; ".join(errors) or 0)


if __name__ == "__main__":
    main()
