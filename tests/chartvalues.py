"""The schema of the values of the Helm chart, and the advice for values that it cannot have; `tests.chart` writes both.

Helm validates values against the schema before it renders a template. So the schema accepts the values of Kueue's
chart, for which `templates/guards.yaml` has a better message.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import inspect

from pykueue.api.config.decode import type_of
from pykueue.api.config.file import CURRENT
from pykueue.api.config.types import KIND, Configuration
from pykueue.api.config.unbuilt import UNBUILT
from pykueue.api.core import Json, Tree
from pykueue.api.durations import LONGEST, WHOLE
from pykueue.api.install.deployment import pod
from pykueue.api.install.install import Install
from pykueue.api.trees import member
from pykueue.base.units import Quantity
from pykueue.cli.logsetup import LEVELS

TEXT: Final[Tree] = {"type": "string"}
SWITCH: Final[Tree] = {"type": "boolean"}
ANY_OBJECT: Final[Tree] = {"type": "object"}
TEXTS: Final[Tree] = {"type": "object", "additionalProperties": TEXT}
CERTIFICATES: Final = "set configuration.internalCertManagement.enable to false, and provide the Secret yourself"
SCRAPING: Final = "not supported; docs/metrics.md describes how to scrape the manager"
DASHBOARD: Final = "not supported; use pykueue dashboard"
NAMES: Final = "not supported; all objects have the names that Kueue's manifests give them"
VALUES_OF_KUEUE: Final[Mapping[str, str]] = {
    "certManager": CERTIFICATES,
    "controllerManager": (
        "use replicas, image, imagePullSecrets, resources, logLevel, priorityClassName, podAnnotations, nodeSelector, "
        "tolerations, topologySpreadConstraints, podDisruptionBudget and configuration.featureGates; hostNetwork, "
        "dnsPolicy, probes, strategy and security contexts are fixed"
    ),
    "enableCertManager": CERTIFICATES,
    "enableKueueViz": DASHBOARD,
    "enableMutatingAdmissionPolicy": "not supported, because MultiKueue is not",
    "enablePrometheus": SCRAPING,
    "enableVisibilityAPF": "use visibilityFlowControl",
    "enableVisibilityAuthReaderRoleBinding": "not supported; the chart always has this RoleBinding",
    "fullnameOverride": NAMES,
    "kubernetesClusterDomain": "not needed",
    "kueueViz": DASHBOARD,
    "managerConfig": "use configuration, which has the keys of controllerManagerConfigYaml as values, not as text",
    "metrics": SCRAPING,
    "metricsService": "not supported; its port is that of configuration.metrics.bindAddress",
    "mutatingWebhook": "not supported; the reinvocationPolicy is Never",
    "nameOverride": NAMES,
    "webhookService": "not supported; its target port is configuration.webhook.port",
}
"""What replaces the values of Kueue's chart."""
BY_HELM: Final[Tree] = {"global": ANY_OBJECT, "enabled": {"const": True}}
"""Values that a chart gets as a dependency of another: the global ones, and the condition on which it is enabled."""


def closed(properties: Tree) -> Tree:
    """The schema of an object with these properties only."""
    return {"type": "object", "additionalProperties": False, "properties": properties}


def list_of(items: Tree) -> Tree:
    """The schema of a list."""
    return {"type": "array", "items": items}


def without_ours(field: str) -> Tree:
    """The schema of further labels or annotations of the pods; those that the chart sets are fixed."""
    ours = member(pod(Install()), "metadata", field)
    assert isinstance(ours, dict)
    refused: Tree = dict.fromkeys(ours, False)
    return {**TEXTS, "properties": refused}


def values() -> Tree:
    """The schema of each value of the chart."""
    return {
        "image": closed(
            {
                "repository": {"type": "string", "minLength": 1},
                "tag": TEXT,
                "digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
                "pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
            }
        ),
        "imagePullSecrets": list_of(closed({"name": TEXT})),
        "replicas": {"type": "integer", "minimum": 0},
        "configuration": configuration(),
        "tolerateUnknownGates": SWITCH,
        "defaultQueues": {"enum": ["policy", "webhook"]},
        "logLevel": {"enum": [*LEVELS]},
        "extraArgs": list_of(TEXT),
        "crds": closed({"install": SWITCH}),
        "createNamespace": SWITCH,
        "visibilityFlowControl": SWITCH,
        "podDisruptionBudget": closed({"enabled": SWITCH}),
        "podAnnotations": without_ours("annotations"),
        "podLabels": without_ours("labels"),
        "priorityClassName": TEXT,
        "resources": ANY_OBJECT,
        "nodeSelector": TEXTS,
        "tolerations": list_of(ANY_OBJECT),
        "affinity": ANY_OBJECT,
        "topologySpreadConstraints": list_of(ANY_OBJECT),
    }


def schema() -> Tree:
    """The schema of all values."""
    refused_later: Tree = {key: {} for key in VALUES_OF_KUEUE}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **closed({**values(), **refused_later, **BY_HELM}),
    }


def configuration() -> Tree:
    """The schema of the Configuration."""
    fields = struct_schema(type_of(Configuration))["properties"]
    assert isinstance(fields, dict)
    return closed({"apiVersion": {"const": CURRENT}, "kind": {"const": KIND}, **fields})


def struct_schema(kind: inspect.StructType) -> Tree:
    """The schema of a section."""
    return closed({field.encode_name: type_schema(field.type) for field in kind.fields})


def or_null(made: Tree) -> Tree:
    """A schema that accepts null, too."""
    assert isinstance(made["type"], str)
    return {**made, "type": [made["type"], "null"]}


def type_schema(kind: inspect.Type) -> Tree:
    """The schema of a key of the Configuration, as `pykueue.api.config.decode` reads it.

    That also reads null as absent. Here only optional keys may be null: the templates read some of the others.
    """
    match kind:
        case inspect.Metadata():
            return duration_schema() if (kind.extra or {}).get("reads") == "duration" else type_schema(kind.type)
        case inspect.UnionType():
            return or_null(type_schema(next(one for one in kind.types if not isinstance(one, inspect.NoneType))))
        case inspect.StructType() if kind.cls is Quantity:
            return {"type": ["string", "number"]}
        case inspect.StructType():
            return struct_schema(kind)
        case inspect.VarTupleType():
            return list_of(type_schema(kind.item_type))
        case inspect.DictType():
            return {"type": "object", "additionalProperties": type_schema(kind.value_type)}
        case inspect.LiteralType():
            return {"enum": [*sorted(map(str, kind.values))]}
        case inspect.BoolType():
            return SWITCH
        case inspect.IntType():
            return {"type": "integer", **bounds(kind)}
        case inspect.FloatType():
            return {"type": "number", **bounds(kind)}
        case inspect.StrType():
            return TEXT
        case _:
            raise AssertionError(f"no schema for a {type(kind).__name__}; add one here")


def bounds(kind: inspect.IntType | inspect.FloatType) -> Tree:
    """The bounds of a number."""
    limits: dict[str, Json] = {"minimum": kind.ge, "maximum": kind.le}
    return {name: limit for name, limit in limits.items() if limit is not None}


def duration_schema() -> Tree:
    """The schema of a duration."""
    return {"type": "string", "pattern": f"^([+-]?0|{WHOLE.pattern})$", "maxLength": LONGEST}


def unsupported() -> dict[str, str]:
    """The keys of the Configuration with which the manager does not start, each with the reason."""
    return {path: row.sentence for path, row in UNBUILT.items() if row.changes_decisions}
