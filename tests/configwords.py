"""What each key of the Configuration means, for docs/configuration.md."""

from collections.abc import Mapping
from typing import Final

EXEC: Final = "multiKueue.clusterProfile.accessProviders[].execConfig"
SOURCE: Final = "resources.deviceClassMappings[].sources[].counter"

SAME: Final[Mapping[str, str]] = {
    "multiKueue.clusterProfile.credentialsProviders[]": "multiKueue.clusterProfile.accessProviders[]",
    "resources.deviceClassMappings[].sources[].capacity.": "resources.deviceClassMappings[].sources[].counter.",
}
"""Paths whose keys mean the same as those below another path."""

IGNORED: Final[frozenset[str]] = frozenset({"leaderElection.resourceLock", "controller.cacheSyncTimeout"})
"""Keys that have no effect."""

DEFAULTS: Final[Mapping[str, str]] = {
    "controller.cacheSyncTimeout": "2 minutes",
    "managedJobsNamespaceSelector": (
        "The namespaces whose jobs are queued. Jobs elsewhere are left alone, even if they name a queue."
    ),
    "waitForPodsReady": "on",
    "waitForPodsReady.recoveryTimeout": "that of `timeout`",
    "clientConnection.qps": "no limit",
    "leaderElection.resourceNamespace": "that of `namespace`",
    "webhook.certDir": "below the temporary folder of the system",
    "metrics.customLabels[].sourceLabelKey": "that of `name`",
    "admissionFairSharing.usageHalfLifeTime": "`0s`",
    "metrics.localQueueMetrics.localQueueSelector": "all",
    "objectRetentionPolicies.workloads.afterFinished": "for ever",
    "objectRetentionPolicies.workloads.afterDeactivatedByKueue": "for ever",
    "waitForPodsReady.requeuingStrategy.backoffLimitCount": "no limit",
    "tls": "absent",
    "multiKueue": "absent",
    "fairSharing": "absent",
    "admissionFairSharing": "absent",
}
"""Defaults that depend on something else, or that a value would not explain."""

