"""Checks of queues, namespaces, AdmissionChecks and preemption policies."""

from collections.abc import Iterator

from pykueue.api.checks import AdmissionCheck
from pykueue.api.config.types import NAMESPACE_NAME_LABEL
from pykueue.api.kueue import ClusterQueue, LocalQueue, WorkloadPriorityClass
from pykueue.api.names import DEFAULT_PRIORITY_CLASS
from pykueue.api.priorityclass import SYSTEM, PriorityClass
from pykueue.bridge.unbuilt import unbuilt
from pykueue.cli.doctor.inventory import Found, Inventory, Manager, Severity, listed, of_rule
from pykueue.engine import model
from pykueue.engine.model import Policy, StopPolicy


def clusterqueue_missing(inventory: Inventory) -> Iterator[Found]:
    """LocalQueues of ClusterQueues that do not exist."""
    for one, view in inventory.each(LocalQueue):
        name = view.spec.cluster_queue or ""
        if not inventory.has("ClusterQueue", name):
            yield Found(
                f"LocalQueue {one.key}",
                f"refers to ClusterQueue {name}, which does not exist: its workloads stay pending",
                "create the ClusterQueue, or replace the LocalQueue: its clusterQueue cannot be changed",
            )


def queue_stopped(inventory: Inventory) -> Iterator[Found]:
    """Queues that admit nothing because someone stopped or deleted them."""
    for name, queue in inventory.queues.items():
        if queue.terminating:
            yield Found(
                f"ClusterQueue {name}",
                "is being deleted and does not admit workloads; others still hold its quota",
                "cancel those workloads to finish the deletion",
            )
        elif queue.stop is not StopPolicy.NONE:
            yield Found(
                f"ClusterQueue {name}",
                f"is stopped by stopPolicy {queue.stop} and does not admit workloads",
                f"run `pykueue resume clusterqueue {name}` when it should admit workloads again",
            )
    for one, view in inventory.each(LocalQueue):
        if view.spec.stop_policy != "None":
            yield Found(
                f"LocalQueue {one.key}",
                f"is stopped by stopPolicy {view.spec.stop_policy} and does not admit workloads",
                f"run `pykueue resume localqueue {one.name} -n {one.namespace}` when it should admit workloads again",
            )


def queue_unreachable(inventory: Inventory) -> Iterator[Found]:
    """ClusterQueues without a LocalQueue."""
    reached = {view.spec.cluster_queue for _, view in inventory.each(LocalQueue)}
    for one, _ in inventory.each(ClusterQueue):
        if one.name not in reached:
            yield Found(
                f"ClusterQueue {one.name}",
                "no LocalQueue refers to it, so no job can use it",
                "create a LocalQueue in a namespace that it admits, or delete it",
            )


def admits_no_namespace(inventory: Inventory) -> Iterator[Found]:
    """ClusterQueues that select no namespace at all."""
    for name, queue in inventory.queues.items():
        if queue.namespaces is None:
            yield Found(
                f"ClusterQueue {name}",
                "has no namespaceSelector, so it does not admit any namespace",
                "write `namespaceSelector: {}` to admit workloads of all namespaces, or select some by their labels",
            )


def namespace_not_admitted(inventory: Inventory) -> Iterator[Found]:
    """LocalQueues in namespaces that their ClusterQueue does not serve."""
    for one, view in inventory.each(LocalQueue):
        queue = inventory.queues.get(view.spec.cluster_queue or "")
        if queue is None or queue.namespaces is None:
            continue
        namespace = inventory.namespaces.get(one.namespace)
        if namespace is None:
            keys = {key for key, _, _ in queue.namespaces.requirements}
            if inventory.live or not keys <= {NAMESPACE_NAME_LABEL}:
                continue
            namespace = model.Namespace(one.namespace, ((NAMESPACE_NAME_LABEL, one.namespace),))
        if not queue.namespaces.matches(namespace.labels):
            yield Found(
                f"LocalQueue {one.key}",
                f"ClusterQueue {queue.name} does not admit namespace {one.namespace}: its namespaceSelector does not "
                "match the labels of the namespace",
                "label the namespace to match the selector, or extend the selector",
            )


