"""The amounts in queues: quotas, and what is in use, as whole numbers by flavor and resource."""

from collections.abc import Iterable, Iterator

from pykueue.api.trees import Tree, mappings, member, text
from pykueue.base.units import QuantityError, amount_of, parse_quantity

Amounts = dict[tuple[str, str], int]
"""By flavor and resource."""


def quotas(tree: Tree) -> Amounts:
    """The nominal quotas of a ClusterQueue or Cohort."""
    return {key: whole_amount(key[1], member(one, "nominalQuota")) for key, one in quota_trees(tree)}


def lending_limits(tree: Tree) -> Amounts:
    """How much a ClusterQueue or Cohort lends at most; what has no limit is left out."""
    limits = ((key, member(one, "lendingLimit")) for key, one in quota_trees(tree))
    return {key: whole_amount(key[1], limit) for key, limit in limits if limit is not None}


def quota_trees(tree: Tree) -> Iterator[tuple[tuple[str, str], Tree]]:
    """The quotas of a ClusterQueue or Cohort as they are written, by flavor and resource."""
    for _, group in mappings(tree, "spec", "resourceGroups"):
        for _, flavor in mappings(group, "flavors"):
            for _, one in mappings(flavor, "resources"):
                yield (text(flavor, "name"), text(one, "name")), one


def reserved(tree: Tree, what: str = "total") -> Amounts:
    """What is reserved in a queue, or the part of it that is borrowed."""
    return {
        (text(flavor, "name"), text(one, "name")): whole_amount(text(one, "name"), member(one, what))
        for _, flavor in mappings(tree, "status", "flavorsReservation")
        for _, one in mappings(flavor, "resources")
    }


def nominal(trees: Iterable[Tree]) -> dict[str, int]:
    """What these ClusterQueues and Cohorts own of each resource together."""
    return by_resource(item for tree in trees for item in quotas(tree).items())


def by_resource(found: Iterable[tuple[tuple[str, str], int]]) -> dict[str, int]:
    """The sums of amounts over all flavors."""
    sums: dict[str, int] = {}
    for (_, resource), value in found:
        sums[resource] = sums.get(resource, 0) + value
    return sums


def whole_amount(resource: str, value: object) -> int:
    """A quantity as a whole number; 0 if it is absent or malformed."""
    try:
        return amount_of(resource, parse_quantity(str(value)))
    except QuantityError:
        return 0
