"""All checks of `pykueue doctor`, one row each, and how they are run."""

from collections.abc import Callable, Collection, Iterator
from typing import Final

from pykueue.base.struct import Frozen
from pykueue.cli.doctor.checks import installation, queues, quotas, requests
from pykueue.cli.doctor.inventory import SOME_WORKLOAD, Found, Inventory, Manager, Severity, every

PAGE: Final = "docs/doctor.md"
ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE


class Check(Frozen):
    """One check: the severity of its findings, and the kinds that it must have read."""

    run: Callable[[Inventory], Iterator[Found]]
    severity: Severity
    about: str = ""
    """The kind that findings are about; without objects of it there is nothing to check."""
    needs: tuple[str, ...] = ()
    """Further kinds without which it would be wrong."""
    ours: bool = False
    """Whether it compares with an installed pykueue, and is of no use if another program manages the queues."""
    swap: bool = False
    """Whether it tells what pykueue does differently: of another program's queues, what a replacement would change."""


class Finding(Frozen):
    """One finding, as it is printed."""

    id: str
    severity: Severity
    object: str
    message: str
    remedy: str
    docs: str
    where: str = ""
    """The file and the document, if it was read from one."""


class Skipped(Frozen):
    """A check that was not run, and why."""

    id: str
    severity: Severity
    why: str


QUEUE: Final = "ClusterQueue"
ALL_WORKLOADS: Final = ("Workload", every("Workload"), SOME_WORKLOAD)
CHECKS: Final[dict[str, Check]] = {
    "queue-nothing-fits": Check(quotas.nothing_fits, ERROR, QUEUE, ("Cohort",)),
    "resource-without-quota": Check(quotas.resource_without_quota, NOTE, QUEUE, ("Cohort",)),
    "limits-without-cohort": Check(quotas.limits_without_cohort, ERROR, QUEUE),
    "limits-contradict": Check(quotas.limits_contradict, ERROR, QUEUE),
    "nothing-to-borrow": Check(quotas.nothing_to_borrow, WARNING, QUEUE, ("Cohort",)),
    "cohort-alone": Check(quotas.cohort_alone, NOTE, QUEUE, ("Cohort",)),
    "cohort-cycle": Check(quotas.cohort_cycle, ERROR, QUEUE, ("Cohort",)),
    "flavor-missing": Check(quotas.flavor_missing, ERROR, QUEUE, ("ResourceFlavor",)),
    "flavor-unused": Check(quotas.flavor_unused, NOTE, "ResourceFlavor", (QUEUE, "Cohort")),
    "flavor-without-nodes": Check(quotas.flavor_without_nodes, WARNING, "ResourceFlavor", ("Node",)),
    "quota-beyond-machine": Check(quotas.quota_beyond_machine, WARNING, QUEUE, ("Node",)),
    "clusterqueue-missing": Check(queues.clusterqueue_missing, ERROR, "LocalQueue", (QUEUE,)),
    "queue-stopped": Check(queues.queue_stopped, NOTE),
    "queue-unreachable": Check(queues.queue_unreachable, NOTE, QUEUE, ("LocalQueue", every("LocalQueue"))),
    "queue-admits-no-namespace": Check(queues.admits_no_namespace, ERROR, QUEUE),
    "namespace-not-admitted": Check(queues.namespace_not_admitted, ERROR, "LocalQueue", (QUEUE, "Namespace")),
    "check-missing": Check(queues.check_missing, ERROR, QUEUE, ("AdmissionCheck",)),
    "check-inactive": Check(queues.check_inactive, ERROR, "AdmissionCheck"),
    "preemption-cannot-act": Check(queues.preemption_cannot_act, WARNING, QUEUE),
    "priorities-equal": Check(queues.priorities_equal, NOTE, QUEUE, ("WorkloadPriorityClass", *ALL_WORKLOADS)),
    "priority-class-unused": Check(queues.priority_class_unused, NOTE, "WorkloadPriorityClass", ALL_WORKLOADS),
    "request-never-fits": Check(requests.request_never_fits, ERROR, SOME_WORKLOAD, ("Workload",)),
    "localqueue-missing": Check(requests.localqueue_missing, ERROR, SOME_WORKLOAD, ("Workload", "LocalQueue")),
    "head-blocks": Check(requests.head_blocks, WARNING, QUEUE, ("Position",)),
    "kind-not-queued": Check(requests.kind_not_queued, WARNING, "", ("Workload",), swap=True),
    "invalid-object": Check(installation.invalid_object, ERROR),
    "deprecated-version": Check(installation.deprecated_version, WARNING),
    "feature-unsupported": Check(installation.feature_unsupported, ERROR, swap=True),
    "configuration-invalid": Check(installation.configuration_invalid, ERROR, "", ("ConfigMap",), swap=True),
    "configuration-differs": Check(installation.configuration_differs, WARNING, "", ("ConfigMap",), swap=True),
    "crds-differ": Check(installation.crds_differ, ERROR, "", ("CustomResourceDefinition",), ours=True),
    "webhooks-differ": Check(installation.webhooks_differ, WARNING, "", ("WebhookConfiguration",), ours=True),
    "manager-absent": Check(installation.manager_absent, ERROR, "", ("Status",)),
    "clocks-apart": Check(installation.clocks_apart, WARNING, "", ("Date",)),
}
"""By id. Ids are stable: scripts ignore findings by them, and docs/doctor.md has a section for each."""
SKIP: Final = "--skip"
AFTER_SWITCH: Final = "after a switch to pykueue: "
"""How findings begin about what pykueue does differently, while Kueue manages the queues."""
RANK: Final = (ERROR, WARNING, NOTE)


def examined(inventory: Inventory, skip: Collection[str] = ()) -> tuple[list[Finding], list[Skipped]]:
    """All findings, the worst first, and the checks that were not run."""
    findings: list[Finding] = []
    skipped: list[Skipped] = []
    where: dict[str, str] = {}
    if not inventory.live:
        every = (one for each in inventory.objects.values() for one in each)
        where = {f"{one.kind} {one.key}": one.document.where for one in every}
        where |= {one.called: one.where for one, _ in inventory.mistakes if one.called}
    for name, check in CHECKS.items():
        if name in skip:
            skipped.append(Skipped(name, check.severity, SKIP))
        elif why := reason_not_to(check, inventory):
            skipped.append(Skipped(name, check.severity, why))
        else:
            before = AFTER_SWITCH if check.swap and inventory.manager is Manager.OTHER else ""
            findings += (
                Finding(
                    name,
                    one.severity or check.severity,
                    one.object,
                    f"{before}{one.message}",
                    one.remedy,
                    f"{PAGE}#{name}",
                    one.where or where.get(one.object, ""),
                )
                for one in check.run(inventory)
            )
    return sorted(findings, key=lambda one: RANK.index(one.severity)), skipped


def reason_not_to(check: Check, inventory: Inventory) -> str:
    """Why a check cannot be run; empty if it can."""
    if check.ours and inventory.manager is not Manager.PYKUEUE:
        return "the queues of this server do not appear to be managed by pykueue"
    if not inventory.live and is_absent(check.about, inventory):
        return ""
    return next((inventory.unread[kind] for kind in (check.about, *check.needs) if kind in inventory.unread), "")


def is_absent(about: str, inventory: Inventory) -> bool:
    """Whether manifests contain nothing that a check is about."""
    return about in inventory.unread if about == SOME_WORKLOAD else bool(about) and not inventory.objects.get(about)