MEANINGS: Final[Mapping[str, str]] = {
    "namespace": "The namespace of the manager, its certificates and its lease.",
    "pprofBindAddress": "The address at which Kueue serves profiles of itself.",
    "manageJobsWithoutQueueName": "Whether jobs that name no queue are suspended, too, and wait until they name one.",
    "managedJobsNamespaceSelector": (
        "The namespaces whose jobs are queued. Jobs elsewhere are left alone, even if they name a queue."
    ),
    "featureGates": "Feature gates by name, see below.",
    "webhook": "Where the API server reaches the webhooks.",
    "webhook.port": "The port of the webhooks.",
    "webhook.host": "The address to listen on; all addresses without one.",
    "webhook.certDir": (
        "The folder with `tls.crt` and `tls.key`, if `internalCertManagement` is off. The files are read again "
        "when they change."
    ),
    "leaderElection": "How replicas of the manager agree on the one that acts.",
    "leaderElection.leaderElect": "Whether there is an election. Without it, run one replica only.",
    "leaderElection.leaseDuration": "How long another replica waits before it takes over a lease that is not renewed.",
    "leaderElection.renewDeadline": (
        "How long the leader tries to renew its lease before it stops acting; less than `leaseDuration`."
    ),
    "leaderElection.retryPeriod": "How long a replica waits between two attempts to acquire or renew the lease.",
    "leaderElection.resourceLock": "The kind of the lock. It is always a Lease.",
    "leaderElection.resourceName": (
        "The name of the Lease. Kueue's is the default, so that the two never act at the same time."
    ),
    "leaderElection.resourceNamespace": "The namespace of the Lease.",
    "metrics": "Which metrics are served, and where; see [metrics.md](metrics.md).",
    "metrics.bindAddress": "The address of `/metrics`; `0` for none.",
    "metrics.enableClusterQueueResources": (
        "Whether there are gauges of the quota and usage of each ClusterQueue, by flavor and resource."
    ),
    "metrics.localQueueMetrics": "Metrics of LocalQueues.",
    "metrics.localQueueMetrics.enable": (
        "Whether LocalQueues have metrics of their own. In a section that is given, it must be set to have them."
    ),
    "metrics.localQueueMetrics.localQueueSelector": "The labels of the LocalQueues that have metrics.",
    "metrics.customLabels": (
        "Labels and annotations of objects that become labels of their metrics. Needs the gate "
        "`CustomMetricLabels`. At most 20."
    ),
    "metrics.customLabels[].name": "The name of the metric's label, without its prefix `custom_`.",
    "metrics.customLabels[].sourceLabelKey": "The key of the object's label.",
    "metrics.customLabels[].sourceAnnotationKey": "The key of an annotation, instead of a label.",
    "metrics.customLabels[].sourceKind": (
        "The kind of the object: `ClusterQueue`, `LocalQueue`, `Cohort` or `Workload`. At most six labels of a "
        "kind, two of Workloads. A Workload gets the label or annotation from its job."
    ),
    "metrics.customLabels[].trackedValues": (
        "The values that are shown; all others are shown as `kueue.x-k8s.io/_UNTRACKED_VALUE_`. Without a list, "
        "all values are. Up to 16; for Workloads 1 to 12."
    ),
    "health": "Where the manager answers probes.",
    "health.healthProbeBindAddress": "The address of the probes; `0` for none.",
    "health.readinessEndpointName": "The path that says whether the manager is ready.",
    "health.livenessEndpointName": "The path that says whether the manager is alive.",
    "controller": "How controllers work.",
    "controller.groupKindConcurrency": (
        "How many objects of a kind are reconciled at the same time, by `Kind.group`. Only `Job.batch` has an "
        "effect, from ten on, which is the least."
    ),
    "controller.cacheSyncTimeout": (
        "How long Kueue waits for its first lists. Here the manager waits until it has them and is not ready before."
    ),
    "tls": "What the servers of the manager demand of a TLS connection.",
    "tls.minVersion": "The lowest version: `VersionTLS12` or `VersionTLS13`.",
    "tls.cipherSuites": "The cipher suites of TLS 1.2, by the names of Go.",
    "tls.curvePreferences": "The curves of the key exchange, by number, in order of preference.",
    "internalCertManagement": "Who makes the certificate of the webhooks.",
    "internalCertManagement.enable": (
        "Whether the manager makes and renews it. If not, it is read from `webhook.certDir`."
    ),
    "internalCertManagement.webhookServiceName": "The Service of the webhooks, which the certificate names.",
    "internalCertManagement.webhookSecretName": "The Secret in which replicas share the certificate.",
    "waitForPodsReady": (
        "What happens to an admitted workload whose pods do not become ready. It is on unless the gate "
        "`DisableWaitForPodsReady` turns it off."
    ),
    "waitForPodsReady.timeout": "How long pods may take to become ready after admission; then the workload is evicted.",
    "waitForPodsReady.blockAdmission": "Whether nothing else is admitted while an admitted workload is not ready.",
    "waitForPodsReady.recoveryTimeout": (
        "How long a workload that was ready may have unready pods; zero waits for ever."
    ),
    "waitForPodsReady.requeuingStrategy": "How an evicted workload comes back.",
    "waitForPodsReady.requeuingStrategy.timestamp": (
        "Whether it keeps the place of its creation or goes behind, to that of its eviction."
    ),
    "waitForPodsReady.requeuingStrategy.backoffLimitCount": "After how many returns it is deactivated.",
    "waitForPodsReady.requeuingStrategy.backoffBaseSeconds": (
        "The first delay before it is considered again; each further one is twice as long."
    ),
    "waitForPodsReady.requeuingStrategy.backoffMaxSeconds": "The longest delay.",
    "clientConnection": "How many requests the manager sends to the API server.",
    "clientConnection.qps": "The most requests per second; none or a negative number is no limit. Kueue 0.20 has 1000.",
    "clientConnection.burst": "The most requests at once, if there is a limit.",
    "integrations": "Which kinds of job are queued.",
    "integrations.frameworks": (
        "The kinds of job. Only `batch/job` is built; the others cause a warning, and such jobs start outside of "
        "any quota."
    ),
    "integrations.externalFrameworks": "Kinds, as `Kind.version.group`, whose jobs another controller queues.",
    "integrations.labelKeysToCopy": "The keys of labels that a Workload gets from its job.",
    "multiKueue": "How workloads are sent to other clusters.",
    "multiKueue.gcInterval": "How often Workloads in other clusters are removed whose original is gone.",
    "multiKueue.origin": "The value of a label that marks what this cluster has created elsewhere.",
    "multiKueue.workerLostTimeout": "How long a workload stays with a cluster that cannot be reached.",
    "multiKueue.dispatcherName": "Who chooses the clusters that are tried.",
    "multiKueue.incrementalDispatcherConfig": "Settings of the dispatcher that tries more clusters in each round.",
    "multiKueue.incrementalDispatcherConfig.stepSize": "How many more it tries in each round.",
    "multiKueue.externalFrameworks": "Further kinds of job that are sent to other clusters.",
    "multiKueue.externalFrameworks[].name": "A kind, as `kind.version.group`.",
    "multiKueue.clusterProfile": "How to sign in to clusters that ClusterProfiles describe.",
    "multiKueue.clusterProfile.accessProviders": "Programs that provide credentials.",
    "multiKueue.clusterProfile.credentialsProviders": "The older name of `accessProviders`.",
    "multiKueue.clusterProfile.accessProviders[].name": "The name by which a ClusterProfile refers to it.",
    EXEC: "The program, as in a kubeconfig.",
    f"{EXEC}.command": "The command.",
    f"{EXEC}.args": "Its arguments.",
    f"{EXEC}.env": "Environment variables for it.",
    f"{EXEC}.env[].name": "The name of a variable.",
    f"{EXEC}.env[].value": "The value of a variable.",
    f"{EXEC}.apiVersion": "The version of the protocol that it speaks.",
    f"{EXEC}.installHint": "What to tell a user who does not have it.",
    f"{EXEC}.provideClusterInfo": "Whether it is told which cluster is meant.",
    f"{EXEC}.interactiveMode": "Whether it may ask the user.",
    "fairSharing": "Preemption by the share of a cohort that a queue uses. The section turns it on.",
    "fairSharing.preemptionStrategies": "The rules by which victims are chosen.",
    "admissionFairSharing": "The order of the LocalQueues of a ClusterQueue by what they have used before.",
    "admissionFairSharing.usageHalfLifeTime": "After which time past use counts half.",
    "admissionFairSharing.usageSamplingInterval": "How often use is measured.",
    "admissionFairSharing.resourceWeights": "How much each resource counts.",
    "resources": "What requests count against quota.",
    "resources.quotaCheckStrategy": (
        "Whether a workload must wait that requests a resource which its ClusterQueue does not list "
        "(`BlockUndeclared`), or that resource is not counted (`IgnoreUndeclared`)."
    ),
    "resources.excludeResourcePrefixes": "Resources whose names begin with one of these are not counted.",
    "resources.transformations": "What a requested resource counts as.",
    "resources.transformations[].input": "The requested resource.",
    "resources.transformations[].strategy": (
        "Whether it counts itself, too (`Retain`), or only as its outputs (`Replace`)."
    ),
    "resources.transformations[].multiplyBy": "Another resource by whose requested amount the outputs are multiplied.",
    "resources.transformations[].outputs": "What one unit counts as, by resource.",
    "resources.deviceClassMappings": "Which resource the devices of resource claims count as.",
    "resources.deviceClassMappings[].name": "The resource.",
    "resources.deviceClassMappings[].deviceClassNames": "The classes of devices that count as it.",
    "resources.deviceClassMappings[].sources": "What is counted instead of the number of devices.",
    "resources.deviceClassMappings[].sources[].capacity": "A capacity that the driver publishes.",
    SOURCE: "A counter that the driver publishes.",
    f"{SOURCE}.name": "Its name.",
    f"{SOURCE}.driver": "The driver.",
    f"{SOURCE}.deviceSelector": "The devices for which it holds.",
    f"{SOURCE}.deviceSelector.cel": "A selector in CEL.",
    f"{SOURCE}.deviceSelector.cel.expression": "The expression.",
    "objectRetentionPolicies": "How long objects are kept after their end.",
    "objectRetentionPolicies.workloads": "How long Workloads are kept.",
    "objectRetentionPolicies.workloads.afterFinished": (
        "After which time a finished Workload is deleted; zero is at once. Its job stays."
    ),
    "objectRetentionPolicies.workloads.afterDeactivatedByKueue": (
        "After which time a Workload is deleted, with its job, that the manager has deactivated."
    ),
    "visibilityServer": "Where the lists of pending workloads are served, see [install.md](install.md).",
    "visibilityServer.bindAddress": "The address to listen on.",
    "visibilityServer.bindPort": "The port.",
}


def meaning(path: str) -> str:
    """What a key means."""
    for beginning, same in SAME.items():
        if path.startswith(beginning):
            path = same + path.removeprefix(beginning)
    return MEANINGS[path]
