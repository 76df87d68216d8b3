"""What the queues would do now, as far as an observer can know: who is pending, who may be admitted, and what fits."""

from collections.abc import Iterable, Mapping
from typing import Final

from pykueue.api.kueue import ClusterQueue
from pykueue.api.names import Annotation
from pykueue.api.workload import Workload
from pykueue.audit.requests import any_slots, asked, first_slots
from pykueue.audit.rules.overuse import Overuse
from pykueue.audit.selectors import selects
from pykueue.audit.times import Instant, parse_instant
from pykueue.audit.tree import QUEUE, Account, Amounts, NodeName, Slot
from pykueue.audit.uptime import Uptime
from pykueue.audit.views import condition, holds, reserving, waiting
from pykueue.audit.world import Settings, World

SELF_ENDING: Final = ("PodsReadyTimeout", "AdmissionCheck", "ClusterQueueStopped", "LocalQueueStopped", "Deactivated")
"""Reasons why a workload is inadmissible that end by themselves, or with something that is checked here."""


class Look:
    """The world at one moment, with intermediate results."""

    def __init__(self, settings: Settings, overuse: Overuse, world: World, at: Instant, uptime: Uptime) -> None:
        self.settings, self.overuse, self.world, self.at = settings, overuse, world, at
        self.earliest = uptime.earliest(at)
        self.forest = overuse.trees(world)
        self.accounts: dict[tuple[NodeName, Slot], Account] = {}
        self.crowds: dict[str, list[Workload]] | None = None
        self.leaving: dict[NodeName, bool] = {}

    def would_fit(self, workload: Workload) -> bool:
        """Whether the workload would certainly get quota now; the cheap checks come first."""
        name = self.world.queue_name_of(workload)
        queue, root = self.world.queues.get(name), self.forest.root_of(name)
        if queue is None or root is None or not waiting(workload) or self.kept_out(workload):
            return False
        wanted = asked(workload, queue, self.settings)
        if not wanted or not self.serves(queue, workload):
            return False
        needs = first_slots(queue, wanted)
        return (
            bool(needs)
            and all(self.account(root, slot).left((QUEUE, name)) >= need for slot, need in needs.items())
            and not self.someone_leaves(root)
            and not self.pods_not_ready()
            and self.first_in_line(workload, queue, root)
            and self.fits_beside_others(queue, root, needs)
        )

    def kept_out(self, workload: Workload) -> bool:
        """Whether something about the workload itself may make it inadmissible."""
        reserved, requeued = condition(workload, "QuotaReserved"), condition(workload, "Requeued")
        state, annotations = workload.status.requeue_state, workload.metadata.annotations
        return bool(
            annotations.get(Annotation.ADMISSION_GATED_BY)
            or annotations.get(Annotation.PRIORITY_BOOST)
            or (reserved is not None and reserved.reason == "OnHold")
            or holds(workload, "WaitingForReplacementPods")
            or holds(workload, "DeactivationTarget")
            or (requeued is not None and requeued.status == "False" and not requeued.reason.startswith(SELF_ENDING))
            or (state is not None and state.requeue_at and parse_instant(state.requeue_at) >= self.earliest)
            or any(check.state in ("Retry", "Rejected") for check in workload.status.admission_checks)
        )

    def serves(self, queue: ClusterQueue, workload: Workload) -> bool:
        """Whether both queues accept the workload, and their flavors accept any pod."""
        local = self.world.local_queues.get(f"{workload.namespace}/{workload.spec.queue_name or ''}")
        namespace = self.world.namespaces.get(workload.namespace)
        flavors = [
            self.world.flavors.get(flavor.name) for group in queue.spec.resource_groups for flavor in group.flavors
        ]
        return (
            local is not None
            and local.spec.stop_policy == queue.spec.stop_policy == "None"
            and local.metadata.deletion_timestamp is None
            and queue.metadata.deletion_timestamp is None
            and any(found.type == "Active" and found.status == "True" for found in queue.status.conditions)
            and queue.spec.concurrent_admission_policy is None
            and namespace is not None
            and selects(queue.spec.namespace_selector, namespace.metadata.labels)
            and workload.namespace not in self.world.limited
            and all(
                flavor is not None and not flavor.spec.node_taints and flavor.spec.topology_name is None
                for flavor in flavors
            )
        )

    def account(self, root: NodeName, slot: Slot) -> Account:
        """The present account of a tree."""
        if (root, slot) not in self.accounts:
            self.accounts[root, slot] = Account(self.forest, root, slot, self.overuse.held.by_queue)
        return self.accounts[root, slot]

    def someone_leaves(self, root: NodeName) -> bool:
        """Whether a workload of this tree is being evicted: its quota is promised to its preemptor."""
        if root not in self.leaving:
            self.leaving[root] = any(
                reserving(workload)
                and holds(workload, "Evicted")
                and self.forest.root_of(workload.status.admission.cluster_queue or "") == root
                for workload in self.world.workloads.values()
                if workload.status.admission is not None
            )
        return self.leaving[root]

    def pods_not_ready(self) -> bool:
        """Whether all must wait for the pods of an admitted workload."""
        return self.settings.block_admission and any(
            reserving(workload) and not holds(workload, "PodsReady") for workload in self.world.workloads.values()
        )

    def pending_in(self, queue: str) -> list[Workload]:
        """All pending workloads of a ClusterQueue."""
        if self.crowds is None:
            self.crowds = {}
            for workload in self.world.workloads.values():
                if waiting(workload):
                    self.crowds.setdefault(self.world.queue_name_of(workload), []).append(workload)
        return self.crowds.get(queue, [])

    def first_in_line(self, workload: Workload, queue: ClusterQueue, root: NodeName) -> bool:
        """Whether no strict queue of this tree can make the workload wait for another."""
        for name in self.forest.queues_below(root):
            strict = self.world.queues[name].spec.queueing_strategy == "StrictFIFO"
            if strict and name != queue.name and self.pending_in(name):
                return False
            if strict and name == queue.name and min(self.pending_in(name), key=turn) is not workload:
                return False
        return True

    def fits_beside_others(self, queue: ClusterQueue, root: NodeName, needs: Mapping[Slot, int]) -> bool:
        """Whether the workload fits even if one from each other queue of the tree gets all it requests."""
        held: dict[str, Amounts] = dict(self.overuse.held.by_queue)
        for name in self.forest.queues_below(root):
            pending_in = self.pending_in(name) if name != queue.name else []
            claims = [asked(other, self.world.queues[name], self.settings) for other in pending_in]
            if None in claims:
                return False
            if claims:
                most = largest(claim for claim in claims if claim is not None)
                held[name] = added(held.get(name, {}), any_slots(self.world.queues[name], most))
        return all(
            Account(self.forest, root, slot, held).left((QUEUE, queue.name)) >= need for slot, need in needs.items()
        )


def turn(workload: Workload) -> tuple[int, str, str]:
    """The workload's position in a strict queue: by priority, then by age.

    An evicted workload may count as younger than it is; it then ranks later, and is not reported as first.
    """
    evicted = condition(workload, "Evicted")
    since = workload.metadata.creation_timestamp or ""
    if evicted is not None and evicted.status == "True" and evicted.last_transition_time:
        since = max(since, evicted.last_transition_time)
    return -(workload.spec.priority or 0), since, workload.metadata.uid or ""


def largest(claims: Iterable[dict[str, int]]) -> dict[str, int]:
    """The most of each resource that any of these requests."""
    most: dict[str, int] = {}
    for claim in claims:
        for name, each in claim.items():
            most[name] = max(most.get(name, 0), each)
    return most


def single_flavor(queue: ClusterQueue) -> bool:
    """Whether each resource of a queue comes from one flavor only."""
    return all(len(group.flavors) == 1 for group in queue.spec.resource_groups)


def added(held: Amounts, more: Mapping[Slot, int]) -> dict[Slot, int]:
    """The sum of what is held and something more."""
    return {slot: held.get(slot, 0) + more.get(slot, 0) for slot in {**held, **more}}
