"""The figures of docs/explanation.md, by their names."""
import math

import charts
import read
from svg import Figure, Scale

BENCH = "bench/README.md"
LEASE, MARGIN = 10, 1  # of the runs


def holders(root):
    rows, stripes = read.table(root, BENCH, "1 stripe")
    counts = ("10", "100", "1,000")
    found = [rows.get(f"beside {n}, pairs/s") or rows.get(f"beside {n}") for n in counts]
    if not all(found):
        read.lacks(BENCH, "row for each number of holders")
    series = [(name if i == 0 else f"{name} stripes", [read.value(row[i]) for row in found])
              for i, name in enumerate(stripes)]
    figure = Figure(
        "16 processes lock and unlock, beside sessions that only hold",
        "Lines: pairs of a lock and its unlocking a second, beside 10, 100 and 1,000 sessions that hold something. "
        + " ".join(f"{name}: {', '.join(format(value[0], ',.0f') for value in values)}." for name, values in series),
        f"{BENCH}, holders: medians of three rounds; the strokes reach from the least to the largest.", 360)
    charts.lines(figure, series, counts, "sessions that hold something", "pairs a second", 2000, 500)
    return figure.drawn()


def contended(root):
    rows, names = read.table(root, BENCH, "with hints")
    counts = ("2", "4", "8", "16")
    found = [rows.get("2 processes"), *(rows.get(n) for n in counts[1:])]
    if not all(found):
        read.lacks(BENCH, "row for each number of processes at one path")
    shown = ("with hints", "without hints", "_create, polled")
    series = [(name, [read.value(row[i]) for row in found]) for i, name in enumerate(shown)]
    floor = read.value(rows["16, in turn: the floor"][2])
    figure = Figure(
        "Everybody wants one path",
        "Lines: grants a second at one path, with 2, 4, 8 and 16 processes. "
        + " ".join(f"{name}: {', '.join(format(value[0], ',.0f') for value in values)}." for name, values in series)
        + f" Two bare requests each, in turn: {floor[0]:.0f} with 16.",
        f"{BENCH}, contended: medians of three rounds; the strokes reach from the least to the largest.", 360)
    scale, last = charts.lines(figure, series, counts, "processes that want it", "grants a second", 800, 200, 540)
    figure.line(last + 12, scale(floor[1]), last + 12, scale(floor[2]), "l3")
    figure.mark(last + 12, scale(floor[0]), 3)
    figure.text(548, scale(floor[0]) + 8, "two requests, in turn")
    return figure.drawn()


def cost(root):
    rows, _ = read.table(root, BENCH, "user CPU of mortise")
    figure = Figure(
        "A lock, beside the same requests prepared and sent bare",
        "Marks: the time of mortise as a ratio to the time of the bare requests, with its range. "
        + " ".join(f"{name}: {cells[0]}, {cells[2]}." for name, cells in rows.items()),
        f"{BENCH}, Figures: medians of five rounds; the strokes reach from the least to the largest.", 330)
    scale = Scale(0, 1.5, 300, 640)
    bottom = 66 + 36 * len(rows)
    for at in (0, .5, 1, 1.5):
        figure.line(scale(at), 58, scale(at), bottom, "axis" if at == 1 else "grid")
        figure.text(scale(at), bottom + 16, f"{at:g}", "soft small", "middle")
    figure.text(scale(1), 50, "as long as the bare requests", "soft small", "middle")
    figure.text(scale.end, bottom + 34, "time of mortise / time of the bare requests", "soft", "end")
    for i, (name, cells) in enumerate(rows.items()):
        y = 78 + 36 * i
        middle, least, largest = read.value(cells[2])
        figure.text(charts.INSET, y, name.replace("the same,", "100,000 document locks,").replace("p50", "median"))
        figure.text(charts.INSET, y + 15, f"{cells[0]}; {cells[3]} of user CPU", "soft small")
        figure.line(scale(least), y + 2, scale(largest), y + 2, "l0 thick")
        figure.mark(scale(middle), y + 2, 0, 5.5)
        figure.text(700, y + 6, f"{middle:.2f}", "bold", "end")
    return figure.drawn()


