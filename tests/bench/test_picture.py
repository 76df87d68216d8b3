"""Is what a terminal showed what the picture shows?"""

import xml.etree.ElementTree as ElementTree

from bench.picture import picture

SVG = "{http://www.w3.org/2000/svg}"


def test_every_line_is_there_in_its_colours() -> None:
    found = ElementTree.fromstring(picture("  0.1s \x1b[31mtrain\x1b[0m waits: 1 < 2 & more\n\nend\n", "$ make demo"))
    rows = list(found.iter(f"{SVG}text"))
    assert ["".join(row.itertext()) for row in rows] == ["$ make demo", "  0.1s train waits: 1 < 2 & more", "", "end"]
    assert [(piece.text, piece.get("fill")) for piece in rows[1]] == [
        ("  0.1s ", None),
        ("train", "#ff7b72"),
        (" waits: 1 < 2 & more", None),
    ]
