"""A file becomes a complete Configuration, or all of its mistakes at once."""

import json
from collections.abc import Mapping

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pykueue.api.config.file import MINIMAL, ConfigurationError, Loaded, default_configuration, read_configuration
from pykueue.api.config.gates import GATES
from pykueue.api.config.types import Configuration, WaitForPodsReady, everywhere_but
from pykueue.api.durations import format_duration
from pykueue.base.units import Quantity, parse_quantity

OLD = "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\n"
NEW = "config.kueue.x-k8s.io/v1beta2"
DEPRECATED = (
    "apiVersion: config.kueue.x-k8s.io/v1beta1 is deprecated; "
    "write config.kueue.x-k8s.io/v1beta2, where waitForPodsReady is on by default"
)


def mistakes(text: str | bytes, *, feature_gates: str = "") -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(text, feature_gates=feature_gates)
    assert str(caught.value) == "\n".join(map(str, caught.value.mistakes))
    return list(map(str, caught.value.mistakes))


def waiting(loaded: Loaded) -> WaitForPodsReady:
    section = loaded.configuration.wait_for_pods_ready
    assert section is not None
    return section


def test_a_file_is_read_in_full() -> None:
    loaded = read_configuration(
        MINIMAL
        + """
namespace: queues
manageJobsWithoutQueueName: true
leaderElection: {leaderElect: false, leaseDuration: 20s}
metrics: {bindAddress: "0", enableClusterQueueResources: true, localQueueMetrics: {}}
controller:
  groupKindConcurrency: {Job.batch: 5, Workload.kueue.x-k8s.io: 10}
  cacheSyncTimeout: 60000000000
clientConnection: {qps: -1, burst: 7}
waitForPodsReady:
  timeout: 10m
  recoveryTimeout: 0s
  blockAdmission: yes
  requeuingStrategy: {timestamp: Creation, backoffLimitCount: 0}
integrations: {frameworks: [], labelKeysToCopy: [team]}
resources:
  excludeResourcePrefixes: [example.com/]
  transformations:
  - {input: nvidia.com/mig-1g.5gb, strategy: Replace, multiplyBy: cpu, outputs: {gpu-memory: 5Ki, credits: 1.5}}
objectRetentionPolicies: {workloads: {afterFinished: 1h, afterDeactivatedByKueue: 0s}}
managedJobsNamespaceSelector: {matchLabels: {team: a}}
featureGates: {PartialAdmission: false}
"""
    )
    configuration = loaded.configuration
    assert configuration.namespace == "queues"
    assert configuration.manage_jobs_without_queue_name
    assert not configuration.leader_election.leader_elect
    assert format_duration(configuration.leader_election.lease_duration) == "20s"
    assert configuration.metrics.bind_address == "0"
    assert configuration.metrics.enable_cluster_queue_resources
    assert not configuration.metrics.local_queue_metrics.enable, "a section that is there says all"
    assert configuration.controller.group_kind_concurrency == {"Job.batch": 5, "Workload.kueue.x-k8s.io": 10}
    assert format_duration(configuration.controller.cache_sync_timeout) == "1m0s"
    assert (configuration.client_connection.qps, configuration.client_connection.burst) == (-1.0, 7)
    assert format_duration(waiting(loaded).timeout) == "10m0s"
    assert waiting(loaded).recovery_timeout == 0
    assert waiting(loaded).block_admission
    assert waiting(loaded).requeuing_strategy.timestamp == "Creation"
    assert waiting(loaded).requeuing_strategy.backoff_limit_count == 0
    assert waiting(loaded).requeuing_strategy.backoff_max_seconds == 3600
    assert configuration.integrations.frameworks == ("batch/job",)
    assert configuration.integrations.label_keys_to_copy == ("team",)
    (transformation,) = configuration.resources.transformations
    assert transformation.strategy == "Replace"
    assert transformation.outputs == {"gpu-memory": parse_quantity("5Ki"), "credits": Quantity(1_500_000_000)}
    policy = configuration.object_retention_policies.workloads
    assert (policy.after_finished, policy.after_deactivated_by_kueue) == (3600 * 10**6, 0)
    assert configuration.managed_jobs_namespace_selector is not None
    assert configuration.managed_jobs_namespace_selector.match_labels == {"team": "a"}
    assert not loaded.gates.values["PartialAdmission"]
    assert loaded.warnings == ()


