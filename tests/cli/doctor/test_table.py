"""Does each check of `pykueue doctor` find what it is for, and nothing in its absence?"""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec.structs import replace

from pykueue.api.install.crds import crds
from pykueue.api.install.install import Install
from pykueue.api.install.webhooks import webhooks
from pykueue.api.trees import items, mapping, mappings, text
from pykueue.base.units import MICROS, Instant, format_instant
from pykueue.cli.doctor.inventory import Installation, Inventory, Manager, Severity, Wait
from pykueue.cli.doctor.manifests import from_files
from pykueue.cli.doctor.table import CHECKS, PAGE, Finding, examined
from tests.sim.builders import FLAVOR, configuration, job, priority, queue, workload
from tests.storyfile import ROOT

KUEUE = "---\napiVersion: kueue.x-k8s.io/v1beta2\n"
NOW = Instant(1_800_000_000 * MICROS)
DAY = 24 * 3600 * MICROS


def cohort(name: str, parent: str = "") -> str:
    return f"{KUEUE}kind: Cohort\nmetadata: {{name: {name}}}\nspec: {{{f'parentName: {parent}' if parent else ''}}}\n"


def flavor(name: str, spec: str = "{}") -> str:
    return f"{KUEUE}kind: ResourceFlavor\nmetadata: {{name: {name}}}\nspec: {spec}\n"


def namespace(name: str, labels: str) -> str:
    return f"---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, labels: {labels}}}\n"


def local(name: str, queue: str, namespace: str = "default") -> str:
    meta = f"{{name: {name}, namespace: {namespace}}}"
    return f"{KUEUE}kind: LocalQueue\nmetadata: {meta}\nspec: {{clusterQueue: {queue}}}\n"


def provisioned(config: str) -> str:
    """A check of ours that needs a ProvisioningRequestConfig of this name."""
    parameters = f"{{apiGroup: kueue.x-k8s.io, kind: ProvisioningRequestConfig, name: {config}}}"
    return (
        f"{KUEUE}kind: AdmissionCheck\nmetadata: {{name: nodes}}\nspec:\n"
        f"  controllerName: kueue.x-k8s.io/provisioning-request\n  parameters: {parameters}\n"
        f"{KUEUE}kind: ProvisioningRequestConfig\nmetadata: {{name: there}}\nspec: {{provisioningClassName: x}}\n"
    )


NEEDS_NODES = {"admissionChecksStrategy": "{admissionChecks: [{name: nodes}]}"}
LIMITED = (
    f"{KUEUE}kind: ClusterQueue\nmetadata: {{name: main}}\nspec:\n  namespaceSelector: {{}}\n  COHORT\n"
    "  resourceGroups:\n  - coveredResources: [cpu]\n"
    "    flavors: [{name: default, resources: [{name: cpu, nominalQuota: 4, LIMIT}]}]\n"
)


def limited(limit: str, cohort: str = "cohortName: all") -> str:
    return LIMITED.replace("COHORT", cohort or "stopPolicy: None").replace("LIMIT", limit)


class Case(NamedTuple):
    """Manifests in which a check finds something, and the same without the mistake."""

    wrong: str
    right: str
    says: str = ""
    """Words of the message."""


TWO_RESOURCES = (
    f"{KUEUE}kind: ClusterQueue\nmetadata: {{name: main}}\nspec:\n  namespaceSelector: {{}}\n  resourceGroups:\n"
    "  - coveredResources: [cpu, memory]\n    flavors: [{name: default, resources: "
    "[{name: cpu, nominalQuota: 4}, {name: memory, nominalQuota: MEMORY}]}]\n"
)
OLD_QUEUE = (
    "---\napiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata: {name: main}\nspec:\n"
    "  namespaceSelector: {}\n  cohort: all\n"
)

