"""Conditions in our own words, for the owner of a job; Kueue's words are for programs."""

from typing import Final

from pykueue.api.exitcodes import DEADLINE
from pykueue.api.names import Annotation, WorkloadCondition
from pykueue.api.trees import Tree, mappings, member, text, whole
from pykueue.api.workload import Workload
from pykueue.bridge.decisionevents import preemptor
from pykueue.engine.decisions import Bypassed, EvictionReason
from pykueue.engine.record import explain, parsing
from pykueue.engine.record.parsing import Preemption, preemption
from pykueue.engine.record.partial import RIGID, Shrinkable, that_may_shrink
from pykueue.engine.wording import message as kueue_message

BY_OWNER: Final = {
    "hold": "held by its owner; `pykueue release` queues it again",
    "requeue": "requeued by its owner",
}
"""Why a Workload is inactive, by the reason that the job controller records on it."""

BYPASSED: Final = kueue_message(Bypassed())
"""What Kueue writes about a workload that shares the verdict of an equal one."""
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
"""Reasons of the condition Finished of a Workload."""


def condition(tree: Tree, kind: str) -> Tree:
    """A condition of an object; empty if it has none of this type."""
    return next((dict(one) for _, one in mappings(tree, "status", "conditions") if text(one, "type") == kind), {})


def shrinkable(workload: Tree) -> Shrinkable:
    """The pod sets of a Workload that may start with fewer pods than they have."""
    found = [
        (text(one, "name"), whole(one, "minCount"), whole(one, "count"))
        for _, one in mappings(workload, "spec", "podSets")
    ]
    return that_may_shrink(found)


def shrinkable_of(workload: Workload) -> Shrinkable:
    """The same of a decoded Workload."""
    return that_may_shrink((one.name, one.min_count, one.count) for one in workload.spec.pod_sets)


def pending_text(condition: Tree, shrinkable: Shrinkable = RIGID) -> str:
    """Why a workload waits: Kueue's message, unless it can never start, or the message has a UID or names no cause."""
    message = text(condition, "message")
    why = parsing.unassigned(message)
    if why is not None:
        return explain.never(text(condition, "reason"), why, shrinkable) or message
    if message == BYPASSED:
        return explain.reason(Bypassed())
    known = preemption(message)
    return message if known is None else unnamed(known)


def held_text(workload: Tree) -> str:
    """Why a workload is pending that its owner has held or requeued; empty if neither."""
    if member(workload, "spec", "active") is not False:
        return ""
    return BY_OWNER.get(text(workload, "metadata", "annotations", Annotation.DEACTIVATED_BY), "")


def end_text(kind: str, reason: str, message: str) -> str:
    """How a job ended, by the condition that says so: Complete or Failed of a Job, Finished of a Workload."""
    if kind == "Complete" or (kind == WorkloadCondition.FINISHED and reason == SUCCEEDED):
        return "it succeeded"
    if reason == DEADLINE:
        return "it reached its time limit and was stopped"
    why = message or reason or "no reason is given"
    return f"it failed: {why}" if kind == "Failed" or reason == FAILED else why


def in_short(condition: Tree, shrinkable: Shrinkable = RIGID) -> str:
    """The same entirely in our own words, for readers who do not know Kueue."""
    if text(condition, "reason") == EvictionReason.PODS_READY_TIMEOUT:
        return "its pods were not ready in time"
    why = parsing.unassigned(text(condition, "message"))
    if why is None:
        return pending_text(condition)
    return explain.never(text(condition, "reason"), why, shrinkable) or explain.in_short(why, shrinkable)


def unnamed(known: Preemption) -> str:
    """The text for a preempted workload whose preemptor is unknown."""
    return explain.preempted_for(f"another workload of {known.queue}", known.clause, known.queue)


def named(known: Preemption, by: Tree, namespace: str) -> str:
    """The text for a workload of a namespace that this one preempted."""
    key = f"{text(by, 'metadata', 'namespace')}/{text(by, 'metadata', 'name')}"
    owners = [one for _, one in mappings(by, "metadata", "ownerReferences") if member(one, "controller") is True]
    kind, job = (text(owners[0], "kind"), text(owners[0], "name")) if owners else ("", "")
    return explain.preempted_for(preemptor(key, kind, job, namespace), known.clause, known.queue)
