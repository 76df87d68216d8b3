"""Whether a job that waits for other jobs, or for a time, may be queued now: one pure rule, and what it says.

A Job with the admission gate `pykueue.io/dependencies` names the Jobs that it waits for in annotations. They are Jobs
of its own namespace, known by name: a name that no Job has counts as ended for `after` and as unmet for `after-ok`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Final, TypeAlias, assert_never

from pykueue.api.names import DEPENDENCIES_GATE, Annotation
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant, format_instant, parse_instant

NAMES_MAX: Final = 100
"""How many jobs a job may wait for."""
NAME_MAX: Final = 253
"""The longest name of an object."""
TEXT_MAX: Final = NAMES_MAX * (NAME_MAX + 2)
"""The longest annotation that is read."""
TIME_MAX: Final = 64
"""The longest text of a time that is read."""
PARSED: Final = 512
"""How many sets of annotations are kept parsed."""
FOLLOWED_MAX: Final = 1_000
"""How many jobs are searched for a circle; the jobs of a longer one wait, but nothing says why."""
STEPS_MAX: Final = 2_000
"""How many names of jobs are read in the search for a circle."""
NEVER: Final = "can never start"
GATED: Final = f"Admission is gated by: {DEPENDENCIES_GATE}"
"""What Kueue says of a job that no other gate holds."""


class State(Enum):
    """How far another job is."""

    UNFINISHED = "unfinished"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class Needs(Frozen):
    """What a job waits for."""

    after: tuple[str, ...] = ()
    """Jobs that must have ended."""
    after_ok: tuple[str, ...] = ()
    """Jobs that must have succeeded."""
    begin: Instant | None = None
    problem: str = ""
    """What is wrong with the annotations."""

    @property
    def jobs(self) -> tuple[str, ...]:
        """All jobs that it names."""
        return (*self.after, *self.after_ok)


class Other(Frozen):
    """Another job of the namespace."""

    state: State
    needs: Needs | None = None
    """What it waits for itself; None if nothing holds it."""


Others: TypeAlias = Mapping[str, Other]


class Release(Frozen):
    """The job waits for nothing more."""


class Wait(Frozen):
    """The job waits."""

    left: Needs
    """What is not met yet."""


class Never(Frozen):
    """The job can never start as things are."""

    why: str
    left: Needs


Verdict: TypeAlias = Release | Wait | Never


def gates_of(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """The admission gates of a job."""
    return names_in(annotations.get(Annotation.ADMISSION_GATED_BY, ""))


def names_in(text: str) -> tuple[str, ...]:
    """The names in a comma-separated list, each once."""
    return tuple(dict.fromkeys(name for one in text.split(",") if (name := one.strip())))


def needs_of(annotations: Mapping[str, str]) -> Needs | None:
    """What a job waits for; None if our gate does not hold it."""
    gates = annotations.get(Annotation.ADMISSION_GATED_BY, "")
    if DEPENDENCIES_GATE not in gates:
        return None
    texts = {key: annotations.get(key, "") for key in (Annotation.AFTER, Annotation.AFTER_OK)}
    for key, text in ((Annotation.ADMISSION_GATED_BY, gates), *texts.items()):
        if len(text) > TEXT_MAX:
            return Needs(problem=f"{key}: longer than {TEXT_MAX} characters")
    begin = annotations.get(Annotation.BEGIN)
    if begin is not None and len(begin) > TIME_MAX:
        return Needs(problem=f"{Annotation.BEGIN}: longer than {TIME_MAX} characters")
    return parsed(gates, texts[Annotation.AFTER], texts[Annotation.AFTER_OK], begin)


@lru_cache(maxsize=PARSED)
def parsed(gates: str, after: str, after_ok: str, begin: str | None) -> Needs | None:
    """The needs in annotations of limited length; None if our gate is not among the gates."""
    if DEPENDENCIES_GATE not in names_in(gates):
        return None
    found, found_ok = names_in(after), names_in(after_ok)
    if problem := names_problem((*found, *found_ok)):
        return Needs(problem=problem)
    try:
        due = None if begin is None else parse_instant(begin)
    except ValueError:
        due, problem = None, f"{Annotation.BEGIN}: {begin!r} is not a time such as 2027-01-31T12:00:00Z"
    except OverflowError:
        due, problem = None, f"{Annotation.BEGIN}: {begin!r} is out of range"
    return Needs(found, found_ok, due, problem)


def names_problem(names: Sequence[str]) -> str:
    """What is wrong with the names of the jobs that a job waits for; empty if nothing."""
    if len(names) > NAMES_MAX:
        return f"it names {len(names)} jobs to wait for, and at most {NAMES_MAX} are allowed"
    if any(len(name) > NAME_MAX for name in names):
        return f"it names a job to wait for with more than {NAME_MAX} characters"
    return ""


def annotations_for(needs: Needs) -> dict[str, str]:
    """The annotations of a job that waits for this."""
    found = {Annotation.ADMISSION_GATED_BY.value: DEPENDENCIES_GATE}
    if needs.after:
        found[Annotation.AFTER.value] = ",".join(needs.after)
    if needs.after_ok:
        found[Annotation.AFTER_OK.value] = ",".join(needs.after_ok)
    if needs.begin is not None:
        found[Annotation.BEGIN.value] = format_instant(needs.begin)
    return found


def followed(needs: Needs, find: Callable[[str], Other | None], *, most: int = FOLLOWED_MAX) -> dict[str, Other]:
    """The jobs that a job waits for, then those that they wait for, and so on; looks for so many names at most."""
    found: dict[str, Other] = {}
    known = dict.fromkeys(needs.jobs[:most])
    names = deque(known)
    while names:
        name = names.popleft()
        other = find(name)
        if other is None:
            continue
        found[name] = other
        if other.needs is not None and len(known) < most:
            fresh = [one for one in other.needs.jobs if one not in known][: most - len(known)]
            known.update(dict.fromkeys(fresh))
            names.extend(fresh)
    return found


def verdict(name: str, needs: Needs, others: Others, now: Instant) -> Verdict:
    """Whether a job of this name may be queued now."""
    left = Needs(
        tuple(one for one in needs.after if state(one, others) is State.UNFINISHED),
        tuple(one for one in needs.after_ok if state(one, others) is not State.SUCCEEDED),
        needs.begin,
        needs.problem,
    )
    if needs.problem:
        return Never(needs.problem, left)
    if around := circle(name, left, others):
        return Never(f"the jobs wait for each other: {' -> '.join(around)}", left)
    for one in left.after_ok:
        match state(one, others):
            case State.FAILED:
                return Never(f"job {one} failed", left)
            case None:
                return Never(f"job {one} does not exist", left)
    if left.jobs or (needs.begin is not None and now < needs.begin):
        return Wait(left)
    return Release()


def state(name: str, others: Others) -> State | None:
    """How far a job is; None if there is none of this name."""
    found = others.get(name)
    return None if found is None else found.state


def circle(name: str, needs: Needs, others: Others) -> tuple[str, ...]:
    """The jobs from this one back to itself, each of which waits for the next; empty if there is no circle.

    A circle that is found only after very many names counts as none.
    """
    before: dict[str, str] = {}
    left = STEPS_MAX
    reached = [(one, name) for one in needs.jobs]
    while reached:
        one, waiting = reached.pop()
        if one == name:
            path = [one, waiting]
            while path[-1] != name:
                path.append(before[path[-1]])
            return tuple(reversed(path))
        other = others.get(one)
        if one not in before and other is not None and other.state is State.UNFINISHED:
            before[one] = waiting
            following = () if other.needs is None else other.needs.jobs[:left]
            left -= len(following)
            reached += [(next_one, one) for next_one in following]
    return ()


def said(found: Verdict, now: Instant) -> str:
    """The verdict in one phrase; empty if the job waits for nothing."""
    match found:
        case Release():
            return ""
        case Wait(left):
            parts = [*awaited(left.after, "end"), *awaited(left.after_ok, "succeed")]
            if left.begin is not None and now < left.begin:
                parts.append(f"until {format_instant(left.begin)}")
            return f"waits {' and '.join(parts)}"
        case Never(why):
            return f"{NEVER}: {why}"
        case _:
            assert_never(found)


def awaited(names: tuple[str, ...], what: str) -> Iterable[str]:
    """The jobs that must still do something."""
    if names:
        yield f"for job{'s' if len(names) > 1 else ''} {', '.join(names)} to {what}"


def phrase(name: str, annotations: Mapping[str, str], others: Others, now: Instant) -> str:
    """Why our gate holds a job with these annotations, in one phrase; empty if it does not.

    `others` has the jobs that it names, and for circles those that they name, as `followed` collects them.
    """
    needs = needs_of(annotations)
    return "" if needs is None else said(verdict(name, needs, others, now), now)
