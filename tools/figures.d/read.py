"""What the figures are drawn from: tables and sentences of the documents, and the small tables beside the figures. What is
not found ends the tool, so that no figure shows what its source no longer says."""
import csv
import re
import sys


def lacks(file, what):
    sys.exit(f"tools/figures: {file} has no {what}")


def table(root, file, column):
    """-> the table with this text in its heading: {first cell: [other cells]}, and its heading"""
    rows, heading = {}, None
    for line in (root / file).read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            if heading:
                break
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if heading and not cells[0].startswith("---"):
            rows[cells[0]] = cells[1:]
        elif not heading and column in cells:
            heading = cells[1:]
    if not heading:
        lacks(file, f"table with {column!r}")
    return rows, heading


def value(text):
    """`1,632 (1,045-1,659) ...` -> 1632, 1045, 1659; without a range the least and the largest are the number itself"""
    found = [float(each.replace(",", "")) for each in re.findall(r"\d[\d,]*\.?\d*", text)]
    ranged = re.match(r"[\d.,]+[^(]*\(([\d.,]+)-([\d.,]+)\)", text)
    return (found[0], *(float(each.replace(",", "")) for each in ranged.groups())) if ranged else (found[0],) * 3


def said(root, file, pattern, times=1):
    """-> what the pattern's groups find in the document, whose lines are joined; a list of that, if it is there so many times"""
    text = " ".join((root / file).read_text(encoding="utf-8").split())
    found = [each.groups() for each in re.finditer(pattern, text)]
    if len(found) != times:
        lacks(file, f"{times} of {pattern}")
    return found[0] if times == 1 else found


def beside(root, name):
    """-> how docs/explanation/NAME.csv was made, and its rows"""
    file = root / f"docs/explanation/{name}.csv"
    if not file.exists():
        lacks(file.relative_to(root), "rows")
    origin, *lines = file.read_text(encoding="utf-8").splitlines()
    return origin.lstrip("# ").split(": ")[0], list(csv.DictReader(lines))
