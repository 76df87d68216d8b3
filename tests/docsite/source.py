"""Assemble the input of the site: the pages, pictures and examples of this repository, at the same relative paths.

`make docs` calls it before mkdocs. Links between pages then work as they are written, on a Git host and on the site.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Final

from tests.docsite.pages import links, pages
from tests.storyfile import ROOT

EXTRAS: Final = ("docs/images", "docs/site")
"""Folders that pages or the theme need besides the files that pages link to."""


def assemble(root: Path, target: Path) -> None:
    """Write the input of the site into an empty folder `target`."""
    shutil.rmtree(target, ignore_errors=True)
    for page in pages(root):
        copied = target / page
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_text(with_files(root, page))
        for file in linked(root, page):
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / file, target / file)
    for folder in EXTRAS:
        shutil.copytree(root / folder, target / folder, dirs_exist_ok=True)


def linked(root: Path, page: str) -> list[Path]:
    """The files that a page links to and that are no pages, from the root."""
    paths = {(root / page).parent / link.path for link in links((root / page).read_text()) if not link.leaves}
    files = sorted(path.resolve() for path in paths if path.is_file() and path.suffix != ".md")
    return [file.relative_to(root.resolve()) for file in files]


def with_files(root: Path, page: str) -> str:
    """The text of a page whose links name the README.md of a folder instead of the folder."""
    text = (root / page).read_text()
    for link in links(text):
        folder = (root / page).parent / link.path
        if not link.leaves and link.path and folder.is_dir():
            text = text.replace(f"]({link.target})", f"]({os.path.join(link.path, 'README.md')})")
    return text


if __name__ == "__main__":
    assemble(ROOT, Path(sys.argv[1]))
