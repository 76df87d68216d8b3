"""Measure what a schema costs a real kube-apiserver per write of a Workload, for several schemas.

    python -m bench.crds                 the table of docs/adr/0009-what-the-crds-leave-out.md, in a few minutes
    python -m bench.crds ours upstream   these schemas only

All schemas are on one server, each in an API group of its own, and take turns workload by workload, so that a busy
machine is as unkind to one as to the other. Of each write there are two figures in milliseconds: the server's
processor time, of which the median, and the time until the answer, of which the quickest twentieth, where nothing was
in the way. It needs the control plane built with Kueue (`controlplane/build kueue`), with whose definition ours is
compared.
"""

import sys
import time
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import yaml

from pykueue.api.install.crds import CONDITIONS, ONE_WRITER, at, crd, rendered
from pykueue.api.kinds import KINDS
from pykueue.api.rules.table import rules_of
from pykueue.api.schema import node_of
from tests.plane.client import path_of, resource_of
from tests.plane.plane import Plane, executables

Tree = dict[str, Any]
ROUNDS = 200
"""Workloads per schema."""
CALM_SECONDS = 4.0
KEPT = "x-kubernetes-preserve-unknown-fields"


def ours() -> Tree:
    """Our definition, without a webhook."""
    made: Tree = deepcopy(crd(KINDS["Workload"]))
    made["spec"]["conversion"] = {"strategy": "None"}
    return made


def schemas(made: Tree) -> list[Tree]:
    """The schema of each version."""
    return [version["schema"]["openAPIV3Schema"] for version in made["spec"]["versions"]]


def upstream() -> Tree:
    """Kueue's definition."""
    file = executables("kueue") / "kueue/config/components/crd/bases/kueue.x-k8s.io_workloads.yaml"
    made: Tree = yaml.load(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    made["spec"].pop("conversion", None)
    return made


def every_list_keyed() -> Tree:
    """Ours, with keys on the lists that have one writer."""
    made, keyed = ours(), rendered(node_of(KINDS["Workload"].view))
    for schema in schemas(made):
        for path in ONE_WRITER["Workload"]:
            for found, known in zip(at(schema, path), at(keyed, path), strict=True):
                found |= {name: limit for name, limit in known.items() if name.startswith("x-kubernetes-list")}
    return made


def walked(node: Any, change: Callable[[Tree], None]) -> Any:
    """The tree, with a change applied to every object in it."""
    if isinstance(node, dict):
        change(node)
        for inner in node.values():
            walked(inner, change)
    elif isinstance(node, list):
        for inner in node:
            walked(inner, change)
    return node


def no_list_keyed() -> Tree:
    """Ours, with conditions and checks atomic too, which would break other writers."""

    def change(node: Tree) -> None:
        if node.get("x-kubernetes-list-type") == "map":
            del node["x-kubernetes-list-map-keys"]
            node["x-kubernetes-list-type"] = "atomic"

    tree = ours()
    walked(tree, change)
    return tree


def conditions_by_field() -> Tree:
    """Ours, with an owner for each field of a condition."""
    made = ours()
    for schema in schemas(made):
        for condition in at(schema, CONDITIONS):
            del condition["x-kubernetes-map-type"]
    return made


def rules_in_schema() -> Tree:
    """Ours, with the webhook's rules in the schema."""
    made = ours()
    for schema, version in zip(schemas(made), KINDS["Workload"].versions, strict=True):
        walked(schema, lambda node: node.pop("x-kubernetes-validations", None))
        for rule in rules_of("Workload", version=version, surface="CEL"):
            for found in at(schema, rule.cel_at):
                said: Any = found.setdefault("x-kubernetes-validations", [])
                said.append({"rule": rule.cel, "message": rule.message})
    return made


def no_schema() -> Tree:
    """Ours, without a schema: the cost of the rest of the server."""
    made = ours()
    for version in made["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"] = {"type": "object", KEPT: True}
        version.pop("selectableFields", None)
    return made


VARIANTS: dict[str, Callable[[], Tree]] = {
    "upstream": upstream,
    "ours": ours,
    "ours, every list keyed": every_list_keyed,
    "ours, no list keyed": no_list_keyed,
    "ours, conditions by field": conditions_by_field,
    "ours, rules in the schema": rules_in_schema,
    "no schema": no_schema,
}


def template(*, large: bool) -> Tree:
    """A pod template of one container, or one of 4 KB."""
    container: Tree = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1", "memory": "200Mi"}}}
    if large:
        container["env"] = [{"name": f"VARIABLE_{number}", "value": "x" * 40} for number in range(40)]
        container["volumeMounts"] = [{"name": f"data-{number}", "mountPath": f"/data/{number}"} for number in range(10)]
        container["ports"] = [{"containerPort": 8000 + number, "protocol": "TCP"} for number in range(5)]
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}


