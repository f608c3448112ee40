#!/usr/bin/env python3
"""The page of `mortise board` in a real browser: board_test.py [PART OF A TEST'S NAME ...].

MORTISE_BIN is the program, MORTISE_TEST_URLS may name servers."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from chromium import Browser, Failure  # noqa: E402
from shown import PROGRAM, Board, World  # noqa: E402

tests = []


def test(name):
    def add(function):
        tests.append((name, function))
        return function
    return add


def check(what, is_so, more=""):
    if not is_so:
        raise Failure(f"{what} {more}")


LIVE = "document.getElementById('state').textContent === 'live'"


def open_board(browser, board, **how):
    page = browser.page(**how)
    page.go(board.url)
    page.wait_for(LIVE)
    return page


def text_of(page, selector="body"):
    return page.value(f"document.querySelector({json.dumps(selector)}).innerText")


@test("shows what there is, with nothing to complain of")
def shows(browser, world):
    with Board(world) as board:
        page = open_board(browser, board)
        page.wait_for("document.querySelectorAll('#waits li').length >= 2")
        page.wait_for("document.querySelectorAll('#jobs li').length >= 2")
        said = text_of(page)
        for word in ("archive.lua", "waits for", "/projects/clinton", "nightly-import.lua", "move-old",
                     "stands-half-done", "stands half-done", "documents"):
            check("the page says", word in said, word + " in:\n" + said[:3000])
        check("no button gives orders", page.value("[...document.querySelectorAll('button')].every(b => !/Pause|Roll/"
                                                   ".test(b.textContent)) && document.getElementById('unlock').hidden"))
        check("nothing is complained of", not (list_ := page.complaints()), str(list_))
        page.close()


@test("a job's report is a page that runs nothing, and fits a telephone")
def reports(browser, world):
    made = subprocess.run([PROGRAM, "jobs", "report", "stands-half-done", "--html"], timeout=60, check=True,
                          env={**os.environ, **world.environment}, cwd=world.work_in, stdout=subprocess.PIPE)
    with tempfile.NamedTemporaryFile(suffix=".html") as file:
        file.write(made.stdout)
        file.flush()
        for dark in (False, True):
            page = browser.page(width=360, height=740, dark=dark)
            page.go("file://" + file.name)
            page.wait_for("document.readyState === 'complete'")
            said = text_of(page)
            for word in ("stands-half-done", "What was asked", "Who began each turn at it", "jobs resume"):
                check("the report says", word in said, word + " in:\n" + said[:2000])
            check("it has no script", page.value("document.scripts.length === 0"))
            check("the page fits", page.value("document.documentElement.scrollWidth <= 360"),
                  str(page.value("document.documentElement.scrollWidth")))
            check("nothing is complained of", not (list_ := page.complaints()), str(list_))
            page.close()


@test("takes hostile names for text, and makes what cannot be seen visible")
def takes_text(browser, world):
    with World(world.store, "hostile") as bad, Board(bad) as board:
        page = open_board(browser, board)
        page.value("document.getElementById('q').value = 'harm'")
        page.value("document.getElementById('search').requestSubmit()")
        page.wait_for("document.querySelectorAll('#found-list li').length > 3")
        page.click("#tree button[aria-label='below harm']")
        page.wait_for("document.querySelectorAll('#tree ul ul li').length >= 6")
        page.wait_for("document.getElementById('waits').innerText.includes('\\\\u{202e}')")
        page.wait_for("document.querySelectorAll('#history figure').length === 6")
        browser.drain(1)
        check("nothing of it was executed", page.value("window.harm === undefined"))
        check("nothing of it is markup", page.value(
            "document.querySelectorAll('script').length === 1 && document.querySelectorAll('img, iframe, svg:not(.plot)')"
            ".length === 0 && document.querySelectorAll('a').length === 3"))
        said = page.value("document.body.textContent")
        check("it stands there as text", "<script>window.harm" in said and "<img src=x onerror=" in said)
        check("no mark turns the line", not any(mark in said for mark in "\u202e\u2066\u200b"))
        page.size(360, 740)
        browser.drain(0.5)
        check("nothing is wider than a telephone", page.value("document.documentElement.scrollWidth <= 360"),
              str(page.value("document.documentElement.scrollWidth")))
        check("nothing is complained of", not (list_ := page.complaints()), str(list_))
        page.close()


@test("runs no script but its own")
def runs_nothing_else(browser, world):
    with Board(world) as board:
        page = open_board(browser, board)
        tried = page.value("""(() => {
          const outcomes = [];
          const attempt = (name, fn) => { try { fn(); outcomes.push(name); } catch { /* refused */ } };
          attempt("script", () => { const s = document.createElement("script"); s.textContent = "window.harm = 1";
            document.body.append(s); });
          attempt("markup", () => { document.body.insertAdjacentHTML("beforeend", "<b>x</b>"); });
          attempt("inner", () => { document.getElementById("state").innerHTML = "<b>x</b>"; });
          attempt("handler", () => { document.body.setAttribute("onclick", "window.harm = 2"); document.body.click(); });
          return outcomes.filter((name) => name !== "handler" && name !== "script").concat(window.harm ?? []);
        })()""")
        check("the policy refuses it", tried == [], str(tried))
        page.complaints()
        page.close()


CONTRAST = """(() => {
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const ground = (node) => { for (; node; node = node.parentElement) {
    const c = numbers(getComputedStyle(node).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  const poor = [];
  for (const node of document.querySelectorAll("h1, h2, p, dd, dt, li, button, label, th, td, .count, .note, figcaption, a")) {
    if (!node.innerText?.trim() || node.closest("[hidden]") || node.closest(".skip")) continue;
    const a = light(numbers(getComputedStyle(node).color)), b = light(ground(node));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) poor.push(`${node.tagName} ${node.className} ${node.innerText.slice(0, 30)} ${ratio.toFixed(1)}`);
  }
  return poor;
})()"""


@test("is light and dark, and readable in both")
def light_and_dark(browser, world):
    with Board(world) as board:
        grounds = []
        for dark in (False, True):
            page = open_board(browser, board, dark=dark)
            page.wait_for("document.querySelectorAll('#jobs li').length >= 2")
            grounds.append(page.value("getComputedStyle(document.documentElement).backgroundColor"))
            poor = page.value(CONTRAST)
            check("text stands out from its ground", poor == [], f"{'dark' if dark else 'light'}: {poor[:5]}")
            page.close()
        check("the grounds differ", grounds[0] != grounds[1], str(grounds))


@test("fits a telephone of 360 pixels, with what it opens")
def fits_telephone(browser, world):
    with Board(world) as board:
        page = open_board(browser, board, width=360, height=740)
        page.wait_for("document.querySelectorAll('#jobs li').length >= 2")
        page.click("#tree ul .twist")
        page.wait_for("document.querySelectorAll('#tree ul ul li').length > 1")
        page.wait_for("document.querySelectorAll('#history figure').length === 6")
        check("the page fits", page.value("document.documentElement.scrollWidth <= 360"))
        page.click("#jobs button.link")
        page.wait_for("document.querySelectorAll('#detail figure').length === 5")
        check("what is opened fits", page.value(
            "document.getElementById('detail').getBoundingClientRect().width <= 360 && document.getElementById('detail')"
            ".scrollWidth <= document.getElementById('detail').clientWidth"))
        small = page.value("[...document.querySelectorAll('main button')].filter(b => b.offsetHeight > 0 && "
                           "b.getBoundingClientRect().height < 24).length")
        check("a finger hits each button", small == 0, f"{small} are small")
        page.close()


def focused(page):
    return page.value("(() => { const e = document.activeElement; return e.id || e.getAttribute('aria-label') || "
                      "e.textContent.slice(0, 60); })()")


@test("is used by keyboard alone")
def by_keyboard(browser, world):
    with Board(world) as board:
        page = open_board(browser, board)
        page.wait_for("document.querySelectorAll('#tree ul li').length > 0")
        page.key("Tab")
        check("the first stop leads to the contents", focused(page) == "To the contents", focused(page))
        check("it can be seen", page.value("document.activeElement.getBoundingClientRect().left >= 0"))
        page.key("Tab")
        check("the search is next", focused(page) == "q", focused(page))
        page.type("nightly")
        page.key("Enter")
        page.wait_for("document.getElementById('found-list').innerText.includes('nightly-import.lua')")
        for _ in range(60):
            page.key("Tab")
            if focused(page) == "below projects":
                break
        check("the tree can be reached", focused(page) == "below projects", focused(page))
        check("what has the focus is marked", page.value("getComputedStyle(document.activeElement).outlineStyle !== 'none'"))
        page.key("Enter")
        page.wait_for("document.activeElement.getAttribute('aria-expanded') === 'true'")
        page.wait_for("document.activeElement.closest('li').querySelectorAll('li').length >= 3")
        browser.drain(3)
        check("what is looked at anew keeps the focus", focused(page) == "below projects", focused(page))
        page.key("Tab")
        page.key("Enter")
        page.wait_for("document.getElementById('detail').open")
        check("the dialog has the focus", page.value("document.getElementById('detail').contains(document.activeElement)"))
        page.key("Escape")
        page.wait_for("!document.getElementById('detail').open")
        check("it goes back where it was", focused(page) == "projects", focused(page))
        page.close()


@test("says to a screen reader what everything is")
def to_screen_reader(browser, world):
    with Board(world) as board:
        page = open_board(browser, board)
        page.wait_for("document.querySelectorAll('#history figure').length === 6")
        nodes = page.call("Accessibility.getFullAXTree")["nodes"]
        roles, nameless = {}, []
        for node in nodes:
            role, name = node.get("role", {}).get("value"), node.get("name", {}).get("value", "")
            if node.get("ignored"):
                continue
            roles.setdefault(role, []).append(name)
            if role in ("button", "link", "textbox", "searchbox", "image", "progressbar", "dialog", "table") and not name:
                if role != "table":
                    nameless.append(role)
        check("each thing that is used has a name", nameless == [], str(nameless))
        for role in ("main", "banner", "search", "heading", "status", "table", "progressbar", "image"):
            check("there is a", role in roles, f"{role}: {sorted(map(str, roles))}")
        check("a plot says its numbers", any("at most" in name for name in roles["image"]), str(roles["image"]))
        check("each plot has its table", page.value(
            "[...document.querySelectorAll('figure')].every(f => f.querySelectorAll('details table tbody tr').length > 0)"))
        check("one part alone is read out as it changes", page.value(
            "document.querySelectorAll('[aria-live], [role=status], [role=alert]').length <= 2"))
        page.close()


@test("goes on after the board was started again")
def goes_on(browser, world):
    with Board(world) as board:
        page = open_board(browser, board)
        start = page.value("fetch('data.json').then(a => a.json()).then(d => d.start)")
        board.kill()
        page.wait_for("document.getElementById('state').textContent.includes('does not answer')")
        with Board(world, port=board.port):
            page.wait_for(LIVE, 20)
            page.wait_for(f"fetch('data.json').then(a => a.json()).then(d => d.start !== '{start}')")
            page.wait_for("document.querySelectorAll('#history figure').length === 6")
            page.wait_for("document.querySelectorAll('#waits li').length === 2")
        thrown = [each for each in page.complaints() if each.startswith("thrown")]
        check("nothing is thrown", thrown == [], str(thrown))
        page.close()


def press(page, words, within="document"):
    """A button by its text."""
    page.wait_for(f"[...{within}.querySelectorAll('button')].some(b => b.textContent === {json.dumps(words)})")
    page.value(f"[...{within}.querySelectorAll('button')].find(b => b.textContent === {json.dumps(words)}).click()")


def say_yes(page, words):
    page.wait_for("document.getElementById('ask').open && !document.getElementById('ask-yes').hidden && "
                  f"document.getElementById('ask').innerText.includes({json.dumps(words)})")
    press(page, "Yes", "document.getElementById('ask')")
    page.wait_for("!document.getElementById('ask').open")


JOB = "[...document.querySelectorAll('#jobs > li')].find(l => l.innerText.startsWith('move-old'))"


@test("steers a job, and asks twice")
def steers(browser, world):
    with Board(world, control=True) as board:
        page = open_board(browser, board)
        page.wait_for(f"{JOB} !== undefined && {JOB}.innerText.includes('running')")
        press(page, "Pause", JOB)
        page.wait_for("document.getElementById('token-box').open")
        check("the token is not shown", page.value("document.getElementById('token').type === 'password'"))
        page.value("document.getElementById('token').value = 'ab'.repeat(16)")
        press(page, "Use it")
        page.wait_for("document.getElementById('ask').open && document.getElementById('ask-body').innerText"
                      ".includes('not the token')")
        press(page, "Close", "document.getElementById('ask')")
        press(page, "Pause", JOB)
        page.wait_for("document.getElementById('token-box').open")
        page.value(f"document.getElementById('token').value = '{board.token}'")
        press(page, "Use it")
        page.wait_for("document.getElementById('ask').open && document.getElementById('ask-body').innerText"
                      ".includes('keeps its lock')")
        check("no is what Enter says", page.value("document.activeElement.id === 'ask-no'"))
        press(page, "No, leave it")
        browser.drain(2)
        check("no is no", page.value(f"!{JOB}.innerText.includes('paused')"))
        press(page, "Pause", JOB)
        say_yes(page, "is paused by whoever is at work")
        page.wait_for(f"{JOB}.innerText.includes('paused by')")
        press(page, "Resume", JOB)
        say_yes(page, "goes on")
        page.wait_for(f"!{JOB}.innerText.includes('paused by')")
        press(page, "Roll back")
        say_yes(page, "would become what they were")
        page.wait_for("document.getElementById('deeds').innerText.includes('rollback stands-half-done: done')", 40)
        check("the token stands nowhere", page.value(
            f"!document.documentElement.outerHTML.includes('{board.token}') && !location.href.includes('{board.token}') && "
            "sessionStorage.length === 0 && localStorage.length === 0 && document.cookie === ''"))
        complaints = [each for each in page.complaints() if "403" not in each]
        check("nothing is complained of", complaints == [], str(complaints))
        page.close()


def is_asked_for(what):
    return not sys.argv[1:] or any(word in what for word in sys.argv[1:])


def main():
    stores = ["sqlite:" + tempfile.mkdtemp(prefix="mortise-board.") + "/store.db"]
    stores += [each for each in os.environ.get("MORTISE_TEST_URLS", "").split(",") if each]
    failed = 0
    with Browser() as browser:
        for store in stores:
            name = "sqlite" if store.startswith("sqlite:") else store
            with World(store) as world:
                for what, run in tests:
                    if name != "sqlite" and run not in (shows, steers) or not is_asked_for(what):
                        continue
                    began = time.monotonic()
                    try:
                        run(browser, world)
                        print(f"ok - {what}, on {name} ({time.monotonic() - began:.1f} s)", flush=True)
                    except Exception as why:  # whatever it is, the next one is tried
                        failed += 1
                        print(f"not ok - {what}, on {name}: {why}", flush=True)
                        if not isinstance(why, Failure):
                            traceback.print_exc(file=sys.stdout)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
