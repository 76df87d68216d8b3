"""Write CHANGELOG.md: `make changelog` puts the fragments of changelog.d under the version of pyproject.toml.

It can be repeated until a release; `--release` also deletes the fragments, which then belong to that version for good.
"""

import argparse
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pykueue.base.struct import Frozen
from tests.storyfile import ROOT

FILE: Final = "CHANGELOG.md"
FOLDER: Final = "changelog.d"
KINDS: Final = {"behaviour": "Behaviour", "feature": "Features", "fix": "Fixes", "internal": "Internal"}
"""The kinds of fragments, in the order of the release notes, with their headings."""
NAME: Final = re.compile(rf"(\d+)\.({'|'.join(KINDS)})\.md")
HEAD: Final = """# Changelog

What changed for users and contributors, by version. *Behaviour* lists what an admitted, waiting or evicted job would
see differently.
"""


class Fragment(Frozen):
    """The notes of one kind on one issue."""

    issue: int
    kind: str
    text: str


def fragments(folder: Path) -> list[Fragment]:
    """The fragments of a folder, the latest issue first; raises ValueError for any other file but its README."""
    found = []
    for file in sorted(folder.glob("*")):
        if file.name == "README.md":
            continue
        name = NAME.fullmatch(file.name)
        if name is None:
            raise ValueError(f"{file.name}: name it ISSUE.KIND.md, with one of the kinds {', '.join(KINDS)}")
        found.append(Fragment(int(name[1]), name[2], file.read_text()))
    return sorted(found, key=lambda one: -one.issue)


def points(text: str) -> Iterator[str]:
    """The paragraphs of a fragment as points of a list; a table follows its point as it is."""
    for paragraph in re.split(r"\n{2,}|\n(?=[*-] )", text.strip().replace("](../", "](")):
        if paragraph.startswith("|"):
            yield f"\n{paragraph}\n"
        else:
            yield "- " + re.sub(r"\n *", "\n  ", re.sub(r"^[*-] +", "", paragraph))


def section(version: str, found: list[Fragment]) -> str:
    """The section of a version."""
    parts = [f"## {version}\n"]
    for kind, title in KINDS.items():
        chosen = [point for one in found if one.kind == kind for point in points(one.text)]
        if chosen:
            parts.append("\n".join([f"### {title}\n", *chosen, ""]))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts))


def assembled(text: str, version: str, found: list[Fragment]) -> str:
    """The changelog with the section of a version in place of an earlier one, or before all others."""
    if not found:
        return text
    _, *older = re.split(r"(?m)^(?=## )", text)
    kept = [one for one in older if not one.startswith(f"## {version}\n")]
    return "\n".join([HEAD, section(version, found), *kept]).rstrip("\n") + "\n"


def main(root: Path, *, release: bool) -> None:
    """Write the changelog of a repository."""
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    file = root / FILE
    text = file.read_text() if file.exists() else ""
    file.write_text(assembled(text, version, fragments(root / FOLDER)))
    for fragment in (root / FOLDER).glob("*"):
        if release and fragment.name != "README.md":
            fragment.unlink()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--release", action="store_true", help="delete the fragments")
    main(ROOT, release=parser.parse_args().release)
