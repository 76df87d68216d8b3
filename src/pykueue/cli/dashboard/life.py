"""The life of a job as a list: submitted, decided, checked, started, preempted, ended. Pure."""

from collections.abc import Iterable, Iterator
from typing import Final

from pykueue.api.explanations import PastDecision
from pykueue.api.trees import Tree, mappings, text
from pykueue.base.struct import Wire

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


class Moment(Wire, omit_defaults=False):
    """Something in the life of a job."""

    at: str
    what: str
    text: str = ""


def life(job: Tree, workload: Tree | None, decisions: Iterable[PastDecision]) -> list[Moment]:
    """What is known of the life of a job, the oldest first."""
    # Times have whole seconds: what is listed first happened first within one.
    submitted, *rest = of_job(job)
    found = [submitted, *(Moment(one.time, one.kind, one.text) for one in decisions)]
    known = {one.what for one in (*found, *rest)}
    found += [one for one in of_workload(workload) if one.what not in known] + rest
    return sorted((one for one in found if one.at), key=lambda one: one.at)


def of_job(job: Tree) -> Iterator[Moment]:
    """What a Job says itself."""
    yield Moment(text(job, "metadata", "creationTimestamp"), "Submitted", "submitted")
    if begun := text(job, "status", "startTime"):
        yield Moment(begun, "Started", "its pods were created")
    for _, one in mappings(job, "status", "conditions"):
        if text(one, "type") in ("Complete", "Failed") and text(one, "status") == "True":
            said = text(one, "message") or text(one, "reason")
            yield Moment(text(one, "lastTransitionTime"), "Finish", said or text(one, "type"))


def of_workload(workload: Tree | None) -> Iterator[Moment]:
    """What the conditions and checks of a Workload say."""
    for _, one in mappings(workload, "status", "conditions"):
        what = CONDITIONS.get(text(one, "type"))
        if what and text(one, "status") == "True":
            yield Moment(text(one, "lastTransitionTime"), what, text(one, "message") or text(one, "reason"))
    for _, one in mappings(workload, "status", "admissionChecks"):
        said = f"check {text(one, 'name')} is {text(one, 'state')}"
        message = text(one, "message")
        yield Moment(text(one, "lastTransitionTime"), "Check", f"{said}: {message}" if message else said)
