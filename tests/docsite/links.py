"""Find links of the documentation that lead nowhere: `python -m tests.docsite.links` prints them."""

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.docsite.pages import Link, anchors, links, pages
from tests.storyfile import ROOT


def broken(root: Path) -> list[str]:
    """What is wrong with the links of each page, with the place of each."""
    return [
        f"{page}:{link.line}: {link.target}: {wrong}"
        for page in pages(root)
        for link in links((root / page).read_text())
        if not link.leaves
        for wrong in faults(root, page, link)
    ]


def faults(root: Path, page: str, link: Link) -> Iterator[str]:
    """What is wrong with a link of a page."""
    if link.target.startswith("/"):
        yield "begins with a slash; write it relative to the page"
        return
    file = (root / page).parent / link.path if link.path else root / page
    if not file.exists():
        yield "there is no such file"
    elif not file.resolve().is_relative_to(root.resolve()):
        yield "leads out of the repository"
    elif link.anchor and file.suffix == ".md" and link.anchor not in anchors_of(file):
        yield "there is no such heading"
    elif file.is_dir() and not (file / "README.md").is_file():
        yield "is a folder without a README.md; link to a file"


@cache
def anchors_of(file: Path) -> frozenset[str]:
    """The names of the headings of a page."""
    return anchors(file.read_text())


if __name__ == "__main__":
    found = broken(ROOT)
    print("\n".join(found))
    sys.exit(1 if found else 0)
