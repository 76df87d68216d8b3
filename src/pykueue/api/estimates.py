"""The answer to the question when a workload will start, and how to put it in words."""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from pykueue.api.core import ObjectMeta
from pykueue.api.query import QUERY_GROUP, QUERY_VERSION
from pykueue.base.struct import Frozen, Wire
from pykueue.base.units import MICROS, Instant, parse_instant

ESTIMATE: Final = "Estimate"
SOON_SECONDS: Final = 60
"""A start within this time is one now."""
RELIED_ON: Final = 0.7
"""The share of right estimates below which a range is not said to be that of nine of ten runs."""
JUDGED_MIN: Final = 5
"""How many estimates are enough for that."""
HORIZON_DAYS: Final = 30
"""How far the state is run forward."""


class StartState(StrEnum):
    """Where a workload is."""

    PENDING = "Pending"
    GATED = "Gated"
    """It waits for other jobs, for a time, or for another gate, and is not in line."""
    HELD = "Held"
    NEVER = "Never"
    """It starts in no run, and cannot unless it or its queue changes."""
    STARTED = "Started"
    FINISHED = "Finished"


class RunTimeSources(Frozen):
    """What the run times of some workloads rest on."""

    workloads: int = 0
    without_limit: int = 0
    """How many of them declare no limit of their run time."""
    guessed: int = 0
    """How many of those without a limit are of a queue of which no job has finished."""
    few: int = 0
    """How many of those without a limit are known by fewer than five finished jobs like them."""
    fewest: int = 0
    """The fewest finished jobs by which one of these is known."""


class Calibration(Wire, omit_defaults=False):
    """How good the latest estimates were, of those jobs that have started since."""

    estimates: int = 0
    right: int = 0
    """How many started within the range of their estimate."""


class EstimateStatus(Wire, omit_defaults=False):
    """When a workload will start."""

    state: StartState
    asked: str = ""
    """When the question was asked."""
    started: str = ""
    """When it started; empty if it has not."""
    earliest: str = ""
    """Nine of ten runs start between this and the next; empty if none starts."""
    latest: str = ""
    """Empty if more than one of twenty runs does not start it within `horizonDays`."""
    median: str = ""
    runs: int = 0
    runs_that_start: int = 0
    horizon_days: int = HORIZON_DAYS
    arrivals: str = "ignored"
    """Whether other jobs arrive in the runs: `ignored` or `learned`."""
    ahead: int = 0
    """How many workloads hold quota of its cohort, or wait in its ClusterQueue before it."""
    ahead_without_limit: int = 0
    """How many of those declare no limit of their run time."""
    ahead_guessed: int = 0
    """How many of those declare none and are of a queue of which no job has finished: their run time is a guess."""
    ahead_few: int = 0
    """How many of those declare none and are known by fewer than five finished jobs like them."""
    fewest: int = 0
    """The fewest finished jobs by which one of these is known."""
    calibration: Calibration = Calibration()
    reason: str = ""
    """Why it is held or gated, or starts in no run."""
    not_before: str = ""
    """Until when it is gated, if it waits for a time only."""
    message: str = ""
    """The same in words."""


class Estimate(Wire, omit_defaults=False):
    """The response."""

    kind: str = ESTIMATE
    api_version: str = f"{QUERY_GROUP}/{QUERY_VERSION}"
    metadata: ObjectMeta = ObjectMeta()
    status: EstimateStatus = EstimateStatus(StartState.PENDING)


def words(found: EstimateStatus, shown: Callable[[str], str] = str) -> str:
    """An estimate in a sentence or two; `shown` prints a time."""
    match found.state:
        case StartState.FINISHED:
            return "has finished"
        case StartState.STARTED:
            return f"has started at {shown(found.started)}"
        case StartState.HELD | StartState.NEVER:
            return found.reason
        case StartState.GATED if found.not_before:
            return f"not before {shown(found.not_before)}, and cannot be estimated until then"
        case StartState.GATED:
            return f"{found.reason}, so it cannot be estimated"
        case StartState.PENDING:
            pass
    known = RunTimeSources(found.ahead, found.ahead_without_limit, found.ahead_guessed, found.ahead_few, found.fewest)
    parts = [expected(found, shown), *honesty(known, "ahead")]
    sentence = "; ".join(parts)
    good = found.calibration
    if not good.estimates:
        return sentence
    if good.estimates == 1:
        return f"{sentence}. The last estimate was {'right' if good.right else 'wrong'}"
    only, verb = "only " if unreliable(good) else "", "was" if good.right == 1 else "were"
    return f"{sentence}. Of the last {good.estimates} estimates {only}{good.right} {verb} right"


def unreliable(found: Calibration) -> bool:
    """Whether so few of the latest estimates were right that ranges are not what they claim to be."""
    return found.estimates >= JUDGED_MIN and found.right < RELIED_ON * found.estimates


def expected(found: EstimateStatus, shown: Callable[[str], str]) -> str:
    """When it starts."""
    runs = f"{found.runs} runs"
    missed = found.runs - found.runs_that_start
    if not found.runs_that_start:
        why = f": {found.reason}" if found.reason else ""
        return f"does not start within {found.horizon_days} days in any of {runs}{why}"
    if not found.latest:
        return f"starts at {shown(found.earliest)} or later; in {missed} of {runs} not within {found.horizon_days} days"
    if micros(found.latest) - micros(found.asked) <= SOON_SECONDS * MICROS:
        return "starts now"
    share = "" if unreliable(found.calibration) else " (nine of ten runs)"
    return f"starts between {shown(found.earliest)} and {shown(found.latest)}{share}"


def honesty(found: RunTimeSources, which: str) -> list[str]:
    """What is not known of the run times of the workloads that `which` describes."""
    parts = []
    if found.without_limit:
        verb = "declares" if found.without_limit == 1 else "declare"
        parts.append(f"{found.without_limit} of {found.workloads} {which} {verb} no time limit")
    alone = found.without_limit == 1
    if found.guessed:
        which_ones = "it" if alone else f"{found.guessed} of them"
        guess = "its run time is" if found.guessed == 1 else "their run times are"
        parts.append(f"no job like {which_ones} has finished yet, so {guess} a guess")
    if found.few:
        finished = "1 finished job" if found.fewest == 1 else f"{found.fewest} finished jobs"
        if alone:
            parts.append(f"its run time rests on only {finished} like it")
        elif found.few == 1:
            parts.append(f"the run time of 1 of them rests on only {finished} like it")
        else:
            parts.append(f"the run times of {found.few} of them rest on as few as {finished} like them")
    return parts


def micros(text: str) -> Instant:
    """A time in the answer."""
    return parse_instant(text)