MANIFESTS: Mapping[str, Case] = {
    "queue-nothing-fits": Case(queue(cpu=0), queue(cpu=1), "every nominalQuota is 0"),
    "resource-without-quota": Case(
        TWO_RESOURCES.replace("MEMORY", "0"), TWO_RESOURCES.replace("MEMORY", "1Gi"), "covers memory"
    ),
    "limits-without-cohort": Case(
        limited("borrowingLimit: 1", ""), limited("borrowingLimit: 1"), "must be nil when cohort is empty"
    ),
    "limits-contradict": Case(limited("lendingLimit: 5"), limited("lendingLimit: 4"), "lendingLimit"),
    "nothing-to-borrow": Case(
        limited("borrowingLimit: 1") + queue("poor", cpu=0, cohortName="all"),
        limited("borrowingLimit: 1") + queue("rich", cpu=1, cohortName="all"),
        "cohort all does not lend",
    ),
    "cohort-alone": Case(
        queue(cohortName="al"),
        queue(cohortName="all") + queue("other", cohortName="all"),
        "the only queue in cohort al",
    ),
    "cohort-cycle": Case(
        queue(cohortName="a") + cohort("a", "b") + cohort("b", "a"),
        queue(cohortName="a") + cohort("a", "b") + cohort("b"),
        "its own ancestor",
    ),
    "flavor-missing": Case(
        TWO_RESOURCES.replace("MEMORY", "1").replace("name: default", "name: fast"), queue(), "ResourceFlavor fast"
    ),
    "flavor-unused": Case(queue() + flavor("spare"), queue()),
    "clusterqueue-missing": Case(queue() + local("b", "nowhere"), queue() + local("b", "main"), "nowhere"),
    "queue-stopped": Case(queue(stopPolicy="Hold"), queue(), "stopPolicy Hold"),
    "queue-unreachable": Case(
        queue() + TWO_RESOURCES.replace("MEMORY", "1").replace("main", "other"), queue(), "no LocalQueue refers to it"
    ),
    "queue-admits-no-namespace": Case(
        TWO_RESOURCES.replace("MEMORY", "1").replace("  namespaceSelector: {}\n", ""), queue(), "namespaceSelector"
    ),
    "namespace-not-admitted": Case(
        queue().replace("namespaceSelector: {}", "namespaceSelector: {matchLabels: {team: a}}")
        + namespace("default", "{team: b}"),
        queue().replace("namespaceSelector: {}", "namespaceSelector: {matchLabels: {team: a}}")
        + namespace("default", "{team: a}"),
        "does not admit namespace default",
    ),
    "check-missing": Case(
        queue(**{"admissionChecksStrategy": "{admissionChecks: [{name: approval}]}"}) + provisioned("there"),
        queue(**NEEDS_NODES) + provisioned("there"),
        "AdmissionCheck approval",
    ),
    "check-inactive": Case(
        queue(**NEEDS_NODES) + provisioned("nowhere"), queue(**NEEDS_NODES) + provisioned("there"), "nowhere"
    ),
    "preemption-cannot-act": Case(
        queue(preemption="{reclaimWithinCohort: Any}"),
        queue(preemption="{reclaimWithinCohort: Any}", cohortName="all"),
        "the queue is not in a cohort",
    ),
    "priorities-equal": Case(
        queue(preemption="{withinClusterQueue: LowerPriority}") + job("a") + priority("default", 0),
        queue(preemption="{withinClusterQueue: LowerPriority}") + job("a") + priority("high", 10),
    ),
    "priority-class-unused": Case(
        queue() + priority("high", 10) + job("a"), queue() + priority("high", 10) + job("a", klass="high")
    ),
    "request-never-fits": Case(queue(cpu=4) + job("a", cpu=5), queue(cpu=4) + job("a", cpu=4), "asks for 5 cpu"),
    "localqueue-missing": Case(queue() + job("a", queue="mian"), queue() + job("a"), "LocalQueue mian"),
    "kind-not-queued": Case(
        "---\napiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n"
        "metadata: {name: a, labels: {kueue.x-k8s.io/queue-name: main}}\n",
        "---\napiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: a}\n",
        "JobSet",
    ),
    "invalid-object": Case(queue().replace("nominalQuota: 4", "nominalQuota: 4, nominal: 5"), queue(), "unknown field"),
    "deprecated-version": Case(OLD_QUEUE, queue(), "kueue.x-k8s.io/v1beta1"),
    "feature-unsupported": Case(
        queue() + flavor("racks", "{nodeLabels: {a: b}, topologyName: dc}"), queue() + flavor("racks"), "topology"
    ),
    "configuration-invalid": Case(
        configuration("resources: {deviceClassMappings: [{name: a, deviceClassNames: [b]}]}"),
        configuration(""),
        "resources.deviceClassMappings",
    ),
    "configuration-differs": Case(
        configuration("clientConnection: {qps: 0, burst: 5}"), configuration("clientConnection: {qps: 5, burst: 5}")
    ),
}
"""Checks that manifests are enough for."""


