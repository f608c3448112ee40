"""contender.py URLS FILE WHO END SEED THREADS LEASE HOST: the second client of the protocol (spec/interop)
as a client of tools/torture, recorded as client.lua is. HOST: its machine's name, or empty."""
import itertools
import os
import random
import sys
import threading
import time

SPEC = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../spec")
sys.path[:0] = [os.path.join(SPEC, "interop"), os.path.join(SPEC, "history")]
import mortise_client as client  # noqa: E402
import record  # noqa: E402

TOPS = ["/a", "/b", "/c", "/d"]
DEEP = [a + b + c for a in TOPS for b in ("/x", "/y", "/z") for c in ("", "/1")]


class Contender:
    """One thread with a session of its own."""

    def __init__(self, url, out, who, task, lease, host, seed, numbers):
        self.client = client.Client(url, lease=lease, margin=lease / 10, host=host or None)
        self.recorder = record.Recorder(self.client, out, who, task, numbers)
        self.rng = random.Random("%s.%d.%d" % (seed, task, next(numbers)))
        self.missed = 0  # locks in a row that it did not get

    def hold(self, name, lock):
        try:
            for _ in range(self.rng.randint(1, 4)):
                time.sleep(self.rng.uniform(0, 0.03))
                self.recorder.sure(name, lock)
        except client.LockLost:
            self.recorder.lost(name)

    def once(self):
        paths = {self.rng.choice(self.rng.choices((["/"], TOPS, DEEP), (4, 21, 75))[0])
                 for _ in range(self.rng.choice([1, 1, 2]))}
        mode, wait = "S" if self.rng.random() < 0.3 else "X", self.rng.choice([0, 0.1, 1, 5])
        name, lock = self.recorder.acquire(client, sorted(paths), mode, wait)
        self.missed = 0 if lock else self.missed + 1
        if lock is None:
            time.sleep(self.rng.uniform(0, 0.1))
            return
        self.hold(name, lock)
        self.recorder.release(client, name, lock)

    def run(self, ends):
        while record.raw_us() < ends and self.missed < 3:
            self.once()
        self.client.close()


def work(ends, errors, urls, *arguments):
    # It talks to one node at a time, and to another one while that node is down.
    numbers = itertools.count(1)
    for url in itertools.cycle(urls):
        if record.raw_us() >= ends:
            return
        try:
            Contender(url, *arguments, numbers).run(ends)
        except client.NoAnswer:
            time.sleep(0.1)
        except Exception as why:  # a thread must not end without a word
            errors.append(repr(why))
            raise


def main():
    urls, file, who, ends, seed, threads, lease, host = sys.argv[1:9]
    errors, mutex = [], threading.Lock()
    with open(file, "w", encoding="utf-8", buffering=1) as f:
        def out(line):
            with mutex:
                f.write(line)
        threads = [threading.Thread(target=work, args=(
            int(ends), errors, urls.split(","), out, who, i, float(lease), host, seed))
            for i in range(int(threads))]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    sys.exit("; ".join(errors) or 0)


if __name__ == "__main__":
    main()
