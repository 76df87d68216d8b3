"""The life of a job as a list: submitted, decided, checked, started, preempted, ended. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pykueue.api.explanations import PastDecision
from pykueue.api.trees import Tree, mappings, text
from pykueue.base.struct import Wire
from pykueue.base.units import MICROS, Instant, parse_instant
from pykueue.bridge.sentences import BY_OWNER, held_text
from pykueue.engine.decisions import EvictionReason

NEAR_MICROS: Final = 2 * MICROS
"""Two sources write about the same fact at most so far apart: times have whole seconds."""
HELD: Final = BY_OWNER["hold"]
DEACTIVATED: Final = "it is held or deactivated"
"""What a decision says of a job that was released since."""
HOLDS: Final = "its owner holds it"

CONDITIONS: Final = {
    "QuotaReserved": "Reserved",
    "Admitted": "Admitted",
    "PodsReady": "Started",
    "Evicted": "Evicted",
    "Preempted": "Preempted",
    "Requeued": "Requeued",
    "Finished": "Finished",
}
"""What a condition of a Workload that holds says about its life."""

ORDER: Final = (
    ("Submitted",),
    ("Wait",),
    ("Reserve", "Reserved"),
    ("Check",),
    ("Admit", "Admitted"),
    ("Started",),
    ("Evict", "Evicted", "Preempted", "Held", "Deactivate"),
    ("Unreserve",),
    ("Requeue", "Requeued"),
    ("Finish", "Finished"),
)
"""What is one fact under several names, in the order of causes."""
RANKS: Final = {what: rank for rank, names in enumerate(ORDER) for what in names}

COVERED: Final = {
    "Reserved": {"Reserve", "Admit"},
    "Admitted": {"Admit"},
    "Evicted": {"Evict", "Preempted", "Held", "Deactivate"},
    "Preempted": {"Evict", "Preempted", "Held", "Deactivate"},
    "Requeued": {"Requeue", "Unreserve"},
}
"""The decisions that tell the same as a condition, in the words of the engine."""


class Moment(Wire, omit_defaults=False):
    """Something in the life of a job."""

    at: str
    what: str
    text: str = ""


def life(job: Tree, workload: Tree | None, decisions: Iterable[PastDecision]) -> list[Moment]:
    """What is known of the life of a job, each fact once, the oldest first."""
    told = [*in_own_words(decisions)]
    ends = [one for one in (*of_job(job), *of_workload(workload), *told) if is_end(one)]
    found = [one for one in told if not is_end(one)]
    started = False
    for one in sorted((*of_job(job), *of_workload(workload)), key=lambda one: (one.at, rank(one))):
        # A Job tells when its pods were created; that they are ready as well is no start of its own.
        again = one.what == "Started" and started
        if one.at and not is_end(one) and not again and not is_told(one, found):
            found.insert(place(one, found), one)
            started = started or one.what == "Started"
    if ends:
        # Objects know the time, the engine the words.
        said = next((one for one in reversed(ends) if one.what == "Finish"), ends[-1])
        found.append(Moment(ends[0].at, "Finish", said.text))
    return [*in_time(found)]


def in_own_words(decisions: Iterable[PastDecision]) -> Iterator[Moment]:
    """The decisions, without those that only repeat another."""
    found = [Moment(one.time, *worded(one)) for one in decisions]
    runs = inactive = False
    for one, before, after in zip(found, (None, *found), (*found[1:], None), strict=False):
        starts = after is not None and after.what in ("Reserve", "Admit") and is_near(one, after)
        if one.what == "Wait" and (inactive or starts):
            continue
        if one.what == "Held":
            causes = [other for other in (before, after) if other is not None and other.what == "Deactivate"]
            if inactive or any(is_near(one, other) for other in causes):
                continue
            yield Moment(one.at, one.what, f"{one.text}; its run was stopped" if runs else one.text)
        else:
            yield one
        inactive = one.what in ("Held", "Deactivate") or (inactive and one.what not in ("Requeue", "Reserve", "Admit"))
        runs = one.what == "Admit" or (runs and rank(one) < RANKS["Evict"])


def worded(decision: PastDecision) -> tuple[str, str]:
    """What a decision is for people, and its sentence."""
    if HELD in decision.text:
        # The sentence names a command, and the page has a button.
        return "Held", HOLDS
    if decision.kind == "Evict" and DEACTIVATED in decision.text:
        return "Held", "it was held or deactivated"
    if decision.kind == "Evict" and decision.text.startswith("is preempted"):
        return "Preempted", decision.text
    return decision.kind, decision.text


def rank(one: Moment) -> int:
    """The place of a fact in the order of causes."""
    return RANKS.get(one.what, RANKS["Check"])


def is_end(one: Moment) -> bool:
    """Whether it is the end of the job."""
    return rank(one) == RANKS["Finish"]


def moment(one: Moment) -> Instant:
    """Its time; the beginning if that is none."""
    try:
        return parse_instant(one.at)
    except ValueError:
        return Instant(0)


def is_near(one: Moment, other: Moment) -> bool:
    """Whether two may have happened at the same time."""
    return abs(moment(one) - moment(other)) <= NEAR_MICROS


def is_told(one: Moment, found: Sequence[Moment]) -> bool:
    """Whether something that was found tells the same."""
    same = COVERED.get(one.what, {one.what} if one.what not in ("Check", "Started") else set())
    return any(other.what in same and is_near(one, other) for other in found)


def place(one: Moment, found: Sequence[Moment]) -> int:
    """Where it belongs among what was found: after its causes, and after all that is older."""
    for number in range(len(found), 0, -1):
        other = found[number - 1]
        cause = rank(other) <= rank(one) and is_near(one, other)
        if cause or moment(other) < moment(one):
            return number
    return 0


def in_time(found: Iterable[Moment]) -> Iterator[Moment]:
    """The same, with no time before that of its cause."""
    latest = ""
    for one in found:
        latest = max(latest, one.at)
        yield Moment(latest, one.what, one.text)


def of_job(job: Tree) -> Iterator[Moment]:
    """What a Job says itself."""
    yield Moment(text(job, "metadata", "creationTimestamp"), "Submitted", "submitted")
    if begun := text(job, "status", "startTime"):
        yield Moment(begun, "Started", "its pods were created")
    for _, one in mappings(job, "status", "conditions"):
        if text(one, "type") in ("Complete", "Failed") and text(one, "status") == "True":
            said = text(one, "message") or text(one, "reason")
            yield Moment(text(one, "lastTransitionTime"), "Finished", said or text(one, "type"))


def of_workload(workload: Tree | None) -> Iterator[Moment]:
    """What the conditions and checks of a Workload say."""
    held = workload is not None and held_text(workload) == HELD
    for _, one in mappings(workload, "status", "conditions"):
        what = CONDITIONS.get(text(one, "type"))
        if what is None or text(one, "status") != "True":
            continue
        if what == "Evicted" and held and text(one, "reason") == EvictionReason.DEACTIVATED:
            yield Moment(text(one, "lastTransitionTime"), "Held", HOLDS)
        elif what == "Evicted" and text(one, "reason") == EvictionReason.PREEMPTED:
            # The condition Preempted says the same.
            yield Moment(text(one, "lastTransitionTime"), "Preempted", text(one, "message"))
        else:
            yield Moment(text(one, "lastTransitionTime"), what, text(one, "message") or text(one, "reason"))
    for _, one in mappings(workload, "status", "admissionChecks"):
        said = f"check {text(one, 'name')} is {text(one, 'state')}"
        message = text(one, "message")
        yield Moment(text(one, "lastTransitionTime"), "Check", f"{said}: {message}" if message else said)
