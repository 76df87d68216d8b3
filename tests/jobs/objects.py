"""Jobs and Workloads for the tests of `jobs`, as the API server would send them."""

from typing import Any

import msgspec

from pykueue.api.codec import decode_as
from pykueue.api.core import Tree
from pykueue.api.kueue import ResourceFlavor
from pykueue.api.workload import Workload
from pykueue.base.units import Instant, parse_instant
from pykueue.jobs.batch import BATCH, JobView, read_job
from pykueue.jobs.seen import JobInput
from pykueue.kube.port import JOBS, RESOURCE_FLAVORS
from tests import builders
from tests.builders import made

NOW = parse_instant("2026-01-01T12:00:00Z")
THEN = "2026-01-01T11:00:00Z"
QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
STOPPING = "kueue.x-k8s.io/stopping"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
LEAST = "kueue.x-k8s.io/job-min-parallelism"
EQUAL = "kueue.x-k8s.io/job-completions-equal-parallelism"
GATED = "kueue.x-k8s.io/admission-gated-by"
FINALIZER = "kueue.x-k8s.io/resource-in-use"
NAME = "job-train-d688a"
KEY = f"team/{NAME}"

CONTAINER: Tree = {
    "name": "main",
    "image": "example.com/train:1",
    "imagePullPolicy": "IfNotPresent",
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "resources": {"requests": {"cpu": "1"}},
}
TEMPLATE: Tree = {
    "metadata": {
        "labels": {
            "app": "train",
            "batch.kubernetes.io/controller-uid": "u-1",
            "batch.kubernetes.io/job-name": "train",
            "controller-uid": "u-1",
            "job-name": "train",
        }
    },
    "spec": {"containers": [CONTAINER], "restartPolicy": "Never"},
}
PLAIN: Tree = {
    "metadata": {"labels": {"app": "train", "batch.kubernetes.io/job-name": "train"}},
    "spec": {"containers": [CONTAINER], "restartPolicy": "Never"},
}
"""The template as the Workload carries it."""


def job_tree(
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    template: Tree | None = None,
    status: Tree | None = None,
    metadata: Tree | None = None,
    **spec: Any,
) -> Tree:
    stored = {"uid": "u-1", "resourceVersion": "5", "labels": {QUEUE: "main", **(labels or {})}}
    chosen = {**stored, "annotations": {**(annotations or {})}, **(metadata or {})}
    asked = {"parallelism": 3, "completions": 3, "suspend": True, "template": template or TEMPLATE, **spec}
    return made(JOBS, "train", "team", chosen, spec=asked, status=status or {})


def job(**parts: Any) -> JobView:
    return read_job(msgspec.json.encode(job_tree(**parts)))


def condition(kind: str, status: bool, reason: str = "", message: str = "", at: str = THEN) -> Tree:
    return {**builders.condition(kind, str(status), reason or kind, at), "message": message}


RESERVED = condition("QuotaReserved", True)
ADMITTED = condition("Admitted", True)
UNREADY = condition("PodsReady", False, "WaitForStart")


def evicted(reason: str = "Preempted", message: str = "Preempted to accommodate a workload") -> Tree:
    return condition("Evicted", True, reason, message)


def workload_tree(
    *conditions: Tree,
    name: str = NAME,
    uid: str = "w-1",
    owner: str | None = "u-1",
    count: int = 3,
    template: Tree | None = None,
    given: Tree | None = None,
    metadata: Tree | None = None,
    finalizers: list[str] | None = None,
    status: Tree | None = None,
    pod_set: Tree | None = None,
    **spec: Any,
) -> Tree:
    admission: Tree = {}
    if any(one["type"] == "QuotaReserved" and one["status"] == "True" for one in conditions):
        assignment: Tree = {"name": "main", "count": count, "flavors": {"cpu": "spot"}, **(given or {})}
        admission = {"admission": {"clusterQueue": "shared", "podSetAssignments": [assignment]}}
    reference: Tree = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "train",
        "uid": owner,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    stored = {
        "uid": uid,
        "resourceVersion": "7",
        "generation": 2,
        "creationTimestamp": THEN,
        "labels": {"kueue.x-k8s.io/job-uid": "u-1"},
        "finalizers": [FINALIZER] if finalizers is None else [*finalizers],
        "ownerReferences": [reference] if owner else [],
        **(metadata or {}),
    }
    pods = {"name": "main", "count": count, "template": template or PLAIN, **(pod_set or {})}
    asked = {"priority": 0, "active": True, "podSets": [pods], **spec}
    tree = builders.workload(name, "main", namespace="team", metadata=stored, **asked)
    return {**tree, "status": {"conditions": list(conditions), **admission, **(status or {})}}


def workload(*conditions: Tree, **parts: Any) -> Workload:
    return decode_as(Workload, workload_tree(*conditions, **parts))


def flavor(name: str, labels: dict[str, str] | None = None, *tolerations: Tree) -> ResourceFlavor:
    spec = {"nodeLabels": dict(labels or {}), "tolerations": list(tolerations)}
    return decode_as(ResourceFlavor, made(RESOURCE_FLAVORS, name, spec=spec))


SPOT = flavor("spot", {"pool": "spot"}, {"key": "spot", "operator": "Exists", "effect": "NoSchedule"})


def seen(job: JobView | None, *workloads: Workload, **parts: Any) -> JobInput:
    return JobInput(BATCH, "team", job, workloads, **{"flavors": {"spot": SPOT}, **parts})


def later(seconds: float) -> Instant:
    return Instant(int(NOW + seconds * 1_000_000))
