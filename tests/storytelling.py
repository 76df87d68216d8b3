"""How is a decision said in one line, and does a line of a story say the same? Next: `story`."""

import re
from typing import assert_never

from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Instant, amount_text
from pykueue.engine.decisions import Admit, Deactivate, Decision, Evict, Requeue, Reserve, Unreserve, Wait, WaitReason
from pykueue.engine.model import Admission, Workload
from pykueue.engine.wording import message
from tests.storywords import StoryError, name_of, unknown

VERBS = ("admit", "reserve", "evict", "unreserve", "requeue", "deactivate", "wait")
LINE = re.compile(
    r"(?P<verb>\w+) (?P<name>[^\s:(]+)(?: for (?P<by>[^\s:(]+))?(?P<details>(?: [^\s(]+[=:][^\s(]+)*)"
    r"(?: \((?P<reason>[^)]*)\))?(?:: (?P<message>.*))?",
    re.DOTALL,
)


class Line(Frozen):
    """What a line says of a decision. None, or no detail, is nothing said."""

    verb: str
    name: str
    by: str | None = None
    details: tuple[str, ...] = ()
    reason: str | None = None
    message: str | None = None

    def __str__(self) -> str:
        by = f" for {self.by}" if self.by else ""
        details = "".join(f" {detail}" for detail in self.details)
        reason = f" ({self.reason})" if self.reason else ""
        text = f": {self.message}" if self.message else ""
        return f"{self.verb} {self.name}{by}{details}{reason}{text}"

    def holds_for(self, told: "Line") -> bool:
        """Whether everything this line says is true of a decision told in full."""
        return (
            (self.verb, self.name) == (told.verb, told.name)
            and all(detail in told.details or denies(detail, told.details) for detail in self.details)
            and (self.by is None or self.by == told.by)
            and (self.reason is None or self.reason == told.reason)
            and (self.message is None or self.message == told.message)
        )

    def like(self, other: "Line | None") -> "Line":
        """This decision in as much detail as the other line has; briefly when there is no other."""
        if other is None:
            plain = self.verb == "unreserve" and self.reason == WaitReason.PENDING_EVALUATION
            return Line(self.verb, self.name, self.by, reason=None if plain else self.reason)
        kept = [found for detail in other.details for found in self.details if subject(found) == subject(detail)]
        return Line(
            self.verb,
            self.name,
            self.by,
            tuple(dict.fromkeys(kept)),
            self.reason if other.reason or self.verb != "unreserve" else None,
            self.message if other.message else None,
        )


def subject(detail: str) -> str:
    """What a detail is about: all up to its sign."""
    found = re.match(r"[^=:]+[=:]", detail)
    return detail if found is None else found[0]


def denies(detail: str, told: tuple[str, ...]) -> bool:
    """Whether a detail such as `gpu:none` is true: the decision has nothing to say of its subject."""
    about = subject(detail)
    return detail.endswith("none") and not any(other.startswith(about) for other in told)


def read(line: str) -> Line:
    """The line of a story."""
    found = LINE.fullmatch(line.strip())
    if found is None:
        raise StoryError(f"{line!r} is no decision; write VERB NAME [for NAME] [detail=...] [(Reason)] [: message]")
    if found["verb"] not in VERBS:
        raise unknown(found["verb"], "a decision", VERBS)
    return Line(
        found["verb"], found["name"], found["by"], tuple(found["details"].split()), found["reason"], found["message"]
    )


def tell(decision: Decision, now: Instant) -> Line:
    """All that can be said of a decision."""
    name = name_of(decision.workload)
    match decision:
        case Reserve(admission=admission, borrowing=level):
            return Line("reserve", name, details=(*given(admission), f"level={level}"))
        case Admit(admission=admission, borrowing=level):
            return Line("admit", name, details=(*given(admission), f"level={level}"))
        case Evict():
            return evicted(decision, now)
        case Unreserve(reason=reason, why=why, requeued=may, requeued_reason=because):
            details = () if may is None else (f"requeued={str(may).lower()}", f"because={because}")
            return Line("unreserve", name, None, details, reason, message(why))
        case Requeue(reason=reason):
            return Line("requeue", name, reason=reason)
        case Deactivate(cause=cause, message=text):
            return Line("deactivate", name, reason=cause, message=text)
        case Wait(reason=reason, why=why):
            return Line("wait", name, reason=reason, message=message(why))
        case _:
            assert_never(decision)


