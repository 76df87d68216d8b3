"""Find the pending reason of a workload before its condition shows it, and the name of its preemptor."""

import contextlib
from collections.abc import Iterable
from typing import Final

import msgspec

from pykueue.api.names import Label, WorkloadCondition
from pykueue.api.trees import Tree, mappings, text
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS
from pykueue.bridge.decisionevents import PREEMPTED, REPORTER
from pykueue.bridge.sentences import condition, named, pending_text, shrinkable, unnamed
from pykueue.cli.objects import everything
from pykueue.engine.record.parsing import Preemption, preemption
from pykueue.kube.port import EVENTS, WORKLOADS, DeniedError, Kube, KubeError

LOOKS: Final = 20
"""How often to poll for something that is about to be written."""
NEVER_LOOKS: Final = 10
PAUSE: Final = MICROS // 10
NEVER: Final = "can never start"
"""How the reason of a job begins that its queue can never admit."""
SECONDS: Final = len("2026-01-31T12:00:00")
"""Length of a timestamp without fractions of a second."""


async def with_reason(kube: Kube, clock: Clock, name: str, namespace: str) -> Tree | None:
    """A Workload as soon as it has a QuotaReserved condition; None after `LOOKS` polls.

    The embedded server adds the engine's reason to a GET before it is stored.
    """
    for _ in range(LOOKS):
        await clock.sleep(PAUSE)
        with contextlib.suppress(KubeError):
            found: Tree = msgspec.json.decode(await kube.get(WORKLOADS, name, namespace))
            if condition(found, WorkloadCondition.QUOTA_RESERVED):
                return found
    return None


async def never_starts(kube: Kube, clock: Clock, uid: str, namespace: str) -> str:
    """Why a Job that was just submitted can never start; empty if it can, or nothing is known after a second."""
    return never(await first_verdict(kube, clock, uid, namespace))


def never(workload: Tree) -> str:
    """Why a Workload can never start; empty if it can."""
    reserved = condition(workload, WorkloadCondition.QUOTA_RESERVED)
    why = pending_text(reserved)
    return why if text(reserved, "status") == "False" and why.startswith(NEVER) else ""


async def first_verdict(kube: Kube, clock: Clock, uid: str, namespace: str) -> Tree:
    """The Workload of a Job that was just submitted, once it has quota or a reason; empty after a second."""
    name = ""
    for _ in range(NEVER_LOOKS):
        await clock.sleep(PAUSE)
        try:
            if not name:
                found = await everything(kube, WORKLOADS, namespace, labels=f"{Label.JOB_UID}={uid}")
                name = text(found[0], "metadata", "name") if found else ""
            if name:
                workload: Tree = msgspec.json.decode(await kube.get(WORKLOADS, name, namespace))
                if condition(workload, WorkloadCondition.QUOTA_RESERVED):
                    return workload
        except KubeError:
            return {}
    return {}


class Preemptors:
    """Finds the workloads for which others were preempted."""

    def __init__(self, kube: Kube, clock: Clock) -> None:
        self.kube = kube
        self.clock = clock

    async def said(self, told: Tree, workload: Tree, *, looks: int = 1) -> str:
        """The message of a condition, with the name of the preemptor if it reports a preemption.

        `looks` is how often to poll for the Event, which may not be written yet.
        """
        known = preemption(text(told, "message"))
        if known is None:
            return pending_text(told, shrinkable(workload))
        namespace = text(workload, "metadata", "namespace")
        by = await self.workload(known, namespace)
        if by is not None:
            return named(known, by, namespace)
        owners = [one for _, one in mappings(workload, "metadata", "ownerReferences")]
        since = text(told, "lastTransitionTime")[:SECONDS]
        for look in range(looks):
            if look:
                await self.clock.sleep(PAUSE)
            note = await self.note({text(one, "uid") for one in owners}, namespace, since)
            if note:
                return note
        return unnamed(known)

    async def workload(self, known: Preemption, namespace: str) -> Tree | None:
        """The preemptor; None if it was deleted or this user may not read it."""
        if not known.job_uid:
            return None
        for within in ("", namespace):
            with contextlib.suppress(DeniedError):
                found = await everything(self.kube, WORKLOADS, within, labels=f"{Label.JOB_UID}={known.job_uid}")
                return next((one for one in found if text(one, "metadata", "uid") == known.uid), None)
        return None

    async def note(self, uids: set[str], namespace: str, since: str) -> str:
        """The note of the newest preemption Event on these objects since this time; empty if there is none."""
        notes = await preemption_notes(self.kube, namespace)
        return newest((one for one in notes if one.uid in uids), since)


class PreemptionNote(Frozen):
    """An Event that names the preemptor of a job."""

    uid: str
    """That of the job."""
    job: str
    """Its namespace and name."""
    at: str
    text: str


async def preemption_notes(kube: Kube, namespace: str) -> list[PreemptionNote]:
    """The preemption Events of a namespace, or of all if that is empty; none if this user may not read them."""
    try:
        events = await everything(kube, EVENTS, namespace, fields=f"reason={PREEMPTED}")
    except DeniedError:
        return []
    return [
        PreemptionNote(
            text(one, "regarding", "uid"),
            f"{text(one, 'regarding', 'namespace')}/{text(one, 'regarding', 'name')}",
            max(text(one, "eventTime"), text(one, "series", "lastObservedTime")),
            text(one, "note"),
        )
        for one in events
        if text(one, "reportingController") == REPORTER
    ]


def newest(notes: Iterable[PreemptionNote], since: str) -> str:
    """The text of the newest of some notes since this time; empty if there is none."""
    last = max(((one.at, one.text) for one in notes), default=("", ""))
    return last[1] if last[0][:SECONDS] >= since[:SECONDS] else ""