def manifests(text: str) -> Inventory:
    unreadable: list[Any] = []
    found = from_files([("a.yaml", (FLAVOR + text).encode())], unreadable)
    assert unreadable == []
    return found


def ids(inventory: Inventory) -> list[str]:
    return [one.id for one in examined(inventory)[0]]


@pytest.mark.parametrize("check", MANIFESTS)
def test_a_mistake_in_manifests_is_found(check: str) -> None:
    case = MANIFESTS[check]
    findings, _ = examined(manifests(case.wrong))
    [found] = [one for one in findings if one.id == check]
    assert case.says in found.message
    assert found.remedy
    assert found.docs == f"{PAGE}#{check}"
    assert check not in ids(manifests(case.right))


HEAD = Wait("Job default/a", "default/main", since=Instant(NOW - 3 * DAY), message="waits for 9 more cpu")
LEASE = {"metadata": {"name": "x", "namespace": "kueue-system"}, "spec": {}}


def lease(renewed: int) -> dict[str, Any]:
    return {**LEASE, "spec": {"renewTime": format_instant(Instant(NOW + renewed))}}


def live(text: str = "", installation: Installation | None = None, **fields: Any) -> Inventory:
    """The inventory of manifests as if a server had them, in a healthy installation."""
    healthy = Installation(here=NOW, there=NOW, lease=lease(0), definitions=crds(), webhooks=webhooks(Install()))
    found = manifests(text)
    return replace(found, live=True, unread={}, installation=installation or healthy, **fields)


def with_installation(found: Inventory, **fields: Any) -> Inventory:
    return replace(found, installation=replace(found.installation, **fields))


def other_definitions() -> tuple[Any, ...]:
    first, *rest = crds()
    spec = mapping(first, "spec")
    versions = [one for _, one in mappings(spec, "versions") if text(one, "name") != "v1beta2"]
    return ({**first, "spec": {**spec, "versions": versions}}, *rest)


def without_first_webhook() -> tuple[Any, ...]:
    objects = webhooks(Install())
    return tuple({**one, "webhooks": items(one, "webhooks")[1:]} if "webhooks" in one else one for one in objects)


LABELLED = queue() + flavor("fast", "{nodeLabels: {disk: ssd}}")
LIVE: Mapping[str, tuple[Inventory, Inventory]] = {
    "flavor-without-nodes": (
        with_installation(live(LABELLED), nodes=({"disk": "hdd"},)),
        with_installation(live(LABELLED), nodes=({"disk": "ssd", "zone": "a"},)),
    ),
    "quota-beyond-machine": (
        with_installation(live(queue()), machine={"cpu": 1000}),
        with_installation(live(queue()), machine={"cpu": 1_000_000, "memory": 1 << 50}),
    ),
    "head-blocks": (
        with_installation(live(queue(), pending={"main": 3}), heads={"main": HEAD}),
        with_installation(live(queue(), pending={"main": 1}), heads={"main": HEAD}),
    ),
    "crds-differ": (with_installation(live(), definitions=other_definitions()), live()),
    "webhooks-differ": (with_installation(live(), webhooks=without_first_webhook()), live()),
    "manager-absent": (with_installation(live(), lease=lease(-120 * MICROS)), live()),
    "clocks-apart": (with_installation(live(), there=Instant(NOW - 60 * MICROS)), live()),
}
"""Checks of what only a server has."""


