"""The catalog of served kinds: built-in kinds, Kueue's kinds, and those of CustomResourceDefinitions."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, cast

from pykueue.api.core import Json, Tree
from pykueue.api.install.crds import crd
from pykueue.api.kinds import KINDS
from pykueue.api.names import GROUP
from pykueue.api.trees import items, mapping, member, text
from pykueue.apiserver.kinds.builtins import BUILTINS
from pykueue.apiserver.kinds.served import Printed, ScalePaths, Served, Sub
from pykueue.apiserver.kinds.strategies import custom_strategy
from pykueue.kube.port import Resource

GROUPS: Final = (GROUP, KINDS["ProvisioningRequest"].group)
"""Whose kinds are served without a definition: our own, and what they work with."""
SCALE: Final = Sub("Scale", group="autoscaling", version="v1")


class Catalog:
    """Every kind in every version in which it is served."""

    def __init__(self) -> None:
        self.served: dict[tuple[str, str, str], Served] = {}
        """By group, version and plural name."""
        self.by_storage: dict[str, list[Served]] = {}
        """What was asked for by storage name."""
        self.stamp = 0
        """Grows with every change."""
        self.ours: frozenset[str] = frozenset()
        """Storage names of the kinds that no definition can change."""
        for one in (*BUILTINS, *kueue_kinds()):
            self.add(one)
        self.ours = frozenset(one.storage for one in self.served.values())

    def add(self, served: Served) -> None:
        """Serve a kind in a version."""
        resource = served.resource
        self.served[resource.group, resource.version, resource.plural] = served
        self.by_storage.clear()
        self.stamp += 1

    def find(self, group: str, version: str, plural: str) -> Served | None:
        """How a kind is served in a version, if it is."""
        return self.served.get((group, version, plural))

    def of(self, resource: Resource) -> Served | None:
        """How what a controller means by this resource is served, if it is."""
        return self.served.get((resource.group, resource.version, resource.plural))

    def version(self, storage: str, api_version: str) -> Served | None:
        """How the kind that is stored under a name is served in another version."""
        return next((one for one in self.of_storage(storage) if one.resource.api_version == api_version), None)

    def of_storage(self, storage: str) -> list[Served]:
        """A kind in every version in which it is served."""
        known = self.by_storage.get(storage)
        if known is None:
            known = self.by_storage[storage] = [one for one in self.served.values() if one.storage == storage]
        return known

    def several(self, storage: str) -> bool:
        """Whether a kind is served in several versions."""
        return len(self.of_storage(storage)) > 1

    def all(self) -> Iterable[Served]:
        """Every kind in every version, by group, version and name; versions of a group in the order of preference."""
        return [self.served[key] for key in sorted(self.served)]

    def stored(self) -> list[Served]:
        """Every kind of which objects are kept and can go, once, in the version in which they are kept."""
        return [one for one in self.all() if one.is_stored and "delete" in one.verbs]

    def install(self, definition: Tree) -> None:
        """Serve what a definition defines, as it is now; what it no longer serves is forgotten."""
        name = text(definition, "metadata", "name")
        if name in self.ours:
            return
        self.forget(name)
        for one in served_by(definition):
            self.add(one)

    def forget(self, storage: str) -> None:
        """No longer serve the kind that is stored under this name."""
        for key in [key for key, one in self.served.items() if one.storage == storage and storage not in self.ours]:
            del self.served[key]
            self.by_storage.clear()
            self.stamp += 1


@cache
def kueue_kinds() -> tuple[Served, ...]:
    """Kueue's kinds in every version, made once."""
    return tuple(one for kind in KINDS.values() if kind.group in GROUPS for one in served_by(crd(kind)))


def served_by(definition: Mapping[str, Json]) -> list[Served]:
    """The kind that a CustomResourceDefinition defines, in each version that it serves."""
    spec = mapping(definition, "spec")
    names = mapping(spec, "names")
    group, plural, kind = text(spec, "group"), text(names, "plural"), text(names, "kind")
    versions = [one for one in items(spec, "versions") if isinstance(one, Mapping)]
    stored = next((text(one, "name") for one in versions if member(one, "storage") is True), "")
    generation = member(definition, "metadata", "generation")
    namespaced = text(spec, "scope") == "Namespaced"
    return [
        Served(
            resource=(resource := Resource(group, text(one, "name"), plural, kind, namespaced)),
            storage=f"{plural}.{group}",
            stored_version=f"{group}/{stored}",
            singular=text(names, "singular") or kind.lower(),
            strategy=custom_strategy(resource),
            short_names=tuple(str(name) for name in items(names, "shortNames")),
            categories=tuple(str(name) for name in items(names, "categories")),
            subresources=subresources_of(one, kind),
            columns=tuple(printed(column) for column in items(one, "additionalPrinterColumns")),
            selectable=tuple(text(field, "jsonPath").removeprefix(".") for field in items(one, "selectableFields")),
            warning=warning_of(one, group, kind),
            custom=True,
            openapi=cast("Tree", dict(mapping(one, "schema", "openAPIV3Schema"))),
            scale=scale_of(one),
            list_kind=text(names, "listKind") or f"{kind}List",
            generation=generation if isinstance(generation, int) else 0,
        )
        for one in versions
        if member(one, "served") is True
    ]


def subresources_of(version: Mapping[str, object], kind: str) -> dict[str, Sub]:
    """The subresources that a version of a definition asks for."""
    asked = mapping(version, "subresources")
    found = {"status": Sub(kind)} if "status" in asked else {}
    return found | ({"scale": SCALE} if "scale" in asked else {})


def scale_of(version: Mapping[str, object]) -> ScalePaths | None:
    """Where a version of a definition keeps its numbers of replicas."""
    asked = mapping(version, "subresources", "scale")
    if not asked:
        return None
    spec, status = text(asked, "specReplicasPath"), text(asked, "statusReplicasPath")
    return ScalePaths(spec, status, text(asked, "labelSelectorPath"))


def printed(column: object) -> Printed:
    """A column as a definition describes it."""
    priority = member(column, "priority")
    return Printed(
        name=text(column, "name"),
        type=text(column, "type"),
        path=text(column, "jsonPath"),
        format=text(column, "format"),
        description=text(column, "description"),
        priority=priority if isinstance(priority, int) else 0,
    )


def warning_of(version: Mapping[str, object], group: str, kind: str) -> str:
    """What callers of a version are warned of."""
    if member(version, "deprecated") is not True:
        return ""
    given = member(version, "deprecationWarning")
    return given if isinstance(given, str) else f"{group}/{text(version, 'name')} {kind} is deprecated"
