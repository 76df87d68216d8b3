"""Writes to the subresources `scale`, `binding` and `eviction`."""

from functools import partial
from typing import Final, cast

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.api.fields import invalid as wrong
from pykueue.api.fields import required
from pykueue.api.trees import mappings, member, text, whole
from pykueue.apiserver.kinds.metadata import meta, with_meta
from pykueue.apiserver.kinds.poddefaults import as_list, as_tree
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.schema.jsonpatch import json_patch, merge_patch
from pykueue.apiserver.verbs.bodies import json_in, yaml_in
from pykueue.apiserver.verbs.deleting import Deleting
from pykueue.apiserver.verbs.offload import is_large_body
from pykueue.apiserver.verbs.patching import raised
from pykueue.apiserver.verbs.reading import Reading, key_of
from pykueue.apiserver.verbs.writesteps import Make
from pykueue.apiserver.verbs.writing import Writing
from pykueue.apiserver.wire.options import delete_terms
from pykueue.apiserver.wire.statuserrors import StatusError, bad_request, conflict, internal, invalid, not_found
from pykueue.apiserver.wire.writeterms import Terms
from pykueue.base.units import format_instant
from pykueue.kube.port import Patch, Resource

BINDING: Final = Resource("", "v1", "bindings", "Binding", True)
SUCCESS: Final[Tree] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class Subresources:
    """Reads and writes of subresources that are objects of their own."""

    def __init__(self, reading: Reading, writing: Writing, deleting: Deleting) -> None:
        self.reading = reading
        self.writing = writing
        self.deleting = deleting

    async def create(
        self, served: Served, name: str, tree: Tree, namespace: str, terms: Terms, subresource: str
    ) -> bytes:
        """Create a binding or an eviction."""
        if subresource == "binding":
            await self.bind(served, name, text(tree, "target", "name"), namespace, terms, tree)
        elif subresource == "eviction":
            await self.evict(served, name, tree, namespace, terms)
        else:
            raise internal(f"{subresource} cannot be created")
        return msgspec.json.encode(SUCCESS)

    async def bind(
        self, served: Served, name: str, node: str, namespace: str, terms: Terms, tree: Tree | None = None
    ) -> bytes:
        """Bind a pod to a node."""
        about: Tree = tree or {}
        kind = text(about, "target", "kind")
        if kind not in ("", "Node"):
            raise invalid(BINDING, name, [wrong("target.kind", kind, 'must be empty or "Node"')])
        if not node:
            raise StatusError(500, "", str(required("target.name")))
        uid, version = text(about, "metadata", "uid"), text(about, "metadata", "resourceVersion")

        def make(live: Tree) -> Tree:
            if (uid and uid != meta(live).get("uid")) or (version and version != meta(live).get("resourceVersion")):
                raise conflict(served.resource, name)
            if meta(live).get("deletionTimestamp"):
                raise bound(name, f"pod {name} is being deleted, cannot be assigned to a host")
            spec = as_tree(live.get("spec"))
            if spec.get("nodeName"):
                raise bound(name, f"pod {name} is already assigned to node {json_text(spec['nodeName'])}")
            if spec.get("schedulingGates"):
                raise bound(name, f"pod {name} has non-empty .spec.schedulingGates")
            now = format_instant(self.writing.clock.now())
            status = as_tree(live.get("status"))
            scheduled: Tree = {
                "type": "PodScheduled",
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": now,
            }
            kept = [dict(one) for _, one in mappings(status, "conditions") if one.get("type") != "PodScheduled"]
            conditions: list[Json] = [*cast("list[Json]", kept), scheduled]
            labels = {**as_tree(meta(live).get("labels"))}
            labels |= {key: value for key, value in as_tree(meta(about).get("labels")).items() if key not in labels}
            annotations = as_tree(meta(live).get("annotations")) | as_tree(meta(about).get("annotations"))
            made = with_meta(live, labels=labels or None, annotations=annotations or None)
            return {
                **made,
                "spec": {**spec, "nodeName": node},
                "status": {**status, "conditions": conditions},
            }

        held = await self.writing.change(served, key_of(served, namespace, name), terms, "binding", make)
        return held.body

    async def evict(self, served: Served, name: str, tree: Tree, namespace: str, terms: Terms) -> None:
        """Delete a pod by eviction."""
        named = text(tree, "metadata", "name")
        if named and named != name:
            raise bad_request(f"name in URL does not match name in Eviction object: {named}")
        options, _ = delete_terms({}, as_tree(tree.get("deleteOptions")), terms.who)
        if not terms.dry_run:
            key = key_of(served, namespace, name)
            await self.writing.change(served, key, terms, "status", partial(disrupted, now=self.writing.now()))
        await self.deleting.delete(served, name, namespace, options, terms)

    def scale(self, served: Served, name: str, namespace: str) -> bytes:
        """The Scale of an object of a custom kind."""
        return msgspec.json.encode(
            self.scale_of(served, msgspec.json.decode(self.reading.get(served, name, namespace)))
        )

    def scale_of(self, served: Served, tree: Tree) -> Tree:
        """Build the Scale of an object."""
        paths = served.scale
        if paths is None:
            raise not_found(served.resource, str(meta(tree).get("name")))
        about = {
            key: value
            for key, value in meta(tree).items()
            if key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        }
        status: Tree = {"replicas": counted(tree, paths.status)}
        selector = at(tree, paths.selector) if paths.selector else None
        if isinstance(selector, str):
            status["selector"] = selector
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": about,
            "spec": {"replicas": counted(tree, paths.spec)},
            "status": status,
        }

    async def set_scale(self, served: Served, name: str, tree: Tree, namespace: str, terms: Terms) -> bytes:
        """Set the replicas of an object; returns its Scale."""
        paths = served.scale
        if paths is None:
            raise not_found(served.resource, name)
        wanted, version = whole(tree, "spec", "replicas") or 0, text(tree, "metadata", "resourceVersion")

        def make(live: Tree) -> Tree:
            if version and version != meta(live).get("resourceVersion"):
                raise conflict(served.resource, name)
            return put_at(live, paths.spec.removeprefix(".").split("."), wanted)

        key = key_of(served, namespace, name)
        held = await self.writing.change(served, key, terms, "", self.managed(served, make, terms))
        return msgspec.json.encode(self.scale_of(served, msgspec.json.decode(held.body)))

    async def patch_scale(
        self, served: Served, name: str, body: bytes, namespace: str, terms: Terms, how: str
    ) -> bytes:
        """Patch the Scale of an object."""
        scale = self.scale_of(served, msgspec.json.decode(self.reading.get(served, name, namespace)))
        decode = partial(yaml_in if how == Patch.APPLY else json_in, body)
        value = await self.writing.offload.run(decode, large=is_large_body(body), who=terms.who)
        with raised():
            made = json_patch(scale, value) if how == Patch.JSON else merge_patch(scale, value)
        patches_version = isinstance(value, dict) and "resourceVersion" in meta(value)
        if not patches_version:
            made = with_meta(made, resourceVersion=None)
        return await self.set_scale(served, name, made, namespace, terms)

    def managed(self, served: Served, make: Make, terms: Terms) -> Make:
        """Record the manager of a change of replicas."""

        def noted(live: Tree) -> Tree:
            schema, new = served.schema, make(live)
            if schema is None:
                return new
            return without_times(self.writing.noted(served, schema, live, new, terms, "scale"))

        return noted


