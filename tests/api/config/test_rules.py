"""Every rule on the Configuration speaks in Kueue's words."""

import pytest

from pykueue.api.config.file import MINIMAL, ConfigurationError, read_configuration
from pykueue.api.config.gates import defaults
from pykueue.api.fields import NEGATIVE

INCREMENTAL = "dispatcherName: kueue.x-k8s.io/multikueue-dispatcher-incremental"
PROVIDER = "{name: a, execConfig: {command: c, apiVersion: v, interactiveMode: Never}}"
DNS_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def broken(lines: str, *, feature_gates: str = "") -> list[str]:
    """What is wrong with a file of these lines."""
    try:
        read_configuration(MINIMAL + lines, feature_gates=feature_gates)
    except ConfigurationError as error:
        return list(map(str, error.mistakes))
    return []


def labels(count: int, rest: str = "") -> str:
    """So many custom labels."""
    return f"metrics: {{customLabels: [{', '.join(f'{{name: l{n}{rest}}}' for n in range(count))}]}}"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            "waitForPodsReady: {timeout: -1s}",
            [f'waitForPodsReady.timeout: Invalid value: "-1s": {NEGATIVE}'],
            id="timeout",
        ),
        pytest.param(
            "waitForPodsReady: {recoveryTimeout: -1s, requeuingStrategy: "
            "{backoffLimitCount: -1, backoffBaseSeconds: -2, backoffMaxSeconds: -3}}",
            [
                f'waitForPodsReady.recoveryTimeout: Invalid value: "-1s": {NEGATIVE}',
                f"waitForPodsReady.requeuingStrategy.backoffLimitCount: Invalid value: -1: {NEGATIVE}",
                f"waitForPodsReady.requeuingStrategy.backoffBaseSeconds: Invalid value: -2: {NEGATIVE}",
                f"waitForPodsReady.requeuingStrategy.backoffMaxSeconds: Invalid value: -3: {NEGATIVE}",
            ],
            id="all that may not be negative",
        ),
        pytest.param(
            "waitForPodsReady: {requeuingStrategy: {timestamp: Now}}",
            [
                'waitForPodsReady.requeuingStrategy.timestamp: Unsupported value: "Now": '
                'supported values: "Creation", "Eviction"'
            ],
            id="timestamp",
        ),
        pytest.param(
            "integrations: {frameworks: [pod, pod]}",
            ['integrations.frameworks[1]: Duplicate value: "pod"'],
            id="a framework twice",
        ),
        pytest.param(
            "integrations: {frameworks: [sparkoperator.k8s.io/sparkapplication]}",
            [
                "integrations.frameworks[0]: Forbidden: needs the feature gate SparkApplicationIntegration; "
                "turn it on, or remove the framework"
            ],
            id="a framework whose gate is off",
        ),
        pytest.param(
            "integrations: {externalFrameworks: [Foo.v1, Job.v1.batch, Foo.v1.x.io, Foo.v1.x.io]}",
            [
                'integrations.externalFrameworks[0]: Invalid value: "Foo.v1": '
                "must be format, 'Kind.version.group.com'",
                'integrations.externalFrameworks[1]: Duplicate value: "Job.v1.batch"',
                'integrations.externalFrameworks[3]: Duplicate value: "Foo.v1.x.io"',
            ],
            id="external frameworks",
        ),
        pytest.param(
            "fairSharing: {}",
            ["fairSharing.preemptionStrategies: Required value: must be specified"],
            id="no strategy",
        ),
        pytest.param(
            "fairSharing: {preemptionStrategies: [LessThanInitialShare, LessThanOrEqualToFinalShare]}",
            [
                "fairSharing.preemptionStrategies: Unsupported value: "
                '["LessThanInitialShare","LessThanOrEqualToFinalShare"]: supported values: '
                '"LessThanOrEqualToFinalShare", "LessThanInitialShare", '
                '"LessThanOrEqualToFinalShare,LessThanInitialShare"'
            ],
            id="strategies the wrong way round",
        ),
        pytest.param(
            "admissionFairSharing: "
            "{usageHalfLifeTime: -1s, usageSamplingInterval: -1s, resourceWeights: {cpu: -1, b: 0}}",
            [
                f'admissionFairSharing.usageHalfLifeTime: Invalid value: "-1s": {NEGATIVE}',
                'admissionFairSharing.usageSamplingInterval: Invalid value: "-1s": must be greater than 0',
                f"admissionFairSharing.resourceWeights[cpu]: Invalid value: -1.0: {NEGATIVE}",
            ],
            id="past use",
        ),
        pytest.param(
            "internalCertManagement: {webhookServiceName: 1st, webhookSecretName: a.b}",
            [f'internalCertManagement.webhookServiceName: Invalid value: "1st": {DNS_1035}'],
            id="name of the service",
        ),
        pytest.param(
            "internalCertManagement: {enable: false, webhookServiceName: _}", [], id="names without certificates"
        ),
        pytest.param(
            "resources: {transformations: [{input: a}, {input: a}]}",
            ['resources.transformations[1].input: Duplicate value: "a"'],
            id="an input twice",
        ),
        pytest.param(
            "resources: {quotaCheckStrategy: IgnoreUndeclared, excludeResourcePrefixes: [a]}",
            [
                'resources.quotaCheckStrategy: Invalid value: "IgnoreUndeclared": '
                "excludeResourcePrefixes is not allowed when quotaCheckStrategy is IgnoreUndeclared"
            ],
            id="two ways to ignore",
        ),
        pytest.param(
            "namespace: mine\nmanagedJobsNamespaceSelector: {}",
            [
                'managedJobsNamespaceSelector: Invalid value: {}: should not match the "kube-system" namespace',
                'managedJobsNamespaceSelector: Invalid value: {}: should not match the "mine" namespace',
            ],
            id="every namespace",
        ),
        pytest.param(
            "managedJobsNamespaceSelector: {matchExpressions: [{key: a, operator: In}]}",
            [
                "managedJobsNamespaceSelector.matchExpressions[0].values: Required value: "
                "must be specified when `operator` is 'In' or 'NotIn'"
            ],
            id="a broken selector",
        ),
        pytest.param(
            "objectRetentionPolicies: {workloads: {afterFinished: -1h, afterDeactivatedByKueue: -1h}}",
            [
                f'objectRetentionPolicies.workloads.afterFinished: Invalid value: "-1h0m0s": {NEGATIVE}',
                f'objectRetentionPolicies.workloads.afterDeactivatedByKueue: Invalid value: "-1h0m0s": {NEGATIVE}',
            ],
            id="retention",
        ),
        pytest.param(
            "tls: {minVersion: VersionTLS13, cipherSuites: [TLS_AES_128_GCM_SHA256]}",
            [
                'tls.cipherSuites: Invalid value: ["TLS_AES_128_GCM_SHA256"]: '
                "may not be specified when `minVersion` is 'VersionTLS13'"
            ],
            id="suites that cannot be chosen",
        ),
        pytest.param(
            "tls: {minVersion: VersionTLS11, curvePreferences: [29, 1]}",
            [
                'tls.minVersion: Unsupported value: "VersionTLS11": supported values: "VersionTLS12", "VersionTLS13"',
                "tls.curvePreferences[1]: Unsupported value: 1: supported values: "
                '"23", "24", "25", "29", "4587", "4588", "4589"',
            ],
            id="old and unknown",
        ),
        pytest.param(
            "visibilityServer: {bindAddress: localhost, bindPort: 65536}",
            [
                'visibilityServer.bindAddress: Invalid value: "localhost": must be a valid IP address',
                "visibilityServer.bindPort: Invalid value: 65536: must be a valid port number (1-65535)",
            ],
            id="no address and no port",
        ),
        pytest.param(
            "visibilityServer: {bindPort: 0}",
            ["visibilityServer.bindPort: Invalid value: 0: must be a valid port number (1-65535)"],
            id="port zero",
        ),
        pytest.param("visibilityServer: {bindAddress: '::', bindPort: 1}", [], id="an address of the newer sort"),
        pytest.param(
            "webhook: {port: 70000}\nmetrics: {bindAddress: ':65536'}\nhealth: {healthProbeBindAddress: '8081'}",
            [
                "webhook.port: Invalid value: 70000: must be a valid port number (1-65535)",
                'metrics.bindAddress: Invalid value: ":65536": must be host:port, or :port for all interfaces, with a '
                "port up to 65535",
                'health.healthProbeBindAddress: Invalid value: "8081": must be host:port, or :port for all '
                "interfaces, with a port up to 65535",
            ],
            id="nowhere to listen",
        ),
        pytest.param(
            "metrics: {bindAddress: '0'}\nhealth: {healthProbeBindAddress: '[::1]:8081'}", [], id="off, and local"
        ),
        pytest.param(
            "leaderElection: {leaderElect: true, leaseDuration: 5s, renewDeadline: 10s}",
            [
                'leaderElection.leaseDuration: Invalid value: "5s": must be greater than renewDeadline, which is 10s',
            ],
            id="a lease that ends before it must be renewed",
        ),
        pytest.param(
            "leaderElection: {leaderElect: true, retryPeriod: 8400ms}",
            [
                'leaderElection.renewDeadline: Invalid value: "10s": must be greater than 1.2 times retryPeriod, '
                "which is 8.4s",
            ],
            id="a deadline before the second attempt",
        ),
        pytest.param(
            "leaderElection: {leaderElect: true, leaseDuration: -1s, renewDeadline: -2s}",
            [
                'leaderElection.leaseDuration: Invalid value: "-1s": must be greater than zero',
                'leaderElection.renewDeadline: Invalid value: "-2s": must be greater than zero',
            ],
            id="negative times of an election",
        ),
        pytest.param("leaderElection: {leaderElect: false, leaseDuration: 5s}", [], id="no election"),
        pytest.param(
            "clientConnection: {qps: -1, burst: -1}\ncontroller: {groupKindConcurrency: {Job.batch: -1}}",
            [],
            id="negative limits are none, as in Kueue",
        ),
    ],
)
def test_a_rule_is_kept(lines: str, expected: list[str]) -> None:
    assert broken(lines) == expected