def test_json_does_as_well() -> None:
    text = json.dumps({"apiVersion": NEW, "kind": "Configuration", "namespace": "queues"}, indent="\t")
    loaded = read_configuration(text.encode())
    assert loaded == default_configuration(namespace="queues")
    assert loaded.configuration.managed_jobs_namespace_selector == everywhere_but("kube-system", "queues")


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("waitForPodsReady: {timeout: 0s}", id="no timeout at all"),
        pytest.param("waitForPodsReady:", id="an empty section"),
        pytest.param("metrics: {bindAddress: ''}", id="an empty address"),
        pytest.param("leaderElection: {resourceName: '', leaseDuration: 0s}", id="an empty lease"),
        pytest.param("integrations: {frameworks: [], externalFrameworks: null}", id="empty lists"),
        pytest.param("visibilityServer: {bindPort: null}", id="null is absent"),
        pytest.param("resources: {quotaCheckStrategy: BlockUndeclared}", id="a default in full"),
        pytest.param("visibilityServer: {bindPort: 8082.0}", id="a whole number with a point"),
    ],
)
def test_what_is_empty_is_the_default(lines: str) -> None:
    assert read_configuration(MINIMAL + lines) == default_configuration()


def test_certificates_of_others_have_no_names_of_ours() -> None:
    section = read_configuration(MINIMAL + "internalCertManagement: {enable: false}").configuration
    assert section.internal_cert_management.webhook_service_name is None
    assert section.internal_cert_management.webhook_secret_name is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            MINIMAL + "waitForPodsReady: {timout: 5m}",
            ["waitForPodsReady.timout: unknown field; did you mean timeout?"],
            id="a typing mistake",
        ),
        pytest.param(
            MINIMAL + "health: {zzz: 1}",
            [
                "health.zzz: unknown field; here are known: "
                "healthProbeBindAddress, livenessEndpointName, readinessEndpointName"
            ],
            id="nothing like any field",
        ),
        pytest.param(
            MINIMAL + "WaitForPodsReady: {}",
            ["WaitForPodsReady: unknown field; did you mean waitForPodsReady?"],
            id="capitals matter",
        ),
        pytest.param(
            MINIMAL + "webhook: {port: 1}\nwebhook: {port: 2}",
            ["webhook: duplicate key on line 4; it is on line 3 already"],
            id="a section twice",
        ),
        pytest.param(
            MINIMAL + "managedJobsNamespaceSelector: {matchExpressions: [{key: a, operater: In}]}",
            [
                "managedJobsNamespaceSelector.matchExpressions[0].operater: unknown field; did you mean operator?",
                "managedJobsNamespaceSelector.matchExpressions[0].operator: Required value",
            ],
            id="inside a list, and no verdict on the rest of the selector",
        ),
        pytest.param(
            "kind: Configuration",
            [f"apiVersion: Required value: write `apiVersion: {NEW}`"],
            id="no version",
        ),
        pytest.param(
            "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue",
            [
                'kind: Invalid value: "ClusterQueue": write `kind: Configuration`; is it the right file?',
                f'apiVersion: Invalid value: "kueue.x-k8s.io/v1beta2": write `apiVersion: {NEW}`',
            ],
            id="another kind",
        ),
        pytest.param(
            f"apiVersion: {NEW}\nnamespace: a",
            ["kind: Required value: write `kind: Configuration`"],
            id="no kind",
        ),
        pytest.param(
            "apiVersion: [1]\nkind: {}",
            [
                'kind: Invalid value: "a mapping": write `kind: Configuration`; is it the right file?',
                f'apiVersion: Invalid value: "a list": write `apiVersion: {NEW}`',
            ],
            id="versions of the wrong type",
        ),
        pytest.param(
            "",
            [f"the file is not a mapping; begin it with `apiVersion: {NEW}` and `kind: Configuration`"],
            id="an empty file",
        ),
        pytest.param(b"\xff\xfe\x00", ["byte 0 is not UTF-8; is it the right file?"], id="a binary file"),
        pytest.param(
            MINIMAL + 'namespace: "\\ud800"',
            ["line 3, column 15: not YAML: found invalid Unicode character escape code"],
            id="half a character",
        ),
    ],
)
def test_a_mistake_has_a_path_and_a_remedy(text: str | bytes, expected: list[str]) -> None:
    assert mistakes(text) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param("webhook: 5", "webhook: Invalid value: 5: must be a mapping", id="a number for a section"),
        pytest.param("webhook: {port: x}", 'webhook.port: Invalid value: "x": must be a whole number', id="a word"),
        pytest.param(
            "webhook: {port: 1.5}", "webhook.port: Invalid value: 1.5: must be a whole number", id="a fraction"
        ),
        pytest.param(
            "webhook: {port: true}", "webhook.port: Invalid value: true: must be a whole number", id="a truth"
        ),
        pytest.param(
            "metrics: {bindAddress: 0}",
            "metrics.bindAddress: Invalid value: 0: must be text; put it in quotes",
            id="a number for a text",
        ),
        pytest.param("namespace: [a]", 'namespace: Invalid value: "a list": must be text', id="a list for a text"),
        pytest.param(
            "manageJobsWithoutQueueName: 1",
            "manageJobsWithoutQueueName: Invalid value: 1: must be true or false",
            id="a number for a truth",
        ),
        pytest.param(
            "integrations: {frameworks: batch/job}",
            'integrations.frameworks: Invalid value: "batch/job": must be a list',
            id="a word for a list",
        ),
        pytest.param(
            "integrations: {frameworks: [~]}",
            'integrations.frameworks[0]: Invalid value: "null": must be text',
            id="null in a list",
        ),
        pytest.param(
            "featureGates: [A]", 'featureGates: Invalid value: "a list": must be a mapping', id="a list for a map"
        ),
        pytest.param(
            "featureGates: {PartialAdmission: 'no'}",
            'featureGates[PartialAdmission]: Invalid value: "no": must be true or false',
            id="a gate in quotes",
        ),
        pytest.param(
            "waitForPodsReady: {timeout: 5}",
            "waitForPodsReady.timeout: Invalid value: 5: must be a duration in quotes or with a unit; "
            "write it as in 300ms, 5m, 1h30m or 0s",
            id="a duration without a unit",
        ),
        pytest.param(
            "waitForPodsReady: {timeout: soon}",
            "waitForPodsReady.timeout: Invalid value: \"soon\": 'soon' is not a duration; "
            "write it as in 300ms, 5m, 1h30m or 0s",
            id="no duration",
        ),
        pytest.param(
            "controller: {cacheSyncTimeout: 2m}",
            'controller.cacheSyncTimeout: Invalid value: "2m": must be a whole number',
            id="a unit where nanoseconds are counted",
        ),
        pytest.param(
            "clientConnection: {burst: 99999999999}",
            "clientConnection.burst: Invalid value: 99999999999: must be between -2147483648 and 2147483647",
            id="a huge number",
        ),
        pytest.param(
            f"clientConnection: {{qps: {'9' * 60}}}",
            f'clientConnection.qps: Invalid value: "{"9" * 60}": must be a number',
            id="a number of sixty digits",
        ),
        pytest.param(
            "clientConnection: {qps: 1e39}",
            "clientConnection.qps: Invalid value: 1e39: must be between -3.4e+38 and 3.4e+38",
            id="more than a small float holds",
        ),
        pytest.param(
            "resources: {transformations: [{input: a, outputs: {b: many}}]}",
            "resources.transformations[0].outputs[b]: Invalid value: \"many\": 'many' is not a quantity; "
            "write a number with an optional suffix, as in 500m, 2, 1.5Gi",
            id="no quantity",
        ),
        pytest.param(
            "resources: {transformations: [{input: a, outputs: {b: [1]}}]}",
            'resources.transformations[0].outputs[b]: Invalid value: "a list": '
            "must be a quantity, as in 500m, 2 or 1.5Gi",
            id="a list for a quantity",
        ),
        pytest.param(
            "resources: {transformations: [{input: a, strategy: Drop}]}",
            'resources.transformations[0].strategy: Unsupported value: "Drop": supported values: "Replace", "Retain"',
            id="none of the words on offer",
        ),
    ],
)
def test_a_wrong_type_is_named(lines: str, expected: str) -> None:
    assert mistakes(MINIMAL + lines) == [expected]


