"""Which objects show what each rule means? One that passes everything, one that the rule refuses, and in what words."""

from collections.abc import Mapping
from typing import Any

from pykueue.api.trees import Tree
from pykueue.base.struct import Frozen
from tests.api.test_labels import NAME, VALUE

IMMUTABLE = "field is immutable"
NEGATIVE = "must be greater than or equal to 0"
RQ = "spec.resourceGroups[0].flavors[0].resources[0]"
HOST = "kubernetes.io/hostname"
NO_GATES: Mapping[str, bool] = {}


class Case(Frozen):
    """An object that passes, one that a rule refuses, what they were before, and what a user then reads."""

    rule: str
    title: str
    good: Tree
    bad: Tree
    says: tuple[str, ...]
    good_before: Tree | None = None
    bad_before: Tree | None = None
    gates: Mapping[str, bool] = NO_GATES


def thing(spec: object = None, status: object = None, **annotations: str) -> dict[str, object]:
    tree: dict[str, object] = {"metadata": {"name": "one", **({"annotations": annotations} if annotations else {})}}
    tree |= {"spec": spec} if spec is not None else {}
    return tree | ({"status": status} if status is not None else {})


def group(*resources: Tree, covered: list[str] | None = None, flavor: str = "default") -> dict[str, object]:
    names = [str(resource["name"]) for resource in resources]
    return {"coveredResources": covered or names, "flavors": [{"name": flavor, "resources": list(resources)}]}


def quota(nominal: object = 10, **limits: object) -> dict[str, object]:
    return {"name": "cpu", "nominalQuota": nominal, **limits}


def cluster_queue(**spec: object) -> dict[str, object]:
    return thing({"resourceGroups": [group(quota())], **spec})


def many(groups: int, flavors: int, covered: int) -> list[dict[str, object]]:
    """Groups of flavors, every name once."""
    made = []
    for g in range(groups):
        names = [f"r{g}-{c}" for c in range(covered)]
        resources = [{"name": name, "nominalQuota": "1"} for name in names]
        listed = [{"name": f"f{g}-{f}", "resources": resources} for f in range(flavors)]
        made.append({"coveredResources": names, "flavors": listed})
    return made


def on_flavors(*flavors: str) -> dict[str, object]:
    return {"admissionChecks": [{"name": "check", "onFlavors": list(flavors)}]}


def policy(mode: str = "TryPreferredFlavors", **constraints: object) -> dict[str, object]:
    migration: dict[str, object] = {"mode": mode}
    return {"migration": migration | ({"constraints": constraints} if constraints else {})}


def flavor(**spec: object) -> dict[str, object]:
    return thing(spec)


def topology(*labels: str) -> dict[str, object]:
    return thing({"levels": [{"nodeLabel": label} for label in labels]})


def taint(key: str, effect: str = "NoSchedule", **more: object) -> dict[str, object]:
    return {"key": key, "effect": effect, **more}


def true(kind: str) -> dict[str, object]:
    return {
        "type": kind,
        "status": "True",
        "reason": "Because",
        "message": "",
        "lastTransitionTime": "2026-01-31T12:00:00Z",
        "observedGeneration": 0,
    }


def pod_set(name: str = "main", count: int = 1, **more: object) -> dict[str, object]:
    return {"name": name, "count": count, "template": {"spec": {"containers": []}}, **more}


def assigned(name: str = "main", **more: object) -> dict[str, object]:
    return {"name": name, **more}


def admission(*assignments: Tree) -> dict[str, object]:
    return {"clusterQueue": "cq", "podSetAssignments": list(assignments or [assigned()])}


def workload(
    *pod_sets: Tree, spec: Tree = NO_GATES, status: Tree | None = None, annotations: Mapping[str, str] = {}
) -> dict[str, object]:
    return thing({"podSets": list(pod_sets or [pod_set()]), **spec}, status, **annotations)


def held(
    *pod_sets: Tree, spec: Tree = NO_GATES, annotations: Mapping[str, str] = {}, **status: object
) -> dict[str, object]:
    """A workload with quota reserved."""
    given = admission(*(assigned(str(one["name"])) for one in pod_sets or [pod_set()]))
    whole = {"conditions": [true("QuotaReserved")], "admission": given, **status}
    return workload(*pod_sets, spec=spec, status=whole, annotations=annotations)


