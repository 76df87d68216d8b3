"""The controller's Configuration (v1beta2), each field with its default.

A struct's defaults are Kueue's. Defaults that depend on other settings (a name on the namespace, one timeout on
another) are filled in by `pykueue.api.config.file`, which also reads the file; a `Configuration` from there is
complete.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta

from pykueue.api.core import LabelSelector, LabelSelectorRequirement
from pykueue.api.durations import SECOND, Micros
from pykueue.api.names import GROUP as KUEUE
from pykueue.base.struct import Frozen
from pykueue.base.units import Quantity

GROUP: Final = f"config.{KUEUE}"
KIND: Final = "Configuration"
DEFAULT_NAMESPACE: Final = "kueue-system"
SYSTEM_NAMESPACE: Final = "kube-system"
NAMESPACE_NAME_LABEL: Final = "kubernetes.io/metadata.name"
WEBHOOK_SERVICE: Final = "kueue-webhook-service"
WEBHOOK_SECRET: Final = "kueue-webhook-server-cert"
LEADER_LEASE: Final = "c1f6bfd2.kueue.x-k8s.io"
DISPATCH_ALL_AT_ONCE: Final = f"{KUEUE}/multikueue-dispatcher-all-at-once"
DISPATCH_INCREMENTAL: Final = f"{KUEUE}/multikueue-dispatcher-incremental"
PODS_READY_TIMEOUT: Final = Micros(30 * 60 * SECOND)
SAMPLING_INTERVAL: Final = Micros(5 * 60 * SECOND)

FRAMEWORKS: Final[Mapping[str, str]] = {
    "batch/job": "Job.v1.batch",
    "deployment": "Deployment.v1.apps",
    "jobset.x-k8s.io/jobset": "JobSet.v1alpha2.jobset.x-k8s.io",
    "kubeflow.org/jaxjob": "JAXJob.v1.kubeflow.org",
    "kubeflow.org/mpijob": "MPIJob.v2beta1.kubeflow.org",
    "kubeflow.org/paddlejob": "PaddleJob.v1.kubeflow.org",
    "kubeflow.org/pytorchjob": "PyTorchJob.v1.kubeflow.org",
    "kubeflow.org/tfjob": "TFJob.v1.kubeflow.org",
    "kubeflow.org/xgboostjob": "XGBoostJob.v1.kubeflow.org",
    "leaderworkerset.x-k8s.io/leaderworkerset": "LeaderWorkerSet.v1.leaderworkerset.x-k8s.io",
    "pod": "Pod.v1.",
    "ray.io/raycluster": "RayCluster.v1.ray.io",
    "ray.io/rayjob": "RayJob.v1.ray.io",
    "ray.io/rayservice": "RayService.v1.ray.io",
    "sparkoperator.k8s.io/sparkapplication": "SparkApplication.v1beta2.sparkoperator.k8s.io",
    "statefulset": "StatefulSet.v1.apps",
    "trainer.kubeflow.org/trainjob": "TrainJob.v1alpha1.trainer.kubeflow.org",
    "workload.codeflare.dev/appwrapper": "AppWrapper.v1beta2.workload.codeflare.dev",
}
"""Each framework that Kueue knows, and the kind that it queues, as `Kind.version.group`."""
SPARK: Final = "sparkoperator.k8s.io/sparkapplication"

Int: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Int32: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Float32: TypeAlias = Annotated[float, Meta(ge=-3.4e38, le=3.4e38)]
Text: TypeAlias = Annotated[str, Meta(extra={"blank": "default"})]
"""A text whose empty value means the default."""
Texts: TypeAlias = Annotated[tuple[str, ...], Meta(extra={"blank": "default"})]
"""A list of texts whose empty value means the default."""
Duration: TypeAlias = Annotated[Micros, Meta(extra={"reads": "duration"})]
"""A duration that the file gives as a text: `5m`."""
Span: TypeAlias = Annotated[Micros, Meta(extra={"reads": "duration", "blank": "default"})]
"""A duration whose zero means the default."""
Nanoseconds: TypeAlias = Annotated[Micros, Meta(extra={"reads": "nanoseconds"})]
"""A duration that the file gives as a number of nanoseconds."""


class Section(Frozen, rename="camel"):
    """A section of the file: camelCase there, snake_case here."""


class Webhook(Section):
    """Where the webhooks are served; without a `cert_dir`, the certificates are below the system's temporary folder."""

    port: Int = 9443
    host: str = ""
    cert_dir: str = ""