def test_all_mistakes_come_at_once() -> None:
    found = mistakes(
        MINIMAL + "waitForPodsReady: {timout: 5m, timeout: -5m, blockAdmission: 3}\n"
        "featureGates: {PartialAdmision: true, TLSOptions: false}\n"
        "integrations: {frameworks: [batch/job, batch/job, cron]}\n"
        "namespace: 7\nnamespace: 8\n"
    )
    assert [mistake.split(": ")[0] for mistake in found] == [
        "namespace",
        "namespace",
        "waitForPodsReady.timout",
        "waitForPodsReady.blockAdmission",
        "featureGates",
        "featureGates",
        "waitForPodsReady.timeout",
        "integrations.frameworks[1]",
        "integrations.frameworks[2]",
    ]


def test_a_file_of_thousands_of_unknown_keys_is_answered_soon() -> None:
    found = mistakes(MINIMAL + "".join(f"{'k' * 40}{number}: 1\n" for number in range(5_000)))
    assert len(found) == 5_000
    assert found[-1].endswith(": unknown field")


def test_the_flag_sets_gates() -> None:
    loaded = default_configuration(feature_gates="PriorityBoost=true,TopologyAwareScheduling=true")
    assert loaded.gates.values["PriorityBoost"]
    assert loaded.warnings == loaded.gates.warnings
    assert loaded.warnings[0].startswith("TopologyAwareScheduling ")