def template(**spec: object) -> dict[str, object]:
    return pod_set(template={"spec": {"containers": [], **spec}})


def placed(*slices: Tree, levels: tuple[str, ...] = ("rack",)) -> dict[str, object]:
    assignment = {"levels": list(levels), "slices": list(slices)}
    return held(admission=admission(assigned(topologyAssignment=assignment)))


def part(**more: object) -> dict[str, object]:
    return {"domainCount": 2, "podCounts": {"universal": 1}, "valuesPerLevel": [{"universal": "r"}], **more}


def update(**more: object) -> dict[str, object]:
    return {"admissionChecks": [{"name": "check", "state": "Ready", "podSetUpdates": [{"name": "main", **more}]}]}


def ref(name: str = "high", kind: str = "WorkloadPriorityClass", group: str = "kueue.x-k8s.io") -> dict[str, object]:
    return {"priority": 1, "priorityClassRef": {"group": group, "kind": kind, "name": name}}


def pod_ref(name: str) -> dict[str, object]:
    return ref(name, "PriorityClass", "scheduling.k8s.io")


def boost(value: str) -> dict[str, object]:
    return workload(annotations={"kueue.x-k8s.io/priority-boost": value})


def gated(value: str) -> dict[str, object]:
    return workload(annotations={"kueue.x-k8s.io/admission-gated-by": value})


def resized(count: int, reclaimable: int | None, given: int | None = None) -> dict[str, object]:
    """A resizable workload with quota reserved, and pods that are done with."""
    entry = assigned() if given is None else assigned(count=given)
    done: dict[str, Any] = {} if reclaimable is None else {"reclaimablePods": [{"name": "main", "count": reclaimable}]}
    elastic = {"kueue.x-k8s.io/elastic-job": "true"}
    return held(pod_set(count=count), annotations=elastic, admission=admission(entry), **done)


def done(*counts: tuple[str, int]) -> dict[str, Any]:
    return {"reclaimablePods": [{"name": name, "count": count} for name, count in counts]}


def tolerations(prefix: str, number: int, build: object) -> list[Case]:
    """The cases of a list of tolerations, wherever it stands."""
    assert callable(build)
    path = "spec.tolerations" if prefix == "RF" else "status.admissionChecks[0].podSetUpdates[0].tolerations"
    effects = "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'"
    rows: list[tuple[str, dict[str, object], dict[str, object], str]] = [
        (
            "no key matches all",
            {"operator": "Exists"},
            {"operator": "Equal", "value": "a"},
            "operator must be Exists when 'key' is empty, which means 'match all values and all keys'",
        ),
        (
            "a time to leave",
            {"key": "a", "effect": "NoExecute", "tolerationSeconds": 3},
            {"key": "a", "tolerationSeconds": 3},
            "effect must be 'NoExecute' when 'tolerationSeconds' is set",
        ),
        (
            "an operator",
            {"key": "a", "operator": "Equal"},
            {"key": "a", "operator": "Like"},
            "supported toleration values: 'Equal'(default), 'Exists'",
        ),
        (
            "no value to be there",
            {"key": "a", "operator": "Exists"},
            {"key": "a", "operator": "Exists", "value": "b"},
            "a value must be empty when 'operator' is 'Exists'",
        ),
        ("an effect", {"key": "a", "effect": "PreferNoSchedule"}, {"key": "a", "effect": "Never"}, effects),
    ]
    return [
        Case(
            f"{prefix}-CEL-{number + i}",
            title,
            build([good]),
            build([{"key": "fine"}, bad]),
            (f'{path}: Invalid value: "array": {text}',),
        )
        for i, (title, good, bad, text) in enumerate(rows)
    ]


