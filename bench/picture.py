"""Render recorded terminal output with its colours as an SVG.

FORCE_COLOR=1 pykueue demo | python -m bench.picture '$ make demo' > docs/images/demo.svg
"""

import re
import sys
from html import escape

SHEET = {
    "30": "#1c2128",
    "31": "#ff7b72",
    "32": "#7ee787",
    "33": "#d29922",
    "34": "#79c0ff",
    "35": "#d2a8ff",
    "36": "#76e3ea",
}
COLUMNS = 100
ADVANCE, LINE, SIZE, MARGIN, BAR = 8.4, 19, 14, 16, 34
STYLE = re.compile(r"\x1b\[([0-9;]*)m")


def spans(line: str) -> str:
    """The pieces of a line, each in its colour."""
    made, colour = [], ""
    for index, piece in enumerate(STYLE.split(line)):
        if index % 2:
            colour = next((SHEET[code] for code in piece.split(";") if code in SHEET), "")
        elif piece:
            fill = f' fill="{colour}"' if colour else ""
            made.append(f"<tspan{fill}>{escape(piece)}</tspan>")
    return "".join(made)


def picture(text: str, title: str = "") -> str:
    """An SVG of a terminal that shows this text."""
    lines = text.rstrip("\n").split("\n")
    columns = max(COLUMNS, *(len(STYLE.sub("", line)) for line in lines))
    width = round(columns * ADVANCE) + 2 * MARGIN
    height = BAR + (len(lines) + (title != "")) * LINE + 2 * MARGIN
    first = [f'<tspan fill="#8b949e">{escape(title)}</tspan>'] if title else []
    rows = [*first, *map(spans, lines)]
    dots = "".join(
        f'<circle cx="{MARGIN + 6 + 20 * index}" cy="{BAR // 2}" r="6" fill="{fill}"/>'
        for index, fill in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    body = "\n".join(
        f'<text x="{MARGIN}" y="{BAR + MARGIN + SIZE + index * LINE}" xml:space="preserve">{row}</text>'
        for index, row in enumerate(rows)
    )
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">
<title>A recorded run of pykueue in a terminal</title>
<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>
{dots}
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="{SIZE}" fill="#e6edf3">
{body}
</g>
</svg>
"""


if __name__ == "__main__":
    print(picture(sys.stdin.read(), " ".join(sys.argv[1:])), end="")
