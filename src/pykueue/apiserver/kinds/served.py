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


class Printed(Frozen):
    """A column of `kubectl get` that a CustomResourceDefinition asks for."""

    name: str
    type: str
    path: str
    format: str = ""
    description: str = ""
    priority: int = 0


class Sub(Frozen):
    """A subresource: what is sent there, and what can be done."""

    kind: str
    verbs: tuple[str, ...] = SUB_VERBS
    group: str = ""
    version: str = ""
    """Where its kind is of another group than the object's; both empty for the object's own."""


class ScalePaths(Frozen):
    """Where a custom kind keeps its numbers of replicas, as `.spec.replicas`."""

    spec: str
    status: str
    selector: str = ""


class Served(Frozen):
    """How a kind is served in one version."""

    resource: Resource
    storage: str
    """Under which name the store keeps its objects; versions of a kind share it."""
    stored_version: str
    """The `apiVersion` in which they are kept."""
    singular: str
    strategy: Strategy
    """How this kind differs from others."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: Mapping[str, Sub] = msgspec.field(default_factory=dict)
    columns: tuple[Printed, ...] = ()
    """Empty for kinds whose columns are built in, and for custom kinds that ask for none."""
    selectable: tuple[str, ...] = ()
    """Fields that lists can be selected by beside name and namespace, as `status.phase`."""
    warning: str = ""
    """What a caller of this version is warned of."""
    custom: bool = False
    """Whether it is defined by a CustomResourceDefinition, ours or one that was installed."""
    openapi: Tree | None = None
    """The schema, of a custom kind."""
    scale: ScalePaths | None = None
    list_kind: str = ""
    generation: int = 0
    """Of the definition that a custom kind comes from; it tells changed schemas apart."""
    api_version: str = ""
    """Group and version as objects name them."""
    is_stored: bool = False
    """Whether this is the version in which objects are kept."""
    has_status: bool = False
    """Whether status is written apart from the rest."""

    def __post_init__(self) -> None:
        # They are asked for in every write.
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
        """Whether there are objects of this kind; a review is only ever answered."""
        return "get" in self.verbs


SCHEMAS: Final[dict[tuple[str, str], tuple[Served, Schema]]] = {}
"""The schemas of custom kinds that were asked for, by storage name and version, with what they were made for."""


def schema_of(served: Served) -> Schema | None:
    """The schema of a custom kind, made once."""
    if served.openapi is None:
        return None
    key = (served.storage, served.resource.version)
    known = SCHEMAS.get(key)
    if known is None or known[0].openapi is not served.openapi:
        known = SCHEMAS[key] = (served, of_crd(served.openapi))
    return known[1]
