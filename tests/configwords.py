"""Descriptions of the keys of the Configuration, for docs/configuration.md."""

from collections.abc import Mapping
from typing import Final

EXEC: Final = "multiKueue.clusterProfile.accessProviders[].execConfig"
SOURCE: Final = "resources.deviceClassMappings[].sources[].counter"

SAME: Final[Mapping[str, str]] = {
    "multiKueue.clusterProfile.credentialsProviders[]": "multiKueue.clusterProfile.accessProviders[]",
    "resources.deviceClassMappings[].sources[].capacity.": "resources.deviceClassMappings[].sources[].counter.",
}
"""Paths with the same keys as another path."""

IGNORED: Final[frozenset[str]] = frozenset({"leaderElection.resourceLock", "controller.cacheSyncTimeout"})
"""Keys that have no effect."""

DEFAULTS: Final[Mapping[str, str]] = {
    "controller.cacheSyncTimeout": "2 minutes",
    "managedJobsNamespaceSelector": "all except `kube-system` and `namespace`",
    "waitForPodsReady": "on",
    "waitForPodsReady.recoveryTimeout": "value of `timeout`",
    "clientConnection.qps": "no limit",
    "leaderElection.resourceNamespace": "value of `namespace`",
    "webhook.certDir": "in the system's temporary directory",
    "metrics.customLabels[].sourceLabelKey": "value of `name`",
    "admissionFairSharing.usageHalfLifeTime": "`0s`",
    "metrics.localQueueMetrics.localQueueSelector": "all",
    "objectRetentionPolicies.workloads.afterFinished": "never deleted",
    "objectRetentionPolicies.workloads.afterDeactivatedByKueue": "never deleted",
    "waitForPodsReady.requeuingStrategy.backoffLimitCount": "no limit",
    "tls": "not set",
    "multiKueue": "not set",
    "fairSharing": "not set",
    "admissionFairSharing": "not set",
}
"""Defaults that depend on another key, or that need more than a value."""

