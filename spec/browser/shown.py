"""A board, and what it shows, for tests and pictures: processes that are ended with their `with`."""
import os
import pathlib
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request

from chromium import Failure

HERE = pathlib.Path(__file__).parent
PROGRAM = str(pathlib.Path(os.environ.get("MORTISE_BIN", "mortise")).absolute())


class Running:
    """A program of ours, with what it has said."""

    def __init__(self, words, environment, folder=None):
        self.folder = tempfile.mkdtemp(prefix="mortise-board.")
        self.out, self.err = (open(os.path.join(self.folder, name), "wb") for name in ("out", "err"))
        self.process = subprocess.Popen(words, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                                        stdout=self.out, stderr=self.err, cwd=folder, start_new_session=True)

    def said(self, name="out"):
        return pathlib.Path(self.folder, name).read_text(errors="replace")

    def wait_for(self, pattern, seconds=60):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found = re.search(pattern, self.said())
            if found:
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise Failure(f"{pattern} was not said: {self.said()} {self.said('err')}")

    def kill(self, how=signal.SIGKILL):
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def close(self):
        self.kill(signal.SIGINT)
        self.out.close()
        self.err.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class World(Running):
    """What world.lua makes, in a namespace of its own."""

    def __init__(self, store, kind="plain", namespace=None, rate=8, documents=4000, folder=None):
        self.work_in = folder
        self.store, self.namespace = store, namespace or "board-" + secrets.token_hex(4)
        self.environment = {"MORTISE_STORE": store, "MORTISE_NAMESPACE": self.namespace}
        subprocess.run([PROGRAM, "init"], env={**os.environ, **self.environment}, check=True,
                       stdout=subprocess.DEVNULL, timeout=60, cwd=folder)
        self.index = "fs" if namespace else self.namespace + "-fs"
        super().__init__([PROGRAM, "run", str(HERE / "world.lua"), kind, self.index,
                          str(rate), str(documents)], self.environment, folder)
        self.wait_for("ready")

    def close(self):
        super().close()
        if self.store.startswith("http"):
            for name in (self.index, self.index + "-2"):
                request = urllib.request.Request(f"{self.store}/{name}?ignore_unavailable=true", method="DELETE")
                urllib.request.urlopen(request, timeout=20).close()


class Board(Running):
    def __init__(self, world, port=0, control=False):
        words = [PROGRAM, "board", "--listen", f"127.0.0.1:{port}"]
        self.token, token_file = None, None
        if control:
            token_file = tempfile.mktemp(prefix="mortise-board-token.")
            words += ["--control", "--token-file", token_file]
        super().__init__(words, world.environment, world.work_in)
        self.url = self.wait_for(r"http://[\d.]+:\d+/")[0]
        self.port = int(re.search(r":(\d+)/", self.url)[1])
        if control:
            self.token = pathlib.Path(token_file).read_text().strip()