def evicted(decision: Evict, now: Instant) -> Line:
    """All that can be said of an eviction. Jitter is smaller than the second to which `in=` is cut."""
    reason = str(decision.preemption or decision.reason)
    if decision.reason == "Deactivated" and decision.cause:
        reason = f"{reason}DueTo{decision.cause}"
    details = [f"count={decision.requeue_count}"]
    if decision.requeue_at is not None:
        details.append(f"in={(decision.requeue_at - now) // MICROS}s")
    if decision.cause:
        details.append(f"cause={decision.cause}")
    by = name_of(decision.by) if decision.by else None
    return Line("evict", name_of(decision.workload), by, tuple(details), reason, decision.message)


def given(admission: Admission) -> list[str]:
    """What an admission gives: `main=3`, `cpu:spot`, and by pod set `main.cpu:spot`, `main.cpu=1500m`."""
    found = [f"queue={admission.queue}"]
    for assignment in admission.assignments:
        name = assignment.pod_set
        found.append(f"{name}={assignment.count}")
        for resource, flavor in assignment.flavors:
            found += [f"{resource}:{flavor}", f"{name}.{resource}:{flavor}"]
        found += [f"{name}.{resource}={amount_text(resource, used)}" for resource, used in assignment.usage]
    return found


def matches(expected: list[Line], told: list[Line], *, some: bool) -> bool:
    """Whether the lines hold: each for its decision in order, or in order for some of the decisions."""
    if not some:
        return len(expected) == len(told) and all(e.holds_for(t) for e, t in zip(expected, told, strict=True))
    rest = iter(told)
    return all(any(line.holds_for(one) for one in rest) for line in expected)


def retold(expected: list[Line], told: list[Line]) -> list[Line]:
    """The decisions as lines in the words of the story, where it spoke of them."""
    left = list(expected)
    found = []
    for one in told:
        said = [line for line in left if (line.verb, line.name) == (one.verb, one.name)]
        best = next((line for line in said if line.holds_for(one)), said[0] if said else None)
        if best is not None:
            left.remove(best)
        found.append(best if best is not None and best.holds_for(one) else one.like(best))
    return found


def status(workload: Workload, now: Instant) -> list[str]:
    """What can be shown of a workload, in the words that set it."""
    ready, waits, target = workload.pods_ready, workload.waiting, workload.deactivation
    found = [
        f"active={str(workload.active).lower()}",
        f"finished={str(workload.finished).lower()}",
        f"reserved={str(workload.admission is not None).lower()}",
        f"admitted={str(workload.admitted_at is not None).lower()}",
        f"priority={workload.priority}",
        f"count={workload.requeue_count}",
        f"past_run={workload.past_run}s",
    ]
    if workload.evicted is not None:
        found += [f"evicted={workload.evicted.reason}", f"evicted={workload.evicted.reason}:{workload.evicted.message}"]
    if workload.preempted is not None:
        found.append(f"preempted={workload.preempted.reason}")
    if workload.requeued is not None:
        found += [f"requeued={str(workload.requeued.may).lower()}:{workload.requeued.reason}"]
        found += [f"requeued={str(workload.requeued.may).lower()}"]
    if workload.requeue_at is not None:
        found.append(f"requeue_in={(workload.requeue_at - now) // MICROS}s")
    if target is not None:
        found += [f"deactivation={target.reason}", f"deactivation={target.reason}:{target.message}"]
    if ready is not None:
        found.append(f"{'ready' if ready.ready else 'unready'}={ready.reason}")
    if waits is not None:
        found += [f"waiting={waits.reason}", f"waiting={waits.reason}:{waits.message}"]
    for check in workload.checks:
        found += [f"check={check.name}:{check.state}", f"check={check.name}:{check.state}:{check.message}"]
        found.append(f"retries={check.name}:{check.retries}")
    found += [f"reclaim={name}:{count}" for name, count in workload.reclaimable]
    return found


SHOWN = (
    "active", "finished", "reserved", "admitted", "priority", "count", "past_run", "evicted", "preempted", "requeued",
    "requeue_in", "deactivation", "ready", "unready", "waiting", "verdict", "check", "retries", "reclaim",
)  # fmt: skip
