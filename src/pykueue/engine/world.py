"""The state of the engine: the observed facts, and the decisions assumed but not confirmed."""

from collections.abc import Iterable
from hashlib import sha256
from itertools import islice
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import replace

from pykueue.base.units import MICROS, Instant
from pykueue.engine.decisions import Invalid, NamespaceMismatch, NamespaceMissing
from pykueue.engine.forest import DEPTH_MAX, Forest
from pykueue.engine.items import Holding, Item, Shape, effective_counts
from pykueue.engine.model import (
    Check,
    Flavor,
    LocalQueue,
    Namespace,
    Options,
    PodSet,
    PodsReady,
    StopPolicy,
    Workload,
    effective_priority,
)
from pykueue.engine.pastuse import PastUse
from pykueue.engine.pending import Numbers, PendingQueue
from pykueue.engine.quota import Flavors, QuotaNode, ancestors


class World:
    """The engine's state. Facts change it, and so do decisions, which are assumed until a fact confirms them.

    Only the engine's own modules read it; everything else uses the methods of `Engine` and `record.tally`.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.forest = Forest()
        self.flavors: dict[str, Flavor] = {}
        self.epoch = 0
        """Counts the changes of flavors."""
        self.pending: dict[str, PendingQueue] = {}
        self.numbers = Numbers()
        sharing = options.admission_fair_sharing
        self.past = None if sharing is None else PastUse(sharing, self.counts_reserved)
        """The past use of LocalQueues; None unless it is configured."""
        self.local_queues: dict[str, LocalQueue] = {}
        self.local_queues_by_queue: dict[str, set[str]] = {}
        """The keys of the LocalQueues of each ClusterQueue, which need not exist."""
        self.members: dict[str, dict[str, Item]] = {}
        """The workloads of each LocalQueue, which need not exist."""
        self.namespaces: dict[str, Namespace] = {}
        self.checks: dict[str, Check] = {}
        self.items: dict[str, Item] = {}
        self.shapes: WeakValueDictionary[tuple[object, ...], Shape] = WeakValueDictionary()
        self.not_ready: dict[str, Item] = {}
        """Holders of quota whose pods are not all ready."""
        self.without_queue: dict[str, Item] = {}
        """Workloads with quota in a ClusterQueue that does not exist."""
        self.releasing: dict[str, set[str]] = {}
        """Workloads that release quota of a ClusterQueue by unconfirmed decisions, by queue."""
        self.now = Instant(0)
        self.touched: dict[str, Item] = {}
        """Workloads to review."""
        self.to_flush: dict[str, None] = {}
        """ClusterQueues in whose trees parked workloads are requeued."""
        self.to_recheck: dict[str, None] = {}
        """ClusterQueues that may have become active or inactive."""
        self.versions: dict[tuple[str, str], int] = {}
        self.timers: list[tuple[Instant, str]] = []
        """When to review which workload again, as a heap; `Item.timer` shows which entries are valid."""
        self.blocks_admission = options.pods_ready is not None and options.pods_ready.block_admission
        """Whether nothing starts while the pods of a holder of quota are not ready."""

    def shape(self, workload: Workload, known: Shape | None = None) -> Shape:
        """The shape shared by all equal workloads; `known` is its previous shape, which is often the same."""
        pod_sets, priority = workload.pod_sets, effective_priority(workload, self.options)
        if workload.reclaimable:
            counts = effective_counts(workload, self.options)
            pod_sets = tuple(replace(p, count=n) for p, n in zip(pod_sets, counts, strict=True))
        elif known is not None and known.named is pod_sets and known.priority == priority:
            return known
        return self.shape_of(pod_sets, priority)

    def shape_of(self, pod_sets: tuple[PodSet, ...], priority: int) -> Shape:
        """The shape of these pod sets at this priority; the names of pod sets do not matter."""
        nameless = tuple([replace(p, name="") for p in pod_sets])
        key = (priority, nameless)
        found = self.shapes.get(key)
        if found is None:
            found = self.shapes[key] = Shape(nameless, priority, pod_sets)
            found.digest = int.from_bytes(sha256(msgspec.json.encode(key)).digest()[:8])
        return found

    def queue_of(self, workload: Workload) -> str:
        """The ClusterQueue that a workload is sent to; empty when its LocalQueue is not known."""
        local = self.local_queues.get(workload.local_queue)
        return "" if local is None else local.queue

    def counts_past_use(self, queue: QuotaNode | None) -> bool:
        """Whether past use orders the workloads of a ClusterQueue, or the children of a cohort above it."""
        if queue is None or queue.past is not None:
            return queue is not None
        # Until the trees are recomputed, an edit may have made a cycle of cohorts.
        above = islice(ancestors(queue), DEPTH_MAX) if self.past is not None and self.options.fair_sharing else ()
        return any(cohort.usage_based for cohort in above)

    def counts_reserved(self, local_queue: str) -> bool:
        """Whether the workloads of a LocalQueue count for its past use from their reservation on."""
        local = self.local_queues.get(local_queue)
        queue = None if local is None else self.forest.queues.get(local.queue)
        return self.options.afs_anchor and self.counts_past_use(queue)

    def relist(self, local_queues: Iterable[str]) -> None:
        """Correct the order of pending workloads after the past use of some LocalQueues has become lower."""
        lower: dict[str, list[str]] = {}
        for key in local_queues:
            local = self.local_queues.get(key)
            if local is not None:
                lower.setdefault(local.queue, []).append(key)
        for name, keys in lower.items():
            pending = self.pending.get(name)
            if pending is not None and pending.past is not None:
                pending.relist(keys)

    def serves(self, queue: QuotaNode, namespace: str) -> bool:
        """Whether a ClusterQueue takes workloads of a namespace."""
        found = self.namespaces.get(namespace)
        selector = queue.spec.namespaces
        return found is not None and selector is not None and selector.matches(found.labels)

    def refusal(self, queue: QuotaNode, item: Item) -> NamespaceMissing | NamespaceMismatch | Invalid | None:
        """Why a ClusterQueue refuses a workload before it looks at flavors; None if it does not."""
        # spec: CYC-1
        workload, namespace = item.workload, item.namespace
        if not self.serves(queue, namespace):
            missing = namespace not in self.namespaces
            return NamespaceMissing(namespace) if missing else NamespaceMismatch(queue.name)
        if workload.unbuilt or workload.problem:
            return Invalid(workload.unbuilt or workload.problem)
        return None

    def inactive_because(self, queue: QuotaNode) -> tuple[tuple[str, str], ...]:
        """Why a ClusterQueue cannot admit, as (reason, text) in Kueue's order; empty when it can."""
        # spec: QUO-8
        spec = queue.spec
        if spec.terminating:
            return (("Terminating", "clusterQueue is terminating"),)
        found: list[tuple[str, str]] = []
        if spec.stop is not StopPolicy.NONE:
            found.append(("Stopped", "is stopped"))
        missing = [f for group in spec.groups for f in group.flavors if f not in self.flavors]
        if missing:
            found.append(("FlavorNotFound", f"references missing ResourceFlavor(s): {','.join(missing)}"))
        absent = sorted(rule.check for rule in spec.checks if rule.check not in self.checks)
        if absent:
            found.append(("AdmissionCheckNotFound", f"references missing AdmissionCheck(s): {','.join(absent)}"))
        idle = sorted(r.check for r in spec.checks if r.check in self.checks and not self.checks[r.check].active)
        if idle:
            found.append(("AdmissionCheckInactive", f"references inactive AdmissionCheck(s): {','.join(idle)}"))
        unbuilt = [
            spec.unbuilt,
            *(self.flavors[f].unbuilt for g in spec.groups for f in g.flavors if f in self.flavors),
        ]
        found.extend(("Unsupported", text) for text in unbuilt if text)
        return tuple(found)

    def can_admit(self, queue: QuotaNode) -> bool:
        """Whether a ClusterQueue's workloads are considered in cycles."""
        return queue.active and queue.tree is not None

    def required_checks(self, queue: QuotaNode, flavors: set[str]) -> tuple[str, ...]:
        """The AdmissionChecks that a workload on these flavors has to pass."""
        # spec: LIF-9
        if not flavors or not queue.spec.checks:
            return ()
        return tuple(r.check for r in queue.spec.checks if not r.flavors or not flavors.isdisjoint(r.flavors))

    def has_passed(self, queue: QuotaNode, workload: Workload, flavors: set[str]) -> bool:
        """Whether every AdmissionCheck that a workload on these flavors has to pass is ready."""
        required = self.required_checks(queue, flavors)
        if not required:
            return True
        states = {check.name: check.state for check in workload.checks}
        return all(states.get(check) == "Ready" for check in required)

    def is_ready(self, workload: Workload) -> bool:
        """Whether a workload's pods are known to be ready."""
        ready = readiness(workload, workload.reserved_at)
        return ready is not None and ready.ready

    def blocked_by(self, item: Item) -> str:
        """The key of a holder whose unready pods block this workload; empty if there is none."""
        # spec: CYC-5
        if not self.blocks_admission:
            return ""
        return next((key for key in self.not_ready if key != item.key), "")