MEANINGS: Final[Mapping[str, str]] = {
    "namespace": "The namespace of the manager, its certificates and its lease.",
    "pprofBindAddress": "The address on which Kueue serves pprof profiles.",
    "manageJobsWithoutQueueName": "Whether to suspend jobs without a queue name until they are given one.",
    "managedJobsNamespaceSelector": (
        "The namespaces in which jobs are queued. Jobs in other namespaces are ignored, even if they name a queue."
    ),
    "featureGates": "Feature gates by name; see [Feature gates](#feature-gates).",
    "webhook": "Where the API server reaches the webhooks.",
    "webhook.port": "The port of the webhook server.",
    "webhook.host": "The address to listen on. If empty, the server listens on all addresses.",
    "webhook.certDir": (
        "The directory with `tls.crt` and `tls.key`, used if `internalCertManagement` is off. The files are reloaded "
        "when they change."
    ),
    "leaderElection": "Leader election between replicas of the manager.",
    "leaderElection.leaderElect": "Whether to use leader election. If disabled, run only one replica.",
    "leaderElection.leaseDuration": "How long other replicas wait before they take over a lease that is not renewed.",
    "leaderElection.renewDeadline": (
        "How long the leader tries to renew its lease before it stops leading; must be less than `leaseDuration`."
    ),
    "leaderElection.retryPeriod": "The interval between attempts to acquire or renew the lease.",
    "leaderElection.resourceLock": "The kind of lock object. It is always a Lease.",
    "leaderElection.resourceName": (
        "The name of the Lease. The default is Kueue's, so that pykueue and Kueue are never active at the same time."
    ),
    "leaderElection.resourceNamespace": "The namespace of the Lease.",
    "metrics": "Which metrics are served, and where; see [metrics.md](metrics.md).",
    "metrics.bindAddress": "The address of the `/metrics` endpoint; `0` disables it.",
    "metrics.enableClusterQueueResources": (
        "Whether to report the quota and usage of each ClusterQueue by flavor and resource."
    ),
    "metrics.localQueueMetrics": "Metrics of LocalQueues.",
    "metrics.localQueueMetrics.enable": (
        "Whether to report metrics for LocalQueues. If the section is present, the default is `false`, so set this key "
        "explicitly."
    ),
    "metrics.localQueueMetrics.localQueueSelector": "Selects the LocalQueues that have metrics, by label.",
    "metrics.customLabels": (
        "Labels and annotations of objects to add as labels to their metrics. Requires the feature gate "
        "`CustomMetricLabels`. At most 20."
    ),
    "metrics.customLabels[].name": "The name of the metric label, without the prefix `custom_`.",
    "metrics.customLabels[].sourceLabelKey": "The key of the object's label.",
    "metrics.customLabels[].sourceAnnotationKey": "The key of an annotation to use instead of a label.",
    "metrics.customLabels[].sourceKind": (
        "The kind of the object: `ClusterQueue`, `LocalQueue`, `Cohort` or `Workload`. At most six labels per kind, "
        "and two for Workloads. A Workload copies the label or annotation from its job."
    ),
    "metrics.customLabels[].trackedValues": (
        "The values to report; any other value is reported as `kueue.x-k8s.io/_UNTRACKED_VALUE_`. If empty, all "
        "values are reported. At most 16 values; for Workloads 1 to 12."
    ),
    "health": "Health probe endpoints.",
    "health.healthProbeBindAddress": "The address of the probe endpoints; `0` disables them.",
    "health.readinessEndpointName": "The path of the readiness probe.",
    "health.livenessEndpointName": "The path of the liveness probe.",
    "controller": "Settings of the controllers.",
    "controller.groupKindConcurrency": (
        "The number of objects to reconcile concurrently, by `Kind.group`. Only `Job.batch` has an effect, and only "
        "with a value above the minimum of 10."
    ),
    "controller.cacheSyncTimeout": (
        "How long Kueue waits for its caches to sync. pykueue waits without a timeout and is not ready until they have."
    ),
    "tls": "TLS settings of the manager's servers.",
    "tls.minVersion": "The minimum TLS version: `VersionTLS12` or `VersionTLS13`.",
    "tls.cipherSuites": "The cipher suites for TLS 1.2, by their Go names.",
    "tls.curvePreferences": "The key exchange curves, by number, in order of preference.",
    "internalCertManagement": "How the webhook certificate is managed.",
    "internalCertManagement.enable": (
        "Whether the manager creates and renews the certificate. Otherwise it is read from `webhook.certDir`."
    ),
    "internalCertManagement.webhookServiceName": "The webhook Service that the certificate is issued for.",
    "internalCertManagement.webhookSecretName": "The Secret through which replicas share the certificate.",
    "waitForPodsReady": (
        "How to handle admitted workloads with pods that do not become ready. The feature gate "
        "`DisableWaitForPodsReady` turns it off."
    ),
    "waitForPodsReady.timeout": "How long pods may take to become ready after admission; then the workload is evicted.",
    "waitForPodsReady.blockAdmission": "Whether to pause admission while an admitted workload is not ready.",
    "waitForPodsReady.recoveryTimeout": (
        "How long a workload that was ready may have unready pods before it is evicted; `0s` disables the timeout."
    ),
    "waitForPodsReady.requeuingStrategy": "How an evicted workload is requeued.",
    "waitForPodsReady.requeuingStrategy.timestamp": (
        "Whether a requeued workload is ordered by its creation time (`Creation`) or by its eviction time (`Eviction`)."
    ),
    "waitForPodsReady.requeuingStrategy.backoffLimitCount": (
        "The maximum number of times a workload is requeued before it is deactivated."
    ),
    "waitForPodsReady.requeuingStrategy.backoffBaseSeconds": (
        "The delay before a workload is requeued for the first time. It doubles with every further eviction."
    ),
    "waitForPodsReady.requeuingStrategy.backoffMaxSeconds": "The maximum delay.",
    "clientConnection": "Rate limits for the manager's requests to the API server.",
    "clientConnection.qps": (
        "The maximum number of requests per second; `0` or a negative value means no limit. Kueue 0.20 has 1000."
    ),
    "clientConnection.burst": "The maximum burst of requests, if `qps` sets a limit.",
    "integrations": "Which kinds of job are queued.",
    "integrations.frameworks": (
        "The kinds of job to queue. Only `batch/job` is supported; other kinds cause a warning, and their jobs start "
        "without quota."
    ),
    "integrations.externalFrameworks": "Kinds, as `Kind.version.group`, that are queued by another controller.",
    "integrations.labelKeysToCopy": "The keys of labels to copy from a job to its Workload.",
    "multiKueue": "How workloads are sent to other clusters.",
    "multiKueue.gcInterval": "How often orphaned Workloads are removed from other clusters.",
    "multiKueue.origin": "The value of the label that marks objects created by this cluster in other clusters.",
    "multiKueue.workerLostTimeout": "How long a workload stays assigned to a cluster that is unreachable.",
    "multiKueue.dispatcherName": "The dispatcher that nominates clusters.",
    "multiKueue.incrementalDispatcherConfig": "Settings of the incremental dispatcher.",
    "multiKueue.incrementalDispatcherConfig.stepSize": "The number of clusters it adds in each round.",
    "multiKueue.externalFrameworks": "Further kinds of job to send to other clusters.",
    "multiKueue.externalFrameworks[].name": "The kind, as `kind.version.group`.",
    "multiKueue.clusterProfile": "How to authenticate to clusters described by ClusterProfiles.",
    "multiKueue.clusterProfile.accessProviders": "Programs that provide credentials.",
    "multiKueue.clusterProfile.credentialsProviders": "The former name of `accessProviders`.",
    "multiKueue.clusterProfile.accessProviders[].name": "The name that ClusterProfiles use for the provider.",
    EXEC: "The program, as in a kubeconfig.",
    f"{EXEC}.command": "The command to run.",
    f"{EXEC}.args": "The arguments of the command.",
    f"{EXEC}.env": "Environment variables for the command.",
    f"{EXEC}.env[].name": "The name of the variable.",
    f"{EXEC}.env[].value": "The value of the variable.",
    f"{EXEC}.apiVersion": "The version of the credential plugin API that the program implements.",
    f"{EXEC}.installHint": "The message shown if the program is not installed.",
    f"{EXEC}.provideClusterInfo": "Whether to pass information about the cluster to the program.",
    f"{EXEC}.interactiveMode": "Whether the program may prompt the user.",
    "fairSharing": "Preemption based on the share of a cohort that each queue uses. The section enables it.",
    "fairSharing.preemptionStrategies": (
        "The rules that select preemption victims: `LessThanOrEqualToFinalShare`, `LessThanInitialShare`, or the first "
        "and then the second. Required."
    ),
    "admissionFairSharing": "Orders the LocalQueues of a ClusterQueue by their past usage. The section enables it.",
    "admissionFairSharing.usageHalfLifeTime": "The time after which past usage counts half.",
    "admissionFairSharing.usageSamplingInterval": "How often usage is sampled; once a second at most.",
    "admissionFairSharing.resourceWeights": "The weight of each resource.",
    "resources": "How requests count against quota.",
    "resources.quotaCheckStrategy": (
        "How to handle a requested resource that the ClusterQueue does not list: keep the workload pending "
        "(`BlockUndeclared`), or do not count the resource (`IgnoreUndeclared`)."
    ),
    "resources.excludeResourcePrefixes": "Resources with a name that starts with one of these prefixes do not count.",
    "resources.transformations": "Rules that convert requested resources into others before they count.",
    "resources.transformations[].input": "The requested resource.",
    "resources.transformations[].strategy": (
        "Whether the input counts in addition to the outputs (`Retain`) or only the outputs do (`Replace`)."
    ),
    "resources.transformations[].multiplyBy": "Multiply the outputs by the requested amount of this resource.",
    "resources.transformations[].outputs": "The resources and amounts that one unit of the input converts to.",
    "resources.deviceClassMappings": "Which resource the devices of resource claims count as.",
    "resources.deviceClassMappings[].name": "The resource.",
    "resources.deviceClassMappings[].deviceClassNames": "The device classes that count as this resource.",
    "resources.deviceClassMappings[].sources": "What to count instead of the number of devices.",
    "resources.deviceClassMappings[].sources[].capacity": "A capacity that the driver publishes.",
    SOURCE: "A counter that the driver publishes.",
    f"{SOURCE}.name": "The name of the source.",
    f"{SOURCE}.driver": "The driver that publishes it.",
    f"{SOURCE}.deviceSelector": "The devices it applies to.",
    f"{SOURCE}.deviceSelector.cel": "A CEL selector.",
    f"{SOURCE}.deviceSelector.cel.expression": "The CEL expression.",
    "objectRetentionPolicies": "How long objects are retained after they finish.",
    "objectRetentionPolicies.workloads": "How long Workloads are retained.",
    "objectRetentionPolicies.workloads.afterFinished": (
        "How long to keep a finished Workload before it is deleted; `0s` deletes it immediately. The job is kept."
    ),
    "objectRetentionPolicies.workloads.afterDeactivatedByKueue": (
        "How long to keep a Workload that the manager deactivated before it is deleted together with its job."
    ),
    "visibilityServer": "The server of the visibility API (lists of pending workloads); see [install.md](install.md).",
    "visibilityServer.bindAddress": "The address to listen on.",
    "visibilityServer.bindPort": "The port to listen on.",
}


def meaning(path: str) -> str:
    """The description of a key."""
    for beginning, same in SAME.items():
        if path.startswith(beginning):
            path = same + path.removeprefix(beginning)
    return MEANINGS[path]
