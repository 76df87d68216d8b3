"""The findings as text: paragraphs for people, rows and documents for programs."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pykueue.base.text import printable
from pykueue.cli.doctor.inventory import NOT_HERE, Severity
from pykueue.cli.doctor.table import CHECKS, SKIP, Finding, Skipped
from pykueue.cli.formats import Column
from pykueue.cli.tables import hanging, painted

COLOURS: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: None}
COLUMNS: Final[Sequence[Column[Finding]]] = (
    Column("SEVERITY", lambda row: row.severity, colour=lambda row: COLOURS[row.severity]),
    Column("ID", lambda row: row.id),
    Column("OBJECT", lambda row: row.object),
    Column("MESSAGE", lambda row: row.message),
    Column("REMEDY", lambda row: row.remedy),
    Column("WHERE", lambda row: row.where),
    Column("DOCS", lambda row: row.docs),
)
INDENT: Final = "  "


def paragraphs(findings: Sequence[Finding], *, colour: bool) -> Iterator[str]:
    """Each finding with its remedy, wrapped for a terminal."""
    for one in findings:
        head = f"{one.id}  {printable(one.object)}"
        yield f"{painted(one.severity, COLOURS[one.severity], on=colour)}  {head}"
        yield from hanging(INDENT, printable(one.message))
        yield from hanging(f"{INDENT}remedy: ", printable(one.remedy))
        if one.where:
            yield from hanging(f"{INDENT}in: ", printable(one.where))
        yield f"{INDENT}see: {one.docs}"
        yield ""


def document(findings: Sequence[Finding], skipped: Sequence[Skipped]) -> dict[str, object]:
    """The findings for json and yaml."""
    return {"items": list(findings), "notRun": list(skipped)}


def summary(findings: Sequence[Finding], skipped: Sequence[Skipped], *, complete: bool) -> str:
    """How many findings there are, and how many checks were run; not complete if files could not be read."""
    counts = {each: sum(one.severity is each for one in findings) for each in Severity}
    parts = [f"{count} {each}{'s' if count > 1 else ''}" for each, count in counts.items() if count]
    run = len(CHECKS) - len(skipped)
    found = ", ".join(parts) or "Nothing found"
    rest = "" if complete else " in the readable files"
    return f"{found}{rest}; {run} of {len(CHECKS)} checks run."


def left_out(skipped: Sequence[Skipped], *, live: bool) -> Iterator[str]:
    """What was not checked although it may matter, and why, one line for each reason."""
    for why, ids in by_reason(one for one in skipped if may_matter(one, live=live)):
        yield f"not checked, because {why}: {', '.join(ids)}"


def not_run(skipped: Sequence[Skipped], *, live: bool) -> Iterator[str]:
    """The other checks that were not run, and why, one line for each reason."""
    for why, ids in by_reason(one for one in skipped if not may_matter(one, live=live)):
        yield f"Not run, because {'of --skip' if why == SKIP else why}: {', '.join(ids)}."


def may_matter(one: Skipped, *, live: bool) -> bool:
    """Whether a user would want to know that a check was not run, whatever he asked for."""
    # Of manifests, which are seldom complete, only the errors that may be missed.
    return one.why not in (SKIP, NOT_HERE) and (live or one.severity is Severity.ERROR)


def by_reason(skipped: Iterable[Skipped]) -> Iterable[tuple[str, list[str]]]:
    """The ids of checks that were not run, by the reason."""
    reasons: dict[str, list[str]] = {}
    for one in skipped:
        reasons.setdefault(one.why, []).append(one.id)
    return reasons.items()
