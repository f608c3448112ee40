"""Takes locks with the second client (spec/interop) and writes down what happens, as check.lua reads it.
See record.lua."""
import json
import time


def raw_us():
    """Microseconds on a clock that nobody sets."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) // 1000


class Recorder:
    """Of one thread with a client of its own. `out` takes a line; `numbers` counts on for one `task`."""

    def __init__(self, client, out, who, task, numbers, now=raw_us):
        self.client, self.out, self.now = client, out, now
        self.who, self.task, self.numbers = who, task, numbers

    def say(self, t, op, outcome=None, **event):
        event = {k: v for k, v in event.items() if v is not None}
        event.update({"t": t, "who": self.who, "task": self.task, "op": op})
        if outcome:
            event["is"] = outcome
        self.out(json.dumps(event, separators=(",", ":")) + "\n")

    @staticmethod
    def deadline(lock, t):
        """What is left of the lease counts from before it is asked for. Nothing left is no belief."""
        left = lock.remaining()
        return t + int(left * 1e6) if left > 0 else None

    def acquire(self, module, paths, mode, wait):
        """(id, lock); the lock is None where it was not had. `module` is mortise_client."""
        name = "%s.%d.%d" % (self.who, self.task, next(self.numbers))
        self.say(self.now(), "acquire", "invoke", id=name, locks=[[path, mode] for path in paths])
        try:
            lock = self.client.acquire(paths, mode, wait)
        except Exception as why:
            outcome = "fail" if isinstance(why, module.LockTimeout) else "unknown"
            self.say(self.now(), "acquire", outcome, id=name, code=type(why).__name__)
            if isinstance(why, (module.LockTimeout, module.LockLost, module.NoAnswer)):
                return name, None
            raise
        t = self.now()
        self.say(t, "acquire", "ok", id=name, fence=str(lock.fence), until=self.deadline(lock, t),
                 session=lock.session.id)
        return name, lock

    def sure(self, name, lock):
        """Raises LockLost."""
        t = self.now()
        lock.check()
        self.say(t, "sure", id=name, until=self.deadline(lock, t))

    def lost(self, name):
        self.say(self.now(), "lost", id=name)

    def release(self, module, name, lock):
        self.say(self.now(), "release", "invoke", id=name)
        try:
            lock.release()
            self.say(self.now(), "release", "ok", id=name)
        except (module.LockLost, module.NoAnswer):
            self.say(self.now(), "release", "unknown", id=name)
