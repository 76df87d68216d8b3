"""Changes of queues that the page makes: their diff, and how they are applied with the rights of the user."""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import unified_diff
from typing import Final

import msgspec

from pykueue.api.core import Tree
from pykueue.api.previews import IN_NAMESPACES, possible_names, split_target
from pykueue.api.trees import mapping, text
from pykueue.base.struct import Frozen, Wire
from pykueue.cli.formats import yaml_text
from pykueue.kube.port import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, ConflictError, Kube, NotFoundError, Resource
from pykueue.sim.assignments import AssignmentError, Key, assigned, targeted
from pykueue.web.pages import WebError

KINDS: Final[Mapping[str, Resource]] = {
    "ClusterQueue": CLUSTER_QUEUES,
    "Cohort": COHORTS,
    "LocalQueue": LOCAL_QUEUES,
}
"""The kinds that can be changed."""
SETS_MAX: Final = 50
TRIES: Final = 5
NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
"""Names of objects; whatever else is asked for is refused before it reaches a path."""


class Edited(Frozen):
    """An object before and after a change."""

    kind: str
    before: Tree
    after: Tree

    @property
    def name(self) -> str:
        """How it is named in assignments."""
        within, name = text(self.before, "metadata", "namespace"), text(self.before, "metadata", "name")
        return f"{self.kind.lower()}/{within}/{name}" if within else f"{self.kind.lower()}/{name}"

    @property
    def version(self) -> str:
        """A value that changes with what users can change, and not with the status, which is written all the time."""
        metadata = mapping(self.before, "metadata")
        generation = metadata.get("generation", metadata.get("resourceVersion", ""))
        return f"{metadata.get('uid', '')}/{generation}"


class ObjectDiff(Wire, omit_defaults=False):
    """A change of an object, for people."""

    kind: str
    name: str
    namespace: str
    before: str
    after: str
    lines: tuple[str, ...]


class Diff(Wire, omit_defaults=False):
    """Changes of objects, and the versions that they are of."""

    objects: tuple[ObjectDiff, ...]
    seen: Mapping[str, str]


async def edited(kube: Kube, assignments: Sequence[str]) -> list[Edited]:
    """The objects that assignments change; raises `WebError` if one makes no sense, and `KubeError`."""
    if not 0 < len(assignments) <= SETS_MAX:
        raise WebError(400, f"name 1 to {SETS_MAX} changes, as in clusterqueue/main.cpu=64")
    found = await named(kube, assignments)
    made = dict(found)
    changed: dict[Key, None] = {}
    for one in assignments:
        try:
            key, path, value = targeted(one, made)
            made[key] = assigned(key[0], made[key], path, value)
        except AssignmentError as error:
            raise WebError(422, f"{one}: {error}") from None
        changed[key] = None
    return [Edited(key[0], found[key], made[key]) for key in changed]


async def named(kube: Kube, assignments: Iterable[str]) -> dict[Key, Tree]:
    """The objects that assignments may be for. Names may contain dots, so that each has several possible ones."""
    wanted: dict[Key, None] = {}
    for one in assignments:
        target = split_target(one.partition("=")[0])
        if target is not None and target[0] in KINDS:
            wanted |= {(target[0], name): None for name in possible_names(target[1])}
    trees = await asyncio.gather(*(read(kube, *key) for key in wanted))
    return {key: tree for key, tree in zip(wanted, trees, strict=True) if tree is not None}


async def read(kube: Kube, kind: str, name: str) -> Tree | None:
    """An object; None if it does not exist."""
    *within, bare = name.split("/")
    if len(within) != (kind in IN_NAMESPACES) or not all(map(NAME.fullmatch, (*within, bare))):
        return None
    try:
        tree: Tree = msgspec.json.decode(await kube.get(KINDS[kind], bare, "".join(within)))
    except NotFoundError:
        return None
    return tree


def diff_of(changes: Sequence[Edited]) -> Diff:
    """The changes for people."""
    return Diff(tuple(map(object_diff, changes)), {one.name: one.version for one in changes})


def object_diff(one: Edited) -> ObjectDiff:
    """The change of an object for people: its spec before and after, and the lines that differ."""
    before, after = (yaml_text({"spec": tree.get("spec", {})}) for tree in (one.before, one.after))
    lines = [*unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=3)][2:]
    metadata = one.before
    return ObjectDiff(
        one.kind,
        text(metadata, "metadata", "name"),
        text(metadata, "metadata", "namespace"),
        before,
        after,
        tuple(lines),
    )


async def apply(kube: Kube, assignments: Sequence[str], seen: Mapping[str, str]) -> str:
    """Make the changes that were shown; raises `WebError` if an object has changed since, and `KubeError`."""
    changes = await edited(kube, assignments)
    check(changes, seen)
    for one in changes:
        await written(kube, one, assignments, seen)
    return f"changed {', '.join(one.name for one in changes)}"


async def written(kube: Kube, change: Edited, assignments: Sequence[str], seen: Mapping[str, str]) -> None:
    """Store a changed object; once more if only its status was written in the meantime."""
    for _ in range(TRIES - 1):
        try:
            return await write(kube, change)
        except ConflictError:
            again = [one for one in await edited(kube, assignments) if one.name == change.name]
            check(again, seen)
            change = again[0]
    await write(kube, change)


def check(changes: Iterable[Edited], seen: Mapping[str, str]) -> None:
    """Raise `WebError` if an object is not as it was when its diff was shown."""
    for one in changes:
        if seen.get(one.name) != one.version:
            raise WebError(409, f"{one.name} has changed since its diff was shown; look at the change again")


async def write(kube: Kube, one: Edited) -> None:
    """Store an object; the version that was read is in it, so that the server refuses it if it has changed since."""
    name, within = text(one.before, "metadata", "name"), text(one.before, "metadata", "namespace")
    await kube.replace(KINDS[one.kind], name, msgspec.json.encode(one.after), within)
