"""A figure in SVG: a card of its own colours, so that it is read on a light page and on a dark one, with its title, the
description for those who do not see it, and a line that says where its numbers are from."""
from xml.sax.saxutils import escape

WIDTH = 720
LIGHT = {"card": "#ffffff", "rim": "#d0d7de", "ink": "#1f2328", "soft": "#57606a", "grid": "#e3e7ec",
         "s0": "#0072b2", "s1": "#c24e00", "s2": "#007f5f", "s3": "#a3508a"}
DARK = {"card": "#0d1117", "rim": "#3d444d", "ink": "#e6edf3", "soft": "#9aa4af", "grid": "#272d36",
        "s0": "#56b4e9", "s1": "#ff9d4d", "s2": "#2fc79a", "s3": "#e0a3cc"}
# Series differ by colour, by the form of their marks, and by the dashes of their lines.
SHAPES = ("circle", "square", "up", "diamond")
DASHES = ("", "7 3", "2 3", "9 3 2 3")


def colours(of):
    rules = [f".card{{fill:{of['card']};stroke:{of['rim']}}}", f"text{{fill:{of['ink']}}}", f".soft{{fill:{of['soft']}}}",
             f".grid{{stroke:{of['grid']}}}", f".axis{{stroke:{of['soft']}}}",
             f".rim{{stroke:{of['rim']}}}"]
    for i in range(len(SHAPES)):
        own = of[f"s{i}"]
        rules.append(f".l{i}{{stroke:{own}}}.f{i}{{fill:{own}}}.t{i}{{fill:{own};fill-opacity:.2}}")
    return "".join(rules)


STYLE = ("text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}.head{font-size:15px;font-weight:600}"
         ".small{font-size:12px}.bold{font-weight:600}.card,.grid,.axis,.rim{stroke-width:1}line,.path{fill:none}"
         ".thick{stroke-width:2}" + colours(LIGHT) + "@media(prefers-color-scheme:dark){" + colours(DARK) + "}")


def number(value):
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


class Figure:
    def __init__(self, title, description, origin, height):
        self.title, self.description, self.origin, self.height = title, description, origin, height
        self.parts = []
        self.text(16, 26, title, "head")
        self.text(16, height - 12, origin, "soft small")

    def text(self, x, y, text, kind="", anchor=""):
        more = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
        self.parts.append(f'<text x="{number(x)}" y="{number(y)}"{more}>{escape(text)}</text>')

    def line(self, x1, y1, x2, y2, kind, dash=""):
        more = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<line x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}" class="{kind}"{more}/>')

    def box(self, x, y, width, height, kind, dash="", round_by=0):
        more = (f' stroke-dasharray="{dash}"' if dash else "") + (f' rx="{round_by}"' if round_by else "")
        self.parts.append(f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}" '
                          f'class="{kind}"{more}/>')

    def path(self, points, kind, dash=""):
        more = f' stroke-dasharray="{dash}"' if dash else ""
        walk = "L".join(f"{number(x)} {number(y)}" for x, y in points)
        self.parts.append(f'<path d="M{walk}" class="path {kind}"{more}/>')

    def mark(self, x, y, series, size=4.5):
        shape, kind = SHAPES[series], f"f{series}"
        if shape == "circle":
            self.parts.append(f'<circle cx="{number(x)}" cy="{number(y)}" r="{size}" class="{kind}"/>')
        elif shape == "square":
            self.box(x - size + .5, y - size + .5, 2 * size - 1, 2 * size - 1, kind)
        else:
            corners = {"up": [(0, -1.2), (1.2, 1), (-1.2, 1)], "diamond": [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)]}[shape]
            walk = "L".join(f"{number(x + size * dx)} {number(y + size * dy)}" for dx, dy in corners)
            self.parts.append(f'<path d="M{walk}Z" class="{kind}"/>')

    def cross(self, x, y, series, size=5):
        for sign in (1, -1):
            self.line(x - size, y - sign * size, x + size, y + sign * size, f"l{series} thick")

    def drawn(self):
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{self.height}" '
                f'viewBox="0 0 {WIDTH} {self.height}" role="img" aria-labelledby="t d">')
        card = f'<rect x=".5" y=".5" width="{WIDTH - 1}" height="{self.height - 1}" rx="6" class="card"/>'
        return "\n".join([head, f'<title id="t">{escape(self.title)}</title>', f'<desc id="d">{escape(self.description)}</desc>',
                          f"<style>{STYLE}</style>", card, *self.parts, "</svg>"]) + "\n"


class Scale:
    """From a number to a place."""

    def __init__(self, low, high, begin, end):
        self.low, self.high, self.begin, self.end = low, high, begin, end

    def __call__(self, value):
        return self.begin + (value - self.low) / (self.high - self.low) * (self.end - self.begin)
