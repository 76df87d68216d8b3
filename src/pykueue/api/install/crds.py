"""CustomResourceDefinitions of our kinds, generated from the types and the rules.

Fields, limits and descriptions come from the annotations (`schema`), cross-field rules from `rules`, names and columns
from `kinds`; `crds_older` derives v1beta1. Every write of a Workload pays for its schema, so four things are left out
on purpose (ADR 0009 has the figures): the shape of pod templates, the keys of lists that have one writer, the ownership
of single fields of a condition, and the rules, which the webhook enforces.
"""

from collections.abc import Iterator, Mapping
from typing import Final, cast

import msgspec

from pykueue.api.config.types import DEFAULT_NAMESPACE, WEBHOOK_SERVICE
from pykueue.api.core import Json, Tree
from pykueue.api.install.crds_older import as_v1beta1
from pykueue.api.install.install import named
from pykueue.api.kinds import DEPRECATED, KINDS, Column, Kind
from pykueue.api.names import GROUP
from pykueue.api.rules.table import schema_rules
from pykueue.api.schema import Property, TypeNode, node_of

CONVERTED: Final = ("LocalQueue", "ClusterQueue", "Cohort", "Workload", "MultiKueueCluster")
"""Kinds whose versions differ in more than their names, and need a conversion webhook."""
ONE_WRITER: Final[Mapping[str, tuple[str, ...]]] = {
    "ClusterQueue": ("status.flavorsReservation", "status.flavorsUsage"),
    "LocalQueue": ("status.flavorsReservation", "status.flavorsUsage"),
    "Workload": (
        "spec.podSets",
        "status.admission.podSetAssignments",
        "status.reclaimablePods",
        "status.resourceRequests",
        "status.schedulingStats.evictions",
        "status.unhealthyNodes",
    ),
}
"""Lists that one writer always writes whole: the server need not track the ownership of items.

That pod sets, which users write too, have different names is a rule of the webhook (WL-30).
"""
CONDITIONS: Final = "status.conditions[]"
"""Conditions have several writers, but each condition is written whole: its fields need no separate ownership."""
SERVERS_OWN: Final[Tree] = {"type": "object"}
"""The schema of `metadata`, which servers define themselves and do not accept from a CRD."""


def crds(namespace: str = DEFAULT_NAMESPACE, service: str = WEBHOOK_SERVICE) -> tuple[Tree, ...]:
    """The definitions of all our kinds, with the webhook behind this Service."""
    return tuple(crd(kind, namespace, service) for kind in KINDS.values() if kind.group == GROUP)


def crd(kind: Kind, namespace: str = DEFAULT_NAMESPACE, service: str = WEBHOOK_SERVICE) -> Tree:
    """The definition of one kind in all served versions."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": named(f"{kind.plural}.{kind.group}"),
        "spec": {
            "group": kind.group,
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "shortNames": [*kind.short_names],
            },
            "scope": kind.scope,
            "conversion": conversion(kind, namespace, service),
            "versions": [version(kind, name) for name in kind.versions],
        },
    }


def conversion(kind: Kind, namespace: str, service: str) -> Tree:
    """How a kind is converted between versions."""
    if kind.kind not in CONVERTED:
        return {"strategy": "None"}
    reached: Tree = {"namespace": namespace, "name": service, "path": "/convert"}
    return {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"service": reached}, "conversionReviewVersions": ["v1"]},
    }


def version(kind: Kind, name: str) -> Tree:
    """A kind in this version; the first of its versions is the stored one."""
    stored = name == kind.versions[0]
    served: Tree = {"name": name, "served": True, "storage": stored}
    if name in kind.deprecated:
        served |= {"deprecated": True, "deprecationWarning": DEPRECATED}
    served["schema"] = {"openAPIV3Schema": openapi(kind, name)}
    if kind.status:
        served["subresources"] = {"status": {}}
    if kind.columns:
        served["additionalPrinterColumns"] = [column(one, name) for one in kind.columns]
    if kind.selectable and stored:
        served["selectableFields"] = [{"jsonPath": path} for path in kind.selectable]
    return served


def column(shown: Column, name: str) -> Tree:
    """A column of `kubectl get` in this version."""
    older = shown.path_v1beta1 if name == "v1beta1" else None
    made: Tree = {"name": shown.name, "type": shown.type, "jsonPath": older or shown.path}
    return made | ({"priority": shown.priority} if shown.priority else {})


def openapi(kind: Kind, name: str) -> Tree:
    """The schema of a kind in this version, with the rules that it carries."""
    schema = rendered(node_of(kind.view))
    cast("Tree", schema["properties"])["metadata"] = SERVERS_OWN
    for path in ONE_WRITER.get(kind.kind, ()):
        for found in at(schema, path):
            del found["x-kubernetes-list-map-keys"]
            found["x-kubernetes-list-type"] = "atomic"
    for condition in at(schema, CONDITIONS):
        condition["x-kubernetes-map-type"] = "atomic"
    if name == "v1beta1":
        schema = as_v1beta1(kind.kind, schema)
    for rule in schema_rules(kind.kind, name):
        for found in at(schema, rule.cel_at):
            said = cast("list[Json]", found.setdefault("x-kubernetes-validations", []))
            said.append({"rule": rule.cel, "message": rule.message})
    return schema


def rendered(node: TypeNode) -> Tree:
    """A node as a structural OpenAPI schema."""
    limits = cast("Tree", {name: limit for name, limit in node.limits.items() if name not in ("default", "type")})
    made: Tree = {"description": " ".join(str(limits.pop("description", "")).split())}
    if not made["description"]:
        made = {}
    match node.shape:
        case "object":
            inner: Tree = {name: property_of(known) for name, known in node.properties.items()}
            needed: list[Json] = [name for name, known in node.properties.items() if known.required]
            return made | {"type": "object"} | limits | ({"required": needed} if needed else {}) | {"properties": inner}
        case "map":
            return made | {"type": "object"} | limits | {"additionalProperties": rendered(items_of(node))}
        case "array":
            return made | {"type": "array"} | limits | {"items": rendered(items_of(node))}
        case "opaque" | "any":
            return made | {"type": "object"} | limits | {"x-kubernetes-preserve-unknown-fields": True}
        case "integer,string" | "integer,number,string":
            return made | {"anyOf": [{"type": "integer"}, {"type": "string"}]} | limits
        case "string" | "integer" | "boolean":
            return made | {"type": node.shape} | limits


def property_of(known: Property) -> Tree:
    """The schema of a field, with its default."""
    made = rendered(known.node)
    return made if isinstance(known.default, msgspec.UnsetType) else made | {"default": known.default}


def items_of(node: TypeNode) -> TypeNode:
    """The schema of the items of a list or the values of a map."""
    assert node.items is not None, f"a schema of shape {node.shape} says nothing of what it holds; give it items"
    return node.items


def at(schema: Tree, path: str) -> Iterator[Tree]:
    """The part of a schema that a path such as `spec.levels[]` names, if it exists."""
    if not path:
        yield schema
        return
    step, _, rest = path.partition(".")
    inner = cast("Tree", schema.get("properties", {})).get(step.removesuffix("[]"))
    if not isinstance(inner, dict):
        return
    if step.endswith("[]"):
        inner = cast("Tree", inner["items"])
    yield from at(inner, rest)
