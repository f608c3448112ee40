"""A headless Chromium, driven through its DevTools protocol over a pipe: no package but Debian's chromium."""
import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

LINES_MOST = 16 * 1024 * 1024


class Failure(Exception):
    pass


def program():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    raise Failure("chromium is missing: `tools/setup test` installs it")


class Browser:
    """One process, with a profile of its own that is removed at the end."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="mortise-browser.")
        to_browser, self.write_to = os.pipe()
        self.read_from, from_browser = os.pipe()
        words = [program(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--disable-extensions", "--disable-background-networking", "--disable-component-update",
                 "--disable-sync", "--no-first-run", "--no-default-browser-check", "--hide-scrollbars",
                 "--force-color-profile=srgb", "--remote-debugging-pipe",
                 f"--user-data-dir={self.folder}", "about:blank"]

        def pipes():  # the protocol's: 3 is read, 4 is written
            low, high = os.dup(to_browser), os.dup(from_browser)
            low, high = os.dup2(low, 30), os.dup2(high, 31)
            os.dup2(30, 3)
            os.dup2(31, 4)

        self.process = subprocess.Popen(words, preexec_fn=pipes, close_fds=False, start_new_session=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.last, self.answers, self.events = b"", 0, {}, []

    def _read(self, until):
        """One message into `answers` or `events`; False: there was none in time."""
        while b"\0" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.read_from], [], [], left)[0]:
                return False
            more = os.read(self.read_from, 1 << 16)
            if not more:
                raise Failure("chromium has ended")
            self.buffer += more
            if len(self.buffer) > LINES_MOST:
                raise Failure("chromium sends too much")
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        if "id" in message:
            self.answers[message["id"]] = message
        else:
            self.events.append(message)
        return True

    def call(self, method, parameters=None, session=None, wait=30):
        self.last += 1
        number, message = self.last, {"id": self.last, "method": method, "params": parameters or {}}
        if session:
            message["sessionId"] = session
        os.write(self.write_to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + wait
        while number not in self.answers:
            if not self._read(until):
                raise Failure(f"{method}: chromium did not answer within {wait} s")
        answer = self.answers.pop(number)
        if "error" in answer:
            raise Failure(f"{method}: {answer['error'].get('message')}")
        return answer.get("result", {})

    def drain(self, seconds=0.0):
        until = time.monotonic() + seconds
        while self._read(until):
            pass

    def page(self, width=1200, height=900, dark=False):
        return Page(self, width, height, dark)

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.write_to)
        os.close(self.read_from)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


KEYS = {"Tab": ("Tab", 9, None), "Enter": ("Enter", 13, "\r"), "Escape": ("Escape", 27, None),
        "Space": (" ", 32, " ")}


class Page:
    """One tab."""

    def __init__(self, browser, width, height, dark):
        self.browser = browser
        context = browser.call("Target.createBrowserContext")["browserContextId"]
        target = browser.call("Target.createTarget", {"url": "about:blank", "browserContextId": context})
        self.target = target["targetId"]
        self.session = browser.call("Target.attachToTarget", {"targetId": self.target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.size(width, height)
        self.dark(dark)

    def call(self, method, parameters=None, wait=30):
        return self.browser.call(method, parameters, self.session, wait)

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})

    def dark(self, dark):
        self.call("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})

    def go(self, url):
        answer = self.call("Page.navigate", {"url": url})
        if answer.get("errorText"):
            raise Failure(f"{url}: {answer['errorText']}")

    def value(self, expression, wait=30):
        """What a JavaScript expression, or the promise that it is, comes to."""
        answer = self.call("Runtime.evaluate", {
            "expression": expression, "returnByValue": True, "awaitPromise": True, "userGesture": True}, wait)
        if "exceptionDetails" in answer:
            raise Failure(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_for(self, expression, seconds=15):
        """Until it is true. -> its value"""
        until = time.monotonic() + seconds
        while True:
            try:
                value, why = self.value(expression), ""
            except Failure as failure:  # what it speaks of is not there yet
                value, why = None, str(failure)
            if value:
                return value
            if time.monotonic() > until:
                raise Failure(f"was not so within {seconds} s: {expression}\n{why}\n"
                              + str(self.value("document.body?.innerText"))[:900])
            self.browser.drain(0.1)

    def key(self, name, shift=False):
        key, code, text = KEYS[name]
        what = {"key": key, "code": name, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", {"type": "keyDown", **what, **({"text": text} if text else {})})
        self.call("Input.dispatchKeyEvent", {"type": "keyUp", **what})

    def type(self, text):
        self.call("Input.insertText", {"text": text})

    def click(self, selector):
        self.wait_for(f"document.querySelector({json.dumps(selector)}) !== null")
        self.value(f"document.querySelector({json.dumps(selector)}).click()")

    def complaints(self):
        """What stands on the console, and what was thrown, since the last time."""
        self.browser.drain()
        list_, rest = [], []
        for event in self.browser.events:
            method, parameters = event.get("method"), event.get("params", {})
            if event.get("sessionId") != self.session:
                rest.append(event)
            elif method == "Runtime.exceptionThrown":
                list_.append("thrown: " + json.dumps(parameters["exceptionDetails"])[:500])
            elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                list_.append("log: " + parameters["entry"]["text"] + " " + parameters["entry"].get("url", ""))
            elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                list_.append("console: " + json.dumps(parameters["args"])[:500])
            elif method == "Page.javascriptDialogOpening":
                list_.append("dialog: " + parameters["message"])
        self.browser.events = rest
        return list_

    def picture(self, file, full=False):
        answer = self.call("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": full})
        with open(file, "wb") as out:
            out.write(base64.b64decode(answer["data"]))

    def close(self):
        self.browser.call("Target.closeTarget", {"targetId": self.target})