def readiness(workload: Workload, since: Instant | None) -> PodsReady | None:
    """The PodsReady condition, unless it is about an earlier run. Stored times are whole seconds."""
    ready = workload.pods_ready
    if ready is None or since is None or ready.at // MICROS < since // MICROS:
        return None
    return ready


def has_failed_check(workload: Workload) -> bool:
    """Whether an AdmissionCheck of a workload is in state Retry or Rejected."""
    return bool(workload.checks) and any(check.state in ("Retry", "Rejected") for check in workload.checks)


def assigned_flavors(workload: Workload) -> set[str]:
    """The flavors that a reservation uses."""
    if workload.admission is None:
        return set()
    return {flavor for assignment in workload.admission.assignments for _, flavor in assignment.flavors}


def held(workload: Workload, flavors: Flavors, options: Options) -> Holding:
    """The usage of a reservation without reclaimed pods, and all pairs that it uses."""
    if workload.admission is None:
        return (), frozenset()
    left = effective_counts(workload, options)
    counts = {pod_set.name: count for pod_set, count in zip(workload.pod_sets, left, strict=True)}
    total: dict[int, int] = {}
    pairs: set[int] = set()
    for assignment in workload.admission.assignments:
        chosen = {resource: flavors.id(flavor, resource) for resource, flavor in assignment.flavors}
        count = min(counts.get(assignment.pod_set, assignment.count), assignment.count)
        pairs.update(chosen.values())
        for resource, amount in assignment.usage:
            fr = chosen.get(resource)
            if fr is None:
                continue
            used = amount if count == assignment.count else amount // assignment.count * count
            total[fr] = total.get(fr, 0) + max(0, used)
    return tuple(total.items()), frozenset(pairs)
