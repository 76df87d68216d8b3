"""Checks of quotas, limits, cohorts and flavors."""

from collections.abc import Iterator

from pykueue.api.checks import AdmissionCheck
from pykueue.api.kueue import ClusterQueue, Cohort, ResourceFlavor
from pykueue.api.names import CheckController
from pykueue.cli.doctor.inventory import Found, Inventory, Severity, listed, of_rule
from pykueue.cli.queues.plans import overcommitted
from pykueue.engine import model
from pykueue.engine.record.tally import owned


def nothing_fits(inventory: Inventory) -> Iterator[Found]:
    """ClusterQueues in which no workload that requests anything can start."""
    for name, queue in inventory.queues.items():
        most = capacities_of(inventory, name)
        if not most:
            message = "has no resource groups, so no workload that requests resources fits"
            remedy = "add a resource group with a flavor and a nominalQuota"
        elif not any(most.values()):
            lends = " and its cohort does not lend it any" if queue.cohort else ""
            message = f"has no quota: every nominalQuota is 0{lends}, so no workload can ever fit"
            remedy = "raise a nominalQuota" + (
                ", or let another queue of the cohort lend quota"
                if queue.cohort
                else ", or join a cohort that lends quota"
            )
        else:
            continue
        yield Found(f"ClusterQueue {name}", message, remedy)


def resource_without_quota(inventory: Inventory) -> Iterator[Found]:
    """Resources that a ClusterQueue covers and can never have, while it has others."""
    for name, queue in inventory.queues.items():
        most = capacities_of(inventory, name)
        resources = dict.fromkeys(resource for group in queue.groups for resource in group.resources)
        empty = [one for one in resources if not any(most[pair] for pair in most if pair[1] == one)]
        if empty and len(empty) < len(resources):
            yield Found(
                f"ClusterQueue {name}",
                f"covers {listed(empty)} but can never have any of it: workloads that request it never start",
                "raise its nominalQuota, or remove it from coveredResources",
            )


def capacities_of(inventory: Inventory, queue: str) -> dict[tuple[str, str], int]:
    """The most that a ClusterQueue can have, by flavor and resource."""
    known = inventory.queues[queue]
    pairs = ((flavor, one) for group in known.groups for flavor in group.flavors for one in group.resources)
    return {(flavor, one): inventory.capacities.get((queue, flavor, one), 0) for flavor, one in pairs}


def limits_without_cohort(inventory: Inventory) -> Iterator[Found]:
    """Borrowing and lending limits of queues in no cohort."""
    yield from of_rule(
        inventory, "limits-without-cohort", "set the cohort (for a Cohort, its parent), or remove the limits"
    )


def limits_contradict(inventory: Inventory) -> Iterator[Found]:
    """Limits that exceed what they limit."""
    yield from of_rule(inventory, "limits-contradict", "lower lendingLimit to nominalQuota or below, or remove it")


def nothing_to_borrow(inventory: Inventory) -> Iterator[Found]:
    """Borrowing limits of queues whose cohort never has anything to lend."""
    alone = set(lonely(inventory))
    for name, queue in inventory.queues.items():
        if not queue.cohort or name in alone:
            continue
        idle = [
            f"{one.resource} of flavor {one.flavor}"
            for one in queue.quotas
            if one.borrowing_limit and inventory.capacities.get((name, one.flavor, one.resource), 0) <= one.nominal
        ]
        if idle:
            yield Found(
                f"ClusterQueue {name}",
                f"has a borrowingLimit for {listed(idle)}, but cohort {queue.cohort} does not lend it",
                "let another queue or the Cohort lend quota of this flavor, or remove the borrowingLimit",
            )


def cohort_alone(inventory: Inventory) -> Iterator[Found]:
    """ClusterQueues that share a cohort with nobody."""
    for name in lonely(inventory):
        cohort = inventory.queues[name].cohort
        yield Found(
            f"ClusterQueue {name}",
            f"is the only queue in cohort {cohort}, which has no quota of its own: it cannot borrow or lend",
            "check the spelling of cohortName, or remove it",
        )


