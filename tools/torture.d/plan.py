"""The plan of a run: what goes wrong, when, and for whom, drawn from the seed alone."""
import random

WEATHER = ["drop-request", "drop-answer", "reset", "reset-answer", "cut-request", "cut-answer -3",
           "duplicate", "duplicate 700", "hold 500", "hold 2200", "status 503", "status 429",
           "late-status 504", "item-status 0 429", "item-status 0 503", "item-status 0 409",
           "item-lie 0 503", "slow 2000"]
LATE = ("duplicate", "hold 500")  # late requests find the most bugs, and cost little
PARTITIONS = ["freeze", "drop-request", "drop-answer", "reset"]
SKEW_S = 500


class Slot:
    """Where one client after the other runs."""

    def __init__(self, name, kind, lease, tasks, apart):
        self.name, self.kind, self.lease, self.tasks, self.apart = name, kind, lease, tasks, apart


def slots(rng):
    """Two kinds of mortise clients: those of this machine's pid namespace find each other's dead at once;
    each of those `apart` has one of its own, so that for them and for others only the lease counts."""
    leases = [3, 3, 4, 6]
    rng.shuffle(leases)
    list_ = [Slot("m%d" % (i + 1), "mortise", lease, rng.choice([2, 3]), i >= 2)
             for i, lease in enumerate(leases)]
    return list_ + [Slot("p1", "python", 3, 2, rng.random() < 0.5)]


def every(rng, start, end, mean):
    """Times by chance, `mean` apart."""
    t = start + rng.expovariate(1 / mean)
    while t < end:
        yield t
        t += rng.expovariate(1 / mean)


def how_long(rng, lease):
    """As often shorter than the lease as longer."""
    return rng.uniform(0.2, lease * 0.6) if rng.random() < 0.5 else rng.uniform(lease, lease * 2)


def client_faults(rng, slot, end):
    free = 0  # a client has one fault at a time
    for t in every(rng, 3, end, 9):
        if t < free:
            continue
        action = rng.choice(["kill", "kill", "stop", "stop", "sleep", "partition", "partition", "partition"])
        took = rng.uniform(0.1, 2) if action == "kill" else how_long(rng, slot.lease)
        if action == "sleep":  # a short sleep would be a stop
            took = rng.uniform(slot.lease, slot.lease * 2)
        took = min(took, max(0.2, end + 2 - t))
        kind = rng.choice(PARTITIONS) if action == "partition" else None
        free = t + took + 1
        yield (t, action, slot.name, took, kind)
    for t in every(rng, 1, end, 4):
        yield (t, "jump", slot.name, rng.uniform(-SKEW_S, SKEW_S), None)


def node_faults(rng, nodes, seconds, end):
    """One after the other: never a majority at once. A killed node is back only when the cluster is
    whole again, which the run waits for; so these times are the earliest ones."""
    if nodes < 3:
        return
    t = rng.uniform(6, 9)
    while t < end - 8:
        kill = rng.random() < 0.6 or t < 12
        if kill:
            took = rng.uniform(1, 5)
            yield (t, "kill-node", rng.randint(1, nodes), took, None)
        else:
            took = rng.uniform(30, 45) if seconds >= 300 and rng.random() < 0.15 else rng.uniform(0.5, 6)
            yield (t, "stop-node", rng.randint(1, nodes), took, None)
        t += took + rng.uniform(12, 25)


def make(seed, seconds, nodes):
    """(slots, [(at, action, whom, how long or how far, kind)], rates)."""
    rng = random.Random("torture %d" % seed)
    clients = slots(rng)
    end = seconds * 0.85
    faults = [fault for slot in clients for fault in client_faults(rng, slot, end)]
    faults += node_faults(rng, nodes, seconds, end)
    faults += [(t, "break", None, rng.random(), None) for t in every(rng, 5, end, 20)]
    weather = {slot.name: ["rate=%d %s" % (rng.choice([1, 1, 2]) * (6 if rule.startswith(LATE) else 1), rule)
                           for rule in WEATHER]
               for slot in clients}
    return clients, sorted(faults, key=lambda fault: fault[0]), weather