def migration(root):
    wrong = r"(\d+) documents: (\d+) lost, (\d+) stale, (\d+) resurrected; writes refused for ([\d.]+) s"
    bare, ours = read.said(root, "README.md", wrong, 2)
    bare_s = read.said(root, BENCH, r"`_reindex` in two slices took ([\d.]+) and ([\d.]+) s")
    ours_s = read.said(root, BENCH, r"to the moved alias, ([\d.]+) and ([\d.]+) s")
    written = read.said(root, BENCH, r"50 of them deletions, it took ([\d.]+) s")[0]
    figure = Figure(
        "A migration beside _reindex and a move of the alias",
        f"Bars. Documents that are wrong afterwards, by _reindex: {bare[1]} lost, {bare[2]} stale, {bare[3]} resurrected; by "
        f"mortise migrate: {ours[1]}, {ours[2]} and {ours[3]}. Writes refused: {bare[4]} s and {ours[4]} s. A million documents "
        f"while nobody writes: {' and '.join(bare_s)} s, and {' and '.join(ours_s)} s; with 500 writes a second: {written} s.",
        f"README.md (50,000 documents, tools/demo --migrate) and {BENCH} (a million, bench/migrate/run).", 440)
    charts.legend(figure, charts.INSET, 54, [(1, "_reindex, then the alias"), (0, "mortise migrate")])
    figure.text(charts.INSET, 84, "documents that are wrong afterwards, of 50,000, with 500 writes a second", "soft")
    counts = Scale(0, 900, 220, 660)
    groups = [(name, [(1, int(bare[i]), bare[i]), (0, int(ours[i]), ours[i])])
              for i, name in ((1, "lost"), (2, "stale"), (3, "resurrected"))]
    y = charts.bars(figure, 96, groups, counts, "")
    figure.text(charts.INSET, y + 20, "seconds", "soft")
    seconds = Scale(0, 35, 220, 660)
    groups = [("writes refused meanwhile", [(1, float(bare[4]), bare[4]), (0, float(ours[4]), ours[4])]),
              ("a million, no writes", [(1, float(bare_s[1]), " and ".join(bare_s)),
                                        (0, float(ours_s[1]), " and ".join(ours_s))]),
              ("a million, 500 writes/s", [(0, float(written), written)])]
    charts.bars(figure, y + 32, groups, seconds, " s")
    return figure.drawn()


def tree(root):
    origin, rows = read.beside(root, "tree")
    paths = sorted({row["path"] for row in rows})
    figure = Figure(
        "Four programs, and the entries they have in the tree",
        " ".join(f"{row['path']}: {row['who']} {row['what']} {row['mode']}." for row in rows), origin, 80 + 44 * len(paths))
    y = 54
    for path in paths:
        depth = 0 if path == "/" else path.count("/")
        x = charts.INSET + 24 * depth
        if depth:
            above = paths.index(path.rsplit("/", 1)[0] or "/")
            figure.path([(x - 16, 54 + 44 * above + 26), (x - 16, y + 13), (x - 4, y + 13)], "rim")
        figure.text(x, y + 18, path.rsplit("/", 1)[-1] or "/", "bold")
        at = 210
        for row in sorted((row for row in rows if row["path"] == path), key=lambda row: (row["what"], row["who"])):
            at = chip(figure, at, y, row)
        y += 44
    return figure.drawn()


def chip(figure, x, y, row):
    """An entry: full for a lock that was asked for, a rim alone for an intention, dashes for one who waits; -> the next place"""
    waits, strong = row["what"] == "waits", row["mode"] in ("S", "SIX", "X")
    text = f"{row['mode']} {row['who']}" + (" waits" if waits else "")
    wide = 22 + 7.4 * len(text)
    kind = "l1 path" if waits else "t0 l0" if strong else "axis path"
    figure.box(x, y, wide, 26, kind, "5 3" if waits else "", 13)
    figure.text(x + wide / 2, y + 18, text, "bold" if strong and not waits else "", "middle")
    return x + wide + 8


def moments(rows, run, who):
    """-> {what: seconds}, the heartbeats' seconds, what stands beside each"""
    own = [row for row in rows if (row["run"], row["who"]) == (run, who)]
    return ({row["what"]: float(row["s"]) for row in own}, [float(row["s"]) for row in own if row["what"] == "heartbeat"],
            {row["what"]: row["more"] for row in own})


