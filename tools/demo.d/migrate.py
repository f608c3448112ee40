#!/usr/bin/env python3
"""The independent party of tools/demo --migrate: it fills an index, writes to it through its alias as a client of the server
does that knows nothing of mortise, and compares in the end what it was told with what is there.

  migrate.py fill URL INDEX LISTING           a document for each line `path TAB size` of the listing, by its number
  migrate.py write URL ALIAS LISTING RATE STOP OUT
      creates, updates, deletes and creates again, RATE times a second, until the file STOP is there; sends again what is
      refused or not answered. OUT gets, as JSON, the last acknowledged state of each document that it wrote, how many
      requests were acknowledged, and for how long any was refused
  migrate.py judge URL ALIAS LISTING OUT      prints a line of figures; fails if any is not 0
"""
import http.client
import json
import os
import random
import sys
import threading
import time
from urllib.parse import urlsplit

THREADS = 4
PAGE = 5000
PATIENCE = 120  # seconds for one write


class Server:
    def __init__(self, url):
        self.where = urlsplit(url).netloc
        self.connection = None

    def ask(self, method, path, body=None, kind="application/json"):
        """-> status, answer; (None, why) if there was no answer"""
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection(self.where, timeout=30)
            self.connection.request(method, path, body, {"content-type": kind} if body is not None else {})
            answer = self.connection.getresponse()
            return answer.status, json.loads(answer.read() or b"{}")
        except (OSError, http.client.HTTPException) as why:
            if self.connection is not None:
                self.connection.close()
            self.connection = None
            return None, str(why)

    def need(self, *what):
        status, answer = self.ask(*what)
        if status is None or status >= 300:
            sys.exit(f"migrate.py: {what[0]} {what[1]}: {status} {str(answer)[:300]}")
        return answer


def listing_of(name):
    with open(name, encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t") for line in lines]


def source_of(path, size, state):
    return {"path": path, "size": size, "state": state}


def fill(url, index, listing):
    server = Server(url)
    files = listing_of(listing)
    for first in range(0, len(files), PAGE):
        lines = []
        for i, (path, size) in enumerate(files[first:first + PAGE], first):
            lines += [json.dumps({"index": {"_id": str(i)}}), json.dumps(source_of(path, size, "first"))]
        answer = server.need("POST", f"/{index}/_bulk", "\n".join(lines) + "\n", "application/x-ndjson")
        if answer["errors"]:
            sys.exit("migrate.py: the server refuses a document")
    server.need("POST", f"/{index}/_refresh")


class Writer(threading.Thread):
    """Writes the documents whose number is its own, modulo THREADS; so the last answer for each is its state."""

    def __init__(self, url, alias, files, number, rate, stop):
        super().__init__()
        self.server, self.alias, self.files, self.number = Server(url), alias, files, number
        self.pause, self.stop = THREADS / rate, stop
        self.states, self.acknowledged, self.refused = {}, 0, []
        self.random, self.why = random.Random(number), None

    def choose(self, n):
        i = self.random.randrange(len(self.files) // THREADS) * THREADS + self.number
        new = self.random.random() < 0.1  # one that was not there at the beginning
        name = f"new-{i}" if new else str(i)
        state = None if self.random.random() < 0.1 else f"w{self.number}-{n}"
        return name, i, state

    def send(self, name, i, state):
        path = f"/{self.alias}/_doc/{name}"
        if state is None:
            return self.server.ask("DELETE", path)
        return self.server.ask("PUT", path, json.dumps(source_of(*self.files[i], state)))

    def write(self, n):
        name, i, state = self.choose(n)
        began, refused_since = time.monotonic(), None
        while True:
            status, answer = self.send(name, i, state)
            if status is not None and (status < 300 or state is None and status == 404):
                break
            refused_since = refused_since or time.time()
            if time.monotonic() - began > PATIENCE:
                raise RuntimeError(f"{name} was refused for {PATIENCE} s: {status} {answer}")
            time.sleep(0.02)
        if refused_since:
            self.refused.append((refused_since, time.time()))
        self.states[name] = state
        self.acknowledged += 1

    def run(self):
        try:
            n = 0
            while not os.path.exists(self.stop):
                n += 1
                began = time.monotonic()
                self.write(n)
                time.sleep(max(0, self.pause - (time.monotonic() - began)))
        except Exception as why:  # told by the main thread
            self.why = why


def together(spans):
    """Seconds in any of the spans."""
    total, end = 0.0, 0.0
    for begin, until in sorted(spans):
        total += max(0.0, until - max(begin, end))
        end = max(end, until)
    return total


def write(url, alias, listing, rate, stop, out):
    files = listing_of(listing)
    writers = [Writer(url, alias, files, k, float(rate), stop) for k in range(THREADS)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    for each in writers:
        if each.why:
            sys.exit(f"migrate.py: a writer failed: {each.why}")
    states = {}
    for each in writers:
        states.update(each.states)
    with open(out, "w", encoding="utf-8") as file:
        json.dump({"states": states, "acknowledged": sum(each.acknowledged for each in writers),
                   "refused": together([span for each in writers for span in each.refused])}, file)


def documents_of(server, alias):
    page = server.need("POST", f"/{alias}/_search?scroll=2m", json.dumps({"size": PAGE, "sort": ["_doc"]}))
    while page["hits"]["hits"]:
        if page["_shards"]["failed"] or page["timed_out"]:
            sys.exit("migrate.py: not all shards answer")
        for hit in page["hits"]["hits"]:
            yield hit["_id"], hit["_source"]
        page = server.need("POST", "/_search/scroll", json.dumps({"scroll": "2m", "scroll_id": page["_scroll_id"]}))


def judge(url, alias, listing, out):
    server = Server(url)
    server.need("POST", f"/{alias}/_refresh")
    files = listing_of(listing)
    with open(out, encoding="utf-8") as file:
        told = json.load(file)
    wanted = {str(i): "first" for i in range(len(files))}
    wanted.update(told["states"])
    lost = stale = resurrected = 0
    seen = set()
    for name, source in documents_of(server, alias):
        seen.add(name)
        state = wanted.get(name)
        path, size = files[int(name.removeprefix("new-"))]
        if state is None:
            resurrected += 1
        elif source.get("state") != state or source.get("path") != path or str(source.get("size")) != size:
            stale += 1
    lost = sum(state is not None and name not in seen for name, state in wanted.items())
    count = sum(state is not None for state in wanted.values())
    print(f"{count} documents: {lost} lost, {stale} stale, {resurrected} resurrected; writes refused for "
          f"{told['refused']:.1f} s")
    print(f"  {told['acknowledged']} writes acknowledged", file=sys.stderr)
    return 1 if lost or stale or resurrected else 0


if __name__ == "__main__":
    commands = {"fill": fill, "write": write, "judge": judge}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    sys.exit(commands[sys.argv[1]](*sys.argv[2:]) or 0)
