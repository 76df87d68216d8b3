"""Plan the queues that `pykueue queue` creates and changes: pure functions from objects to objects."""

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import msgspec

from pykueue.api.core import Tree
from pykueue.api.trees import mapping, mappings, text
from pykueue.base.units import QuantityError, amount_of, amount_text, parse_quantity
from pykueue.cli.amounts import readable
from pykueue.cli.queues.quotas import nominal

SHARE: Final = re.compile(r"(\d+(?:\.\d+)?)(%)|(\d+)/(\d+)|(0|1)", re.ASCII)
FIRST: Final = ("cpu", "memory")
UNSHARED: Final = ("pods", "ephemeral-storage", "hugepages-")
"""Resources of a node, or prefixes of their names, that queues do not divide."""
LIMITS: Final = {"--no-borrowing": "borrowingLimit", "--no-lending": "lendingLimit"}


class PlanError(ValueError):
    """What was asked for cannot be planned; the message says what to do."""


def share_of(text: str) -> Fraction:
    """A share of the machine: 25%, 1/4, 0 or 1."""
    found = SHARE.fullmatch(text)
    if found is None:
        raise PlanError(f"{text!r} is not a share; write it as in 25% or 1/4")
    percent, sign, over, under, all_or_none = found.groups()
    if sign:
        share = Fraction(percent) / 100
    elif over:
        if int(under) == 0:
            raise PlanError(f"{text!r} divides by zero; write it as in 25% or 1/4")
        share = Fraction(int(over), int(under))
    else:
        share = Fraction(int(all_or_none))
    if share > 1:
        raise PlanError(f"{text!r} is more than the whole machine; use 100% or less")
    return share


def capacity(nodes: Iterable[Tree]) -> dict[str, int]:
    """What all nodes together have of each resource that queues divide."""
    found: dict[str, int] = {}
    for node in nodes:
        for name, value in mapping(node, "status", "allocatable").items():
            if name.startswith(UNSHARED):
                continue
            with contextlib.suppress(QuantityError):
                found[name] = found.get(name, 0) + amount_of(name, parse_quantity(str(value)))
    return {name: found[name] for name in sorted(found, key=lambda one: (one not in FIRST, one))}


def shared(amounts: Mapping[str, int], share: Fraction) -> dict[str, str]:
    """A share of each resource, rounded down: memory to Mi, devices to whole ones."""
    found = {}
    for name, total in amounts.items():
        part = int(total * share)
        found[name] = amount_text(name, part // 2**20 * 2**20 if name == "memory" else part)
    return found


def quotas(asked: Mapping[str, str], share: str | None, amounts: Mapping[str, int]) -> dict[str, str]:
    """The quota of a new queue for every resource of the machine: what was asked for, else the share, else 0."""
    base = shared(amounts, share_of(share if share is not None else "0"))
    return {**base, **asked}


def changed(queue: Tree, asked: Mapping[str, str]) -> dict[str, Any]:
    """A ClusterQueue with these nominal quotas; raises `PlanError` if several flavors could be meant."""
    made: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(queue))
    for resource, quota in asked.items():
        found = [
            one
            for _, group in mappings(made, "spec", "resourceGroups")
            for _, flavor in mappings(group, "flavors")
            for _, one in mappings(flavor, "resources")
            if text(one, "name") == resource
        ]
        name = text(queue, "metadata", "name")
        if not found:
            raise PlanError(
                f"ClusterQueue {name} has no quota for {resource}; add it to a resource group with kubectl edit"
            )
        if len(found) > 1:
            raise PlanError(
                f"ClusterQueue {name} has {resource} in {len(found)} flavors; change one of them with kubectl edit"
            )
        found[0]["nominalQuota"] = quota  # type: ignore[index]  # a tree that was just decoded
    return made


def limited(queue: Tree, fields: Sequence[str]) -> dict[str, Any]:
    """A ClusterQueue that may neither borrow nor lend, as far as these fields are named."""
    made: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(queue))
    for group in made["spec"]["resourceGroups"]:
        for flavor in group["flavors"]:
            for resource in flavor["resources"]:
                resource.update(dict.fromkeys(fields, "0"))
    return made


def overcommitted(owned: Mapping[str, int], amounts: Mapping[str, int]) -> list[str]:
    """A sentence for each resource of which all queues own more than the machine has."""
    return [
        f"all queues together own {readable(name, owned[name])} {name}, but the machine has "
        f"{readable(name, amount)}: jobs may hold quota and still have to wait"
        for name, amount in {**dict.fromkeys(owned, 0), **amounts}.items()
        if owned.get(name, 0) > amount
    ]


def owned_by(queue: Tree) -> dict[str, str]:
    """The quota of a ClusterQueue for each resource."""
    return {name: amount_text(name, amount) for name, amount in nominal([queue]).items()}


def described(quotas: Mapping[str, str]) -> str:
    """Quotas in words; those of 0 can only be borrowed."""
    owned = [f"{amount} {name}" for name, amount in quotas.items() if parse_quantity(amount).nanos]
    none = [name for name, amount in quotas.items() if parse_quantity(amount).nanos == 0]
    if not owned:
        return "it owns no quota and uses what it can borrow"
    return f"it owns {', '.join(owned)}" + (f", and borrows {', '.join(none)}" if none else "")