def alive(figure, scale, y, began, ended, beats):
    charts.span(figure, scale, y, began, ended, 0)
    for beat in beats:
        figure.line(scale(beat), y + 5, scale(beat), y + 17, "l0 thick")


def takeover(root):
    origin, rows = read.beside(root, "takeover")
    far, beats, _ = moments(rows, "elsewhere", "holder")
    heir, _, _ = moments(rows, "elsewhere", "waiter")
    near, near_beats, _ = moments(rows, "here", "holder")
    near_heir, _, _ = moments(rows, "here", "waiter")
    figure = Figure(
        "A process dies while another waits for its lock",
        f"Times from the death. Elsewhere: the last heartbeat was sent at {beats[-1]:.2f} s, the holder's own deadline was at "
        f"{beats[-1] + LEASE - MARGIN:.2f} s, the verdict came at {heir['verdict']:.2f} s, and the waiter had the lock at "
        f"{heir['granted']:.2f} s. On the same machine: it had the lock at {near_heir['granted']:.2f} s.", origin, 436)
    scale = Scale(-8, 15, 130, 700)
    figure.text(charts.INSET, 58, "On another machine: nobody sees the process, so its lease decides", "soft")
    died_elsewhere(figure, scale, 92, far, beats, heir)
    figure.text(charts.INSET, 268, "On the same machine: the process is seen to be gone", "soft")
    died_here(figure, scale, 296, near, near_beats, near_heir)
    charts.axis_x(figure, 364, scale, 4, "seconds from the death")
    return figure.drawn()


def waits_and_holds(figure, scale, y, heir):
    charts.lane(figure, y, "waiter")
    charts.span(figure, scale, y, heir["asked"], heir["granted"], 2, "4 3")
    charts.span(figure, scale, y, heir["granted"], heir["released"], 2)


def died_elsewhere(figure, scale, y, holder, beats, heir):
    deadline = beats[-1] + LEASE - MARGIN
    charts.lane(figure, y, "holder", "lease of 10 s")
    alive(figure, scale, y, holder["granted"], 0, beats)
    charts.span(figure, scale, y, 0, heir["verdict"], 0, "4 3")
    figure.text(scale(3.2), y + 15, "its entries stay", "soft small")
    charts.moment(figure, scale, 0, y, "killed", 1)
    charts.moment(figure, scale, deadline, y, f"its own deadline, {deadline:.1f} s", 0)
    charts.between(figure, scale, y + 46, beats[-1], deadline, "lease less margin: 9 s from its last heartbeat")
    y += 86
    waits_and_holds(figure, scale, y, heir)
    figure.text(scale(-1), y + 15, "waits", "soft small")
    charts.moment(figure, scale, heir["granted"], y, f"has it: {heir['granted']:.1f} s", 2)
    charts.between(figure, scale, y + 46, heir["verdict"] - LEASE - MARGIN, heir["verdict"],
                   "lease and margin: 11 s without another heartbeat, then the verdict")


def died_here(figure, scale, y, holder, beats, heir):
    charts.lane(figure, y, "holder")
    alive(figure, scale, y, holder["granted"], 0, beats)
    charts.moment(figure, scale, 0, y, "killed", 1)
    y += 34
    waits_and_holds(figure, scale, y, heir)
    figure.text(scale(heir["released"]) + 8, y + 15, f"has it: {heir['granted']:.2f} s", "small")


