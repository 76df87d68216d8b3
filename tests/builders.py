"""Builders of the objects that most tests need; what a test gives takes the place of the defaults."""

from typing import Any

from pykueue.kube.port import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, PODS, WORKLOADS, Resource

Object = dict[str, Any]
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"


def made(resource: Resource, name: str, namespace: str = "", metadata: Object | None = None, **fields: Any) -> Object:
    """An object of any kind."""
    named = {"name": name, **({"namespace": namespace} if namespace else {}), **(metadata or {})}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": named, **fields}


def pod_spec(cpu: str = "", spec: Object | None = None, **container: Any) -> Object:
    """The spec of a pod of one container, `main`."""
    asked = {"resources": {"requests": {"cpu": cpu}}} if cpu else {}
    main = {"name": "main", "image": "none", **asked, **container}
    return {"restartPolicy": "Never", "containers": [main], **(spec or {})}


def pod(name: str = "p", namespace: str = "", metadata: Object | None = None, **spec: Any) -> Object:
    return made(PODS, name, namespace, metadata, spec=pod_spec(spec=spec))


def job(name: str = "j", queue: str = "", namespace: str = "", metadata: Object | None = None, **spec: Any) -> Object:
    """A Job of one pod, in a queue if one is given."""
    labels = {"labels": {QUEUE_NAME: queue}} if queue else {}
    return made(JOBS, name, namespace, {**labels, **(metadata or {})}, spec={"template": {"spec": pod_spec()}, **spec})


def workload(
    name: str, queue: str, cpu: str = "1", namespace: str = "", metadata: Object | None = None, **spec: Any
) -> Object:
    """A Workload of one pod."""
    pods = {"name": "main", "count": 1, "template": {"spec": pod_spec(cpu)}}
    return made(WORKLOADS, name, namespace, metadata, spec={"queueName": queue, "podSets": [pods], **spec})


def cluster_queue(name: str = "main", cpu: object = "4", metadata: Object | None = None, **spec: Any) -> Object:
    """A ClusterQueue with cpu in the flavor `default`."""
    flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
    return made(CLUSTER_QUEUES, name, "", metadata, spec={"namespaceSelector": {}, "resourceGroups": groups, **spec})


def local_queue(name: str = "main", namespace: str = "default", cluster_queue: str = "main", **spec: Any) -> Object:
    return made(LOCAL_QUEUES, name, namespace, spec={"clusterQueue": cluster_queue, **spec})


def condition(kind: str, status: str = "True", reason: str = "R", at: str = "2026-01-01T00:00:00Z") -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": at}
