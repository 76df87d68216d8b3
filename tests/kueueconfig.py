"""The values of the Configuration that Kueue 0.19.2 ships, and of the sections that its users add."""

from typing import Final

SHIPPED: Final = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health: {healthProbeBindAddress: ":8081"}
metrics: {bindAddress: ":8443"}
webhook: {port: 9443}
leaderElection: {leaderElect: true, resourceName: c1f6bfd2.kueue.x-k8s.io}
controller:
  groupKindConcurrency:
    Job.batch: 5
    Pod: 5
    Workload.kueue.x-k8s.io: 10
    LocalQueue.kueue.x-k8s.io: 5
    Cohort.kueue.x-k8s.io: 1
    ClusterQueue.kueue.x-k8s.io: 5
    ResourceFlavor.kueue.x-k8s.io: 1
clientConnection: {qps: 300, burst: 500}
integrations:
  frameworks:
  - batch/job
  - kubeflow.org/mpijob
  - ray.io/rayjob
  - ray.io/raycluster
  - ray.io/rayservice
  - jobset.x-k8s.io/jobset
  - workload.codeflare.dev/appwrapper
  - trainer.kubeflow.org/trainjob
  - pod
  - deployment
  - statefulset
  - leaderworkerset.x-k8s.io/leaderworkerset
"""

ADDED: Final = {
    "multiKueue": "multiKueue: {gcInterval: 1m, origin: multikueue, workerLostTimeout: 15m}\n",
    "pprofBindAddress": "pprofBindAddress: ':8083'\n",
}
"""Sections that change no decision, by path."""
DECIDING: Final = {
    "resources.deviceClassMappings": "resources: {deviceClassMappings: [{name: a, deviceClassNames: [b]}]}\n",
}
"""Sections that change decisions, by path."""


def shipped_with(lines: str) -> str:
    """The shipped Configuration with a section added, or replaced."""
    key = lines.partition(":")[0]
    kept = [line for line in SHIPPED.splitlines(keepends=True) if not line.startswith(f"{key}:")]
    return "".join(kept) + lines
