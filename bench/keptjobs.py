"""A data file with a hundred thousand finished Jobs, as the server would have written it."""

from functools import cache
from pathlib import Path
from typing import Final

from bench.preparedfolder import prepared
from pykueue.api.core import Tree
from pykueue.apiserver.storage.store import Key, Store
from pykueue.base.clock import SystemClock
from pykueue.base.units import MICROS, Instant, format_instant

KEPT: Final = 100_000
LISTED: Final = 1_000
"""Jobs in each namespace."""
TOGETHER: Final = 200


def finished(name: str, namespace: str, now: Instant) -> tuple[Tree, Tree]:
    """A finished Job and its Workload."""
    at = format_instant(now)
    labels: Tree = {"kueue.x-k8s.io/queue-name": "bench"}
    uid = f"00000000-0000-4000-8000-{abs(hash((namespace, name))) % 10**12:012}"
    container: Tree = {
        "name": "main",
        "image": "none",
        "command": ["python", "train.py", "--seed", name],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    template: Tree = {
        "metadata": {"labels": {"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name}},
        "spec": {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 30},
    }
    done: Tree = {"lastProbeTime": at, "lastTransitionTime": at, "status": "True"}
    job: Tree = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "labels": labels,
            "creationTimestamp": at,
            "generation": 2,
        },
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 0,
            "suspend": False,
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}},
            "template": template,
        },
        "status": {
            "startTime": at,
            "completionTime": at,
            "succeeded": 1,
            "ready": 0,
            "terminating": 0,
            "uncountedTerminatedPods": {},
            "conditions": [
                {**done, "type": "SuccessCriteriaMet", "reason": "CompletionsReached", "message": "Reached expected"},
                {**done, "type": "Complete", "reason": "CompletionsReached", "message": "Reached expected"},
            ],
        },
    }
    true: Tree = {"status": "True", "lastTransitionTime": at, "observedGeneration": 1}
    owner: Tree = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}
    flavors: Tree = {"cpu": "machine"}
    workload: Tree = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": f"job-{name}-0a1b2",
            "namespace": namespace,
            "uid": uid[:-1] + "w",
            "labels": {"kueue.x-k8s.io/job-uid": uid},
            "creationTimestamp": at,
            "generation": 1,
            "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
        },
        "spec": {
            "active": True,
            "queueName": "bench",
            "priority": 0,
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
        "status": {
            "admission": {
                "clusterQueue": "bench",
                "podSetAssignments": [
                    {"name": "main", "count": 1, "flavors": flavors, "resourceUsage": {"cpu": "1"}},
                ],
            },
            "conditions": [
                {**true, "type": "QuotaReserved", "reason": "QuotaReserved", "message": "Quota reserved in bench"},
                {**true, "type": "Admitted", "reason": "Admitted", "message": "The workload is admitted"},
                {**true, "type": "Finished", "reason": "Succeeded", "message": "Reached expected"},
            ],
        },
    }
    return job, workload


@cache
def filled() -> Path:
    """A data folder with the Jobs, created once and removed when this process ends."""
    return prepared("kept", fill)


async def fill(data: Path, kept: int = KEPT) -> None:
    """Write the Jobs into a new data folder, a thousand in each namespace."""
    data.mkdir(mode=0o700)
    clock = SystemClock()
    store = Store.open(data / "pykueue.db", clock)
    first = clock.now() - kept * MICROS
    for number in range(kept):
        namespace, name = f"kept-{number // LISTED}", f"job-{number}"
        if number % LISTED == 0:
            made: Tree = {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {
                    "name": namespace,
                    "uid": f"{number:032}",
                    "creationTimestamp": format_instant(Instant(first)),
                },
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            }
            await store.put(Key("namespaces", "", namespace), made, uid=f"{number:032}")
        job, workload = finished(name, namespace, Instant(first + number * MICROS))
        written = store.put(Key("jobs.batch", namespace, name), job, uid=str(number))
        last = store.put(Key("workloads.kueue.x-k8s.io", namespace, f"job-{name}-0a1b2"), workload, uid=f"w{number}")
        if number % TOGETHER == 0:
            await written
            await last
    await last
    await store.close()
