"""The decisions about a workload in journals."""

import re
from collections.abc import Iterable
from pathlib import Path

from pykueue.api.explanations import PastDecision
from pykueue.base.units import format_instant
from pykueue.engine.decisions import Decision
from pykueue.engine.record.explain import explain
from pykueue.engine.record.journal import decisions_in

HASH = "[0-9a-f]{5}"


def found_in(files: Iterable[str], name: str, namespace: str | None) -> dict[str, list[PastDecision]]:
    """The decisions about each workload of this name, or of a Job of this name, in order of time.

    Raises `OSError`, and `JournalError` for a file that is no journal.
    """
    wanted = re.compile(
        rf"{re.escape(namespace) if namespace else '[^/]+'}/({re.escape(name)}|job-{re.escape(name)}-{HASH})"
    )
    known: dict[str, list[Decision]] = {}
    for file in files:
        with Path(file).open("rb") as lines:
            # A manager that was killed may have left an incomplete last line.
            whole = (line for line in lines if line.endswith(b"\n"))
            for decision in decisions_in(whole, name):
                if wanted.fullmatch(decision.workload):
                    known.setdefault(decision.workload, []).append(decision)
    return {key: [past(one) for one in sorted(found, key=lambda one: one.at)] for key, found in sorted(known.items())}


def past(decision: Decision) -> PastDecision:
    """A decision and its sentence."""
    return PastDecision(format_instant(decision.at), type(decision).__name__, explain(decision))
