"""Print docs/events.md: every Event that pykueue writes, found in the code, with the words of `eventwords`."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pykueue.base.struct import Frozen
from tests.docsite.eventwords import COMPUTED, MEANINGS, Meaning
from tests.storyfile import ROOT

SOURCE: Final = ROOT / "src/pykueue"
HEAD: Final = """# Events

Every Event that pykueue writes, by the kind of object that it is about. Where Kueue or Kubernetes writes the same
Event, the reason is the same. This page is generated from the code: `make docs`.

An Event is kept for an hour on most clusters. `pykueue history JOB` lists what was decided about a job for longer, and
`pykueue explain JOB` says what holds now.
"""
TABLE: Final = ("| reason | type | meaning |", "| --- | --- | --- |")
REASON_AT: Final = {"Note": 1, "Notice": 0, "JobEvent": 0, "normal": 1, "warning": 1}
"""The position of the reason among the arguments of each call that writes an Event."""
EVENT_AT: Final = {
    "node/hooks.py": 1,
    "node/runner.py": 1,
    "kubecontrollers/scheduler.py": 1,
    "kubecontrollers/jobcontroller.py": 2,
}
"""The same for the methods `event` of controllers."""


class Written(Frozen):
    """A call that writes Events."""

    module: str
    reason: str
    """The reason, or the expression that computes it."""
    computed: bool
    warning: bool | None
    """Whether it is a warning; None if that depends."""


def calls(module: Path) -> Iterator[Written]:
    """The calls in a module that write Events."""
    name = module.relative_to(SOURCE).as_posix()
    for node in ast.walk(ast.parse(module.read_text())):
        place = place_of(node.func, name) if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or place is None or len(node.args) <= place:
            continue
        given = node.args[place]
        fixed = given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else None
        yield Written(name, fixed or ast.unparse(given), fixed is None, is_warning(node))


def place_of(function: ast.expr, module: str) -> int | None:
    """The position of the reason in a call of this function; None if it writes no Event."""
    match function:
        case ast.Name(id="Notice") if not module.startswith("jobs/"):
            return None
        case ast.Name(id=called):
            return REASON_AT.get(called)
        case ast.Attribute(attr="normal" | "warning" as called, value=ast.Attribute(attr="events")):
            return REASON_AT[called]
        case ast.Attribute(attr="event", value=ast.Name(id="self")):
            return EVENT_AT.get(module)
        case _:
            return None


def is_warning(call: ast.Call) -> bool | None:
    """Whether a call writes a warning."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in ("normal", "warning"):
        return call.func.attr == "warning"
    for keyword in call.keywords:
        if keyword.arg == "warning":
            return keyword.value.value is True if isinstance(keyword.value, ast.Constant) else None
    return False


def written() -> Iterator[Written]:
    """Every Event of the product, with one entry for each reason that an expression may give."""
    for module in sorted(SOURCE.rglob("*.py")):
        for call in calls(module):
            if not call.computed:
                yield call
                continue
            place = (call.module, call.reason, call.warning)
            assert place in COMPUTED, f"say in COMPUTED which reasons this gives: {place}"
            yield from (Written(call.module, reason, False, call.warning) for reason in COMPUTED[place])


def types() -> dict[str, set[bool | None]]:
    """The types of the Events of each reason."""
    found: dict[str, set[bool | None]] = {}
    for one in written():
        found.setdefault(one.reason, set()).add(one.warning)
    return found


def type_of(found: set[bool | None]) -> str:
    """The type of Events of a reason, as the page names it."""
    if found == {True}:
        return "Warning"
    return "Normal" if found == {False} else "Normal or Warning"


def row(meaning: Meaning, found: dict[str, set[bool | None]]) -> str:
    """The row of a reason."""
    return f"| `{meaning.reason}` | {type_of(found[meaning.reason])} | {meaning.text} |"


def page() -> str:
    """The whole page."""
    found = types()
    parts = [HEAD]
    for title, about, meanings in MEANINGS:
        parts += [f"## {title}\n", f"{about}\n", *TABLE, *(row(one, found) for one in meanings), ""]
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
