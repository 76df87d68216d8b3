"""An AdmissionCheck controller: a Workload that requests GPUs holds its quota until an annotation approves it.

Every decision follows from the current objects alone, so this program may be stopped at any time.
"""

import asyncio
import json
import os

from pykueue.api.checks import AdmissionCheck
from pykueue.api.codec import decode_as
from pykueue.api.workload import Workload, held
from pykueue.base.clock import SystemClock
from pykueue.base.units import MICROS, format_instant, parse_instant
from pykueue.kube.client.http import HttpKube
from pykueue.kube.client.kubeconfig import connection
from pykueue.kube.controller import Controller
from pykueue.kube.informer import Informer
from pykueue.kube.port import ADMISSION_CHECKS, WORKLOADS, Kube, Patch, Resource

CONTROLLER = "example.com/approval"
DECISION, BY = "approval.example.com/decision", "approval.example.com/by"
HOLD = int(os.environ.get("APPROVAL_HOLD_SECONDS", "600"))
"""How long a Workload holds its quota without an answer."""
AGAIN = int(os.environ.get("APPROVAL_AGAIN_SECONDS", "3600"))
"""How long a Workload without an answer waits before it is queued again."""


def answer(workload: Workload, waited: float) -> dict[str, object]:
    """The check state of a Workload that has held quota for `waited` seconds; empty to leave it unchanged."""
    said = workload.metadata.annotations
    by = said.get(BY, "unknown")
    if said.get(DECISION) == "approved":
        given = {"labels": {"approval.example.com/approved": "true"}, "annotations": {BY: by}}
        updates = [{"name": one.name, **given} for one in workload.spec.pod_sets]
        return {"state": "Ready", "message": f"approved by {by}", "podSetUpdates": updates}
    if said.get(DECISION) == "denied":
        return {"state": "Rejected", "message": f"denied by {by}"}
    if held(workload, "Admitted"):
        return {}
    if waited >= HOLD:
        message = f"not approved within {HOLD} s; quota released, queued again in {AGAIN} s"
        return {"state": "Retry", "message": message, "requeueAfterSeconds": AGAIN}
    how = f"kubectl annotate workload -n {workload.namespace} {workload.name} {DECISION}=approved {BY}=YOU"
    return {"state": "Pending", "message": f"waiting for approval: {how}"}


class Approval:
    """Keeps the state of our checks in line with the annotations."""

    def __init__(self, kube: Kube, clock: SystemClock) -> None:
        self.kube, self.clock = kube, clock
        self.checks = Informer(kube, ADMISSION_CHECKS, lambda raw: decode_as(AdmissionCheck, raw), clock)
        self.workloads = Informer(kube, WORKLOADS, lambda raw: decode_as(Workload, raw), clock)
        self.activator = Controller("approval-check", self.activate, clock)
        self.decider = Controller("approval-workload", self.decide, clock)
        self.checks.listen(lambda change: self.activator.add(change.key))
        self.workloads.listen(lambda change: self.decider.add(change.key))

    def ours(self, name: str) -> AdmissionCheck | None:
        check = self.checks.get(name)
        return check if check is not None and check.spec.controller_name == CONTROLLER else None

    async def activate(self, name: str) -> None:
        """Mark one of our checks as Active, which activates its queues, and queue all Workloads."""
        check = self.ours(name)
        seen = {} if check is None else {one.type: one.status for one in check.status.conditions}
        if check is not None and seen.get("Active") != "True":
            active = {"type": "Active", "status": "True", "reason": "Active", "message": "approval.py is running"}
            entry = {**active, "lastTransitionTime": format_instant(self.clock.now())}
            await self.apply(ADMISSION_CHECKS, check, {"conditions": [entry]})
        for key in self.workloads.objects:
            self.decider.add(key)

    async def decide(self, key: str) -> float | None:
        """Write the state of our checks of a Workload; return the seconds after which to check again."""
        workload = self.workloads.get(key)
        reserved = None if workload is None else held(workload, "QuotaReserved")
        if workload is None or reserved is None or held(workload, "Evicted") or held(workload, "Finished"):
            return None
        waited = (self.clock.now() - parse_instant(reserved.last_transition_time or "")) / MICROS
        new = answer(workload, waited)
        for one in workload.status.admission_checks:
            if new and self.ours(one.name) and (one.state, one.message) != (new["state"], new["message"]):
                entry = {"name": one.name, "lastTransitionTime": format_instant(self.clock.now()), **new}
                await self.apply(WORKLOADS, workload, {"admissionChecks": [entry]})
        return HOLD - waited if waited < HOLD else None

    async def apply(self, kind: Resource, seen: AdmissionCheck | Workload, status: dict[str, object]) -> None:
        """Apply our part of a status at the version we read; after a conflict the controller retries."""
        meta = {"name": seen.name, "uid": seen.metadata.uid, "resourceVersion": seen.metadata.resource_version}
        tree = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "status": status}
        where = (kind, seen.name, json.dumps(tree).encode(), seen.metadata.namespace or "")
        await self.kube.patch(*where, how=Patch.APPLY, subresource="status", manager="approval")

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for part in (self.checks, self.workloads, self.activator, self.decider):
                tasks.create_task(part.run())


if __name__ == "__main__":
    CLOCK = SystemClock()
    asyncio.run(Approval(HttpKube(connection(), CLOCK, agent="approval"), CLOCK).run())
