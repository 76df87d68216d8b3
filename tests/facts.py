"""Which facts of the specification does a story hold? `python -m tests.facts` lists them, and fails for the rest."""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from pykueue.base.struct import Frozen
from tests.storyfile import ROOT, stories, story_files

PAGES = "docs/spec"
FACT = re.compile(r"^- \*\*([A-Z]+\d*(?:-\d+)?)\*\* (.*)$", re.MULTILINE)
STATE = re.compile(r"\((deferred|differs): ([^()]*(?:\([^()]*\)[^()]*)*)\)\s*$")
CLAIM = re.compile(r"^[ \t]*@covers\(([^)]*)\)", re.MULTILINE)
NAMED = re.compile(r"[\"']([^\"']+)[\"']")

Test = TypeVar("Test")


def covers(*_facts: str) -> Callable[[Test], Test]:
    """Mark a test in Python as the one that holds these facts, where no story of the engine can."""
    return lambda test: test


class Fact(Frozen):
    """A line of the specification: in scope unless its end says otherwise."""

    id: str
    page: str
    state: str = ""
    note: str = ""


class Claim(Frozen):
    """A story or test that says it holds a fact."""

    fact: str
    by: str


def facts(root: Path) -> list[Fact]:
    """Every rule and fact of the specification, in its order."""
    found = []
    for page in sorted((root / PAGES).glob("*.md")):
        for name, text in FACT.findall(page.read_text()):
            state = STATE.search(text)
            found.append(Fact(name, page.name, state[1] if state else "", state[2] if state else ""))
    return found


def claims(root: Path) -> Iterator[Claim]:
    """What stories list under `covers`, and tests in their decorator."""
    for path in story_files(root):
        for told in stories(path):
            listed = told.tree.get("covers") or []
            for fact in listed if isinstance(listed, list) else [listed]:
                yield Claim(str(fact), f"{path.relative_to(root)}: {told.name!r}")
    for path in sorted((root / "tests").rglob("*.py")):
        for marked in CLAIM.findall(path.read_text()):
            for fact in NAMED.findall(marked):
                yield Claim(fact, str(path.relative_to(root)))


def broken(known: list[Fact], claimed: list[Claim]) -> Iterator[str]:
    """What is missing or contradicts itself, as sentences that say what to do."""
    held = {claim.fact for claim in claimed}
    states = {fact.id: fact for fact in known}
    for fact in known:
        if fact.state != "deferred" and fact.id not in held:
            shows = "ours" if fact.state == "differs" else "it"
            yield f"{fact.id} ({fact.page}): no story; write one that shows {shows}, with `covers: [{fact.id}]`"
    for claim in claimed:
        found = states.get(claim.fact)
        if found is None:
            yield f"{claim.by}: covers {claim.fact}, which is no fact; define it in {PAGES}/, or correct the id"
        elif found.state == "deferred":
            remedy = "take the mark off its line, or the id off here"
            yield f"{claim.by}: covers {claim.fact}, which is deferred ({found.note}); {remedy}"
    for name in (name for name, times in Counter(fact.id for fact in known).items() if times > 1):
        yield f"{name}: is defined more than once; number the later one anew"


def report(known: list[Fact], claimed: list[Claim]) -> Iterator[str]:
    """Three lists: facts with a story, differences with a story, and what is deferred to which feature."""
    times = Counter(claim.fact for claim in claimed)
    for state, title in (("", "in scope, with a story"), ("differs", "deliberately different, with a story of ours")):
        every = [fact for fact in known if fact.state == state]
        held = [fact for fact in every if fact.id in times]
        yield f"{title}: {len(held)} of {len(every)}"
        counted = [f"{fact.id} (x{times[fact.id]})" if times[fact.id] > 1 else fact.id for fact in held]
        yield from (f"  {line}" for line in wrapped(counted))
    features: dict[str, list[str]] = {}
    for fact in known:
        if fact.state == "deferred":
            features.setdefault(fact.note, []).append(fact.id)
    yield f"deferred: {sum(map(len, features.values()))}"
    for feature, listed in sorted(features.items()):
        first, *rest = wrapped(listed)
        yield f"  {feature}: {first}"
        yield from (f"    {line}" for line in rest)


def wrapped(words: list[str], width: int = 110) -> list[str]:
    """Words in lines of a readable width."""
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) + 1 > width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines


def main() -> int:
    """Print the lists and what is broken; the exit code says whether anything is."""
    known, claimed = facts(ROOT), list(claims(ROOT))
    for line in report(known, claimed):
        print(line)
    wrong = list(broken(known, claimed))
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(wrong)} broken" if wrong else "every fact has its story", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