def test_an_unknown_cipher_suite_is_met_with_the_known() -> None:
    (error,) = broken("tls: {cipherSuites: [ROT13]}")
    assert error.startswith(
        'tls.cipherSuites[0]: Unsupported value: "ROT13": supported values: "TLS_AES_128_GCM_SHA256"'
    )


def test_an_unknown_framework_is_met_with_the_known() -> None:
    (error,) = broken("integrations: {frameworks: [cron]}")
    assert error.startswith('integrations.frameworks[0]: Unsupported value: "cron": supported values: "batch/job", ')
    assert error.count(", ") == 17


def test_gates_lift_rules() -> None:
    spark = "integrations: {frameworks: [sparkoperator.k8s.io/sparkapplication]}"
    assert broken(spark, feature_gates="SparkApplicationIntegration=true") == []
    both = "resources: {quotaCheckStrategy: IgnoreUndeclared, excludeResourcePrefixes: [a]}"
    assert broken(both, feature_gates="QuotaCheckStrategy=false") == []
    assert defaults()["QuotaCheckStrategy"], "or the rule above could not have spoken"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            "gcInterval: -1s, workerLostTimeout: -1s",
            [
                f'multiKueue.gcInterval: Invalid value: "-1s": {NEGATIVE}',
                f'multiKueue.workerLostTimeout: Invalid value: "-1s": {NEGATIVE}',
            ],
            id="times",
        ),
        pytest.param(
            "externalFrameworks: [{name: a}, {name: A.b.c}, {name: A.b.c}, {name: Job.v1.batch}]",
            [
                "multiKueue.externalFrameworks[0].name: Invalid value: \"a\": must be in 'kind.version.group' format",
                'multiKueue.externalFrameworks[2].name: Duplicate value: "A.b.c"',
                'multiKueue.externalFrameworks[3].name: Invalid value: "Job.v1.batch": '
                "conflicts with a built-in MultiKueue adapter",
            ],
            id="custom kinds",
        ),
        pytest.param(
            f"clusterProfile: {{accessProviders: [{PROVIDER}], credentialsProviders: [{PROVIDER}]}}",
            [
                "multiKueue.clusterProfile.credentialsProviders: Forbidden: "
                "must not be specified when accessProviders is specified"
            ],
            id="the old name and the new",
        ),
        pytest.param(
            "clusterProfile: {credentialsProviders: [{execConfig: {env: [{value: x}]}}]}",
            [
                f"multiKueue.clusterProfile.credentialsProviders[0].{field}: Required value: must be specified"
                for field in (
                    "name",
                    "execConfig.command",
                    "execConfig.apiVersion",
                    "execConfig.env[0].name",
                    "execConfig.interactiveMode",
                )
            ],
            id="an empty provider",
        ),
        pytest.param(
            f"clusterProfile: {{accessProviders: [{PROVIDER.replace('Never', 'Maybe')}]}}",
            [
                "multiKueue.clusterProfile.accessProviders[0].execConfig.interactiveMode: Unsupported value: "
                '"Maybe": supported values: "Never", "IfAvailable", "Always"'
            ],
            id="an unknown mode",
        ),
        pytest.param(
            "incrementalDispatcherConfig: {}",
            [
                'multiKueue.incrementalDispatcherConfig: Invalid value: {"stepSize":3}: '
                "incrementalDispatcherConfig is only valid when dispatcherName is set to the incremental dispatcher"
            ],
            id="steps of another dispatcher",
        ),
        pytest.param(
            f"{INCREMENTAL}, incrementalDispatcherConfig: {{stepSize: 0}}",
            ["multiKueue.incrementalDispatcherConfig.stepSize: Invalid value: 0: must be greater than or equal to 1"],
            id="no step",
        ),
        pytest.param(f"{INCREMENTAL}, incrementalDispatcherConfig: {{stepSize: 1}}, origin: ''", [], id="all well"),
    ],
)
def test_a_rule_on_other_clusters_is_kept(lines: str, expected: list[str]) -> None:
    assert broken(f"multiKueue: {{{lines}}}") == expected


