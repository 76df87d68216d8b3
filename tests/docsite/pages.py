"""The pages of the documentation, and the parts of Markdown that its checks and its site need: headings and links."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pykueue.base.struct import Frozen
from tests.docsite.hooks import slugify

PLACES: Final = ("*.md", "docs/**/*.md", "examples/*/README.md", "bench/*/README.md", "deploy/**/*.md")
"""Where the pages are, from the root of the repository."""
FENCED: Final = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
SPAN: Final = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
LINK: Final = re.compile(r"\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)\)")
HEADING: Final = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
EXTERNAL: Final = re.compile(r"[a-z][a-z+.-]*:")


class Link(Frozen):
    """A link of a page, or an image in it."""

    line: int
    target: str
    """As it is written."""

    @property
    def path(self) -> str:
        """The path of the file, from the folder of the page; empty for the page itself."""
        return self.target.partition("#")[0]

    @property
    def anchor(self) -> str:
        """The heading within that file; empty for the whole file."""
        return self.target.partition("#")[2]

    @property
    def leaves(self) -> bool:
        """Whether it leads out of the documentation."""
        return EXTERNAL.match(self.target) is not None


def pages(root: Path) -> list[str]:
    """The paths of all pages from the root, in order."""
    return sorted({str(page.relative_to(root)) for place in PLACES for page in root.glob(place)})


def blanked(found: re.Match[str]) -> str:
    """The lines of a match without their text, so that what follows keeps its line number and place."""
    return re.sub(r"[^\n]", " ", found[0])


def prose(text: str) -> str:
    """A page without its code and comments; every other character stays in its place."""
    for hidden in (COMMENT, FENCED, SPAN):
        text = hidden.sub(blanked, text)
    return text


def links(text: str) -> Iterator[Link]:
    """The links and images of a page."""
    shown = prose(text)
    for found in LINK.finditer(shown):
        yield Link(shown.count("\n", 0, found.start()) + 1, found[1])


def anchors(text: str) -> frozenset[str]:
    """The names by which links reach the headings of a page, as Git hosts and the site derive them."""
    found: dict[str, int] = {}
    for heading in HEADING.findall(COMMENT.sub(blanked, FENCED.sub(blanked, text))):
        name = slug(heading)
        found[name] = found.get(name, 0) + 1
    repeated = {f"{name}-{number}" for name, times in found.items() for number in range(1, times)}
    return frozenset(found) | repeated


def slug(heading: str) -> str:
    """The name of a heading: its visible text in lower case, without punctuation, with hyphens for blanks."""
    visible = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
    return slugify(visible)
