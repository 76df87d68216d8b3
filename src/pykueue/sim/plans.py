"""How a job behaves: its arrival, run time and stop time, from its annotations."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from pykueue.api.durations import DurationError, Micros, parse_duration
from pykueue.api.fields import FieldError, invalid
from pykueue.api.names import Annotation
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant, format_instant, parse_instant

PREFIX: Final = "pykueue.io/"
RUN: Final = "pykueue.io/run-seconds"
ARRIVAL: Final = "pykueue.io/arrival"
READY: Final = "pykueue.io/ready-seconds"
STOP: Final = "pykueue.io/stop-seconds"
CHECKPOINT: Final = "pykueue.io/checkpoint"
ANSWER: Final = "pykueue.io/check"
OF_A_JOB: Final = (RUN, ARRIVAL, READY, STOP, CHECKPOINT)
KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "Job": OF_A_JOB,
    "Workload": OF_A_JOB,
    "AdmissionCheck": (ANSWER, Annotation.CHECK_TIMEOUT),
    "Cohort": (Annotation.ADMISSION_MODE,),
}
"""Our annotations, by the kind of object that may have them."""

OF_THE_PRODUCT: Final = frozenset(
    {one.value for one in Annotation if one.startswith(PREFIX)}
    | {f"{PREFIX}{name}" for name in ("command", "follower", "hold", "limits")}
)
"""Annotations that the server and `pykueue run` set; a simulation ignores them."""
CLOSE: Final = 0.75
"""How similar an unknown annotation is to the known one that was probably meant, of 1."""

ANSWERS: Final = ("ready", "pending", "retry", "rejected")
NEVER: Final = "never"
RUN_DEFAULT: Final = Micros(60_000_000)


class RunPlan(Frozen):
    """When the job's pods are ready after a start, how long it runs, and how long it takes to stop."""

    run: Micros = RUN_DEFAULT
    ready: Micros | None = Micros(0)
    """None if never."""
    stop: Micros = Micros(0)
    checkpoint: bool = False
    """Whether an evicted job continues where it was; otherwise it starts over."""


def unknown_annotations(kind: str, annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The annotations that look like the simulator's and are not, each with the one that was probably meant, if any."""
    known = {one.removeprefix(PREFIX): one for one in KNOWN.get(kind, ())}
    for key in annotations:
        if key.startswith(PREFIX) and key not in known.values() and key not in OF_THE_PRODUCT:
            near = get_close_matches(key.removeprefix(PREFIX).lower(), known, n=1, cutoff=CLOSE)
            yield key, known[near[0]] if near else ""


def plan_of(annotations: Mapping[str, str]) -> tuple[RunPlan, tuple[FieldError, ...]]:
    """How a job with these annotations behaves, and what is wrong with them."""
    errors: list[FieldError] = []
    ready: Micros | None = None
    if annotations.get(READY) != NEVER:
        ready = length(annotations, READY, Micros(0), errors, f", or {NEVER}")
    checkpoint = annotations.get(CHECKPOINT, "false")
    if checkpoint not in ("true", "false"):
        errors.append(invalid(f"metadata.annotations[{CHECKPOINT}]", checkpoint, 'write "true" or "false"'))
    run = length(annotations, RUN, RUN_DEFAULT, errors)
    return RunPlan(run, ready, length(annotations, STOP, Micros(0), errors), checkpoint == "true"), tuple(errors)


def length(
    annotations: Mapping[str, str], key: str, absent: Micros, errors: list[FieldError], other: str = ""
) -> Micros:
    """The duration that an annotation gives, in seconds or as a duration text."""
    text = annotations.get(key)
    if text is None:
        return absent
    try:
        found = parse_duration(f"{text}s" if text[-1:].isdigit() else text)
    except DurationError:
        found = Micros(-1)
    if found < 0:
        errors.append(
            invalid(f"metadata.annotations[{key}]", text, f"write seconds, as in 90, or a duration, as in 1m30s{other}")
        )
    return found


def arrival_of(annotations: Mapping[str, str], start: Instant) -> tuple[Instant, tuple[FieldError, ...]]:
    """When a job arrives: at the start, a duration after it, or at an instant."""
    text = annotations.get(ARRIVAL)
    if text is None:
        return start, ()
    path = f"metadata.annotations[{ARRIVAL}]"
    try:
        offset = parse_duration(f"{text}s" if text[-1:].isdigit() else text)
        at = Instant(start + offset)
    except DurationError:
        try:
            at = parse_instant(text)
        except (ValueError, OverflowError):
            advice = "write the time after the start, as in 30s or 5m, or an instant, as in 2026-01-01T12:00:00Z"
            return start, (invalid(path, text, advice),)
    if at < start:
        return start, (invalid(path, text, f"is before the start, {format_instant(start)}; see --start"),)
    return at, ()
