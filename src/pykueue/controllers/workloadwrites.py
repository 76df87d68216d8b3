"""Write the status of Workloads by server-side apply of what each field manager owns, with a precondition.

An apply cannot remove a field that another manager owns as well: such fields are found in the response and removed by a
separate patch.
"""

from typing import Any, Final

import msgspec

from pykueue.api.convert import V1BETA2
from pykueue.api.core import Json, ObjectMeta, Tree, condition_tree
from pykueue.api.names import WorkloadCondition
from pykueue.api.trees import text
from pykueue.api.workload import Workload
from pykueue.kube.informer import Informer
from pykueue.kube.port import WORKLOADS, ConflictError, Kube, Patch

ADMISSION: Final = "kueue-admission"
MANAGER: Final = "kueue"
"""The field manager of writes other than the status of Workloads."""
SLICE: Final = (
    "admission",
    "requeueState",
    "resourceRequests",
    "accumulatedPastExecutionTimeSeconds",
    "schedulingStats",
    "clusterName",
    "nominatedClusterNames",
    "unhealthyNodes",
    "preemptionGates",
)
"""Fields of the status, besides conditions and checks, that only `kueue-admission` controls."""
DEACTIVATION: Final = WorkloadCondition.DEACTIVATION_TARGET
"""The one condition that is removed again."""
QUOTED: Final = tuple((name, f'"{name}"'.encode()) for name in SLICE)
MERGE_TRIES: Final = 5
SHARED: Final = ("admissionChecks", "requeueState")
"""Fields whose parts others may own too, so that an apply cannot remove them."""


class Writes:
    """Writes the status of Workloads, and caches the responses."""

    def __init__(self, kube: Kube, workloads: Informer[Workload], *, merge: bool = False) -> None:
        self.kube = kube
        self.workloads = workloads
        self.merge = merge
        """Whether to send merge patches instead: the gate WorkloadRequestUseMergePatch."""

    async def admission(self, seen: Workload, status: Tree) -> Workload:
        """Write the slice of `kueue-admission`; raises ConflictError if `seen` is out of date."""
        if self.merge or drops_check(seen, status):
            return await self.merge_status(seen, merged(seen, status))
        raw = await self.apply(seen, status, ADMISSION, version=seen.metadata.resource_version or "")
        found = self.workloads.learn(raw)
        for _ in range(MERGE_TRIES):
            left = leftovers(raw, status)
            if not left:
                break
            try:
                return await self.merge_status(found, left)
            except ConflictError:
                # The slice is stored; another client reacted to it before the leftovers were removed.
                raw = await self.kube.get(WORKLOADS, seen.name, seen.namespace)
                found = self.workloads.learn(raw)
        return found

    async def own(self, seen: Workload, status: Tree, manager: str) -> Workload:
        """Write the fields of another field manager."""
        if self.merge:
            return await self.merge_status(seen, merged(seen, status, whole=False))
        return self.workloads.learn(await self.apply(seen, status, manager))

    async def apply(self, seen: Workload, status: Tree, manager: str, version: str = "") -> bytes:
        """The response to an apply on the object that was seen, at this version if one is given."""
        metadata: Tree = {"name": seen.name, "namespace": seen.namespace, "uid": seen.metadata.uid}
        if version:
            metadata["resourceVersion"] = version
        body: Tree = {"apiVersion": V1BETA2, "kind": "Workload", "metadata": metadata, "status": status}
        return await self.kube.patch(
            WORKLOADS,
            seen.name,
            msgspec.json.encode(body),
            seen.namespace,
            how=Patch.APPLY,
            subresource="status",
            manager=manager,
        )

    async def merge_status(self, seen: Workload, status: Tree) -> Workload:
        """Set these fields of the status regardless of their owners; null removes one."""
        raw = await self.kube.patch(
            WORKLOADS,
            seen.name,
            guarded(seen.metadata, {"status": status}),
            seen.namespace,
            how=Patch.MERGE,
            subresource="status",
            manager=ADMISSION,
        )
        return self.workloads.learn(raw)

    async def deactivate(self, seen: Workload) -> Workload:
        """Deactivate a Workload."""
        body = guarded(seen.metadata, {"spec": {"active": False}})
        raw = await self.kube.patch(WORKLOADS, seen.name, body, seen.namespace, how=Patch.MERGE, manager=ADMISSION)
        return self.workloads.learn(raw)


def guarded(seen: ObjectMeta, body: Tree) -> bytes:
    """A patch that applies only to the version that was seen."""
    more = body.get("metadata")
    guard: Tree = {"uid": seen.uid, "resourceVersion": seen.resource_version}
    return msgspec.json.encode({**body, "metadata": {**(more if isinstance(more, dict) else {}), **guard}})


class StatusOnly(msgspec.Struct):
    """The undecoded status of an object."""

    status: dict[str, Any] = {}


STATUS: Final = msgspec.json.Decoder(StatusOnly)


def leftovers(raw: bytes, status: Tree) -> Tree:
    """The patch that removes what the slice left out but a response still has; empty if nothing."""
    gone = [name for name, quoted in QUOTED if name not in status and quoted in raw]
    shared = [name for name in SHARED if name in status]
    target = b'"DeactivationTarget"' in raw and DEACTIVATION not in kinds(status.get("conditions"))
    if not (gone or shared or target):
        return {}
    found = STATUS.decode(raw).status
    left: Tree = {name: None for name in gone if name in found}
    for name in shared:
        if not same(found.get(name), status[name]):
            left[name] = replaced(found.get(name), status[name])
    if target and DEACTIVATION in kinds(found.get("conditions")):
        left["conditions"] = [c for c in items(found["conditions"]) if text(c, "type") != DEACTIVATION]
    return left


def drops_check(seen: Workload, status: Tree) -> bool:
    """Whether a check is no longer listed; an apply would leave parts that its own controller has applied too."""
    kept = {text(one, "name") for one in items(status.get("admissionChecks"))}
    return any(one.name not in kept for one in seen.status.admission_checks)


def same(first: Json, second: Json) -> bool:
    """Whether two values are equal in JSON; our structs have tuples for lists."""
    one, other = (msgspec.json.encode(value, order="deterministic") for value in (first, second))
    return one == other


def kinds(conditions: Json) -> set[str]:
    """The types of conditions."""
    return {text(condition, "type") for condition in items(conditions)}


def replaced(found: Json, wanted: Json) -> Json:
    """A merge patch value that turns what was found into what is wanted."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        return {**{name: None for name in found if name not in wanted}, **wanted}
    return wanted


def items(value: Json) -> list[Tree]:
    """The objects in a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def merged(seen: Workload, status: Tree, *, whole: bool = True) -> Tree:
    """The slice as a merge patch: what it leaves out is removed, and conditions of others stay."""
    current: Tree = msgspec.to_builtins(seen.status)
    patch: Tree = {name: replaced(current.get(name), value) for name, value in status.items()}
    if whole:
        patch.update({name: None for name in (*SLICE, "admissionChecks") if name not in status})
    if "conditions" in status:
        wanted = items(status["conditions"])
        mine = kinds(status["conditions"]) | ({DEACTIVATION} if whole else set())
        others: list[Json] = [condition_tree(c) for c in seen.status.conditions if c.type not in mine]
        patch["conditions"] = [*others, *wanted]
    return patch
