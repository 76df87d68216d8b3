"""The part of an inventory that servers and files share: what the engine says about queues and checks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from pykueue.api.core import Tree
from pykueue.api.kinds import KINDS
from pykueue.api.rules.rule import Context
from pykueue.api.rules.table import RULES
from pykueue.api.schema import as_stored, defaults
from pykueue.api.trees import mapping
from pykueue.cli.doctor.inventory import Inventory
from pykueue.cli.doctor.probe import NOW, capacities, engine_of
from pykueue.engine import model
from pykueue.engine.record.tally import inactive_because
from pykueue.sim.manifests import Mistake, Object

INVALID: Final = "invalid-object"
RULE_IDS: Final[Mapping[str, str]] = {
    "CQ-CEL-1": "limits-without-cohort",
    "CQ-CEL-2": "limits-without-cohort",
    "CQ-6": "limits-without-cohort",
    "CO-6": "limits-without-cohort",
    "CQ-9": "limits-contradict",
    "CQ-CEL-4": "preemption-cannot-act",
    "CQ-14": "preemption-cannot-act",
}
"""Rules of the API whose violations are findings with an id of their own; the others are `invalid-object`."""


def by_kind(judged: Iterable[Object]) -> dict[str, tuple[Object, ...]]:
    """The objects of each kind."""
    found: dict[str, list[Object]] = {}
    for one in judged:
        found.setdefault(one.kind, []).append(one)
    return {kind: tuple(each) for kind, each in found.items()}


def with_engine(inventory: Inventory, things: Sequence[model.Thing], options: model.Options | None) -> Inventory:
    """The inventory with what the engine says about these things."""
    engine = engine_of(things, options)
    engine.decide(NOW)
    queues = {one.name: one for one in things if isinstance(one, model.ClusterQueue)}
    return replace(
        inventory,
        queues=queues,
        cohorts={one.name: one for one in things if isinstance(one, model.Cohort)},
        inactive={name: dict(inactive_because(engine, name)) for name in queues},
        capacities=capacities(things),
    )


def open_things(things: Iterable[model.Thing]) -> Iterator[model.Thing]:
    """The things with every queue active and open to all namespaces, so that only requests and quotas count."""
    for one in things:
        match one:
            case model.ClusterQueue():
                yield replace(one, stop=model.StopPolicy.NONE, checks=(), namespaces=model.Selector(), unbuilt="")
            case model.LocalQueue():
                yield replace(one, stop=model.StopPolicy.NONE)
            case model.Flavor():
                yield replace(one, unbuilt="")
            case _:
                yield one


def with_ids(
    mistakes: Iterable[Mistake], trees: Mapping[str, Tree], gates: Mapping[str, bool]
) -> tuple[tuple[Mistake, str], ...]:
    """Each mistake with the id of its check; of those of one rule and object only the first, with their number.

    `trees` are the objects by place, as their authors wrote them.
    """
    found: list[tuple[Mistake, str]] = []
    grouped: dict[tuple[str, str], list[tuple[Mistake, bool]]] = {}
    for one in mistakes:
        rule, by_webhook = rule_of(one.text, trees.get(one.where, {}), gates)
        if rule:
            grouped.setdefault((one.where, RULE_IDS[rule]), []).append((one, by_webhook))
        else:
            found.append((one, INVALID))
    for (_, check), each in grouped.items():
        # The webhook names the field, the schema only the object.
        exact = [one for one, by_webhook in each if by_webhook] or [one for one, _ in each]
        more = f" (and {len(exact) - 1} more like it)" if len(exact) > 1 else ""
        found.append((replace(exact[0], text=f"{exact[0].text}{more}"), check))
    return tuple(found)


def rule_of(text: str, tree: Tree, gates: Mapping[str, bool]) -> tuple[str, bool]:
    """The rule with an id of its own whose message this is, and whether it is the webhook's; empty if there is none."""
    kind = tree.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        return "", False
    view = KINDS[kind].view
    version = str(tree.get("apiVersion")).rpartition("/")[2]
    stored = mapping(as_stored(view, tree, version))
    for rule in RULES:
        if rule.kind != kind or rule.id not in RULE_IDS:
            continue
        for form in (tree, defaults(view, stored)):  # type: ignore[arg-type]  # it is JSON, as it was before
            if any(str(error) == text for error in rule.judge(form, None, Context(gates))):
                return rule.id, rule.surface == "webhook"
    return "", False
