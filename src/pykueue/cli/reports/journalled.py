"""The material of a report from the journals of a manager or server; `workloadlives` follows each workload."""

import re
from collections.abc import Iterable, Iterator
from heapq import nlargest
from pathlib import Path
from typing import Final

import msgspec

from pykueue.base.units import Instant
from pykueue.cli.reports.workloadlives import Life, Lives
from pykueue.engine.record.checkpoint import Checkpoint
from pykueue.engine.record.explain import because
from pykueue.engine.record.journal import DECIDED, Decided, JournalError, Observed, read
from pykueue.reports.figures import LONGEST
from pykueue.reports.records import NO_QUEUE, Holding, Job, Material, Period

TITLE: Final = "Queue report"
OF_JOB: Final = re.compile(r"([^/]*)/job-(.+)-[0-9a-f]{5}")
"""The name of the Workload of a Job."""
HEADER: Final = b'{"type":"Journal"'
NO_CALIBRATION: Final = "journals do not record estimates of start times"


class Now(msgspec.Struct):
    """The time of a call of `decide`."""

    now: Instant


NOW: Final = msgspec.json.Decoder(Now)


def files_in(place: str) -> list[Path]:
    """The journals at a path, oldest first: of a folder all in it, of a file also the rotated ones beside it.

    Raises `OSError`, and `JournalError` if there is none.
    """
    path = Path(place)
    if path.is_dir():
        found = [one for one in sorted(path.iterdir()) if one.is_file() and begins_as_journal(one)]
    else:
        found = [path, *path.parent.glob(f"{path.name}.[0-9]*")]
    timed = [(at, file) for file in found if (at := first_instant(file)) is not None]
    if not timed:
        raise JournalError(
            f"{place}: there is no journal with a decision; write one with --journal of `manager` or `up`"
        )
    return [file for _, file in sorted(timed)]


def begins_as_journal(file: Path) -> bool:
    """Whether a file begins as journals do."""
    with file.open("rb") as opened:
        return opened.read(len(HEADER)) == HEADER


def whole_lines(file: Path) -> Iterator[bytes]:
    """The lines of a file; a manager that was killed may have left an incomplete last one."""
    with file.open("rb") as lines:
        yield from (line for line in lines if line.endswith(b"\n"))


def first_instant(file: Path) -> Instant | None:
    """The time of the first decision; None if there is none."""
    try:
        return next((NOW.decode(line).now for line in whole_lines(file) if line.startswith(DECIDED)), None)
    except msgspec.DecodeError as error:
        raise JournalError(f"{file}: {error}; this is no journal") from error


def followed(files: Iterable[Path]) -> Lives:
    """What happened to all workloads in these journals, oldest first; raises `JournalError`."""
    lives = Lives()
    for file in files:
        # Facts have no time of their own; the next decision, which follows at once, has.
        waiting: list[Checkpoint | Observed] = []
        try:
            for _, line in read(whole_lines(file)):
                if not isinstance(line, Decided):
                    waiting.append(line)
                    continue
                lives.at(line.now)
                for one in waiting:
                    lives.begin(one) if isinstance(one, Checkpoint) else lives.observe(one.fact)
                waiting.clear()
                for decision in line.decisions:
                    lives.decide(decision)
        except JournalError as error:
            raise JournalError(f"{file}: {error}") from error
    return lives


def material(place: str, since: int, namespace: str | None, offset: int) -> Material:
    """Everything that a report shows of journals: the last time in them, so long; raises `OSError`, `JournalError`."""
    files = files_in(place)
    lives = followed(files)
    begin, end = lives.first, lives.now
    asked_since = Instant(max(0, end - since))
    period = Period(max(begin, asked_since), end)
    jobs: list[Job] = []
    holdings: list[Holding] = []
    chosen: list[Life] = []
    for life in lives.all():
        life.close(end)
        if (namespace is None or life.namespace == namespace) and life.last >= period.begin:
            chosen.append(life)
            jobs.append(job_of(life, lives))
            holdings += life.holdings
    for place_ in nlargest(LONGEST, range(len(jobs)), key=lambda one: jobs[one].waited):
        jobs[place_] = msgspec.structs.replace(jobs[place_], reason=reason_of(chosen[place_]))
    names = f"{len(files)} journals in {place}" if len(files) > 1 else str(files[0])
    return Material(
        TITLE,
        period,
        asked_since,
        f"From {names}{f', namespace {namespace}' if namespace else ''}.",
        tuple(jobs),
        tuple(holdings),
        tuple(lives.quotas),
        (NO_CALIBRATION,),
        offset=offset,
    )


def job_of(life: Life, lives: Lives) -> Job:
    """A workload as a report shows it."""
    queue = life.queue or lives.local.get(life.local_queue) or life.local_queue.strip("/") or NO_QUEUE
    return Job(
        OF_JOB.sub(r"\1/\2", life.key),
        queue,
        life.created,
        sum(end - begin for begin, end in life.waits),
        life.state,
        life.started,
        life.ended,
        "",
        life.preempted,
        life.lost,
        life.requests,
        tuple(life.runs),
        tuple(life.waits),
        life.waiting is not None,
        life.running is not None,
    )


def reason_of(life: Life) -> str:
    """Why a workload waited last; empty if that was not decided."""
    return "" if life.waits_for is None else because(life.waits_for)