def test_the_flag_and_the_file_are_not_both_heard() -> None:
    assert mistakes(MINIMAL + "featureGates: {PriorityBoost: true}", feature_gates="PartialAdmission=false") == [
        'featureGates: Invalid value: {"PriorityBoost":true}: '
        "feature gates for CLI and configuration cannot both specified; keep one of the two"
    ]


def test_a_broken_flag_is_named_as_such() -> None:
    assert mistakes(MINIMAL, feature_gates="PriorityBoost,Foo=true") == [
        "--feature-gates: missing bool value for PriorityBoost; write PriorityBoost=true or =false",
        "--feature-gates: unrecognized feature gate: Foo; remove it",
    ]


def test_waiting_for_pods_has_an_off_switch() -> None:
    loaded = default_configuration(feature_gates="DisableWaitForPodsReady=true")
    assert loaded.configuration.wait_for_pods_ready is None
    assert loaded.warnings == ()
    loaded = read_configuration(MINIMAL + "waitForPodsReady: {}", feature_gates="DisableWaitForPodsReady=true")
    assert loaded.configuration.wait_for_pods_ready is None
    assert loaded.warnings == (
        "waitForPodsReady: ignored while the feature gate DisableWaitForPodsReady is on; remove one of the two",
    )


def test_a_setting_whose_gate_is_off_is_not_ignored_in_silence() -> None:
    text = MINIMAL + "resources: {quotaCheckStrategy: IgnoreUndeclared}"
    assert read_configuration(text).warnings == ()
    assert read_configuration(text, feature_gates="QuotaCheckStrategy=false").warnings == (
        "resources.quotaCheckStrategy: ignored while the feature gate QuotaCheckStrategy is off; turn it on",
    )
    text = MINIMAL + "metrics: {customLabels: [{name: team}]}"
    assert read_configuration(text, feature_gates="CustomMetricLabels=true").warnings == ()
    assert read_configuration(text).warnings == (
        "metrics.customLabels: ignored while the feature gate CustomMetricLabels is off; turn it on",
    )


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param("", None, id="nothing said"),
        pytest.param("waitForPodsReady: {enable: false}", None, id="off"),
        pytest.param("waitForPodsReady: {enable: true}", ("5m0s", "5m0s", True), id="on"),
        pytest.param(
            "waitForPodsReady: {enable: true, timeout: 1m, blockAdmission: null}", ("1m0s", "1m0s", True), id="null"
        ),
        pytest.param(
            "waitForPodsReady: {enable: true, blockAdmission: false, recoveryTimeout: 2m}",
            ("5m0s", "2m0s", False),
            id="all said",
        ),
    ],
)
def test_an_old_file_keeps_its_old_defaults(lines: str, expected: tuple[str, str, bool] | None) -> None:
    loaded = read_configuration(OLD + lines)
    assert loaded.warnings == (DEPRECATED,)
    section = loaded.configuration.wait_for_pods_ready
    if section is None:
        assert expected is None
        return
    assert section.recovery_timeout is not None
    found = (format_duration(section.timeout), format_duration(section.recovery_timeout), section.block_admission)
    assert found == expected


def test_an_old_file_turns_fair_sharing_on_by_a_switch() -> None:
    assert read_configuration(OLD + "fairSharing: {enable: false}").configuration.fair_sharing is None
    sharing = read_configuration(OLD + "fairSharing: {enable: true}").configuration.fair_sharing
    assert sharing is not None
    assert sharing.preemption_strategies == ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
    sharing = read_configuration(
        OLD + "fairSharing: {enable: true, preemptionStrategies: [LessThanInitialShare]}"
    ).configuration.fair_sharing
    assert sharing is not None
    assert sharing.preemption_strategies == ("LessThanInitialShare",)


