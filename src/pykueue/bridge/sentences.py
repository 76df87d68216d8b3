"""What does a condition say in our words? Kueue's are for programs; these are for the owner of a job."""

from pykueue.api.names import WorkloadCondition
from pykueue.api.trees import Tree, mappings, member, text
from pykueue.bridge.decisionevents import preemptor
from pykueue.engine.decisions import EvictionReason
from pykueue.engine.record import explain, parsing
from pykueue.engine.record.parsing import Preemption, preemption


def condition(workload: Tree, kind: WorkloadCondition) -> Tree:
    """A condition of a Workload; empty where it has none of this type."""
    return next((dict(one) for _, one in mappings(workload, "status", "conditions") if text(one, "type") == kind), {})


def said(condition: Tree) -> str:
    """Why a workload waits, from its condition: in Kueue's words, unless it can never start or a UID stands in them."""
    message = text(condition, "message")
    why = parsing.unassigned(message)
    if why is not None:
        return explain.never(text(condition, "reason"), why) or message
    known = preemption(message)
    return message if known is None else unnamed(known)


def in_short(condition: Tree) -> str:
    """The same in our own words alone, for those who have never heard of Kueue."""
    if text(condition, "reason") == EvictionReason.PODS_READY_TIMEOUT:
        return "its pods were not ready in time"
    why = parsing.unassigned(text(condition, "message"))
    if why is None:
        return said(condition)
    return explain.never(text(condition, "reason"), why) or explain.in_short(why)


def unnamed(known: Preemption) -> str:
    """That a workload was preempted, where it cannot be found out for whom."""
    return explain.preempted_for(f"another workload of {known.queue}", known.clause, known.queue)


def named(known: Preemption, by: Tree, namespace: str) -> str:
    """That a workload of a namespace was preempted for this one."""
    key = f"{text(by, 'metadata', 'namespace')}/{text(by, 'metadata', 'name')}"
    owners = [one for _, one in mappings(by, "metadata", "ownerReferences") if member(one, "controller") is True]
    kind, job = (text(owners[0], "kind"), text(owners[0], "name")) if owners else ("", "")
    return explain.preempted_for(preemptor(key, kind, job, namespace), known.clause, known.queue)