def without_times(tree: Tree) -> Tree:
    """An object whose `scale` entries come first in its managed fields, and have no time, as in kube-apiserver."""
    entries = [as_tree(one) for one in as_list(meta(tree).get("managedFields"))]
    first: list[Json] = [
        {name: value for name, value in one.items() if name != "time"}
        for one in entries
        if one.get("subresource") == "scale"
    ]
    rest: list[Json] = [one for one in entries if one.get("subresource") != "scale"]
    return with_meta(tree, managedFields=[*first, *rest] or None)


def bound(name: str, why: str) -> Exception:
    """The error for a pod that cannot be bound."""
    return conflict(Resource("", "v1", "pods/binding", "Binding", True), name, why)


def disrupted(pod: Tree, now: str) -> Tree:
    """A pod with the DisruptionTarget condition of an eviction."""
    status = as_tree(pod.get("status"))
    told: Tree = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    kept = [one for one in as_list(status.get("conditions")) if as_tree(one).get("type") != "DisruptionTarget"]
    return {**pod, "status": {**status, "conditions": [*kept, told]}}


def json_text(value: Json) -> str:
    """A value as Go quotes it."""
    return msgspec.json.encode(value).decode()


def at(tree: Tree, path: str) -> object:
    """The value at a path such as `.spec.replicas`."""
    return member(tree, *path.removeprefix(".").split("."))


def counted(tree: Tree, path: str) -> int:
    """The number at a path; 0 if absent."""
    found = at(tree, path)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def put_at(tree: Tree, steps: list[str], value: Json) -> Tree:
    """The tree with a value at a path."""
    first, *rest = steps
    return {**tree, first: put_at(as_tree(tree.get(first)), rest, value) if rest else value}