def groups_cases(prefix: str, parent_field: str, parent: str) -> list[Case]:
    """The cases that queues and cohorts share."""
    inside = {parent_field: "p"}

    def of(*groups: Tree, **spec: object) -> dict[str, object]:
        return thing({"resourceGroups": list(groups), **spec})

    two: list[Tree] = [{"name": "cpu", "nominalQuota": 1}, {"name": "memory", "nominalQuota": "1Gi"}]
    none = f"must be nil when {parent} is empty"
    return [
        Case(
            f"{prefix}-1",
            "a covered resource is a label key",
            of(group({"name": "nvidia.com/gpu", "nominalQuota": 1})),
            of(group({"name": "@", "nominalQuota": 1})),
            (f'spec.resourceGroups[0].coveredResources[0]: Invalid value: "@": name part {NAME}',),
        ),
        Case(
            f"{prefix}-2",
            "a resource is covered once",
            of(group(quota()), group(two[1], flavor="other")),
            of(group(quota()), group(quota(), flavor="other")),
            ('spec.resourceGroups[1].coveredResources[0]: Duplicate value: "cpu"',),
        ),
        Case(
            f"{prefix}-3",
            "a flavor is named once",
            of(group(quota()), group(two[1], flavor="other")),
            of(group(quota()), group(two[1])),
            ('spec.resourceGroups[1].flavors[0].name: Duplicate value: "default"',),
        ),
        Case(
            f"{prefix}-4",
            "resources in the order of the group",
            of(group(*two)),
            of(group(*two, covered=["memory", "cpu"])),
            (
                f'{RQ}.name: Invalid value: "cpu": must match the name in coveredResources',
                "spec.resourceGroups[0].flavors[0].resources[1].name: Invalid value: "
                '"memory": must match the name in coveredResources',
            ),
        ),
        Case(
            f"{prefix}-5",
            "quotas and limits are no debts",
            of(group(quota(0, borrowingLimit="0", lendingLimit=0)), **inside),
            of(group(quota("-1500m", borrowingLimit="-1", lendingLimit=-2)), **inside),
            (
                f'{RQ}.nominalQuota: Invalid value: "-1500m": {NEGATIVE}',
                f'{RQ}.borrowingLimit: Invalid value: "-1": {NEGATIVE}',
                f'{RQ}.lendingLimit: Invalid value: "-2": {NEGATIVE}',
            ),
        ),
        Case(
            f"{prefix}-6",
            "no limits on one's own",
            of(group(quota(borrowingLimit="1", lendingLimit="1")), **inside),
            of(group(quota(borrowingLimit="1000m", lendingLimit="2")), **{parent_field: ""}),
            (
                f'{RQ}.borrowingLimit: Invalid value: "1": {none}',
                f'{RQ}.lendingLimit: Invalid value: "2": {none}',
            ),
        ),
        Case(
            f"{prefix}-7",
            "a weight is no debt",
            of(fairSharing={"weight": "0"}),
            of(fairSharing={"weight": "-500m"}),
            (f'spec.fairSharing: Invalid value: "-500m": {NEGATIVE}',),
        ),
        Case(
            f"{prefix}-8",
            "a weight counts",
            of(fairSharing={"weight": "2n"}),
            of(fairSharing={"weight": "1n"}),
            ('spec.fairSharing: Invalid value: "1n": When not 0, weight must be > 10e-9',),
        ),
    ]


MISSING = "flavors must have the same number of resources as the coveredResources"
SHORT = {
    "coveredResources": ["cpu", "memory"],
    "flavors": [
        {"name": "full", "resources": [quota(), {"name": "memory", "nominalQuota": 1}]},
        {"name": "short", "resources": [quota()]},
    ],
}
NO_BORROWING = 'spec: Invalid value: "object": borrowingLimit must be nil when cohort is empty'
CONCURRENT = {"ConcurrentAdmission": True}
BOOST = {"PriorityBoost": True}
AT_GATES = "metadata.annotations[kueue.x-k8s.io/admission-gated-by]"
AT_BOOST = "metadata.annotations[kueue.x-k8s.io/priority-boost]"
WHILE = "is immutable while workload quota reserved"
SLICE = "status.admission.podSetAssignments[0].topologyAssignment.slices[0]"
TR = "spec.podSets[0].topologyRequest"
PSU = "status.admissionChecks[0].podSetUpdates[0]"
TWO = (pod_set("a", 3), pod_set("b", 3))
EITHER = "exactly one of the fields in [universal individual] must be set"
RUNNING: dict[str, Any] = {"conditions": [true("QuotaReserved"), true("Admitted")]}


def asks(**request: object) -> dict[str, object]:
    return workload(pod_set(topologyRequest=request))


def was(kind: str, spec: Tree = NO_GATES) -> dict[str, object]:
    """A v1beta1 workload with quota reserved and a priority of this source."""
    return held(spec={"priority": 1, "priorityClassName": "a", "priorityClassSource": kind, **spec})


