"""What did the real server answer? `python -m tests.conformance.record` asks it all, and writes it to a file.

The file is kept with the chapters. `make test` compares the embedded API with it; `make e2e` asks the real server anew
and compares it with the file.
"""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

from tests.conformance.servers import real
from tests.conformance.steps import CHAPTERS, HERE, Chapter, chapters

FILE = HERE / "recorded.json.gz"


def digest(chapter: Chapter) -> str:
    """Changes with every change of a chapter."""
    return hashlib.sha256((CHAPTERS / f"{chapter.name}.yaml").read_bytes()).hexdigest()[:16]


def recorded(chapter: Chapter, file: Path = FILE) -> list[dict[str, Any]]:
    """What the real server answered to a chapter as it is now."""
    with gzip.open(file, "rt") as text:
        kept = json.load(text).get(chapter.name, {})
    if kept.get("digest") != digest(chapter):
        raise AssertionError(f"{chapter.name} has changed: record it anew by `python -m tests.conformance.record`")
    answers: list[dict[str, Any]] = kept["answers"]
    return answers


def main() -> None:
    with real() as server:
        kept = {one.name: {"digest": digest(one), "answers": server.play(one)} for one in chapters()}
    # Neither a name nor a time in the file: what did not change gives the same bytes.
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    FILE.write_bytes(gzip.compress(text.encode(), mtime=0))
    count = sum(len(one["answers"]) for one in kept.values())
    print(f"{count} answers in {FILE.relative_to(HERE.parent.parent)}")


if __name__ == "__main__":
    main()