def test_an_old_file_is_told_what_does_nothing() -> None:
    loaded = read_configuration(
        OLD + "queueVisibility: {updateIntervalSeconds: 5}\n"
        "integrations: {podOptions: {podSelector: {}}, labelKeysToCopy: [a]}\n"
        "waitForPodsReady: {timeout: 1m}\n"
    )
    assert loaded.warnings == (
        DEPRECATED,
        "integrations.podOptions: has no effect any more; choose namespaces with managedJobsNamespaceSelector instead",
        "queueVisibility: has no effect any more; ask the visibility API for pending workloads instead",
        "waitForPodsReady: ignored, as waitForPodsReady.enable is not true",
    )
    assert loaded.configuration.integrations.label_keys_to_copy == ("a",)
    assert loaded.configuration.wait_for_pods_ready is None


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            "waitForPodsReady: {enable: 1}",
            ["waitForPodsReady.enable: Invalid value: 1: must be true or false"],
            id="a switch that is no truth",
        ),
        pytest.param(
            "waitForPodsReady: {enable: true, timeout: 0s}",
            ["waitForPodsReady.timeout: Required value: must be specified"],
            id="zero was never the default",
        ),
        pytest.param(
            "waitForPodsReady: {enable: false, tiemout: 1m}",
            ["waitForPodsReady.tiemout: unknown field; did you mean timeout?"],
            id="what is off is read all the same",
        ),
        pytest.param(
            "resources: {quotaCheckStrategy: BlockUndeclared}\nvisibilityServer: {}\n"
            "metrics: {customLabels: [{name: a}, {name: b, sourceKind: Cohort}]}",
            [
                f"{path}: unknown field in v1beta1; write `apiVersion: {NEW}` to use it"
                for path in ("visibilityServer", "resources.quotaCheckStrategy", "metrics.customLabels[1].sourceKind")
            ],
            id="fields that came later",
        ),
    ],
)
def test_an_old_file_has_mistakes_too(lines: str, expected: list[str]) -> None:
    assert mistakes(OLD + lines) == expected


def test_a_new_file_has_no_old_fields() -> None:
    assert mistakes(
        MINIMAL + "waitForPodsReady: {enable: true}\nqueueVisibility: {}\nintegrations: {podOptions: {}}"
    ) == [
        "queueVisibility: unknown field; did you mean visibilityServer?",
        "waitForPodsReady.enable: unknown field; here are known: "
        "blockAdmission, recoveryTimeout, requeuingStrategy, timeout",
        "integrations.podOptions: unknown field; here are known: externalFrameworks, frameworks, labelKeysToCopy",
    ]


def names(kind: msgspec.inspect.Type) -> set[str]:
    """Every field name that the schema has anywhere."""
    match kind:
        case msgspec.inspect.StructType():
            inner = [names(field.type) for field in kind.fields]
            return {field.encode_name for field in kind.fields}.union(*inner)
        case msgspec.inspect.Metadata():
            return names(kind.type)
        case msgspec.inspect.UnionType():
            return set().union(*map(names, kind.types))
        case msgspec.inspect.VarTupleType():
            return names(kind.item_type)
        case _:
            return set()


KEYS = sorted(names(msgspec.inspect.type_info(Configuration)) | {"enable", "podOptions", "queueVisibility"})
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["5m", "-1s", "0s", "In", "Workload", "pod", "a/b", "a.b.c", "\ud800", "1e400", *GATES])
)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
        | st.dictionaries(st.text(max_size=6), inner, max_size=2)
    ),
    max_leaves=30,
)


def answered(text: str | bytes, flag: str = "") -> bool:
    """Whether the text is read in full, or refused with reasons that can be printed."""
    try:
        return isinstance(read_configuration(text, feature_gates=flag).configuration, Configuration)
    except ConfigurationError as error:
        return bool(str(error).encode()) and all(str(mistake).strip() for mistake in error.mistakes)


@given(
    tree=st.dictionaries(st.sampled_from(KEYS), TREES, max_size=8) | TREES,
    version=st.sampled_from(["v1beta1", "v1beta2", "v1"]),
    flag=st.sampled_from(["", "AllAlpha=true", "x", "DisableWaitForPodsReady=true"]),
)
def test_any_tree_is_read_or_refused_with_reasons(tree: object, version: str, flag: str) -> None:
    if isinstance(tree, Mapping):
        tree = {"apiVersion": f"config.kueue.x-k8s.io/{version}", "kind": "Configuration", **tree}
    for text in (yaml.safe_dump(tree), json.dumps(tree)):
        assert answered(text, flag)


@given(st.text(max_size=80) | st.binary(max_size=80))
def test_any_text_after_the_head_is_read_or_refused(text: str | bytes) -> None:
    head = MINIMAL.encode() if isinstance(text, bytes) else MINIMAL
    assert answered(text)
    assert answered(head + text)  # type: ignore[operator]  # Both are texts, or both are bytes.