def woken(root):
    origin, rows = read.beside(root, "woken")
    old, beats, old_more = moments(rows, "woken", "holder")
    new, _, new_more = moments(rows, "woken", "waiter")
    _, _, document = moments(rows, "woken", "document")
    deadline = beats[-1] + LEASE - MARGIN
    figure = Figure(
        "A holder is stopped, and wakes up after another was let in",
        f"Times from the stop. The holder had fence {old_more['granted']}; its own deadline was at {deadline:.2f} s. The waiter got "
        f"fence {new_more['granted']} at {new['granted']:.2f} s. The holder went on at {old['continued']:.2f} s; its write ended with "
        f"{old_more['refused']}. In the end the document has what was written {document['has']}.", origin, 290)
    scale = Scale(-5, 15, 130, 700)
    y = 76
    charts.lane(figure, y, "holder", "lease of 10 s")
    alive(figure, scale, y, old["granted"], 0, beats)
    charts.span(figure, scale, y, 0, old["continued"], 1, "4 3")
    figure.text(scale(-4.8), y + 38, f"fence {old_more['granted']}", "small")
    figure.text(scale(3), y + 15, "stopped", "soft small")
    charts.moment(figure, scale, 0, y, "SIGSTOP", 1)
    charts.moment(figure, scale, deadline, y, f"its own deadline, {deadline:.1f} s", 0)
    charts.moment(figure, scale, old["continued"], y, "SIGCONT", 1)
    figure.cross(scale(old["refused"]) + 10, y + 11, 1)
    figure.text(700, y + 38, f"its write: {old_more['refused']}", "small", "end")
    y += 86
    charts.lane(figure, y, "waiter", "lease of 10 s")
    charts.span(figure, scale, y, new["asked"], new["granted"], 2, "4 3")
    figure.text(scale(3), y + 15, "waits", "soft small")
    charts.span(figure, scale, y, new["granted"], new["released"], 2)
    charts.moment(figure, scale, new["granted"], y, f"writes, {new['granted']:.1f} s", 2)
    figure.text(700, y + 38, f"fence {new_more['granted']}", "small", "end")
    charts.axis_x(figure, y + 52, scale, 5, "seconds from the stop")
    return figure.drawn()


def job(root):
    origin, rows = read.beside(root, "job")
    at = {row["what"]: float(row["s"]) for row in rows}
    points = [(float(row["s"]), int(row["documents"])) for row in rows if row["what"] == "documents"]
    turns = [here for i, here in enumerate(points)
             if i in (0, len(points) - 1) or len({here[1], points[i - 1][1], points[i + 1][1]}) > 1]
    most = max(n for _, n in points)
    stood = max(n for when, n in points if when < at["orphaned_job"])
    figure = Figure(
        f"A rename of {most:,} documents is killed, stands, is finished, and undone",
        f"A line: documents below the new path. Killed after {at['killed']:.1f} s, it stands at {stood:,}; somebody else is told "
        f"orphaned_job at {at['orphaned_job']:.1f} s; resumed at {at['resume']:.1f} s it has all at {at['resume done']:.1f} s; rolled "
        f"back from {at['rollback']:.1f} to {at['rollback done']:.1f} s.", origin, 370)
    left, right, bottom = 64, 690, 294
    x, y = Scale(0, math.ceil(points[-1][0]), left, right), Scale(0, most, bottom, 84)
    charts.axis_y(figure, left, right, y, most // 4, "documents below the new path")
    charts.axis_x(figure, bottom, x, 1, "seconds from the start")
    figure.box(x(at["killed"]), y.end, x(at["resume"]) - x(at["killed"]), bottom - y.end, "t1")
    for text, down in (("nobody is at work:", 20), ("the job's locks", 36), ("guard both trees", 52)):
        figure.text((x(at["killed"]) + x(at["resume"])) / 2, y.end + down, text, "small", "middle")
    figure.path([(x(when), y(n)) for when, n in turns], "l0 thick")
    figure.cross(x(at["killed"]), y(stood), 1)
    figure.text(x(at["killed"]) - 8, y(stood) - 10, "killed", "small", "end")
    figure.mark(x(at["orphaned_job"]), y(stood), 3)
    figure.text(x(at["orphaned_job"]) + 4, y(stood) + 20, "another asks:", "small", "middle")
    figure.text(x(at["orphaned_job"]) + 4, y(stood) + 36, "orphaned_job", "small", "middle")
    for what, text, dx in (("resume", "resumed", 8), ("rollback", "rolled back", 24)):
        height = stood if what == "resume" else most
        figure.mark(x(at[what]), y(height), 0)
        figure.text(x(at[what]) + dx, y(height) + 18, text, "small")
    return figure.drawn()


FIGURES = {"tree": tree, "takeover": takeover, "woken": woken, "job": job, "migration": migration, "cost": cost,
           "holders": holders, "contended": contended}
