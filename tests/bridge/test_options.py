"""Does the engine get what the Configuration says?"""

import pytest

from pykueue.api.config.file import default_configuration, read_configuration
from pykueue.api.core import LabelSelector, matches
from pykueue.base.units import Seconds
from pykueue.bridge.options import SWITCHES, intake, options
from pykueue.engine.model import AdmissionFairSharing, Options, PodsReadyOptions, Timestamp

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


def test_the_defaults_are_the_engines_own() -> None:
    assert options(default_configuration()) == Options()


@pytest.mark.parametrize(("switch", "gate"), SWITCHES.items())
def test_each_gate_turns_its_switch(switch: str, gate: str) -> None:
    usual = getattr(Options(), switch)
    others = {
        "FlavorFungibility": ",FlavorFungibilityPreserveScanProgress=false",
        "UnadmittedWorkloadsObservability": ",UnadmittedWorkloadsExplicitStatus=false",
    }.get(gate, "")
    wish = f"{gate}={str(not usual).lower()}{others}"
    assert getattr(options(default_configuration(feature_gates=wish)), switch) is not usual


@pytest.mark.parametrize(
    ("gates", "found"),
    [
        pytest.param(
            "", AdmissionFairSharing(90_500_000, 300_000_000, (("cpu", 2.0), ("memory", 0.5))), id="as configured"
        ),
        pytest.param(
            "AdmissionFairSharing=false,AdmissionFairSharingAnchorAtQuotaReservation=false",
            None,
            id="not without the gate",
        ),
    ],
)
def test_admission_fair_sharing_is_read_in_whole(gates: str, found: AdmissionFairSharing | None) -> None:
    text = f"{HEAD}admissionFairSharing: {{usageHalfLifeTime: 90500ms, resourceWeights: {{memory: 0.5, cpu: 2}}}}\n"
    assert options(read_configuration(text, feature_gates=gates)).admission_fair_sharing == found


def test_pods_ready_is_read_in_whole() -> None:
    text = (
        f"{HEAD}waitForPodsReady:\n  timeout: 1500ms\n  blockAdmission: true\n  recoveryTimeout: 0s\n"
        "  requeuingStrategy: {timestamp: Creation, backoffLimitCount: 3, backoffBaseSeconds: 5, "
        "backoffMaxSeconds: 9}\n"
    )
    found = options(read_configuration(text)).pods_ready
    assert found == PodsReadyOptions(Seconds(2), None, True, Timestamp.CREATION, Seconds(5), Seconds(9), 3)


def test_the_recovery_timeout_is_the_timeout_unless_given() -> None:
    found = options(read_configuration(f"{HEAD}waitForPodsReady: {{timeout: 7m}}\n")).pods_ready
    assert found is not None
    assert (found.timeout, found.recovery_timeout) == (420, 420)


def test_pods_ready_can_be_off() -> None:
    assert options(default_configuration(feature_gates="DisableWaitForPodsReady=true")).pods_ready is None


@pytest.mark.parametrize(
    ("gates", "ignores"),
    [
        pytest.param("", True, id="as asked"),
        pytest.param("QuotaCheckStrategy=false", False, id="but not without the gate"),
    ],
)
def test_undeclared_resources_are_ignored(gates: str, ignores: bool) -> None:
    text = f"{HEAD}resources: {{quotaCheckStrategy: IgnoreUndeclared}}\n"
    assert options(read_configuration(text, feature_gates=gates)).ignore_undeclared is ignores


def test_the_seed_is_handed_on() -> None:
    assert options(default_configuration(), seed=7).seed == 7


def test_how_requests_are_counted() -> None:
    text = (
        f"{HEAD}resources:\n  excludeResourcePrefixes: [x.io/]\n"
        "  transformations: [{input: a.io/b, strategy: Replace, outputs: {c: 2}}]\n"
    )
    found = intake(read_configuration(text)).resources
    assert found.exclude_prefixes == ("x.io/",)
    assert [rule.input for rule in found.transformations] == ["a.io/b"]


def test_what_is_taken_in_by_default() -> None:
    found = intake(default_configuration())
    assert (found.boosts, found.default_class, found.queueless) == (False, True, False)
    assert not matches(found.namespaces, {"kubernetes.io/metadata.name": "kube-system"})
    assert matches(found.namespaces, {"kubernetes.io/metadata.name": "team"})


@pytest.mark.parametrize(
    ("lines", "gates", "field", "value"),
    [
        pytest.param("", "PriorityBoost=true", "boosts", True, id="boosts"),
        pytest.param("", "WorkloadPriorityClassDefaulting=false", "default_class", False, id="no default class"),
        pytest.param("manageJobsWithoutQueueName: true\n", "", "queueless", True, id="jobs without a queue"),
        pytest.param(
            "managedJobsNamespaceSelector: {matchLabels: {a: b}}\n",
            "",
            "namespaces",
            LabelSelector(match_labels={"a": "b"}),
            id="some namespaces",
        ),
    ],
)
def test_what_is_taken_in(lines: str, gates: str, field: str, value: object) -> None:
    assert getattr(intake(read_configuration(HEAD + lines, feature_gates=gates)), field) == value
