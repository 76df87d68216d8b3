"""Measure the simulator: CPU time of `pykueue simulate` for the jobs of a cluster with GPUs, in JSON and in YAML.

The jobs are made up, but their number, mix of sizes and queues are like those of the traces that operators publish.
"""

import json
import random
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import yaml

JOBS: Final = 18_239
SHAPES: Final = 480
"""Pod templates."""
COHORTS: Final = 3
QUEUES: Final = 12
"""ClusterQueues, each with a LocalQueue in a namespace of its own."""
GPUS: Final = 36
"""The quota of each ClusterQueue: enough for most jobs to start at once, and for some to be preempted."""
DAYS: Final = 14
KUEUE: Final = "kueue.x-k8s.io/v1beta2"
PRIORITIES: Final = {"low": 10, "normal": 100, "high": 1000}


class Shape(NamedTuple):
    """What a job asks for, and how long its kind runs."""

    gpus: int
    cpus: int
    memory_gib: int
    pods: int
    image: int
    median_seconds: float


def shapes(rng: random.Random) -> list[Shape]:
    """The shapes of jobs: most take one GPU or none, and a few take whole machines."""
    found = []
    for number in range(SHAPES):
        gpus = rng.choices((0, 1, 2, 4, 8), (20, 45, 15, 10, 10))[0]
        pods = rng.choices((1, 2, 4), (88, 8, 4))[0]
        cpus = rng.choice((2, 4, 6, 8)) * max(1, gpus)
        memory = rng.choice((8, 16, 24, 30, 58)) * max(1, gpus)
        found.append(Shape(gpus, cpus, memory, pods, number % 40, rng.lognormvariate(7.6, 1.0)))
    return found


def cluster() -> list[dict[str, object]]:
    """The queues: those of a cohort lend to each other, reclaim, and preempt lower priorities."""
    quotas: list[dict[str, object]] = [
        {"name": "nvidia.com/gpu", "nominalQuota": GPUS},
        {"name": "cpu", "nominalQuota": GPUS * 12},
        {"name": "memory", "nominalQuota": f"{GPUS * 64}Gi"},
    ]
    group = {
        "coveredResources": [quota["name"] for quota in quotas],
        "flavors": [{"name": "gpu-nodes", "resources": quotas}],
    }
    found: list[dict[str, object]] = [
        {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "gpu-nodes"}},
        *(
            {"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}
            for name, value in PRIORITIES.items()
        ),
    ]
    for number in range(QUEUES):
        queue = {
            "cohortName": f"department-{number % COHORTS}",
            "namespaceSelector": {},
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            "resourceGroups": [group],
        }
        name = f"vc-{number}"
        found.append({"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": queue})
        metadata = {"name": "main", "namespace": name}
        found.append({"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": name}})
    return found


def job(number: int, at_seconds: int, shape: Shape, rng: random.Random) -> dict[str, object]:
    """One job of the trace, as a manifest that a user would write."""
    requests: dict[str, object] = {"cpu": shape.cpus, "memory": f"{shape.memory_gib}Gi"}
    container: dict[str, object] = {
        "name": "main",
        "image": f"registry.example.com/train:{shape.image}",
        "command": ["python", "train.py"],
        "resources": {"requests": requests},
    }
    if shape.gpus:
        requests["nvidia.com/gpu"] = shape.gpus
        container["resources"] = {"requests": requests, "limits": {"nvidia.com/gpu": shape.gpus}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"job-{number:05}",
            "namespace": f"vc-{min(int(rng.expovariate(0.35)), QUEUES - 1)}",
            "labels": {
                "kueue.x-k8s.io/queue-name": "main",
                "kueue.x-k8s.io/priority-class": rng.choices(list(PRIORITIES), (3, 6, 1))[0],
            },
            "annotations": {
                "pykueue.io/arrival": f"{at_seconds}s",
                "pykueue.io/run-seconds": str(max(1, int(shape.median_seconds * rng.lognormvariate(0, 0.8)))),
            },
        },
        "spec": {
            "suspend": True,
            "parallelism": shape.pods,
            "completions": shape.pods,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


def trace(jobs: int = JOBS) -> list[dict[str, object]]:
    """The jobs, in order of arrival; frequent shapes come first, as in any trace."""
    rng = random.Random(1)
    known = shapes(rng)
    weights = [1 / (rank + 1) ** 0.7 for rank in range(len(known))]
    arrivals = sorted(rng.randrange(DAYS * 86400) for _ in range(jobs))
    chosen = rng.choices(known, weights, k=jobs)
    return [job(number, at, shape, rng) for number, (at, shape) in enumerate(zip(arrivals, chosen, strict=True))]


def write(folder: Path, jobs: int = JOBS) -> dict[str, list[str]]:
    """Write the manifests; returns the files of each format."""
    listed = trace(jobs)
    queues, as_json, as_yaml = folder / "queues.yaml", folder / "jobs.json", folder / "jobs.yaml"
    queues.write_text(in_yaml(cluster()))
    as_json.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": listed}, indent=2))
    as_yaml.write_text(in_yaml(listed))
    return {"JSON": [str(queues), str(as_json)], "YAML": [str(queues), str(as_yaml)]}


def in_yaml(documents: list[dict[str, object]]) -> str:
    """The documents as a user would write them."""
    found: str = yaml.dump_all(documents, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False)
    return found


def simulating(cpu_seconds: Callable[..., float]) -> dict[str, float]:
    """CPU seconds of the command for each format."""
    with TemporaryDirectory() as folder:
        return {form: cpu_seconds("simulate", *files) for form, files in write(Path(folder)).items()}
