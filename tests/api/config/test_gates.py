"""Gates follow Kueue's table, and a wish that comes to nothing is answered."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.api.config.gates import GATES, Resolved, defaults, parse_gates, resolve
from pykueue.api.config.gatetable import OURS, TABLE, StageChange
from pykueue.bridge.options import SWITCHES

SOURCE = Path(__file__).resolve().parents[3] / "src" / "pykueue"

BUILT = {
    "AdmissionFairSharing",
    "AdmissionFairSharingAnchorAtQuotaReservation",
    "AdmissionGatedBy",
    "AssignQueueLabelsForPods",
    "BlockBorrowingWithinCycle",
    "CleanupProvisioningRequestsOnEviction",
    "CustomMetricLabels",
    "DisableWaitForPodsReady",
    "ElasticJobsViaWorkloadSlices",
    "FairSharingPreemptWithinNominal",
    "FairSharingPrioritizeNonBorrowing",
    "FairSharingReevaluatePreemptionCandidates",
    "FairSharingRefill",
    "FinishOrphanedWorkloads",
    "FlavorFungibility",
    "KeepQuotaForProvReqRetry",
    "FlavorFungibilityPreserveScanProgress",
    "LocalQueueMetrics",
    "MetricForWorkloadCreationLatency",
    "MetricsForCohorts",
    "PartialAdmission",
    "PrioritizePreemptorWorkloads",
    "PriorityBoost",
    "PrioritySortingWithinCohort",
    "QuotaCheckStrategy",
    "ReclaimablePods",
    "RecomputeAssignmentUponPreemptionTargetsOverlap",
    "RejectUpdatesToCQWithInvalidOnFlavors",
    "RemoveFinalizersWithStrictPatch",
    "ReservedResourceNameValidation",
    "ReserveForPreemptor",
    "SchedulingEquivalenceHashing",
    "ShortWorkloadNames",
    "SkipAncestorCheckForDeletedWorkloads",
    "TASValidateWorkloadSliceSize",
    "UnadmittedWorkloadsExplicitStatus",
    "UnadmittedWorkloadsObservability",
    "VisibilityOnDemand",
    "WorkloadIdentifierAnnotations",
    "WorkloadPriorityClassDefaulting",
    "WorkloadRequestUseMergePatch",
    "WorkloadValidateResourcesAreNonNegative",
    "WorkloadValidationForPodSetMetadata",
}
VALIDATION = {
    "ConcurrentAdmission",
    "KueueDRAIntegrationConsumableCapacity",
    "KueueDRAIntegrationPartitionableDevices",
    "SparkApplicationIntegration",
    "TASMultiLayerTopology",
    "TopologyAwareScheduling",
}


def gates_read(source: str) -> Iterator[str]:
    """The names of the gates that a module reads: `gates["A"]`, `context.on("A")`, `gate="A"`, or by a constant."""
    tree = ast.parse(source)
    constants = {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    found: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value).split(".")[-1] in ("gates", "values"):
            found.append(node.slice)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "on":
            found += node.args
        if isinstance(node, ast.keyword) and node.arg == "gate":
            found.append(node.value)
    for name in found:
        value = constants.get(name.id) if isinstance(name, ast.Name) else getattr(name, "value", None)
        if isinstance(value, str):
            yield value


READ = {
    *SWITCHES.values(),
    *(
        name
        for path in SOURCE.rglob("*.py")
        if path.name not in ("gates.py", "gatetable.py")
        for name in gates_read(path.read_text())
    ),
}


def test_every_gate_that_is_read_is_known() -> None:
    assert GATES.keys() >= READ


def test_a_gate_is_read_exactly_if_we_say_that_it_does_something() -> None:
    assert {gate.name for gate in GATES.values() if gate.status in ("built", "validation")} == READ


def test_readers_of_gates_are_found() -> None:
    source = 'A: Final = "Named"\nx = gates["Indexed"] or c.gates.values["Deep"] or c.on("Asked") or rule(gate=A)\n'
    assert sorted(gates_read(source)) == ["Asked", "Deep", "Indexed", "Named"]


def test_the_table_has_all_gates_of_kueue_once() -> None:
    names = [gate.name for gate in TABLE]
    assert len(names) == 114
    assert names == sorted(set(names))


def test_the_stages_add_up() -> None:
    counts = {stage: sum(gate.stage == stage for gate in TABLE) for stage in ("Alpha", "Beta", "GA", "Deprecated")}
    assert counts == {"Alpha": 37, "Beta": 73, "GA": 2, "Deprecated": 2}
    assert {gate.name for gate in TABLE if gate.locked} == {"ManagedJobsNamespaceSelectorAlwaysRespected", "TLSOptions"}
    assert [gate.name for gate in TABLE if gate.stage == "Beta" and not gate.default] == []
    assert not any(gate.default for gate in TABLE if gate.stage == "Alpha")


SINCE_0_20 = {
    "AdmissionFairSharingAnchorAtQuotaReservation": ("Beta", ("AdmissionFairSharing",)),
    "ConfigurablePreemptions": ("Alpha", ()),
    "DeploymentJobUIDLabel": ("Beta", ()),
    "DynamicQuotaOrchestration": ("Alpha", ()),
    "ElasticJobsViaWorkloadSlicesFlavorChangeFromZero": ("Alpha", ("ElasticJobsViaWorkloadSlices",)),
    "ElasticJobsViaWorkloadSlicesForProvisioningRequests": ("Alpha", ("ElasticJobsViaWorkloadSlices",)),
    "ElasticJobsViaWorkloadSlicesWithPartialReplicaScaleUp": ("Alpha", ()),
    "EnforceProvisioningPodTemplateContents": ("Beta", ()),
    "FairSharingReevaluatePreemptionCandidates": ("Alpha", ()),
    "FairSharingRefill": ("Alpha", ()),
    "FinalizeTerminatingPodGroups": ("Beta", ()),
    "FlavorFungibilityPreserveScanProgress": ("Beta", ("FlavorFungibility",)),
    "HighMaxParallelismWithinReconcile": ("Beta", ()),
    "KueueDRADeviceFeasibility": (
        "Alpha",
        ("KueueDRAIntegration", "TopologyAwareScheduling", "TASNodeFeasibilityForAllLevels"),
    ),
    "KueueDRAIntegrationDeviceTaints": ("Alpha", ("KueueDRADeviceFeasibility",)),
    "KueueDRAIntegrationPrioritizedList": ("Alpha", ("KueueDRAIntegration",)),
    "LWSImmutableGroupSize": ("Beta", ()),
    "MultiKueueBatchJobClearingTTLSecondsAfterFinishedOnWorkerCluster": ("Alpha", ()),
    "MultiKueueRayInTreeAutoscaling": ("Alpha", ("MultiKueue", "ElasticJobsViaWorkloadSlices")),
    "MultiKueueRemoteSpecSync": ("Beta", ()),
    "MultiKueueReuseClientConnectionConfigForWorkers": ("Beta", ("MultiKueue",)),
    "PodGroupSchedulingShapeOrdering": ("Beta", ()),
    "PodIntegrationCountSucceededPodsAsReady": ("Beta", ()),
    "PrioritizePreemptorWorkloads": ("Alpha", ()),
    "RayServiceValidateUpgradeStrategy": ("Beta", ()),
    "RecomputeAssignmentUponPreemptionTargetsOverlap": ("Beta", ()),
    "ReservedResourceNameValidation": ("Beta", ()),
    "SchedulingEquivalenceHashingIgnorePodSetName": ("Beta", ("SchedulingEquivalenceHashing",)),
    "SkipAncestorCheckForDeletedWorkloads": ("Beta", ()),
    "SkipChildJobSuspension": ("Alpha", ()),
    "TASCacheTopologyTree": ("Beta", ()),
    "TASGroupedPodSetSlicing": ("Beta", ("TopologyAwareScheduling",)),
    "TASLeaderPodSetFeasibility": ("Beta", ("TopologyAwareScheduling",)),
    "TASNodeFeasibilityForAllLevels": ("Beta", ("TopologyAwareScheduling",)),
    "TASPartialSlices": ("Beta", ("TopologyAwareScheduling",)),
    "TASRejectFalseUnconstrainedTopology": ("Alpha", ("TopologyAwareScheduling",)),
    "TASReplaceMultipleFailedNodes": ("Alpha", ("TopologyAwareScheduling", "TASFailedNodeReplacement")),
    "TASTopologySpreading": ("Alpha", ("TopologyAwareScheduling",)),
    "TASValidateWorkloadSliceSize": ("Beta", ()),
    "WaitForPodsReadyMaxNotReady": ("Alpha", ()),
    "WaitForPodsReadyUnscheduledTimeout": ("Alpha", ()),
    "WorkloadLevelWaitForPodsReady": ("Alpha", ()),
    "WorkloadValidateResourcesAreNonNegative": ("Beta", ()),
    "WorkloadValidationForPodSetMetadata": ("Beta", ()),
}
"""The gates that Kueue 0.20 brought, each with its stage and what it requires."""


def test_the_gates_that_kueue_0_20_brought_are_known() -> None:
    found = {g.name: (g.stage, g.requires) for g in TABLE if g.history[0].since == "0.20"}
    assert found == SINCE_0_20
    named = {name: stage == "Beta" for name, (stage, _) in SINCE_0_20.items()}
    assert resolve(named).errors == ()


@pytest.mark.parametrize(
    ("name", "stage", "default"),
    [
        ("DeferRayServiceFinalizationForRedisCleanup", "Deprecated", False),
        ("MultiKueueKubeConfigPathValidation", "Beta", True),
        ("MultiKueueOrchestratedPreemption", "Beta", True),
        ("RejectUpdatesToCQWithInvalidOnFlavors", "Beta", True),
        ("TLSOptions", "GA", True),
        ("UnadmittedWorkloadsExplicitStatus", "Alpha", False),
        ("UnadmittedWorkloadsObservability", "Beta", True),
        ("WorkloadPriorityClassDefaulting", "Beta", True),
    ],
)
def test_a_gate_that_kueue_0_20_changed_has_its_stage_there(name: str, stage: str, default: bool) -> None:
    assert (GATES[name].stage, GATES[name].default) == (stage, default)


def test_an_unknown_gate_is_ignored_with_a_warning_where_that_is_tolerated() -> None:
    found = resolve({"Nope": True, "partialadmision": False, "PriorityBoost": True}, tolerate_unknown=True)
    assert found.errors == ()
    assert found.warnings == (
        "ignoring unrecognized feature gate: Nope; remove it",
        "ignoring unrecognized feature gate: partialadmision; did you mean PartialAdmission?",
    )
    assert found.values == {**defaults(), "PriorityBoost": True}


def test_what_a_gate_needs_is_a_gate_that_holds_by_default() -> None:
    for gate in GATES.values():
        assert set(gate.requires) <= GATES.keys()
    assert resolve({}) == Resolved(defaults())


def test_the_built_gates_are_these() -> None:
    assert {gate.name for gate in GATES.values() if gate.status == "built"} == BUILT
    assert {gate.name for gate in GATES.values() if gate.status == "validation"} == VALIDATION


def test_a_gate_tells_its_story() -> None:
    gate = GATES["SchedulingEquivalenceHashing"]
    assert gate.history == (StageChange("0.17", "Beta", False), StageChange("0.18", "Beta", True))
    assert (gate.stage, gate.default) == ("Beta", True)


@pytest.mark.parametrize(
    ("name", "stage", "default", "status"),
    [
        pytest.param("KeepQuotaForProvReqRetry", "Deprecated", False, "built", id="one that Kueue dropped"),
        pytest.param("ReserveForPreemptor", "Beta", True, "built", id="one that is on"),
        pytest.param("BlockBorrowingWithinCycle", "Alpha", False, "built", id="one that is off"),
    ],
)
def test_gates_of_ours_are_beside_the_table(name: str, stage: str, default: bool, status: str) -> None:
    gate = GATES[name]
    assert (gate.stage, gate.default, gate.status) == (stage, default, status)
    assert gate not in TABLE


@pytest.mark.parametrize(
    ("requested", "warnings", "errors"),
    [
        pytest.param({"PartialAdmission": False}, (), (), id="a built gate is turned"),
        pytest.param({"VectorizedResourceRequests": False}, (), (), id="a gate of speed alone goes without saying"),
        pytest.param(
            {"FailureRecoveryPolicy": True},
            (
                "FailureRecoveryPolicy has no effect: the feature is not supported yet "
                "(force-delete pods on unreachable nodes if they opt in)",
            ),
            (),
            id="a gate that we have no use for",
        ),
        pytest.param(
            {"EnforceProvisioningPodTemplateContents": False},
            (
                "EnforceProvisioningPodTemplateContents cannot be turned off "
                "(request capacity only with PodTemplates that match the Workload)",
            ),
            (),
            id="a gate of what we always do",
        ),
        pytest.param({"EnforceProvisioningPodTemplateContents": True}, (), (), id="and as it is"),
        pytest.param(
            {"ConcurrentAdmission": True},
            (
                "ConcurrentAdmission only affects validation: the feature itself is not supported yet "
                "(try several flavors for one workload at the same time)",
            ),
            (),
            id="a gate that changes what we accept",
        ),
        pytest.param(
            {"KeepQuotaForProvReqRetry": True},
            (
                "KeepQuotaForProvReqRetry is deprecated but still works "
                "(keep the quota of a workload while its ProvisioningRequest is retried)",
            ),
            (),
            id="a gate that is to go",
        ),
        pytest.param(
            {"TLSOptions": True}, ("TLSOptions is always true; remove the setting",), (), id="a locked gate as it is"
        ),
        pytest.param(
            {"TLSOptions": False},
            (),
            ("cannot set feature gate TLSOptions to false, feature is locked to true",),
            id="a locked gate turned",
        ),
        pytest.param(
            {"partialadmision": True},
            (),
            ("unrecognized feature gate: partialadmision; did you mean PartialAdmission?",),
            id="a typing mistake",
        ),
        pytest.param({"Zzz": True}, (), ("unrecognized feature gate: Zzz; remove it",), id="nothing like any gate"),
        pytest.param(
            {"x" * 100: True}, (), (f"unrecognized feature gate: {'x' * 80}...",), id="too long to be compared"
        ),
        pytest.param(
            {"FlavorFungibility": False, "FlavorFungibilityPreserveScanProgress": True},
            (),
            (
                "FlavorFungibilityPreserveScanProgress requires FlavorFungibility to be enabled; "
                "turn FlavorFungibilityPreserveScanProgress off too, or FlavorFungibility on",
            ),
            id="a gate that is asked for lacks what it needs",
        ),
        pytest.param(
            {"FlavorFungibility": False, "FlavorFungibilityPreserveScanProgress": False},
            (),
            (),
            id="both turned off",
        ),
    ],
)
def test_a_wish_is_answered(requested: dict[str, bool], warnings: tuple[str, ...], errors: tuple[str, ...]) -> None:
    resolved = resolve(requested)
    assert resolved.warnings == warnings
    assert resolved.errors == errors
    if not errors:
        assert resolved.values == {**defaults(), **requested}


def test_turning_topology_off_names_every_gate_that_needs_it() -> None:
    found = resolve({"TopologyAwareScheduling": False})
    needy = [gate for gate in TABLE if gate.default and "TopologyAwareScheduling" in gate.requires]
    new = [gate.name for gate in needy if gate.history[0].since == "0.20"]
    assert [error.split()[0] for error in found.errors] == [gate.name for gate in needy if gate.name not in new]
    assert found.warnings[-1] == f"off because a gate that they require is off: {', '.join(new)}"


@pytest.mark.parametrize(
    "requested",
    [
        pytest.param({"SchedulingEquivalenceHashing": False}, id="one"),
        pytest.param({"AdmissionFairSharing": False}, id="another"),
        pytest.param({"MultiKueue": False}, id="and another"),
        pytest.param({"FlavorFungibility": False}, id="one that is built"),
    ],
)
def test_gates_of_kueue_0_19_need_not_name_those_of_0_20(requested: dict[str, bool]) -> None:
    assert resolve(requested).errors == ()


def test_gates_that_kueue_0_20_removed_may_still_be_named() -> None:
    wishes = {"HierarchicalCohorts": True, "ObjectRetentionPolicies": True, "SchedulerLongRequeueInterval": False}
    found = resolve(wishes)
    assert found.errors == ()
    assert found.warnings[0] == "HierarchicalCohorts is always true; remove the setting"


def test_a_gate_of_kueue_0_20_that_is_named_needs_what_it_requires() -> None:
    wishes = {"SchedulingEquivalenceHashing": False, "SchedulingEquivalenceHashingIgnorePodSetName": True}
    (error,) = resolve(wishes).errors
    assert error.startswith("SchedulingEquivalenceHashingIgnorePodSetName requires SchedulingEquivalenceHashing")


def test_all_alpha_turns_on_what_is_not_named() -> None:
    resolved = resolve({"AllAlpha": True, "PriorityBoost": False})
    assert resolved.values["DisableWaitForPodsReady"]
    assert not resolved.values["PriorityBoost"]
    assert not resolved.values["TASReplaceNodeDueToNotReadyOverFixedTime"], "a deprecated gate is not Alpha"
    assert resolved.errors == ()
    idle, validating = resolved.warnings
    assert idle.startswith("AllAlpha has no effect on ConfigurablePreemptions, DynamicQuota")
    assert validating == (
        "AllAlpha only affects the validation of ConcurrentAdmission, KueueDRAIntegrationConsumableCapacity, "
        "SparkApplicationIntegration"
    )


def test_all_beta_turns_off_what_is_not_named() -> None:
    resolved = resolve({"AllBeta": False})
    assert not resolved.values["FlavorFungibility"]
    assert resolved.values["TLSOptions"], "what is GA stays"
    assert resolved.errors == ()


@pytest.mark.parametrize(
    "requested",
    [
        pytest.param({"AllAlpha": True}, id="all Alpha"),
        pytest.param({"AllBeta": False}, id="no Beta"),
    ],
)
def test_groups_leave_gates_of_ours_alone(requested: dict[str, bool]) -> None:
    values = resolve(requested).values
    assert {gate.name: values[gate.name] for gate in OURS} == {gate.name: gate.default for gate in OURS}


@pytest.mark.parametrize(
    ("text", "values", "errors"),
    [
        pytest.param("", {}, (), id="nothing"),
        pytest.param("A=true,B=false", {"A": True, "B": False}, (), id="two"),
        pytest.param(" A = 1 ,, B=F,", {"A": True, "B": False}, (), id="spaces, empty pieces and Go's other words"),
        pytest.param("A", {}, ("missing bool value for A; write A=true or =false",), id="no value"),
        pytest.param("A=yes", {}, ("invalid value of A=yes; write true or false",), id="no truth value"),
        pytest.param("A=true,A=false", {"A": True}, ("A is given twice; keep one",), id="twice"),
    ],
)
def test_a_flag_is_read(text: str, values: dict[str, bool], errors: tuple[str, ...]) -> None:
    assert parse_gates(text).values == values
    assert parse_gates(text).errors == errors


def test_a_thousand_unknown_names_are_answered_without_advice() -> None:
    errors = resolve({f"PartialAdmissio{number}": True for number in range(1_000)}).errors
    assert errors[49] == "unrecognized feature gate: PartialAdmissio49; did you mean PartialAdmission?"
    assert errors[50:52] == (
        "unrecognized feature gate: PartialAdmissio50",
        "unrecognized feature gate: PartialAdmissio51",
    )


@given(st.dictionaries(st.sampled_from([*GATES, "AllAlpha", "AllBeta", "Nope"]), st.booleans()))
def test_every_gate_has_a_value_whatever_is_asked(requested: dict[str, bool]) -> None:
    resolved = resolve(requested)
    assert resolved.values.keys() == GATES.keys()
    unmet = [
        (name, needed)
        for name, on in resolved.values.items()
        for needed in GATES[name].requires
        if on and not resolved.values[needed]
    ]
    assert len([error for error in resolved.errors if " requires " in error]) == len(unmet)