@pytest.mark.parametrize("check", LIVE)
def test_a_mistake_on_a_server_is_found(check: str) -> None:
    wrong, right = LIVE[check]
    assert check in ids(wrong)
    assert check not in ids(right)


def test_every_check_is_tested_above() -> None:
    assert {*MANIFESTS, *LIVE} == {*CHECKS}


def test_every_check_has_a_section_and_every_section_a_check() -> None:
    sections = re.findall(r"^### (\S+)$", (ROOT / PAGE).read_text(), re.MULTILINE)
    assert sections == [*CHECKS]


def test_the_page_tells_the_severity_of_each_check() -> None:
    text = (ROOT / PAGE).read_text()
    for name, check in CHECKS.items():
        section = text.split(f"### {name}\n")[1].split("\n### ")[0]
        assert section.strip().startswith(f"*{check.severity.value.capitalize()}*"), name
        assert "**Fix:**" in section, name


def test_the_worst_comes_first() -> None:
    found = examined(manifests(queue(cpu=0) + flavor("spare") + OLD_QUEUE.replace("main", "old")))[0]
    severities = [one.severity for one in found]
    assert severities == sorted(severities, key=[Severity.ERROR, Severity.WARNING, Severity.NOTE].index)


def test_skipped_checks_are_named() -> None:
    findings, skipped = examined(manifests(queue(cpu=0)), ["queue-nothing-fits"])
    assert "queue-nothing-fits" not in [one.id for one in findings]
    assert ("queue-nothing-fits", "--skip") in [(one.id, one.why) for one in skipped]


def test_a_server_of_another_manager_is_not_compared_with_ours() -> None:
    wrong, _ = LIVE["crds-differ"]
    other = replace(wrong, manager=Manager.OTHER)
    assert "crds-differ" not in ids(other)
    assert "crds-differ" in [one.id for one in examined(other)[1]]


def test_a_dump_shows_kinds_that_are_not_queued_by_the_owners_of_its_workloads() -> None:
    owners = [
        {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "train", "uid": "u", "controller": True},
        {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "v", "controller": True},
    ]
    items = [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {"name": f"w{number}", "namespace": "lab", "ownerReferences": [owner]},
            "spec": {"queueName": "main", "podSets": []},
        }
        for number, owner in enumerate(owners)
    ]
    dump = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    found = from_files([("dump.yaml", dump.encode())], [])
    assert found.others == (("JobSet", "lab/train"),)
    assert "kind-not-queued" in ids(found)


def test_kinds_without_any_manifest_are_taken_to_be_elsewhere() -> None:
    def found(text: str) -> list[Finding]:
        unreadable: list[Any] = []
        return examined(from_files([("a.yaml", text.encode())], unreadable))[0]

    assert [one.id for one in found(local("a", "main"))] == []
    assert [one.id for one in found(job("a", klass="high"))] == []
    assert [one.id for one in found(queue() + job("a"))] == []
    assert [one.id for one in found(queue() + job("a", cpu=5))] == ["request-never-fits"]


def test_a_refused_object_does_not_count_as_missing() -> None:
    wrong = queue().replace("nominalQuota: 4", "nominalQuota: -4")
    assert ids(manifests(wrong)) == ["invalid-object", "flavor-unused"]


def test_equal_jobs_are_one_finding() -> None:
    text = queue(cpu=4) + "".join(job(f"a{n}", cpu=5) for n in range(50))
    [found] = [one for one in examined(manifests(text))[0] if one.id == "request-never-fits"]
    assert "and 49 more of LocalQueue default/main" in found.message


def test_a_workload_that_holds_quota_is_not_asked_for() -> None:
    status = (
        "status:\n  admission: {clusterQueue: main, podSetAssignments: [{name: main, flavors: {cpu: default}, "
        "resourceUsage: {cpu: 1}, count: 1}]}\n  conditions: [{type: QuotaReserved, status: 'True', "
        "reason: QuotaReserved, message: m, lastTransitionTime: '2026-01-01T00:00:00Z'}]\n"
    )
    assert "request-never-fits" in ids(manifests(queue(cpu=0) + workload()))
    assert "request-never-fits" not in ids(manifests(queue(cpu=0) + workload(status)))


