"""client.py FILE STOP INDEX WHO CLIENTS DOCUMENTS SEED URLS NAMESPACE: client.lua with the second client of the
protocol (spec/interop)."""
import itertools
import json
import os
import random
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../interop"))
import mortise_client as client  # noqa: E402


class Mover:
    def __init__(self, url, namespace, index, out):
        self.client, self.index, self.out = client.Client(url, namespace=namespace, lease=10.0), index, out

    def note(self, word, number, name):
        self.out.write("%s %d %s\n" % (word, number, name))
        self.out.flush()

    def get(self, number):
        status, answer = self.client.table.request("GET", "/%s/_doc/d%d" % (self.index, number))
        if status != 200:
            raise client.NoAnswer("%d" % status)
        return answer

    def write(self, number, name, doc):
        self.note("try", number, name)
        status, _ = self.client.table.request(
            "PUT", "/%s/_doc/d%d?if_seq_no=%d&if_primary_term=%d" %
            (self.index, number, doc["_seq_no"], doc["_primary_term"]), json.dumps(doc["_source"]))
        if status == 200:
            self.note("did", number, name)

    def rename(self, number, tail):
        path = self.get(number)["_source"]["path"]
        folder, _, name = path.rpartition("/")
        name = "%s-%s" % (name.partition("-")[0], tail)
        with self.client.acquire([path, "%s/%s" % (folder, name)], wait=0.2) as lock:
            doc = self.get(number)
            if doc["_source"]["path"] == path:
                doc["_source"]["path"] = "%s/%s" % (folder, name)
                lock.check()
                self.write(number, name, doc)


def main():
    file, stop, index, who, clients, documents, seed, urls, namespace = sys.argv[1:10]
    who, clients, documents = int(who), int(clients), int(documents)
    rng, urls = random.Random("%s.%d" % (seed, who)), itertools.cycle(urls.split(","))
    with open(file, "w", encoding="utf-8") as out:
        mover = Mover(next(urls), namespace, index, out)
        for count in itertools.count(1):
            if os.path.exists(stop):
                break
            try:
                mover.rename(rng.randrange(who, documents, clients), "%d-%d" % (who, count))
            except (client.LockTimeout, client.LockLost, client.OrphanedJob):
                time.sleep(0.05)
            except client.NoAnswer:
                time.sleep(0.2)
                mover = Mover(next(urls), namespace, index, out)
        mover.client.close()


if __name__ == "__main__":
    main()
