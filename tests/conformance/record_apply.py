"""What does a real server make of writes by several managers? Random ones, written down with what came of them.

    python -m tests.conformance.record_apply

Two managers apply, two others update and patch, on a few kinds whose lists and maps are merged in every way there is.
Each step is kept with the object before it and the answer, so that `test_apply` can hold our code to it, step by step.
"""

import copy
import gzip
import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypedDict

from tests.plane.client import Client
from tests.plane.plane import Plane

Tree = dict[str, Any]
FILE = Path(__file__).resolve().parent / "applies.json.gz"
SEEDS = 4
STEPS = 40

GROUP = "applied.example.com"
ITEM: Tree = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "kind": {"type": "string", "default": "plain"},
        "size": {"type": "integer"},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    },
}
WIDGET: Tree = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer"},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "whole": {"type": "array", "items": {"type": "string"}},
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name", "kind"],
                    "items": ITEM,
                },
                "loose": {
                    "type": "object",
                    "additionalProperties": {"type": "object", "properties": {"n": {"type": "integer"}}},
                },
                "fixed": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "phase": {"type": "string"},
                "conditions": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                    "items": {
                        "type": "object",
                        "required": ["type"],
                        "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
                    },
                },
            },
        },
    },
}
DEFINITION: Tree = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "names": {"kind": "Widget", "plural": "widgets"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": WIDGET},
                "subresources": {"status": {}},
            }
        ],
    },
}
API = {"ConfigMap": "v1", "Service": "v1", "Pod": "v1", "Job": "batch/v1", "Widget": f"{GROUP}/v1"}
TYPES = {
    "apply": "application/apply-patch+yaml",
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


class Step(TypedDict):
    """A write, and what came of it."""

    how: str
    manager: str
    force: bool
    subresource: str
    body: Any
    before: Tree | None
    code: int
    after: Tree


class Author:
    """Whoever makes up writes to one object."""

    def __init__(self, kind: str, seed: int) -> None:
        self.kind = kind
        self.rng = random.Random(f"{kind} {seed}")
        self.name = f"{kind.lower()}-{seed}"

    def some(self, *things: Any) -> list[Any]:
        """A few of these, in any order."""
        return self.rng.sample(things, self.rng.randint(0, len(things)))

    def perhaps(self, make: Callable[[], Any], chance: float = 0.6) -> Any:
        return make() if self.rng.random() < chance else None

    def texts(self) -> Tree:
        return {name: self.rng.choice(["1", "2"]) for name in self.some("a", "b", "c")}

    def filled(self, parts: Tree) -> Tree:
        """The parts that are to be there."""
        return {name: value for name, value in parts.items() if value is not None}

    def metadata(self) -> Tree:
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
        return self.filled(
            {
                "labels": self.perhaps(self.texts),
                "annotations": self.perhaps(self.texts, 0.3),
                "finalizers": self.perhaps(lambda: [f"example.com/{one}" for one in self.some("a", "b", "c")], 0.4),
                "ownerReferences": self.perhaps(
                    lambda: [{**owner, "uid": one, "controller": one == "1"} for one in self.some("1", "2", "3")], 0.3
                ),
            }
        )

    def spec(self) -> Tree:
        match self.kind:
            case "ConfigMap":
                return self.filled(
                    {"data": self.perhaps(self.texts, 0.9), "immutable": self.perhaps(lambda: False, 0.1)}
                )
            case "Service":
                ports = self.some((80, "TCP"), (80, "UDP"), (443, "TCP"), (53, None))
                spec = {
                    "ports": [
                        self.filled({"port": port, "protocol": protocol, "name": f"p{port}{protocol or 'TCP'}".lower()})
                        for port, protocol in ports
                    ]
                    or None,
                    "selector": self.perhaps(self.texts, 0.4),
                    "sessionAffinity": self.perhaps(lambda: "None", 0.3),
                }
                return {"spec": self.filled(spec)}
            case "Job":
                spec = {
                    "parallelism": self.perhaps(lambda: self.rng.randint(1, 3)),
                    "suspend": self.perhaps(lambda: True, 0.5),
                    "backoffLimit": self.perhaps(lambda: self.rng.randint(1, 2), 0.5),
                    "activeDeadlineSeconds": self.perhaps(lambda: 100, 0.3),
                }
                return {"spec": self.filled(spec)}
            case "Widget":
                return {"spec": self.widget()}
        return {}

    def widget(self) -> Tree:
        def part(name: str) -> Tree:
            return self.filled(
                {
                    "name": name,
                    "kind": self.perhaps(lambda: self.rng.choice(["plain", "odd"]), 0.5),
                    "size": self.perhaps(lambda: self.rng.randint(1, 2)),
                    "tags": self.perhaps(lambda: self.some("x", "y"), 0.3),
                }
            )

        def loose() -> Tree:
            return {key: self.filled({"n": self.perhaps(lambda: 1)}) for key in self.some("x", "y")}

        def free() -> Any:
            return self.rng.choice([1, "x", True, [1, 2], {"y": 1}, {"y": {"z": 1}}, {}, []])

        return self.filled(
            {
                "size": self.perhaps(lambda: self.rng.randint(1, 3)),
                "tags": self.perhaps(lambda: self.some("x", "y", "z")),
                "whole": self.perhaps(lambda: self.some("x", "y"), 0.4),
                "parts": self.perhaps(lambda: [part(name) for name in self.some("x", "y", "z")]),
                "loose": self.perhaps(loose, 0.5),
                "fixed": self.perhaps(lambda: dict.fromkeys(self.some("a", "b"), "1"), 0.4),
                "free": self.perhaps(lambda: {key: free() for key in self.some("x", "y")}, 0.5),
            }
        )

    def status(self) -> Tree:
        match self.kind:
            case "Job":
                active = self.perhaps(lambda: self.rng.randint(0, 2))
                return {"status": self.filled({"active": active, "ready": active, "startTime": None})}
            case "Pod" | "Widget":
                conditions = [
                    {"type": one, "status": self.rng.choice(["True", "False"])} for one in self.some("A", "B", "C")
                ]
                phase = self.perhaps(lambda: self.rng.choice(["Pending", "Running"]))
                return {"status": self.filled({"phase": phase, "conditions": self.perhaps(lambda: conditions)})}
        return {}

    def whole(self) -> Tree:
        """An object that the server takes."""
        tree: Tree = {"apiVersion": API[self.kind], "kind": self.kind, **self.spec()}
        tree["metadata"] = {"name": self.name, "namespace": "default", **self.metadata()}
        pod = {
            "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}]}],
            "restartPolicy": "Never",
        }
        if self.kind == "Pod":
            tree["spec"] = pod
        elif self.kind == "Job":
            tree["spec"] = {**tree["spec"], "suspend": True, "template": {"spec": pod}}
        elif self.kind == "Service":
            tree["spec"].setdefault("ports", [{"port": 8080}])
        return tree

    def step(self, live: Tree) -> tuple[str, str, Any]:
        """How something is written, to what, and the body."""
        subresource = "status" if self.kind in ("Job", "Pod", "Widget") and self.rng.random() < 0.3 else ""
        parts = self.status() if subresource else self.spec()
        how = self.rng.choice(["apply", "apply", "apply", "put", "merge", "strategic", "json"])
        if how == "strategic" and self.kind == "Widget":
            how = "merge"
        metadata = {} if subresource else self.metadata()
        match how:
            case "apply":
                meta = {"name": self.name, "namespace": "default", **metadata}
                return how, subresource, {"apiVersion": API[self.kind], "kind": self.kind, "metadata": meta, **parts}
            case "put":
                return how, subresource, self.put(live, metadata, parts)
            case "json":
                return how, subresource, self.operations(live, subresource)
        return how, subresource, self.patch(live, {"metadata": metadata, **parts}, how)

    def put(self, live: Tree, metadata: Tree, parts: Tree) -> Tree:
        tree = copy.deepcopy(live)
        for name in self.some("labels", "annotations", "finalizers"):
            tree["metadata"].pop(name, None)
        tree["metadata"] |= metadata
        match self.rng.random():
            case chance if chance < 0.3:
                tree["metadata"].pop("managedFields", None)
            case chance if chance < 0.33:
                tree["metadata"]["managedFields"] = [{}]
            case chance if chance < 0.36 and tree["metadata"].get("managedFields"):
                tree["metadata"]["managedFields"].pop()
        for name, value in parts.items():
            kept = tree.get(name) or {}
            if self.kind == "Widget" or name == "data":
                tree[name] = value
            elif isinstance(value, dict):
                tree[name] = {**kept, **value}
        return tree

    def patch(self, live: Tree, parts: Tree, how: str) -> Tree:
        """A patch that sets these parts and removes some of what is there."""
        made = copy.deepcopy(parts)
        for at in ("metadata", "data", "spec"):
            held = made.get(at)
            if isinstance(held, dict):
                there = (live.get(at) or {}).keys() & {
                    "labels",
                    "annotations",
                    "a",
                    "b",
                    "c",
                    "tags",
                    "parts",
                    "free",
                    "size",
                }
                for name in self.some(*sorted(there))[:1]:
                    held[name] = None
        labels = live["metadata"].get("labels") or {}
        if labels and isinstance(made["metadata"].get("labels"), dict):
            made["metadata"]["labels"] |= dict.fromkeys(self.some(*sorted(labels))[:1])
        if how == "strategic" and (there := live["metadata"].get("finalizers")) and self.rng.random() < 0.4:
            made["metadata"].pop("finalizers", None)
            made["metadata"]["$deleteFromPrimitiveList/finalizers"] = there[:1]
        if how == "strategic" and isinstance(made.get("spec"), dict) and "ports" in made["spec"]:
            if self.rng.random() < 0.3:
                made["spec"]["ports"].insert(0, {"$patch": "replace"})
            elif there := (live.get("spec") or {}).get("ports"):
                gone = [one for one in there[1:] if one["port"] not in [port["port"] for port in made["spec"]["ports"]]]
                made["spec"]["ports"] += [{"port": one["port"], "$patch": "delete"} for one in gone]
        return made

    def operations(self, live: Tree, subresource: str) -> list[Tree]:
        """A JSON patch."""
        made: list[Tree] = []
        labels = live["metadata"].get("labels")
        if subresource:
            if self.kind == "Widget":
                made.append({"op": "add", "path": "/status", "value": self.status()["status"]})
            return made
        if not labels:
            made.append({"op": "add", "path": "/metadata/labels", "value": self.texts()})
        else:
            name = self.rng.choice([*labels, "new"])
            made.append({"op": self.rng.choice(["add", "replace"]), "path": f"/metadata/labels/{name}", "value": "3"})
        if self.kind == "ConfigMap" and live.get("data"):
            made.append({"op": "remove", "path": f"/data/{next(iter(live['data']))}"})
        if self.kind == "Widget" and (live.get("spec") or {}).get("tags"):
            made.append({"op": "add", "path": "/spec/tags/0", "value": self.rng.choice(["x", "w"])})
        if (live.get("spec") or {}).get("parts"):
            made.append({"op": "add", "path": "/spec/parts/0/size", "value": 3})
        return made


def path(kind: str, name: str = "", subresource: str = "") -> str:
    root = f"/apis/{API[kind]}" if "/" in API[kind] else f"/api/{API[kind]}"
    return "/".join(part for part in (root, "namespaces/default", f"{kind.lower()}s", name, subresource) if part)


def played(client: Client, kind: str, seed: int, steps: int = STEPS) -> Iterator[Step]:
    """What becomes of an object, write by write."""
    author = Author(kind, seed)
    body = author.whole()
    how = author.rng.choice(["create", "apply"])
    manager = {"create": "u", "apply": "a"}[how]
    live: Tree | None = None
    subresource = ""
    for _ in range(steps):
        force = how == "apply" and author.rng.random() < 0.5
        query = f"?fieldManager={manager}" + ("&force=true" if force else "")
        verb = {"create": "POST", "put": "PUT"}.get(how, "PATCH")
        where = path(kind, "" if how == "create" else author.name, subresource)
        code, data = client.raw(verb, where + query, body, TYPES.get(how, "application/json"))
        after = json.loads(data)
        yield Step(
            how=how,
            manager=manager,
            force=force,
            subresource=subresource,
            body=body,
            before=live,
            code=code,
            after=after,
        )
        if code < 300:
            live = after
        assert live is not None, after
        how, subresource, body = author.step(live)
        manager = author.rng.choice(["a", "b"] if how == "apply" else ["u", "v"])
        # Times are told in seconds; now and then one passes.
        if author.rng.random() < 0.02:
            time.sleep(1.0)


def prepare(client: Client) -> None:
    """Have the server know our own kind."""
    client.create(DEFINITION)
    client.wait_for(
        "CustomResourceDefinition",
        DEFINITION["metadata"]["name"],
        "",
        lambda one: any(
            c["type"] == "Established" and c["status"] == "True" for c in one["status"].get("conditions") or ()
        ),
    )
    assert client.soon(lambda: client.raw("GET", path("Widget"))[0] == 200)


def main() -> None:
    """Write down what a real server makes of it."""
    with Plane.start(pods=False) as plane:
        prepare(plane.client)
        kept = {f"{kind} {seed}": list(played(plane.client, kind, seed)) for kind in API for seed in range(SEEDS)}
    FILE.write_bytes(gzip.compress(json.dumps(kept, sort_keys=True, separators=(",", ":")).encode(), mtime=0))
    print(f"{sum(map(len, kept.values()))} steps in {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
