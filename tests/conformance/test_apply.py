"""Does our server-side apply do what kube-apiserver's does? Random writes by several managers, compared step by step.

`make test` compares with what `record_apply` wrote down: the functions alone, each step from the server's own object,
and the whole embedded API from the first write to the last. `make e2e` makes up new ones on a real server.
"""

import gzip
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from pykueue.apiserver.schema.apply import ApplyConflictError, ApplyError, applied, kept_times, tracked
from pykueue.apiserver.schema.jsonpatch import json_patch, merge_patch, strategic_patch
from pykueue.apiserver.schema.schemas import Schema, builtin, defaulted, of_crd, pruned
from pykueue.testing.embedded import Embedded
from tests.conformance.record_apply import (
    API,
    DEFINITION,
    FILE,
    SEEDS,
    TYPES,
    WIDGET,
    Step,
    Tree,
    path,
    played,
    prepare,
)
from tests.e2e.backend import on_plane
from tests.plane.client import Client
from tests.plane.plane import Plane

KINDS = pytest.mark.parametrize("kind", API)
COMPARED = {
    "ConfigMap": ("data", "immutable"),
    "Service": ("spec.ports", "spec.selector"),
    "Pod": (),
    "Job": ("spec.parallelism", "spec.suspend", "spec.backoffLimit", "spec.activeDeadlineSeconds"),
    "Widget": ("spec", "status"),
}
"""What is compared of each kind beside its metadata; the rest is for the server's own defaults."""
LATER = {
    "Job": ("spec.selector", "spec.template.metadata.labels"),
    "Pod": ("spec.preemptionPolicy", "spec.priority", "spec.tolerations"),
    "Service": ("spec.clusterIP", "spec.clusterIPs", "spec.ipFamilies", "spec.ipFamilyPolicy"),
}
"""What the server adds to a new object in nobody's name."""
STAMPED = ("ConfigMap", "Job", "Pod", "Secret")
"""Kinds whose objects say in an annotation of ours who created them."""
METADATA = ("metadata.labels", "metadata.annotations", "metadata.finalizers", "metadata.ownerReferences")


def schema_of(kind: str) -> Schema:
    schema = of_crd(WIDGET) if kind == "Widget" else builtin(API[kind], kind)
    assert schema is not None
    return schema


def seen(kind: str, tree: Mapping[str, Any]) -> dict[str, Any]:
    """What is compared of an object."""
    found: dict[str, Any] = {}
    for at in (*METADATA, *COMPARED[kind]):
        part: Any = tree
        for name in at.split("."):
            part = part.get(name) if isinstance(part, dict) else None
        found[at] = part
    if found.get("spec.ports"):
        found["spec.ports"] = [
            {**port, "targetPort": port.get("targetPort", port["port"])} for port in found["spec.ports"]
        ]
    return found


def less(tree: Tree, places: Iterable[str]) -> Tree:
    """A tree without these places."""
    made: Tree = json.loads(json.dumps(tree))
    for place in places:
        *above, last = place.split(".")
        part = made
        for name in above:
            part = part.get(name, {})
        part.pop(last, None)
    return made


def alike(kind: str, made: Tree, after: Tree) -> bool:
    """Whether two objects agree; what a Job leaves out, the server fills in."""
    ours, theirs = seen(kind, made), seen(kind, after)
    return all(ours[at] == theirs[at] or (kind == "Job" and ours[at] is None) for at in ours)


def entries(tree: Tree) -> list[Tree]:
    return [dict(entry) for entry in tree["metadata"].get("managedFields", ())]


def now_of(tree: Tree) -> str:
    """When the last write of an object was."""
    return max((entry.get("time", "") for entry in entries(tree)), default="2026-01-01T00:00:00Z")


def ours(kind: str, step: Step, schema: Schema) -> Tree | ApplyConflictError | ApplyError:
    """What we make of a write."""
    before, body, after = step["before"], step["body"], step["after"]
    about: Tree = {
        "manager": step["manager"],
        "api_version": API[kind],
        "schema": schema,
        "subresource": step["subresource"],
        "now": now_of(after) if step["code"] < 300 else "",
    }
    if step["how"] == "apply":
        try:
            made = applied(before, body, force=step["force"], **about)
        except (ApplyConflictError, ApplyError) as error:
            return error
    else:
        brought = entries_brought(step["how"], before, body)
        wanted = less(after, ("metadata.managedFields", *(LATER.get(kind, ()) if before is None else ())))
        if before is None and "labels" not in body["metadata"]:
            wanted["metadata"].pop("labels", None)
        if brought is not None:
            wanted["metadata"]["managedFields"] = brought
        made = tracked(before, wanted, **about)
    return kept_times(before, made) if before is not None else made


def sorted_causes(causes: Iterable[Any]) -> list[Any]:
    return sorted(causes, key=lambda one: (one["message"], one["field"]))


def judge(kind: str, step: Step) -> None:
    """Compare what a step came to with what we make of it."""
    schema = schema_of(kind)
    code, after = step["code"], step["after"]
    if step["how"] != "apply" and code >= 300:
        return
    made = ours(kind, step, schema)
    if isinstance(made, ApplyConflictError):
        assert (code, after["message"]) == (409, made.message)
        assert sorted_causes(made.causes) == sorted_causes(after["details"]["causes"])
    elif isinstance(made, ApplyError):
        assert (code, after["message"]) == (made.code, made.message)
    elif code >= 300:
        assert code == 422, f"we saw nothing wrong: {after['message']}"
    else:
        if not step["subresource"]:
            wanted = made if step["how"] == "apply" else written(step["how"], step["before"], step["body"], schema)
            assert alike(kind, defaulted(schema, pruned(schema, wanted)), after)
        assert entries(made) == entries(after)