def test_a_namespace_is_a_dns_label_and_blamed_itself() -> None:
    (error,) = broken("namespace: My_Own")
    assert error.startswith('namespace: Invalid value: "My_Own": a lowercase RFC 1123 label must consist of')
    assert len(broken("namespace: My_Own\nmanagedJobsNamespaceSelector: {}")) == 3


def test_the_origin_is_a_label_value() -> None:
    (error,) = broken("multiKueue: {origin: a b}")
    assert error.startswith('multiKueue.origin: Invalid value: "a b": a valid label must be an empty string')


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(labels(6), [], id="as many as fit"),
        pytest.param(
            labels(7),
            [
                "metrics.customLabels: Invalid value: 7: "
                "too many custom labels for source kind ClusterQueue: found 7, expected <= 6"
            ],
            id="too many of a kind",
        ),
        pytest.param(
            labels(3, ", sourceKind: Workload, trackedValues: [a]"),
            [
                "metrics.customLabels: Invalid value: 3: "
                "too many custom labels for source kind Workload: found 3, expected <= 2"
            ],
            id="too many of workloads",
        ),
        pytest.param(
            labels(1, ", sourceKind: Pod"),
            ['metrics.customLabels: Invalid value: "Pod": unknown source kind: Pod'],
            id="an unknown kind",
        ),
        pytest.param(
            labels(1, ", sourceKind: Workload"),
            [
                "metrics.customLabels[0].trackedValues: Invalid value: []: "
                "must not be empty when sourceKind is 'Workload'"
            ],
            id="no value of workloads",
        ),
        pytest.param(
            labels(1, f", trackedValues: [{', '.join(f'v{n}' for n in range(17))}]"),
            ["metrics.customLabels[0].trackedValues: Too many: 17: must have at most 16 items"],
            id="too many values",
        ),
        pytest.param(
            labels(1, ", trackedValues: [a, a]"),
            ['metrics.customLabels[0].trackedValues: Invalid value: ["a","a"]: must not contain duplicates'],
            id="a value twice",
        ),
        pytest.param(
            "metrics: {customLabels: [{name: a}, {name: a}, {name: a_1-}]}",
            [
                'metrics.customLabels[1].name: Duplicate value: "a"',
                'metrics.customLabels[2].name: Invalid value: "a_1-": must match ^[a-zA-Z][a-zA-Z0-9_]*$',
            ],
            id="names",
        ),
    ],
)
def test_a_rule_on_custom_labels_is_kept(lines: str, expected: list[str]) -> None:
    assert broken(lines)[: len(expected) or None] == expected


