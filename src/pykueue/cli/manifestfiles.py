"""Read the files named on the command line, up to a size limit, and describe those that cannot be read."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pykueue.api.yamltext import TEXT_MAX
from pykueue.sim.manifests import BYTES_MAX, Mistake

SUFFIXES: Final = (".yaml", ".yml", ".json")


def content(file: str | Path, most: int = TEXT_MAX) -> bytes:
    """The bytes of a file, at most one more than `most`; raises as `open` does."""
    with Path(file).open("rb") as opened:
        return opened.read(most + 1)


def unreadable(error: OSError | ValueError) -> str:
    """The error for a file that cannot be read."""
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return f"cannot be read: {reason}; check the path and its permissions"


def contents(name: str, mistakes: list[Mistake]) -> Iterator[tuple[str, bytes]]:
    """The name and content of a file, of each manifest in a directory, or of standard input (`-`)."""
    if name == "-":
        yield "<stdin>", sys.stdin.buffer.read(BYTES_MAX + 1)
        return
    try:
        path = Path(name)
        if not path.is_dir():
            yield name, content(path, BYTES_MAX)
            return
        inside = sorted(one for one in path.iterdir() if one.suffix in SUFFIXES and one.is_file())
        if not inside:
            mistakes.append(
                Mistake(name, f"the directory contains no manifests; their names must end in {', '.join(SUFFIXES)}")
            )
        for one in inside:
            yield str(one), content(one, BYTES_MAX)
    except (OSError, ValueError) as error:
        mistakes.append(Mistake(name, unreadable(error)))
