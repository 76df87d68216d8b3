"""What is a rule? One thing that must hold of an object, its words, where it is enforced, and how to read a tree.

Objects are plain JSON trees that have passed the schema. A rule nevertheless reads them with care: what is absent or
of the wrong type reads as empty here, so on an odd tree a rule just does not speak.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from pykueue.api.fields import FieldError, invalid
from pykueue.api.gates import defaults
from pykueue.base.struct import Frozen
from pykueue.base.units import Quantity, QuantityError, parse_quantity

Tree: TypeAlias = Mapping[str, object]
Surface = Literal["CEL", "webhook"]
Event = Literal["create", "update"]
Version = Literal["any", "v1beta1", "v1beta2"]

NOTHING: Final[Tree] = {}
WHOLE_MAX: Final = 10**60
"""No quantity is written with so many digits; longer numbers are not worth turning into text."""

GATES: Final = defaults()


class Context(Frozen):
    """What a rule may know besides the object: the feature gates."""

    gates: Mapping[str, bool]

    def on(self, gate: str) -> bool:
        """Whether the gate is enabled; its default where nobody said."""
        return self.gates.get(gate, GATES[gate])


Predicate: TypeAlias = Callable[[Tree, Tree | None, Context], Iterable[FieldError]]
Holds: TypeAlias = Callable[[object, object], bool]


class Rule(Frozen):
    """One thing that must hold of objects of a kind."""

    id: str
    kind: str
    fields: tuple[str, ...]
    """The fields it is about, as schema paths: `[]` stands for each item of a list."""
    message: str
    """What a user reads; `%s` and `%d` stand for what depends on the object. Empty where the words are those of
    Kubernetes' own name and label checks."""
    surface: Surface
    predicate: Predicate
    cel: str = ""
    """The same rule as the CustomResourceDefinition carries it; only on the CEL surface."""
    cel_at: str = ""
    """The schema path of the node that carries `cel`; empty for the root."""
    on: tuple[Event, ...] = ("create", "update")
    gate: str | None = None
    """The feature gate that must be enabled for this rule to be checked."""
    version: Version = "any"
    """The served version whose objects it judges."""
    differs: str = ""
    """Where we knowingly say or do something else than Kueue, our reason."""

    def judge(self, new: Tree, old: Tree | None, context: Context) -> Iterator[FieldError]:
        """The mistakes of this object, given what it was before (`None` when it is being created)."""
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
    """A rule of the schema: `holds(self, oldSelf)` says in Python what `cel` says at each node that `at` names.

    As in Kubernetes, a rule that mentions `oldSelf` is judged only where the node was there before, and a node inside
    a list has no before. `rule` is the id, whose first word says the kind.
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
"""The kind of object that the first word of a rule's id stands for."""


def nodes(at: str, new: object, old: object = None, path: str = "") -> Iterator[tuple[str, object, object]]:
    """The nodes that a schema path such as `spec.levels[]` names: (path, value, value before), absent ones left out."""
    if not at:
        yield path, new, old
        return
    step, _, rest = at.partition(".")
    name = step.removesuffix("[]")
    node = member(new, name)
    if node is None:
        return
    inner = f"{path}.{name}" if path else name
    if step == name:
        yield from nodes(rest, node, member(old, name), inner)
    elif isinstance(node, list):
        for index, item in enumerate(node):
            yield from nodes(rest, item, None, f"{inner}[{index}]")


def shape(node: object) -> object:
    """What stands for a node in the message of a CEL rule: a plain value itself, the type of anything larger."""
    if isinstance(node, Mapping):
        return "object"
    return "array" if isinstance(node, list) else node


def member(tree: object, *keys: str) -> object:
    """What lies under these keys; `None` where it is absent."""
    for key in keys:
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree


def has(tree: object, *keys: str) -> bool:
    """Whether there is something under these keys."""
    return member(tree, *keys) is not None


def mapping(tree: object, *keys: str) -> Tree:
    """The object under these keys; an empty one where there is none."""
    found = member(tree, *keys)
    return found if isinstance(found, Mapping) else NOTHING


def items(tree: object, *keys: str) -> list[object]:
    """The list under these keys; an empty one where there is none."""
    found = member(tree, *keys)
    return found if isinstance(found, list) else []


def mappings(tree: object, *keys: str) -> list[tuple[int, Tree]]:
    """The objects in the list under these keys, each with its index."""
    return [(index, item) for index, item in enumerate(items(tree, *keys)) if isinstance(item, Mapping)]


def text(tree: object, *keys: str) -> str:
    """The text under these keys; empty where there is none."""
    found = member(tree, *keys)
    return found if isinstance(found, str) else ""


def whole(tree: object, *keys: str) -> int | None:
    """The whole number under these keys."""
    found = member(tree, *keys)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def amount(value: object) -> Quantity | None:
    """The quantity that this value spells, as a text or as a number."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < WHOLE_MAX:
        value = str(value)
    if not isinstance(value, str):
        return None
    try:
        return parse_quantity(value)
    except QuantityError:
        return None
