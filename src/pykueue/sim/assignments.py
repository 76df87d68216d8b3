"""Assignments such as `clusterqueue/main.cpu=64`, carried out on the trees of objects.

The values are not validated here: `manifests` validates the objects that result.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from difflib import get_close_matches
from typing import Final, TypeAlias

from msgspec.structs import replace

from pykueue.api.core import Json, Tree
from pykueue.api.previews import possible_names, split_target
from pykueue.api.trees import mappings, text
from pykueue.base.text import printable
from pykueue.base.units import parse_quantity
from pykueue.sim.manifests import NAMESPACED, Document, Mistake

NOMINAL: Final = "nominalQuota"
LIMITS: Final = ("borrowingLimit", "lendingLimit")
FLAVOR: Final = "flavor/"
NOTHING: Final = ("", "null", "none")
"""Values that remove a field."""
FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "ClusterQueue": (
        "cohortName",
        "queueingStrategy",
        "stopPolicy",
        "fairSharing.weight",
        "flavorFungibility.preference",
        "flavorFungibility.whenCanBorrow",
        "flavorFungibility.whenCanPreempt",
        "preemption.borrowWithinCohort.policy",
        "preemption.reclaimWithinCohort",
        "preemption.withinClusterQueue",
    ),
    "Cohort": ("parentName", "fairSharing.weight"),
    "LocalQueue": ("clusterQueue", "stopPolicy"),
}
"""The fields of `spec` that can be assigned, besides quotas, by kind."""
SHOWN_MAX: Final = 4
NEAR: Final = 0.4
"""How similar an unknown path is to the known one that was probably meant, of 1."""

Key: TypeAlias = tuple[str, str]
"""A kind, and a name or namespace/name."""
Steps: TypeAlias = tuple[str | int, ...]


class AssignmentError(ValueError):
    """An assignment that makes no sense, with what to write instead."""


def targeted(assignment: str, known: Mapping[Key, Tree]) -> tuple[Key, str, str]:
    """The object that an assignment is for, the path within it, and the value; raises `AssignmentError`."""
    left, equals, value = assignment.partition("=")
    if not equals:
        raise AssignmentError("there is no value; write it as in clusterqueue/main.cpu=64")
    target = split_target(left)
    if target is None or target[0] not in FIELDS:
        kinds = ", ".join(kind.lower() for kind in FIELDS)
        raise AssignmentError(f"begin with a kind and a name, as in clusterqueue/main.cpu=64; kinds are {kinds}")
    kind, rest = target
    names = [*possible_names(rest)]
    for name in names:
        for key in (name, f"default/{name}") if kind == "LocalQueue" else (name,):
            if (kind, key) in known:
                return (kind, key), rest[len(name) + 1 :], value
    if not names:
        raise AssignmentError(f"name a field after a dot, as in {kind.lower()}/{printable(rest)}.{example(kind)}")
    if kind == "LocalQueue":
        for name in names:
            if ("ClusterQueue", queue := name.rpartition("/")[2]) in known:
                rest = f"clusterqueue/{queue}{rest[len(name) :]}={value}"
                raise AssignmentError(f"there is no LocalQueue {printable(name)}; did you mean {printable(rest)}?")
    raise AssignmentError(unknown_name(kind, names[-1], [name for known_kind, name in known if known_kind == kind]))


def assign_all(found: Sequence[Document], assignments: Sequence[str], mistakes: list[Mistake]) -> list[Document]:
    """The documents with fields set; assignments that make no sense are added to the mistakes."""
    made = {key_of(one): one for one in found}
    for assignment in assignments if len(made) == len(found) else ():
        try:
            key, path, value = targeted(assignment, {key: one.tree for key, one in made.items()})
            made[key] = replace(made[key], tree=assigned(key[0], made[key].tree, path, value))
        except AssignmentError as error:
            mistakes.append(Mistake(f"--set {assignment}", str(error)))
    # Documents of the same name are reported by those who read them.
    return [*made.values()] if len(made) == len(found) else [*found]


def key_of(one: Document) -> Key:
    """The kind and name of an object; what has no name is told apart by its position."""
    kind, name = text(one.tree, "kind"), text(one.tree, "metadata", "name") or one.where
    namespace = text(one.tree, "metadata", "namespace") or "default"
    return kind, f"{namespace}/{name}" if kind in NAMESPACED else name


def example(kind: str) -> str:
    """An assignment to a field of this kind."""
    return "stopPolicy=Hold" if kind == "LocalQueue" else "cpu=64"


def unknown_name(kind: str, name: str, known: Sequence[str]) -> str:
    """The message for an object that does not exist."""
    near = get_close_matches(name, known, n=1)
    return f"there is no {kind} {printable(name)}" + (f"; did you mean {near[0]}?" if near else "")


def assigned(kind: str, tree: Tree, path: str, value: str) -> Tree:
    """The object with a field set; raises `AssignmentError` if it has no such field."""
    paths = dict(quota_paths(tree)) if kind != "LocalQueue" else {}
    paths |= {field: ("spec", *field.split(".")) for field in FIELDS[kind]}
    steps = paths.get(path)
    if steps is None and kind == "LocalQueue" and not get_close_matches(path, paths, n=1):
        quota = f"clusterqueue/{text(tree, 'spec', 'clusterQueue') or 'NAME'}.{path}"
        raise AssignmentError(
            f"a LocalQueue has no {printable(path)}; quotas are of its ClusterQueue: {printable(quota)}"
        )
    if steps is None:
        raise AssignmentError(unknown_path(path, [*paths], tree))
    made = deepcopy(tree)
    node: Json = made
    *outer, last = steps
    for step in outer:
        if isinstance(node, dict) and isinstance(step, str):
            node = node.setdefault(step, {})
        elif isinstance(node, list) and isinstance(step, int):
            node = node[step]
    assert isinstance(node, dict), "paths lead to objects"
    assert isinstance(last, str), "fields have names"
    if value.strip().lower() in NOTHING and last != NOMINAL:
        node.pop(last, None)
    else:
        if last in (NOMINAL, *LIMITS):
            check_quantity(last, value)
        node[last] = value
    metadata = made.get("metadata")
    if isinstance(metadata, dict) and isinstance(generation := metadata.get("generation"), int):
        # An API server counts edits, and each one lets pending workloads be tried again.
        metadata["generation"] = generation + 1
    return made


def check_quantity(field: str, value: str) -> None:
    """Raise `AssignmentError` if the value of a quota is no quantity."""
    try:
        parse_quantity(value)
    except ValueError as error:
        raise AssignmentError(f"{field}: {error}") from None


def quota_paths(tree: Tree) -> Iterator[tuple[str, Steps]]:
    """Every path of a quota in an object, in its short forms too, and the steps to it."""
    found: dict[str, list[tuple[str, Steps]]] = {}
    for group, groups in mappings(tree, "spec", "resourceGroups"):
        for index, flavor in mappings(groups, "flavors"):
            for at, quota in mappings(flavor, "resources"):
                steps = ("spec", "resourceGroups", group, "flavors", index, "resources", at)
                found.setdefault(text(quota, "name"), []).append((text(flavor, "name"), steps))
    for resource, places in found.items():
        for name, at_quota in places:
            short = [resource] if len(places) == 1 else []
            for path in (*short, f"{FLAVOR}{name}.{resource}"):
                yield path, (*at_quota, NOMINAL)
                for field in (NOMINAL, *LIMITS):
                    yield f"{path}.{field}", (*at_quota, field)


def unknown_path(path: str, paths: Sequence[str], tree: Tree) -> str:
    """The message for a path that an object does not have."""
    several = [one for one in paths if one.startswith(FLAVOR) and one.endswith(f".{path}")]
    if several:
        return f"{printable(path)} is in several flavors; write {' or '.join(several[:SHOWN_MAX])}"
    near = get_close_matches(path, paths, n=1, cutoff=NEAR)
    if near:
        return f"there is no {printable(path)} in it; did you mean {near[0]}?"
    brief = [one for one in paths if not one.endswith((NOMINAL, *LIMITS))]
    return f"there is no {printable(path)} in it; it has {', '.join(brief[:SHOWN_MAX]) or 'no quota'}"
