"""The forms that figures have: lines with ranges, bars, ratios, and times along lanes."""
from svg import DASHES, Scale

INSET = 16


def axis_y(figure, left, right, scale, step, title):
    """Lines across, their numbers, and what they count."""
    figure.text(INSET, scale.end - 16, title, "soft")
    at = scale.low
    while at <= scale.high:
        figure.line(left, scale(at), right, scale(at), "axis" if at == scale.low else "grid")
        figure.text(left - 8, scale(at) + 4, f"{at:,}", "soft small", "end")
        at += step


def axis_x(figure, y, scale, step, title):
    at = scale.low
    figure.line(scale.begin, y, scale.end, y, "axis")
    while at <= scale.high:
        figure.line(scale(at), y, scale(at), y + 4, "axis")
        figure.text(scale(at), y + 18, f"{at:,}".replace("-", "\u2212"), "soft small", "middle")
        at += step
    figure.text(scale.end, y + 36, title, "soft", "end")


def lines(figure, series, ticks, title_x, title_y, most, step, right=560):
    """series: [(name, [(value, least, largest)])], one for each tick; marks, ranges, and the name at the end of each line"""
    left, bottom = 64, figure.height - 76
    scale = Scale(0, most, bottom, 70)
    axis_y(figure, left, right, scale, step, title_y)
    wide = (right - left) / len(ticks)
    for i, tick in enumerate(ticks):
        figure.text(left + (i + .5) * wide, bottom + 18, tick, "", "middle")
    figure.text(right, bottom + 38, title_x, "soft", "end")
    for n, (name, values) in enumerate(series):
        points = []
        for i, (value, least, largest) in enumerate(values):
            x = left + (i + .5) * wide + (n - (len(series) - 1) / 2) * 7  # beside one another, lest they hide others
            points.append((x, scale(value)))
            if least != largest:
                figure.line(x, scale(least), x, scale(largest), f"l{n}")
        figure.path(points, f"l{n} thick", DASHES[n])
        for point in points:
            figure.mark(*point, n)
        figure.text(right + 8, points[-1][1] + 4, name)
    return scale, points[-1][0]


def bar(series):
    return f"t{series} l{series}" if series else "f0"


def bars(figure, top, groups, scale, unit):
    """groups: [(name, [(series, length, text)])]; the first series is full, others are paler, with a rim; -> where it ends"""
    y = top
    for name, rows in groups:
        figure.text(scale.begin - 10, y + 9 * len(rows) + 4, name, "", "end")
        for series, length, text in rows:
            if length:
                figure.box(scale.begin, y + 2, scale(length) - scale.begin, 14, bar(series))
            figure.text(max(scale(length), scale.begin) + 6, y + 14, text + unit, "small")
            y += 18
        y += 10
    figure.line(scale.begin, top - 2, scale.begin, y - 8, "axis")
    return y


def legend(figure, x, y, names):
    for n, name in names:
        figure.box(x, y - 11, 14, 14, bar(n))
        figure.text(x + 20, y, name)
        x += 34 + 7 * len(name)


def lane(figure, y, name, note=""):
    figure.text(INSET, y + 15, name, "bold")
    if note:
        figure.text(INSET, y + 31, note, "soft small")


def span(figure, scale, y, begin, end, series, dash=""):
    """A time in which something is so: full, or only outlined with dashes."""
    kind = f"l{series}" if dash else f"t{series} l{series}"
    figure.box(scale(begin), y, scale(end) - scale(begin), 22, kind + (" path" if dash else ""), dash, 3)


def between(figure, scale, y, begin, end, text):
    """How long it is from here to there."""
    figure.line(scale(begin), y, scale(end), y, "axis")
    for at in (begin, end):
        figure.line(scale(at), y - 4, scale(at), y + 4, "axis")
    figure.text((scale(begin) + scale(end)) / 2, y - 7, text, "soft small", "middle")


def moment(figure, scale, at, y, text, series, down=-8, anchor="middle"):
    figure.line(scale(at), y - 3, scale(at), y + 25, f"l{series} thick")
    figure.text(scale(at), y + down, text, "small", anchor)