class LeaderElection(Section):
    """How replicas elect the leader."""

    leader_elect: bool = True
    lease_duration: Span = Micros(15 * SECOND)
    renew_deadline: Span = Micros(10 * SECOND)
    retry_period: Span = Micros(2 * SECOND)
    resource_lock: Text = "leases"
    resource_name: Text = LEADER_LEASE
    resource_namespace: str = ""


class LocalQueueMetrics(Section):
    """Which LocalQueues have metrics of their own."""

    enable: bool = False
    local_queue_selector: LabelSelector | None = None


class CustomLabel(Section):
    """A label or annotation of an object that becomes a label of its metrics."""

    name: str = ""
    source_label_key: str = ""
    source_annotation_key: str = ""
    source_kind: str = "ClusterQueue"
    tracked_values: tuple[str, ...] = ()


class Metrics(Section):
    """Where metrics are served, and which; address `0` serves none."""

    bind_address: Text = ":8443"
    enable_cluster_queue_resources: bool = False
    local_queue_metrics: LocalQueueMetrics = LocalQueueMetrics(enable=True)
    custom_labels: tuple[CustomLabel, ...] = ()


class Health(Section):
    """Where probes are served."""

    health_probe_bind_address: Text = ":8081"
    readiness_endpoint_name: Text = "readyz"
    liveness_endpoint_name: Text = "healthz"


class Controller(Section):
    """How many objects of a kind are reconciled concurrently, and how long the first listing may take."""

    group_kind_concurrency: Mapping[str, Int] = {}
    cache_sync_timeout: Nanoseconds = Micros(120 * SECOND)


class Tls(Section):
    """TLS requirements of the servers."""

    min_version: Text = "VersionTLS12"
    cipher_suites: tuple[str, ...] = ()
    curve_preferences: tuple[Int32, ...] = ()


class InternalCertManagement(Section):
    """Whether we create the webhooks' certificates; the names are absent if we do not."""

    enable: bool = True
    webhook_service_name: str | None = None
    webhook_secret_name: str | None = None


class RequeuingStrategy(Section):
    """When a workload comes back after its pods were not ready in time; without a limit, always."""

    timestamp: Literal["Creation", "Eviction"] = "Eviction"
    backoff_limit_count: Int32 | None = None
    backoff_base_seconds: Int32 = 60
    backoff_max_seconds: Int32 = 3600


class WaitForPodsReady(Section):
    """How long pods may take to be ready; a `recovery_timeout` of zero waits for replacements forever."""

    timeout: Span = PODS_READY_TIMEOUT
    block_admission: bool = False
    recovery_timeout: Duration | None = None
    requeuing_strategy: RequeuingStrategy = RequeuingStrategy()


class ClientConnection(Section):
    """Request limits of our client; without a `qps`, or with a negative one, there is no limit.

    By default Kueue 0.20 sends at most 1000 requests a second, and 0.19 sends 300; the API server has limits of its
    own.
    """

    qps: Float32 = -1.0
    burst: Int32 = 500


class Integrations(Section):
    """Which kinds of job are queued."""

    frameworks: Texts = ("batch/job",)
    external_frameworks: tuple[str, ...] = ()
    label_keys_to_copy: tuple[str, ...] = ()


class IncrementalDispatcherConfig(Section):
    """How many more clusters are tried in each round."""

    step_size: Int32 = 3


class ExternalFramework(Section):
    """A custom kind of job that MultiKueue dispatches, as `kind.version.group`."""

    name: str = ""


class EnvironmentVariable(Section):
    """An environment variable for a credentials plugin."""

    name: str = ""
    value: str = ""