def lonely(inventory: Inventory) -> Iterator[str]:
    """ClusterQueues whose cohort has neither another member, nor quota, nor a parent."""
    members: dict[str, list[str]] = {}
    for name, queue in inventory.queues.items():
        members.setdefault(queue.cohort, []).append(name)
    parents = {cohort.parent for cohort in inventory.cohorts.values()}
    for cohort, names in members.items():
        own = inventory.cohorts.get(cohort, model.Cohort(cohort))
        if cohort and len(names) == 1 and not own.quotas and not own.parent and cohort not in parents:
            yield names[0]


def cohort_cycle(inventory: Inventory) -> Iterator[Found]:
    """ClusterQueues below cohorts that are their own ancestors."""
    for name, because in inventory.inactive.items():
        if "CohortCycle" in because:
            cohort = inventory.queues[name].cohort
            yield Found(
                f"ClusterQueue {name}",
                f"cannot admit workloads: cohort {cohort} is its own ancestor, or its parents are nested too deeply",
                "remove spec.parentName of one Cohort of the cycle",
            )


def flavor_missing(inventory: Inventory) -> Iterator[Found]:
    """ClusterQueues with quota of flavors that do not exist."""
    for name, because in inventory.inactive.items():
        if "FlavorNotFound" not in because:
            continue
        named = dict.fromkeys(flavor for group in inventory.queues[name].groups for flavor in group.flavors)
        missing = [flavor for flavor in named if not inventory.has("ResourceFlavor", flavor)]
        if missing:
            yield Found(
                f"ClusterQueue {name}",
                f"does not admit workloads: ResourceFlavor {listed(missing)} does not exist",
                "create it, or correct its name in spec.resourceGroups",
            )


def flavor_unused(inventory: Inventory) -> Iterator[Found]:
    """Flavors without any quota."""
    groups = [group for _, queue in inventory.each(ClusterQueue) for group in queue.spec.resource_groups]
    groups += [group for _, cohort in inventory.each(Cohort) for group in cohort.spec.resource_groups]
    used = {flavor.name for group in groups for flavor in group.flavors}
    for one, _ in inventory.each(ResourceFlavor):
        if one.name not in used:
            yield Found(
                f"ResourceFlavor {one.name}",
                "no ClusterQueue or Cohort has quota of it",
                "add it to a resource group, or delete it",
            )


def flavor_without_nodes(inventory: Inventory) -> Iterator[Found]:
    """Flavors whose labels no node has; a note if a check provisions nodes for it."""
    provisioned = {
        flavor
        for name, queue in inventory.queues.items()
        for rule in queue.checks
        if provisions(inventory, rule.check)
        for flavor in (rule.flavors or [one for group in inventory.queues[name].groups for one in group.flavors])
    }
    for one, view in inventory.each(ResourceFlavor):
        wanted = view.spec.node_labels
        if not wanted or any(wanted.items() <= node.items() for node in inventory.installation.nodes):
            continue
        labels = ", ".join(f"{key}={value}" for key, value in sorted(wanted.items()))
        yield Found(
            f"ResourceFlavor {one.name}",
            f"no node has its labels {labels}: pods that are admitted to it stay pending",
            "label the nodes, correct spec.nodeLabels, or make sure that an autoscaler adds such nodes",
            Severity.NOTE if one.name in provisioned else None,
        )


def quota_beyond_machine(inventory: Inventory) -> Iterator[Found]:
    """Queues that own more together than the one machine has."""
    machine = inventory.installation.machine
    remedy = "lower the quotas with `pykueue queue set` until they add up to what the machine has"
    for message in overcommitted(owned(inventory.queues.values()), machine) if machine else ():
        yield Found("ClusterQueue", message, remedy)


def provisions(inventory: Inventory, check: str) -> bool:
    """Whether a check asks an autoscaler for nodes."""
    return any(
        one.name == check and view.spec.controller_name == CheckController.PROVISIONING
        for one, view in inventory.each(AdmissionCheck)
    )