def workload(group: str, name: str, *, large: bool) -> Tree:
    """A workload as a manager creates it."""
    return {
        "apiVersion": f"{group}/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"kueue.x-k8s.io/job-uid": "6ad1f8b2-1f6f-4f83-9d28-2b1c7a0c0000"},
            "finalizers": ["kueue.x-k8s.io/resource-in-use"],
        },
        "spec": {
            "queueName": "queue",
            "priority": 50,
            "podSets": [{"name": "main", "count": 3, "template": template(large=large)}],
        },
    }


def condition(kind: str) -> Tree:
    """A condition that is true."""
    told = {"reason": kind, "message": f"{kind} in ClusterQueue queue", "lastTransitionTime": "2026-01-31T12:00:00Z"}
    return {"type": kind, "status": "True", "observedGeneration": 1, **told}


def status(tree: Tree, *conditions: str) -> Tree:
    """The status that is applied to an admitted workload."""
    assignment = {
        "name": "main",
        "count": 3,
        "flavors": {"cpu": "default", "memory": "default"},
        "resourceUsage": {"cpu": "3", "memory": "600Mi"},
    }
    given = {"clusterQueue": "queue", "podSetAssignments": [assignment]}
    head = {key: tree[key] for key in ("apiVersion", "kind")} | {
        "metadata": {key: tree["metadata"][key] for key in ("name", "namespace")}
    }
    return head | {"status": {"conditions": [condition(kind) for kind in conditions], "admission": given}}


def apply(plane: Plane, tree: Tree, *conditions: str) -> None:
    """Write a workload's status as a manager does."""
    plane.client.apply(status(tree, *conditions), "kueue-admission", subresource="status")


WRITES: tuple[Callable[[Plane, Tree], object], ...] = (
    lambda plane, tree: plane.client.create(tree),
    lambda plane, tree: apply(plane, tree, "QuotaReserved", "Admitted"),
    lambda plane, tree: apply(plane, tree, "QuotaReserved", "Admitted", "Finished"),
)
"""The writes of a workload: create, admit, finish."""


def processor(plane: Plane) -> float:
    """CPU seconds of the server so far, at a finer resolution than clock ticks."""
    threads = Path(f"/proc/{plane.programs['kube-apiserver'].pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def cost(plane: Plane, write: Callable[[Plane, Tree], object], tree: Tree) -> tuple[float, float]:
    """Milliseconds of the server's CPU for a write, and until its response."""
    used, start = processor(plane), time.perf_counter()
    write(plane, tree)
    took = time.perf_counter() - start
    return 1000 * (processor(plane) - used), 1000 * took


def figures(costs: list[tuple[float, float]]) -> str:
    """The two figures of a kind of write."""
    used, took = zip(*costs, strict=True)
    return f"{median(used):.2f} / {quantiles(took, n=20)[0]:.2f}"


def calm(plane: Plane) -> None:
    """Wait until the server has finished processing new definitions."""
    for _ in range(10):
        used = processor(plane)
        time.sleep(CALM_SECONDS)
        if processor(plane) - used < 0.1 * CALM_SECONDS:
            return


def in_group(definition: Tree, group: str) -> Tree:
    """A definition in an API group of its own."""
    definition["metadata"] = {"name": f"workloads.{group}"}
    definition["spec"]["group"] = group
    return definition


def main(chosen: list[str]) -> None:
    """Print the table, with the bytes of an object at its end."""
    groups = {name: f"v{number}.example.com" for number, name in enumerate(VARIANTS) if not chosen or name in chosen}
    print("| schema | pod template | create | admit | finish | bytes |\n| --- | --- | ---: | ---: | ---: | ---: |")
    with Plane.start(pods=False) as plane:
        for name, group in groups.items():
            plane.apply_all([in_group(VARIANTS[name](), group)])
            plane.retried(partial(plane.client.create, workload(group, "first", large=False)))
        for large in (False, True):
            calm(plane)
            costs: dict[str, list[list[tuple[float, float]]]] = {name: [[] for _ in WRITES] for name in groups}
            sizes = {}
            for number in range(ROUNDS):
                for name, group in groups.items():
                    tree = workload(group, f"w-{large}-{number}".lower(), large=large)
                    for index, write in enumerate(WRITES):
                        costs[name][index].append(cost(plane, write, tree))
                    path = path_of(resource_of(tree), "default", tree["metadata"]["name"])
                    sizes[name] = len(plane.client.raw("GET", path)[1])
            for name, size in sizes.items():
                shown = " | ".join(map(figures, costs[name]))
                print(f"| {name} | {'4 KB' if large else 'one container'} | {shown} | {size} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
