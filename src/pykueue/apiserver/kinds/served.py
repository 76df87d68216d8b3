"""`Served`: how one kind is served in one version, with its names, verbs, subresources, columns and strategy."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from pykueue.api.core import Tree
from pykueue.apiserver.kinds.strategy import Strategy
from pykueue.apiserver.schema.schemas import Schema, builtin, of_crd
from pykueue.base.struct import Frozen
from pykueue.kube.port import Resource

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
SUB_VERBS: Final = ("get", "patch", "update")


class PrinterColumn(Frozen):
    """A printer column of a CustomResourceDefinition."""

    name: str
    type: str
    path: str
    format: str = ""
    description: str = ""
    priority: int = 0


class Subresource(Frozen):
    """A subresource: the kind of its body, and its verbs."""

    kind: str
    verbs: tuple[str, ...] = SUB_VERBS
    group: str = ""
    version: str = ""
    """The group and version of its kind, if they differ from the object's; otherwise empty."""


class ScalePaths(Frozen):
    """The paths of the replica counts of a custom kind, such as `.spec.replicas`."""

    spec: str
    status: str
    selector: str = ""


class Served(Frozen):
    """How a kind is served in one version."""

    resource: Resource
    storage: str
    """The name under which the store keeps its objects; all versions of a kind share it."""
    stored_version: str
    """The `apiVersion` of stored objects."""
    singular: str
    strategy: Strategy
    """How this kind differs from others."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: Mapping[str, Subresource] = msgspec.field(default_factory=dict)
    columns: tuple[PrinterColumn, ...] = ()
    """Printer columns; empty for kinds with built-in columns, and for custom kinds that define none."""
    selectable: tuple[str, ...] = ()
    """Selectable fields besides name and namespace, such as `status.phase`."""
    warning: str = ""
    """The deprecation warning of this version."""
    custom: bool = False
    """Whether it is defined by a CustomResourceDefinition, ours or one that was installed."""
    openapi: Tree | None = None
    """The schema, of a custom kind."""
    scale: ScalePaths | None = None
    list_kind: str = ""
    generation: int = 0
    """The generation of a custom kind's definition, which identifies its schema."""
    api_version: str = ""
    """Group and version as objects name them."""
    is_stored: bool = False
    """Whether this is the storage version."""
    has_status: bool = False
    """Whether status is a subresource."""

    def __post_init__(self) -> None:
        # Every write needs them.
        version = self.resource.api_version
        force_setattr(self, "api_version", version)
        force_setattr(self, "is_stored", version == self.stored_version)
        force_setattr(self, "has_status", "status" in self.subresources)

    @property
    def schema(self) -> Schema | None:
        """The structural schema in this version."""
        if not self.custom:
            return builtin(self.api_version, self.resource.kind)
        return schema_of(self)

    @property
    def kept(self) -> bool:
        """Whether objects of this kind are stored; reviews are only answered."""
        return "get" in self.verbs


SCHEMAS: Final[dict[tuple[str, str], tuple[Served, Schema]]] = {}
"""Schemas of custom kinds by storage name and version, with the generation that they were built for."""


def schema_of(served: Served) -> Schema | None:
    """The schema of a custom kind, built once."""
    if served.openapi is None:
        return None
    key = (served.storage, served.resource.version)
    known = SCHEMAS.get(key)
    if known is None or known[0].openapi is not served.openapi:
        known = SCHEMAS[key] = (served, of_crd(served.openapi))
    return known[1]