def test_a_custom_label_has_one_source_with_a_sound_key() -> None:
    both = broken(labels(1, ", sourceLabelKey: a, sourceAnnotationKey: b"))
    assert len(both) == 1
    assert both[0].endswith("sourceLabelKey and sourceAnnotationKey are mutually exclusive")
    (unsound,) = broken(labels(1, ", sourceAnnotationKey: a/b/c"))
    assert unsound.startswith('metrics.customLabels[0].sourceAnnotationKey: Invalid value: "a/b/c": a qualified name')
    many = ", ".join(f"v{n}" for n in range(13))
    (crowded,) = broken(labels(1, f", sourceKind: Workload, trackedValues: [{many}]"))
    assert crowded.endswith("must not be greater than 12 when sourceKind is 'Workload'")


def test_custom_labels_are_twenty_at_most() -> None:
    assert "metrics.customLabels: Too many: 21: must have at most 20 items" in broken(labels(21))


@pytest.mark.parametrize(
    ("transformation", "expected"),
    [
        pytest.param("{input: pods, outputs: {a.com/b: 1}}", "resources.transformations[0].input", id="the input"),
        pytest.param("{input: a.com/b, outputs: {pods: 1}}", "resources.transformations[0].outputs[pods]", id="output"),
    ],
)
def test_the_name_pods_is_reserved_in_transformations(transformation: str, expected: str) -> None:
    lines = f"resources: {{transformations: [{transformation}]}}"
    reserved = "this name is reserved for the number of pods; choose another"
    assert broken(lines) == [f'{expected}: Invalid value: "pods": {reserved}']
    assert broken(lines, feature_gates="ReservedResourceNameValidation=false") == []
