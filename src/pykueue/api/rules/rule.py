"""A rule: one thing that must hold of an object, its message, and where it is enforced.

Objects are JSON trees that have passed the schema. A rule still reads them defensively (see `trees`): on a malformed
tree it reports nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from pykueue.api.config.gates import defaults
from pykueue.api.fields import FieldError, invalid
from pykueue.api.trees import Tree, nodes
from pykueue.base.struct import Frozen

Surface = Literal["CEL", "webhook"]
Event = Literal["create", "update"]
Version = Literal["any", "v1beta1", "v1beta2"]

GATES: Final = defaults()


class Context(Frozen):
    """What a rule may read besides the object: the feature gates."""

    gates: Mapping[str, bool]

    def on(self, gate: str) -> bool:
        """Whether the gate is enabled, by default or by setting."""
        return self.gates.get(gate, GATES[gate])


Predicate: TypeAlias = Callable[[Tree, Tree | None, Context], Iterable[FieldError]]
Holds: TypeAlias = Callable[[object, object], bool]


class Rule(Frozen):
    """One thing that must hold of objects of a kind."""

    id: str
    kind: str
    fields: tuple[str, ...]
    """The fields it checks, as schema paths: `[]` stands for each item of a list."""
    message: str
    """The message; `%s` and `%d` stand for parts that depend on the object.

    Empty for Kubernetes' own name and label checks.
    """
    surface: Surface
    predicate: Predicate
    cel: str = ""
    """The same rule in the CustomResourceDefinition; only on the CEL surface."""
    cel_at: str = ""
    """The schema path of the node that carries `cel`; empty for the root."""
    on: tuple[Event, ...] = ("create", "update")
    gate: str | None = None
    """The feature gate that enables this rule."""
    version: Version = "any"
    """The served version of the objects that it validates."""
    differs: str = ""
    """Why it deliberately differs from Kueue, where it does."""

    def judge(self, new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
        """The mistakes of this object, given its previous state (`None` on creation)."""
        event: Event = "create" if old is None else "update"
        if event in self.on and (self.gate is None or context.on(self.gate)):
            yield from self.predicate(new, old, context)


def cel_rule(
    rule: str,
    at: str,
    message: str,
    cel: str,
    holds: Holds,
    *,
    version: Version = "any",
    differs: str = "",
) -> Rule:
    """A rule of the schema: `holds(self, oldSelf)` is the Python equivalent of `cel` at each node that `at` names.

    As in Kubernetes, a rule that mentions `oldSelf` is evaluated only where the node existed before, and a node inside
    a list has no previous state. `rule` is the id, whose first word gives the kind.
    """
    transition = "oldSelf" in cel

    def predicate(new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
        for path, node, before in nodes(at, new, old):
            if transition and before is None:
                continue
            if not holds(node, before):
                yield invalid(path, shape(node), message)

    return Rule(
        id=rule,
        kind=KINDS[rule.split("-", maxsplit=1)[0]],
        fields=(at,),
        message=message,
        surface="CEL",
        predicate=predicate,
        cel=cel,
        cel_at=at,
        on=("update",) if transition else ("create", "update"),
        version=version,
        differs=differs,
    )


def webhook_rule(
    rule: str,
    fields: str | tuple[str, ...],
    message: str,
    predicate: Predicate,
    *,
    on: tuple[Event, ...] = ("create", "update"),
    gate: str | None = None,
    differs: str = "",
) -> Rule:
    """A rule of the validating webhook, which sees every object as v1beta2; `rule` is the id."""
    return Rule(
        id=rule,
        kind=KINDS[rule.split("-", maxsplit=1)[0]],
        fields=(fields,) if isinstance(fields, str) else fields,
        message=message,
        surface="webhook",
        predicate=predicate,
        on=on,
        gate=gate,
        version="v1beta2",
        differs=differs,
    )


KINDS: Final[Mapping[str, str]] = {
    "CQ": "ClusterQueue",
    "LQ": "LocalQueue",
    "CO": "Cohort",
    "RF": "ResourceFlavor",
    "TO": "Topology",
    "AC": "AdmissionCheck",
    "MKC": "MultiKueueCluster",
    "MKF": "MultiKueueConfig",
    "PR": "ProvisioningRequest",
    "WL": "Workload",
}
"""The kind for the first word of a rule's id."""


def shape(node: object) -> object:
    """How the message of a CEL rule shows a node: a plain value itself, the type of anything larger."""
    if isinstance(node, Mapping):
        return "object"
    return "array" if isinstance(node, list) else node