def written(how: str, before: Tree | None, body: Any, schema: Schema) -> Tree:
    """The object that a write asks for."""
    if before is None or how == "put":
        return dict(body)
    match how:
        case "merge":
            return merge_patch(before, body)
        case "json":
            return json_patch(before, body)
        case "strategic":
            return strategic_patch(before, body, schema)
    raise AssertionError(how)


def entries_brought(how: str, before: Tree | None, body: Any) -> list[Tree] | None:
    """The managedFields that a write brings."""
    if how in ("put", "create"):
        found: list[Tree] | None = body["metadata"].get("managedFields")
        return found
    return before["metadata"].get("managedFields") if before else None


def judge_all(kind: str, steps: list[Step]) -> None:
    for number, step in enumerate(steps):
        try:
            judge(kind, json.loads(json.dumps(step)))
        except AssertionError as error:
            told = [f"{name}: {json.dumps(value)}" for name, value in step.items()]
            raise AssertionError("\n".join([f"step {number}", *told, str(error)])) from error


@cache
def recorded() -> dict[str, list[Step]]:
    with gzip.open(FILE, "rt") as text:
        kept: dict[str, list[Step]] = json.load(text)
    return kept


@KINDS
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.skipif(on_plane(), reason="what was written down is compared by `make test`")
def test_what_was_written_down(kind: str, seed: int) -> None:
    steps = recorded()[f"{kind} {seed}"]
    assert {step["how"] for step in steps} >= {"apply", "put", "merge", "json"}
    judge_all(kind, steps)


def asked_anew(system: Embedded, kind: str, steps: list[Step]) -> Iterator[tuple[Step, int, Tree]]:
    """What the embedded API answers to the same writes, of an object with an identity of its own."""
    name = f"{kind.lower()}-{steps[0]['after']['metadata']['name'].rpartition('-')[2]}"
    ours: Tree = {}
    theirs: Tree = {}
    for step in steps:
        body = step["body"]
        if theirs:
            body = json.loads(json.dumps(body).replace(theirs["metadata"]["uid"], ours["metadata"]["uid"]))
        if step["how"] == "put":
            body["metadata"] |= {at: ours["metadata"][at] for at in ("resourceVersion", "creationTimestamp")}
            if kind == "Pod":
                body["spec"] = ours["spec"]
        query = f"?fieldManager={step['manager']}" + ("&force=true" if step["force"] else "")
        verb = {"create": "POST", "put": "PUT"}.get(step["how"], "PATCH")
        where = path(kind, "" if step["how"] == "create" else name, step["subresource"]) + query
        code, data = system.request(verb, where, body, TYPES.get(step["how"], "application/json"))
        after = json.loads(data)
        yield step, code, after
        ours = after if code < 300 else ours
        theirs = step["after"] if step["code"] < 300 else theirs


def comparable(kind: str, tree: Tree) -> Tree:
    """An object without what differs by nature: identity, version, times, and what marks who created it."""
    shown: Tree = json.loads(json.dumps(tree).replace(tree["metadata"]["uid"], "(uid)"))
    metadata = shown["metadata"]
    for at in ("resourceVersion", "creationTimestamp"):
        metadata.pop(at)
    if kind in STAMPED:
        metadata.pop("annotations", None)
    if kind == "Pod":
        shown["spec"] = less(shown["spec"], ("serviceAccount", "serviceAccountName"))
    for entry in metadata.get("managedFields", ()):
        entry.pop("time", None)
        if kind in STAMPED:
            entry["fieldsV1"].get("f:metadata", {}).pop("f:annotations", None)
            if not entry["fieldsV1"].get("f:metadata", True):
                del entry["fieldsV1"]["f:metadata"]
    if kind in STAMPED:
        metadata["managedFields"] = [one for one in metadata.get("managedFields", ()) if one["fieldsV1"]]
    metadata.get("managedFields", []).sort(
        key=lambda one: (one["operation"], one["manager"], one.get("subresource", ""))
    )
    return shown


@pytest.mark.parametrize("kind", [kind for kind in API if kind != "Service"])
@pytest.mark.skipif(on_plane(), reason="the embedded API is compared by `make test`")
def test_the_embedded_api_makes_the_same_of_it(kind: str) -> None:
    with Embedded(acting=False) as system:
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert system.request("POST", definitions, DEFINITION, "application/json")[0] == 201
        system.settle()
        for seed in range(SEEDS):
            for number, (step, code, after) in enumerate(asked_anew(system, kind, recorded()[f"{kind} {seed}"])):
                about = f"seed {seed}, step {number}: {step['how']} {json.dumps(step['body'])}"
                assert code == step["code"], (about, after)
                if code < 300:
                    assert comparable(kind, after) == comparable(kind, step["after"]), about
                elif code == 409:
                    assert after["message"] == step["after"]["message"], about


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Plane.start(pods=False) as plane:
        prepare(plane.client)
        yield plane.client


@KINDS
@pytest.mark.xdist_group("conformance-apply")
@pytest.mark.skipif(not on_plane(), reason="a real API server is asked by `make e2e` alone")
def test_new_ones(client: Client, kind: str) -> None:
    for seed in range(int(os.environ.get("PYKUEUE_APPLY_SEEDS", "5"))):
        judge_all(kind, list(played(client, kind, 1000 + seed)))