def check_missing(inventory: Inventory) -> Iterator[Found]:
    """ClusterQueues with AdmissionChecks that do not exist."""
    for name, because in inventory.inactive.items():
        if "AdmissionCheckNotFound" not in because:
            continue
        named = dict.fromkeys(rule.check for rule in inventory.queues[name].checks)
        missing = [check for check in named if not inventory.has("AdmissionCheck", check)]
        if missing:
            yield Found(
                f"ClusterQueue {name}",
                f"does not admit workloads: AdmissionCheck {listed(missing)} does not exist",
                "create it, or remove it from spec.admissionChecksStrategy",
            )


def check_inactive(inventory: Inventory) -> Iterator[Found]:
    """AdmissionChecks whose controller does not perform them; a note if no ClusterQueue needs them."""
    unsupported = {one.name for one, view in inventory.each(AdmissionCheck) if unbuilt(one.kind, view)}
    for check, why in inventory.inactive_checks.items():
        if check in unsupported and inventory.manager is Manager.PYKUEUE:
            # That is `feature-unsupported`.
            continue
        users = [name for name, queue in inventory.queues.items() if any(rule.check == check for rule in queue.checks)]
        effect = f"ClusterQueue {listed(users)} does not admit workloads" if users else "no ClusterQueue uses it"
        yield Found(
            f"AdmissionCheck {check}",
            f"is not active: {why}; {effect}",
            "start the controller that spec.controllerName names, or correct the name and the parameters",
            None if users else Severity.NOTE,
        )


def preemption_cannot_act(inventory: Inventory) -> Iterator[Found]:
    """Preemption policies that never preempt, whatever waits."""
    yield from of_rule(inventory, "preemption-cannot-act", "allow reclaimWithinCohort too, or remove the policy")
    for name, queue in inventory.queues.items():
        policy = queue.preemption
        idle, why, remedy = [], "", ""
        if not queue.cohort:
            idle += ["reclaimWithinCohort"] if policy.reclaim is not Policy.NEVER else []
            idle += ["borrowWithinCohort"] if policy.borrow_within_cohort is not Policy.NEVER else []
            why, remedy = "the queue is not in a cohort", "set spec.cohortName, or remove the policy"
        elif policy.borrow_within_cohort is not Policy.NEVER and queue.quotas:
            idle += [] if any(one.borrowing_limit != 0 for one in queue.quotas) else ["borrowWithinCohort"]
            why, remedy = "every borrowingLimit is 0", "raise a borrowingLimit, or remove the policy"
        if idle:
            fields = " and ".join(f"preemption.{one}" for one in idle)
            yield Found(f"ClusterQueue {name}", f"{fields} has no effect: {why}", remedy)


def priorities_equal(inventory: Inventory) -> Iterator[Found]:
    """Queues that preempt lower priorities where there are classes, and all are equal."""
    values = {view.value for _, view in inventory.each(WorkloadPriorityClass)}
    values |= {view.value for one, view in inventory.each(PriorityClass) if one.name not in SYSTEM}
    # A workload without a class has priority 0. Without any class nobody has asked for priorities yet, and the policy
    # only waits for that: it is what `pykueue queue add` sets.
    if not values or len(values | inventory.priorities | {0}) > 1:
        return
    for name, queue in inventory.queues.items():
        if queue.preemption.within_queue is Policy.LOWER:
            yield Found(
                f"ClusterQueue {name}",
                "preemption.withinClusterQueue is LowerPriority, but all workloads and classes have priority 0: "
                "it has no effect",
                "create WorkloadPriorityClasses with different values, or use LowerOrNewerEqualPriority",
            )


def priority_class_unused(inventory: Inventory) -> Iterator[Found]:
    """WorkloadPriorityClasses that no workload names, as one finding, once there are workloads."""
    named = {one.name for one, _ in inventory.each(WorkloadPriorityClass)}
    unused = sorted(named - inventory.classes - {DEFAULT_PRIORITY_CLASS})
    if unused and inventory.priorities:
        more = f" (also unused: {listed(unused[1:])})" if len(unused) > 1 else ""
        yield Found(
            f"WorkloadPriorityClass {unused[0]}",
            f"no workload or job uses it{more}",
            "tell users about the label kueue.x-k8s.io/priority-class, or delete the class",
        )