QUEUE_CASES: list[Case] = [
    Case(
        "CQ-CEL-1",
        "no borrowing on one's own",
        cluster_queue(cohortName="c", resourceGroups=[group(quota(borrowingLimit=1))]),
        cluster_queue(resourceGroups=[group(quota(borrowingLimit=1))]),
        (NO_BORROWING,),
    ),
    Case(
        "CQ-CEL-2",
        "no borrowing on one's own, in the old version",
        cluster_queue(cohort="c", resourceGroups=[group(quota(borrowingLimit=1))]),
        cluster_queue(resourceGroups=[group(quota(borrowingLimit=1))]),
        (NO_BORROWING,),
    ),
    Case(
        "CQ-CEL-3",
        "a preference needs both searches to go on",
        cluster_queue(
            flavorFungibility={
                "preference": "BorrowingOverPreemption",
                "whenCanBorrow": "TryNextFlavor",
                "whenCanPreempt": "TryNextFlavor",
            }
        ),
        cluster_queue(
            flavorFungibility={
                "preference": "BorrowingOverPreemption",
                "whenCanBorrow": "MayStopSearch",
                "whenCanPreempt": "TryNextFlavor",
            }
        ),
        (
            'spec.flavorFungibility: Invalid value: "object": preference can only be set when both whenCanBorrow and '
            "whenCanPreempt are TryNextFlavor",
        ),
    ),
    Case(
        "CQ-CEL-4",
        "preempting while borrowing needs reclaiming",
        cluster_queue(preemption={"reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "LowerPriority"}}),
        cluster_queue(preemption={"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"}}),
        ('spec.preemption: Invalid value: "object": reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never',),
    ),
    Case(
        "CQ-CEL-5",
        "a quota for each covered resource",
        cluster_queue(),
        cluster_queue(resourceGroups=[SHORT]),
        (f'spec.resourceGroups[0]: Invalid value: "object": {MISSING}',),
    ),
    *groups_cases("CQ", "cohortName", "cohort"),
    Case(
        "CQ-9",
        "lends what it has",
        cluster_queue(cohortName="c", resourceGroups=[group(quota("1", lendingLimit="1000m"))]),
        cluster_queue(cohortName="c", resourceGroups=[group(quota("1", lendingLimit="1001m"))]),
        (f'{RQ}.lendingLimit: Invalid value: "1001m": must be less than or equal to the nominalQuota',),
    ),
    Case(
        "CQ-10",
        "one flavor too many",
        cluster_queue(resourceGroups=many(4, 64, 1)),
        cluster_queue(resourceGroups=[*many(4, 64, 1), group(quota())]),
        (
            "spec.resourceGroups: Invalid value: 257: "
            "total number of flavors across all resourceGroups must be ≤ 256, got 257",
        ),
    ),
    Case(
        "CQ-11",
        "one covered resource too many",
        cluster_queue(resourceGroups=many(4, 1, 64)),
        cluster_queue(resourceGroups=[*many(4, 1, 64), group(quota())]),
        (
            "spec.resourceGroups: Invalid value: 257: "
            "total number of covered resources across all resourceGroups must be ≤ 256, got 257",
        ),
    ),
    Case(
        "CQ-12",
        "too many quotas in a group",
        cluster_queue(resourceGroups=many(2, 16, 32)),
        cluster_queue(resourceGroups=many(1, 27, 19)),
        (
            "spec.resourceGroups[0]: Invalid value: 513: "
            "number of flavor-resource combinations in a resourceGroup must be ≤ 512, got 513",
        ),
    ),
    Case(
        "CQ-13",
        "a selector",
        cluster_queue(namespaceSelector={"matchLabels": {"team": "a"}}),
        cluster_queue(namespaceSelector={"matchLabels": {"team": "@"}}),
        (f'spec.namespaceSelector.matchLabels: Invalid value: "@": {VALUE}',),
    ),
    Case(
        "CQ-14",
        "preempting while borrowing, seen by the webhook",
        cluster_queue(preemption={"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "Never"}}),
        cluster_queue(preemption={"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"}}),
        (
            'spec.preemption: Invalid value: {"borrowWithinCohort":{"policy":"LowerPriority"},'
            '"reclaimWithinCohort":"Never"}: reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never',
        ),
    ),
    Case(
        "CQ-15",
        "a preference, seen by the webhook",
        cluster_queue(flavorFungibility={"whenCanBorrow": "MayStopSearch"}),
        cluster_queue(flavorFungibility={"preference": "PreemptionOverBorrowing", "whenCanBorrow": "TryNextFlavor"}),
        (
            'spec.flavorFungibility.preference: Invalid value: "PreemptionOverBorrowing": preference '
            '"PreemptionOverBorrowing" requires both whenCanBorrow and whenCanPreempt to be TryNextFlavor',
        ),
    ),
    Case(
        "CQ-16",
        "a check on a flavor of this queue",
        cluster_queue(admissionChecksStrategy=on_flavors("default")),
        cluster_queue(admissionChecksStrategy=on_flavors("default", "gone")),
        (
            "spec.admissionChecksStrategy.admissionChecks[0].onFlavors[1]: "
            'Unsupported value: "gone": supported values: "default"',
        ),
    ),
    Case(
        "CQ-16",
        "what was wrong before may stay, until it changes",
        cluster_queue(admissionChecksStrategy=on_flavors("gone")),
        cluster_queue(admissionChecksStrategy=on_flavors("gone", "lost")),
        (
            "spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]: "
            'Unsupported value: "gone": supported values: "default"',
            "spec.admissionChecksStrategy.admissionChecks[0].onFlavors[1]: "
            'Unsupported value: "lost": supported values: "default"',
        ),
        good_before=cluster_queue(admissionChecksStrategy=on_flavors("gone")),
        bad_before=cluster_queue(admissionChecksStrategy=on_flavors("gone")),
        gates={"RejectUpdatesToCQWithInvalidOnFlavors": False},
    ),
    Case(
        "CQ-16",
        "what was wrong before may not stay, with the gate",
        cluster_queue(admissionChecksStrategy=on_flavors("default")),
        cluster_queue(admissionChecksStrategy=on_flavors("gone")),
        (
            "spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]: "
            'Unsupported value: "gone": supported values: "default"',
        ),
        bad_before=cluster_queue(admissionChecksStrategy=on_flavors("gone")),
        gates={"RejectUpdatesToCQWithInvalidOnFlavors": True},
    ),
    Case(
        "CQ-16",
        "what was wrong before may not stay when the flavors change",
        cluster_queue(admissionChecksStrategy=on_flavors("default")),
        cluster_queue(admissionChecksStrategy=on_flavors("gone"), resourceGroups=[group(quota(), flavor="new")]),
        (
            "spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]: "
            'Unsupported value: "gone": supported values: "new"',
        ),
        bad_before=cluster_queue(admissionChecksStrategy=on_flavors("gone")),
    ),
    Case(
        "CQ-17",
        "concurrency is chosen once, gate or no gate",
        cluster_queue(concurrentAdmissionPolicy=policy()),
        cluster_queue(concurrentAdmissionPolicy=policy("RetainFirstAdmission")),
        (
            'spec.concurrentAdmissionPolicy: Invalid value: {"migration":{"mode":"RetainFirstAdmission"}}: '
            f"{IMMUTABLE}",
        ),
        good_before=cluster_queue(concurrentAdmissionPolicy=policy()),
        bad_before=cluster_queue(concurrentAdmissionPolicy=policy()),
    ),
    Case(
        "CQ-18",
        "concurrency in one group",
        cluster_queue(concurrentAdmissionPolicy=policy()),
        cluster_queue(concurrentAdmissionPolicy=policy(), resourceGroups=many(2, 1, 1)),
        (
            "spec.resourceGroups: Invalid value: 2: "
            "must have exactly one ResourceGroup when ConcurrentAdmissionPolicy is defined",
        ),
        gates=CONCURRENT,
    ),
    Case(
        "CQ-19",
        "concurrency among few flavors",
        cluster_queue(concurrentAdmissionPolicy=policy(), resourceGroups=many(1, 16, 1)),
        cluster_queue(concurrentAdmissionPolicy=policy(), resourceGroups=many(1, 17, 1)),
        (
            "spec.resourceGroups[0].flavors: Invalid value: 17: cannot have more than 16 resource flavors in the "
            "ResourceGroup when ConcurrentAdmissionPolicy is defined",
        ),
        gates=CONCURRENT,
    ),
    Case(
        "CQ-20",
        "constraints on what does not migrate",
        cluster_queue(concurrentAdmissionPolicy=policy(lastAcceptableFlavorName="default")),
        cluster_queue(concurrentAdmissionPolicy=policy("RetainFirstAdmission", lastAcceptableFlavorName="default")),
        (
            "spec.concurrentAdmissionPolicy.migration.constraints: Invalid value: "
            '{"lastAcceptableFlavorName":"default"}: '
            'may only be set when migration.mode is "TryPreferredFlavors" (got "RetainFirstAdmission")',
        ),
        gates=CONCURRENT,
    ),
    Case(
        "CQ-21",
        "the last flavor is one of the queue's",
        cluster_queue(concurrentAdmissionPolicy=policy(lastAcceptableFlavorName="default")),
        cluster_queue(concurrentAdmissionPolicy=policy(lastAcceptableFlavorName="gone"), resourceGroups=many(1, 2, 1)),
        (
            "spec.concurrentAdmissionPolicy.migration.constraints.lastAcceptableFlavorName: "
            'Invalid value: "gone": must be one of the flavors defined in the ClusterQueue: [f0-0 f0-1]',
        ),
        gates=CONCURRENT,
    ),
    Case(
        "CQ-22",
        "concurrency knows no strict order",
        cluster_queue(concurrentAdmissionPolicy=policy(), queueingStrategy="BestEffortFIFO"),
        cluster_queue(concurrentAdmissionPolicy=policy(), queueingStrategy="StrictFIFO"),
        (
            'spec.queueingStrategy: Invalid value: "StrictFIFO": '
            "StrictFIFO queueing strategy cannot be used when ConcurrentAdmissionPolicy is defined",
        ),
        gates=CONCURRENT,
    ),
    Case(
        "LQ-CEL-1",
        "the queue behind it stays",
        thing({"clusterQueue": "a"}),
        thing({"clusterQueue": "b"}),
        (f'spec.clusterQueue: Invalid value: "b": {IMMUTABLE}',),
        good_before=thing({}),
        bad_before=thing({"clusterQueue": "a"}),
    ),
    Case(
        "CO-CEL-1",
        "a quota for each covered resource",
        cluster_queue(),
        cluster_queue(resourceGroups=[SHORT]),
        (f'spec.resourceGroups[0]: Invalid value: "object": {MISSING}',),
    ),
    Case(
        "CO-5",
        "a cohort may lend more than it has",
        thing({"parentName": "p", "resourceGroups": [group(quota(0, lendingLimit=5))]}),
        thing({"parentName": "p", "resourceGroups": [group(quota(0, lendingLimit=-5))]}),
        (f'{RQ}.lendingLimit: Invalid value: "-5": {NEGATIVE}',),
    ),
    *groups_cases("CO", "parentName", "parent"),
]

FLAVOR_CASES: list[Case] = [
    Case(
        "RF-CEL-1",
        "a topology needs a label",
        flavor(topologyName="t", nodeLabels={"a": "b"}),
        flavor(topologyName="t", nodeLabels={}),
        ('spec: Invalid value: "object": at least one nodeLabel is required when topology is set',),
    ),
    Case(
        "RF-CEL-2",
        "a topology is chosen once",
        flavor(topologyName="t", nodeLabels={"a": "b"}),
        flavor(nodeLabels={"a": "b"}),
        ('spec: Invalid value: "object": topologyName is immutable when topologyName is set',),
        good_before=flavor(nodeLabels={"a": "b"}),
        bad_before=flavor(topologyName="t", nodeLabels={"a": "b"}),
    ),
    Case(
        "RF-CEL-3",
        "a taint has an effect",
        flavor(nodeTaints=[taint("a", "NoExecute")]),
        flavor(nodeTaints=[taint("a", "Sometimes")]),
        (
            'spec.nodeTaints: Invalid value: "array": '
            "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'",
        ),
    ),
    *tolerations("RF", 4, lambda listed: flavor(tolerations=listed)),
    Case(
        "RF-1",
        "labels of nodes",
        flavor(nodeLabels={"a": "b"}),
        flavor(nodeLabels={"a": "@"}),
        (f'spec.nodeLabels: Invalid value: "@": {VALUE}',),
    ),
    Case(
        "RF-2",
        "the key of a taint",
        flavor(nodeTaints=[taint("a.b/c")]),
        flavor(nodeTaints=[taint("@")]),
        (f'spec.nodeTaints[0].key: Invalid value: "@": name part {NAME}',),
    ),
    Case(
        "RF-3",
        "the value of a taint",
        flavor(nodeTaints=[taint("a", value="b")]),
        flavor(nodeTaints=[taint("a", value="@" * 64)]),
        (f'spec.nodeTaints[0].value: Invalid value: "{"@" * 64}": must be no more than 63 bytes;{VALUE}',),
    ),
    Case(
        "RF-4",
        "a taint twice",
        flavor(nodeTaints=[taint("a"), taint("a", "NoExecute")]),
        flavor(nodeTaints=[taint("a", value="1"), taint("a", value="2")]),
        (
            'spec.nodeTaints[1]: Duplicate value: {"effect":"NoSchedule","key":"a","value":"2"}: '
            "taints must be unique by key and effect pair",
        ),
    ),
    Case(
        "RF-5",
        "the key of a toleration",
        flavor(tolerations=[{"key": "", "operator": "Exists"}]),
        flavor(tolerations=[{"key": "@"}]),
        (f'spec.tolerations[0].key: Invalid value: "@": name part {NAME}',),
    ),
    Case(
        "TO-CEL-1",
        "levels change only above the node",
        topology("block", HOST),
        topology("block", HOST),
        (
            'spec.levels: Invalid value: "array": levels are mutable only when kubernetes.io/hostname is the lowest '
            "level both before and after the change",
        ),
        good_before=topology("rack", HOST),
        bad_before=topology("block", "rack"),
    ),
    Case(
        "TO-CEL-2",
        "levels never change, in the old version",
        topology("block", HOST),
        topology("block", HOST),
        (f'spec.levels: Invalid value: "array": {IMMUTABLE}',),
        good_before=topology("block", HOST),
        bad_before=topology("rack", HOST),
    ),
    Case(
        "TO-CEL-3",
        "a level twice",
        topology("block", "rack"),
        topology("rack", "rack"),
        ('spec.levels: Invalid value: "array": must be unique',),
    ),
    Case(
        "TO-CEL-4",
        "the node is the lowest level",
        topology("rack", HOST),
        topology(HOST, "rack"),
        (
            'spec.levels: Invalid value: "array": '
            "the kubernetes.io/hostname label can only be used at the lowest level of topology",
        ),
    ),
    Case(
        "AC-CEL-1",
        "the controller stays",
        thing({"controllerName": "a"}),
        thing({"controllerName": "b"}),
        (f'spec.controllerName: Invalid value: "b": {IMMUTABLE}',),
        good_before=thing({"controllerName": "a"}),
        bad_before=thing({"controllerName": "a"}),
    ),
    Case(
        "MKC-CEL-1",
        "no way to reach the cluster",
        thing({"clusterSource": {"kubeConfig": {"location": "a"}}}),
        thing({"clusterSource": {}}),
        (
            'spec.clusterSource: Invalid value: "object": '
            "exactly one of the fields in [kubeConfig clusterProfileRef] must be set",
        ),
    ),
    Case(
        "MKC-CEL-1",
        "two ways to reach the cluster",
        thing({"clusterSource": {"clusterProfileRef": {"name": "a"}}}),
        thing({"clusterSource": {"kubeConfig": {"location": "a"}, "clusterProfileRef": {"name": "a"}}}),
        (
            'spec.clusterSource: Invalid value: "object": '
            "exactly one of the fields in [kubeConfig clusterProfileRef] must be set",
        ),
    ),
    Case(
        "MKF-CEL-1",
        "a cluster twice",
        thing({"clusters": ["a", "b"]}),
        thing({"clusters": ["a", "b", "a"]}),
        ('spec.clusters: Invalid value: "array": must be unique',),
    ),
    *(
        Case(
            f"PR-CEL-{number}",
            f"{field} never change",
            thing({field: before}),
            thing({field: after}),
            (f"spec.{field}: Invalid value: {shown}: Value is immutable",),
            good_before=thing({field: before}),
            bad_before=thing({field: before}),
        )
        for number, field, before, after, shown in (
            (1, "podSets", [{"count": 1}], [{"count": 2}], '"array"'),
            (2, "provisioningClassName", "a", "b", '"b"'),
            (3, "parameters", {"a": "b"}, {"a": "c"}, '"object"'),
        )
    ),
]
