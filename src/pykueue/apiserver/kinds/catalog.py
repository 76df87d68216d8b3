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
from pykueue.apiserver.kinds.served import PrinterColumn, ScalePaths, Served, Subresource
from pykueue.apiserver.kinds.strategies import custom_strategy
from pykueue.kube.port import Resource

GROUPS: Final = (GROUP, KINDS["ProvisioningRequest"].group)
"""Groups whose kinds are served without a definition: our own, and those they depend on."""
SCALE: Final = Subresource("Scale", group="autoscaling", version="v1")


class Catalog:
    """Every served kind in every served version."""

    def __init__(self) -> None:
        self.served: dict[tuple[str, str, str], Served] = {}
        """By group, version and plural name."""
        self.by_storage: dict[str, list[Served]] = {}
        """Memo of `of_storage`, by storage name."""
        self.stamp = 0
        """Incremented with every change."""
        self.ours: frozenset[str] = frozenset()
        """Storage names of kinds that no definition can change."""
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
        """The served kind in this version; None if it is not served."""
        return self.served.get((group, version, plural))

    def of(self, resource: Resource) -> Served | None:
        """The served kind of a controller's resource; None if it is not served."""
        return self.served.get((resource.group, resource.version, resource.plural))

    def version(self, storage: str, api_version: str) -> Served | None:
        """The kind with this storage name in another version; None if it is not served."""
        return next((one for one in self.of_storage(storage) if one.resource.api_version == api_version), None)

    def of_storage(self, storage: str) -> list[Served]:
        """A kind in every served version."""
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
        """Every kind with objects that can be stored and deleted, once, in its storage version."""
        return [one for one in self.all() if one.is_stored and "delete" in one.verbs]

    def install(self, definition: Tree) -> None:
        """Serve the kind of a definition in its current form; versions that it no longer serves are removed."""
        name = text(definition, "metadata", "name")
        if name in self.ours:
            return
        self.forget(name)
        for one in served_by(definition):
            self.add(one)

    def forget(self, storage: str) -> None:
        """Stop serving the kind with this storage name."""
        for key in [key for key, one in self.served.items() if one.storage == storage and storage not in self.ours]:
            del self.served[key]
            self.by_storage.clear()
            self.stamp += 1


@cache
def kueue_kinds() -> tuple[Served, ...]:
    """Kueue's kinds in every version, built once."""
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


def subresources_of(version: Mapping[str, object], kind: str) -> dict[str, Subresource]:
    """The subresources that a version of a definition enables."""
    asked = mapping(version, "subresources")
    found = {"status": Subresource(kind)} if "status" in asked else {}
    return found | ({"scale": SCALE} if "scale" in asked else {})


def scale_of(version: Mapping[str, object]) -> ScalePaths | None:
    """The paths of the replica counts in a version of a definition."""
    asked = mapping(version, "subresources", "scale")
    if not asked:
        return None
    spec, status = text(asked, "specReplicasPath"), text(asked, "statusReplicasPath")
    return ScalePaths(spec, status, text(asked, "labelSelectorPath"))


def printed(column: object) -> PrinterColumn:
    """A printer column of a definition."""
    priority = member(column, "priority")
    return PrinterColumn(
        name=text(column, "name"),
        type=text(column, "type"),
        path=text(column, "jsonPath"),
        format=text(column, "format"),
        description=text(column, "description"),
        priority=priority if isinstance(priority, int) else 0,
    )


def warning_of(version: Mapping[str, object], group: str, kind: str) -> str:
    """The deprecation warning of a version."""
    if member(version, "deprecated") is not True:
        return ""
    given = member(version, "deprecationWarning")
    return given if isinstance(given, str) else f"{group}/{text(version, 'name')} {kind} is deprecated"