class ExecConfig(Section):
    """A program that prints credentials for a cluster."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[EnvironmentVariable, ...] = ()
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class AccessProvider(Section):
    """A named credentials provider for clusters that ClusterProfiles describe."""

    name: str = ""
    exec_config: ExecConfig = ExecConfig()


class ClusterProfile(Section):
    """How to authenticate to clusters of ClusterProfiles; `credentials_providers` is the older name."""

    access_providers: tuple[AccessProvider, ...] = ()
    credentials_providers: tuple[AccessProvider, ...] = ()


class MultiKueue(Section):
    """How workloads are dispatched to other clusters."""

    gc_interval: Duration = Micros(60 * SECOND)
    origin: str = "multikueue"
    worker_lost_timeout: Duration = Micros(15 * 60 * SECOND)
    dispatcher_name: str = DISPATCH_ALL_AT_ONCE
    incremental_dispatcher_config: IncrementalDispatcherConfig | None = None
    external_frameworks: tuple[ExternalFramework, ...] = ()
    cluster_profile: ClusterProfile | None = None


class FairSharing(Section):
    """Preemption by share; the section's presence enables it."""

    preemption_strategies: tuple[str, ...] = ()


class AdmissionFairSharing(Section):
    """Ordering of LocalQueues by past usage, which decays with a half-life."""

    usage_half_life_time: Duration = Micros(0)
    usage_sampling_interval: Span = SAMPLING_INTERVAL
    resource_weights: Mapping[str, float] = {}


class Transformation(Section):
    """What a requested resource counts as."""

    input: str = ""
    strategy: Literal["Retain", "Replace"] = "Retain"
    multiply_by: str = ""
    outputs: Mapping[str, Quantity] = {}


class CelSelector(Section):
    """A CEL expression over a device."""

    expression: str = ""


class DeviceSelector(Section):
    """Which devices are selected."""

    cel: CelSelector | None = None


class DeviceSource(Section):
    """A number that a driver publishes for its devices."""

    name: str = ""
    driver: str = ""
    device_selector: DeviceSelector = DeviceSelector()


class MappingSource(Section):
    """The quantity of a device that is counted: a counter, or a capacity."""

    counter: DeviceSource | None = None
    capacity: DeviceSource | None = None


class DeviceClassMapping(Section):
    """The resource that devices of some classes count as."""

    name: str = ""
    device_class_names: tuple[str, ...] = ()
    sources: tuple[MappingSource, ...] = ()


class Resources(Section):
    """How requests are counted."""

    quota_check_strategy: Literal["BlockUndeclared", "IgnoreUndeclared"] = "BlockUndeclared"
    exclude_resource_prefixes: tuple[str, ...] = ()
    transformations: tuple[Transformation, ...] = ()
    device_class_mappings: tuple[DeviceClassMapping, ...] = ()


class WorkloadRetention(Section):
    """How long workloads are kept after their end; absent is forever, zero is not at all."""

    after_finished: Duration | None = None
    after_deactivated_by_kueue: Duration | None = None


class ObjectRetentionPolicies(Section):
    """How long objects are kept after their end."""

    workloads: WorkloadRetention = WorkloadRetention()


class VisibilityServer(Section):
    """Where the list of pending workloads is served."""

    bind_address: str = "0.0.0.0"
    bind_port: Int32 = 8082


class Configuration(Section):
    """The complete Configuration. An absent section is a feature that is off."""

    namespace: str = DEFAULT_NAMESPACE
    webhook: Webhook = Webhook()
    leader_election: LeaderElection = LeaderElection()
    metrics: Metrics = Metrics()
    health: Health = Health()
    pprof_bind_address: str = ""
    controller: Controller = Controller()
    tls: Tls | None = None
    manage_jobs_without_queue_name: bool = False
    managed_jobs_namespace_selector: LabelSelector | None = None
    internal_cert_management: InternalCertManagement = InternalCertManagement()
    wait_for_pods_ready: WaitForPodsReady | None = None
    client_connection: ClientConnection = ClientConnection()
    integrations: Integrations = Integrations()
    multi_kueue: MultiKueue | None = None
    fair_sharing: FairSharing | None = None
    admission_fair_sharing: AdmissionFairSharing | None = None
    resources: Resources = Resources()
    feature_gates: Mapping[str, bool] = {}
    object_retention_policies: ObjectRetentionPolicies = ObjectRetentionPolicies()
    visibility_server: VisibilityServer = VisibilityServer()


def everywhere_but(*namespaces: str) -> LabelSelector:
    """A selector of every namespace except these."""
    return LabelSelector(match_expressions=(LabelSelectorRequirement(NAMESPACE_NAME_LABEL, "NotIn", namespaces),))
