"""The limits and policies of ClusterQueues, in fields and in words. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pykueue.api.trees import Tree, mapping, mappings, text
from pykueue.base.struct import Wire

NEVER: Final = "Never"
STRATEGIES: Final = {
    "BestEffortFIFO": "starts the oldest job that fits; a job that does not fit lets younger ones pass",
    "StrictFIFO": "starts jobs strictly in order; the first one in line blocks those behind it",
}
STOPPED: Final = {
    "Hold": "is stopped: it admits nothing, and running jobs continue",
    "HoldAndDrain": "is stopped and drained: it admits nothing, and running jobs are evicted",
}
WITHIN: Final = {
    "LowerPriority": "a job may preempt jobs of lower priority in this queue",
    "LowerOrNewerEqualPriority": (
        "a job may preempt jobs in this queue that have a lower priority, or the same and are newer"
    ),
}
RECLAIM: Final = {
    "LowerPriority": "reclaims quota that jobs of lower priority in its cohort borrow",
    "Any": "reclaims quota that others in its cohort borrow",
}
BORROW: Final = {"LowerPriority": "may preempt jobs of lower priority in its cohort even to borrow"}
CAN_BORROW: Final = {"TryNextFlavor": "tries the next flavor before it borrows"}
CAN_PREEMPT: Final = dict.fromkeys(("MayStopSearch", "Preempt"), "preempts in a flavor before it tries the next one")


class Limit(Wire, omit_defaults=False):
    """The limits of a quota; empty where there is none."""

    flavor: str
    resource: str
    borrowing_limit: str = ""
    lending_limit: str = ""


class Policy(Wire, omit_defaults=False):
    """How a ClusterQueue decides."""

    strategy: str = ""
    stop_policy: str = ""
    cohort: str = ""
    preemption: Mapping[str, object] = {}
    flavor_fungibility: Mapping[str, object] = {}
    words: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = ()
    local_queues: tuple[str, ...] = ()


def policies(queues: Sequence[Tree], localqueues: Sequence[Tree]) -> dict[str, Policy]:
    """The policies by ClusterQueue."""
    doors: dict[str, list[str]] = {}
    for one in localqueues:
        key = f"{text(one, 'metadata', 'namespace')}/{text(one, 'metadata', 'name')}"
        doors.setdefault(text(one, "spec", "clusterQueue"), []).append(key)
    return {
        name: policy_of(one, sorted(doors.get(name, ()))) for one in queues if (name := text(one, "metadata", "name"))
    }


def policy_of(queue: Tree, doors: Sequence[str]) -> Policy:
    """The policy of a ClusterQueue."""
    return Policy(
        text(queue, "spec", "queueingStrategy"),
        text(queue, "spec", "stopPolicy"),
        text(queue, "spec", "cohortName"),
        mapping(queue, "spec", "preemption"),
        mapping(queue, "spec", "flavorFungibility"),
        tuple(words(queue)),
        tuple(limits(queue)),
        tuple(doors),
    )


def words(queue: Tree) -> Iterator[str]:
    """The policy in sentences whose subject is the queue."""
    cohort = text(queue, "spec", "cohortName")
    for known, field in ((STOPPED, "stopPolicy"), (STRATEGIES, "queueingStrategy")):
        if said := known.get(text(queue, "spec", field)):
            yield said
    yield f"shares quota in cohort {cohort}" if cohort else "is in no cohort, so it neither borrows nor lends"
    preemption = ("spec", "preemption")
    yield WITHIN.get(text(queue, *preemption, "withinClusterQueue"), "no job preempts another one in this queue")
    if cohort:
        yield RECLAIM.get(text(queue, *preemption, "reclaimWithinCohort"), "waits until others return what they borrow")
        if said := BORROW.get(text(queue, *preemption, "borrowWithinCohort", "policy")):
            yield said
    for known, field in ((CAN_BORROW, "whenCanBorrow"), (CAN_PREEMPT, "whenCanPreempt")):
        if said := known.get(text(queue, "spec", "flavorFungibility", field)):
            yield said


def limits(queue: Tree) -> Iterator[Limit]:
    """The limits of the quotas of a ClusterQueue."""
    for _, group in mappings(queue, "spec", "resourceGroups"):
        for _, flavor in mappings(group, "flavors"):
            for _, quota in mappings(flavor, "resources"):
                yield Limit(
                    text(flavor, "name"),
                    text(quota, "name"),
                    amount(quota, "borrowingLimit"),
                    amount(quota, "lendingLimit"),
                )


def amount(quota: Mapping[str, object], field: str) -> str:
    """A quantity as it was written; empty if there is none."""
    found = quota.get(field)
    return "" if found is None else str(found)