def test_a_clock_of_the_manager_that_is_ahead() -> None:
    assert "clocks-apart" in ids(with_installation(live(), lease=lease(60 * MICROS)))
    assert "manager-absent" not in ids(with_installation(live(), lease=lease(-20 * MICROS)))


def test_a_queue_without_status_has_no_manager() -> None:
    aged = queue().replace(
        "metadata: {name: main}\n", "metadata: {name: main, creationTimestamp: '2026-01-01T00:00:00Z'}\n"
    )
    assert "manager-absent" in ids(with_installation(live(aged), lease=None))
    assert "manager-absent" not in ids(with_installation(live(queue()), lease=None))


def test_the_rules_of_the_api_are_reported_once_for_each_object() -> None:
    findings = examined(manifests(limited("borrowingLimit: 1, lendingLimit: 1", "")))[0]
    [found] = [one for one in findings if one.id == "limits-without-cohort"]
    assert "(and 1 more like it)" in found.message
    rule = queue(preemption="{reclaimWithinCohort: Never, borrowWithinCohort: {policy: LowerPriority}}")
    assert ids(manifests(rule)).count("preemption-cannot-act") == 1


def test_a_configuration_in_a_config_map_is_read() -> None:
    text = (
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: kueue-manager-config}\ndata:\n"
        "  controller_manager_config.yaml: |\n    apiVersion: config.kueue.x-k8s.io/v1beta2\n    kind: Configuration\n"
        "    fairSharing: {}\n"
    )
    assert "configuration-invalid" in ids(manifests(text))


def test_a_dump_of_a_cluster_has_no_mistakes_of_its_own() -> None:
    """Namespaces have a spec, and a Workload beside its Job is the same job."""
    space = namespace("default", "{}") + "spec: {finalizers: [kubernetes]}\nstatus: {phase: Active}\n"
    owned = workload().replace(
        "metadata: {name: w}",
        "metadata: {name: w, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: a, uid: u, controller: true}]}",
    )
    text = space + queue(cpu=0) + job("a") + owned
    findings = examined(manifests(text))[0]
    assert [(one.id, one.object) for one in findings if one.id != "queue-nothing-fits"] == [
        ("request-never-fits", "Job default/a")
    ]
    assert "more of LocalQueue" not in findings[1].message


def test_definitions_that_lack_a_field_are_of_another_version() -> None:
    first = msgspec.json.decode(
        msgspec.json.encode(next(one for one in crds() if "clusterqueues" in str(one["metadata"])))
    )
    spec = next(one for one in first["spec"]["versions"] if one["name"] == "v1beta2")["schema"]["openAPIV3Schema"]
    del spec["properties"]["spec"]["properties"]["stopPolicy"]
    rest = [one for one in crds() if "clusterqueues" not in str(one["metadata"])]
    findings = examined(with_installation(live(), definitions=(first, *rest)))[0]
    [found] = [one for one in findings if one.id == "crds-differ"]
    assert found.severity is Severity.WARNING
    assert "it lacks spec.stopPolicy, which the server drops" in found.message


WEIGHTED = queue(fairSharing="{weight: 2}")


def notes_of_weights(inventory: Inventory) -> list[str]:
    return [one.message for one in examined(inventory)[0] if "the weight has no effect" in one.message]


def test_a_weight_is_noted_while_fair_sharing_is_off() -> None:
    assert len(notes_of_weights(manifests(WEIGHTED))) == 1
    on = configuration("fairSharing: {preemptionStrategies: [LessThanInitialShare]}")
    assert notes_of_weights(manifests(WEIGHTED + on)) == []


def test_a_share_in_a_status_shows_that_fair_sharing_is_on() -> None:
    shared = WEIGHTED.replace(
        "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue",
        "status: {fairSharing: {weightedShare: 0}}\n---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue",
    )
    assert notes_of_weights(manifests(shared)) == []
