"""Does the auditor compute the shares of fair sharing as they are defined? Worked examples, and a naive formula."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.api.kueue import ClusterQueue, Cohort
from pykueue.audit.shares import Share, Shares, sides, surely_above, surely_equal
from pykueue.audit.tree import COHORT, QUEUE, Forest, NodeName

Tree = dict[str, Any]
Cells = Mapping[str, Mapping[str, int]]
"""The whole amount of each resource in each flavor."""


def groups(cells: Cells, **limits: Mapping[str, Mapping[str, int]]) -> list[Tree]:
    """One resource group for each flavor; the limits are given in the same form as the quotas."""
    return [
        {
            "coveredResources": list(resources),
            "flavors": [
                {
                    "name": flavor,
                    "resources": [
                        {
                            "name": resource,
                            "nominalQuota": str(amount),
                            **{
                                key: str(limit[flavor][resource])
                                for key, limit in limits.items()
                                if resource in limit.get(flavor, {})
                            },
                        }
                        for resource, amount in resources.items()
                    ],
                }
            ],
        }
        for flavor, resources in cells.items()
    ]


def queue(name: str, cells: Cells, cohort: str = "", weight: str = "", **limits: Cells) -> ClusterQueue:
    spec: Tree = {"resourceGroups": groups(cells, **limits)}
    spec |= {"cohortName": cohort} if cohort else {}
    spec |= {"fairSharing": {"weight": weight}} if weight else {}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ClusterQueue)


def cohort(name: str, cells: Cells | None = None, parent: str = "", weight: str = "", **limits: Cells) -> Cohort:
    spec: Tree = {"resourceGroups": groups(cells or {}, **limits)}
    spec |= {"parentName": parent} if parent else {}
    spec |= {"fairSharing": {"weight": weight}} if weight else {}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, Cohort)


def unit(resource: str) -> int:
    return 1000 if resource == "cpu" else 1


def shares(queues: list[ClusterQueue], cohorts: list[Cohort], held: Mapping[str, Cells]) -> Shares:
    """The one tree of these, when each queue holds so much."""
    forest = Forest(queues, cohorts)
    (root,) = set(forest.roots.values())
    assert root is not None
    return Shares(
        forest,
        root,
        {
            name: {
                (flavor, resource): amount * unit(resource)
                for flavor, resources in cells.items()
                for resource, amount in resources.items()
            }
            for name, cells in held.items()
        },
    )


def cpu(amount: int) -> Cells:
    return {"default": {"cpu": amount}}


def threes(**weights: str) -> list[ClusterQueue]:
    """Three queues of 3 cpu in one cohort."""
    return [queue(name, cpu(3), "all", weights.get(name, "")) for name in "abc"]


def of(found: Shares, name: str) -> Share:
    return found.share((QUEUE, name))


def finite(share: Share) -> float:
    """The value of a share that is not infinite."""
    infinite, amount = share.rank
    assert not infinite
    return float(amount)


def value(found: Shares, name: str) -> float:
    return finite(of(found, name))


def test_what_is_borrowed_counts_in_thousandths_of_what_the_cohort_could_lend() -> None:
    found = shares(threes(), [], {"a": cpu(3), "b": cpu(5)})
    assert [value(found, name) for name in "abc"] == [0, 2000 / 9, 0]
    assert of(found, "b").resource == "cpu"
    assert of(found, "b").borrowed == {("default", "cpu")}
    assert of(found, "a").borrowed == frozenset()


def test_the_resource_of_which_most_is_borrowed_dominates() -> None:
    each = {"default": {"cpu": 2, "memory": 4}}
    found = shares([queue("a", each, "all"), queue("b", each, "all")], [], {"a": {"default": {"cpu": 3, "memory": 5}}})
    assert (value(found, "a"), of(found, "a").resource) == (250, "cpu")


def test_of_resources_that_are_equal_the_first_by_name_dominates() -> None:
    each = {"default": {"memory": 2, "gpu": 2}}
    found = shares([queue("a", each, "all"), queue("b", each, "all")], [], {"a": {"default": {"memory": 3, "gpu": 3}}})
    assert of(found, "a").resource == "gpu"


def test_flavors_of_a_resource_count_together_but_do_not_make_up_for_each_other() -> None:
    each = {"spot": {"cpu": 2}, "fixed": {"cpu": 2}}
    queues = [queue("a", each, "all"), queue("b", each, "all")]
    assert value(shares(queues, [], {"a": {"spot": {"cpu": 4}, "fixed": {"cpu": 3}}}), "a") == 375
    assert value(shares(queues, [], {"a": {"spot": {"cpu": 4}}}), "a") == 250


@pytest.mark.parametrize(
    ("weight", "share"),
    [("", 2000 / 9), ("2", 1000 / 9), ("500m", 4000 / 9), ("0.1", 20000 / 9)],
)
def test_the_share_is_divided_by_the_weight(weight: str, share: float) -> None:
    assert value(shares(threes(b=weight), [], {"b": cpu(5)}), "b") == share


def test_of_weight_zero_the_share_is_infinite_as_soon_as_something_is_borrowed() -> None:
    queues = threes(a="0", b="0")
    assert finite(of(shares(queues, [], {"a": cpu(3)}), "a")) == 0
    found = shares(queues, [], {"a": cpu(4), "b": cpu(5), "c": cpu(9)})
    assert of(found, "a").rank == (True, Fraction(1000, 9))
    assert surely_above(of(found, "b"), of(found, "a"))
    assert surely_above(of(found, "a"), of(found, "c"))
    assert not surely_above(of(found, "c"), of(found, "a"))
    assert str(of(found, "a")) == "infinite"


def test_a_queue_borrows_without_a_share_where_its_parent_could_lend_nothing() -> None:
    queues = [queue("a", {"default": {"cpu": 0}}, "all")]
    found = of(shares(queues, [], {"a": cpu(1)}), "a")
    assert (finite(found), found.borrowed) == (0, frozenset({("default", "cpu")}))


def test_usage_for_which_a_queue_has_no_quota_does_not_count_there_but_above() -> None:
    queues = [queue("a", {"spot": {"cpu": 2}}, "low"), queue("b", cpu(4), "low"), queue("c", cpu(4), "top")]
    cohorts = [cohort("low", parent="top")]
    found = shares(queues, cohorts, {"a": cpu(6)})
    assert of(found, "a").borrowed == frozenset()
    assert finite(found.share((COHORT, "low"))) == 200


def test_roots_have_no_share() -> None:
    assert shares([queue("a", cpu(1))], [], {"a": cpu(3)}).share((QUEUE, "a")) == Share()
    assert shares(threes(), [], {"a": cpu(20)}).share((COHORT, "all")) == Share()


def test_what_is_kept_is_not_lent_and_limits_of_borrowing_shape_what_a_parent_could_lend() -> None:
    keeping = [queue("a", cpu(4), "all", lendingLimit=cpu(1)), queue("b", cpu(4), "all")]
    found = shares(keeping, [], {"b": cpu(5)})
    assert (found.lendable((COHORT, "all")), value(found, "b")) == ({"cpu": 5000}, 200)
    limited = [queue("a", cpu(4), "low"), queue("b", cpu(16), "top")]
    found = shares(limited, [cohort("low", cpu(0), "top", borrowingLimit=cpu(6))], {"a": cpu(6)})
    assert (found.lendable((COHORT, "low")), value(found, "a")) == ({"cpu": 10_000}, 200)
    assert finite(found.share((COHORT, "low"))) == 100


def test_an_unlimited_quota_makes_every_share_small() -> None:
    found = shares(
        [queue("a", {"default": {"cpu": 0}}, "all"), queue("b", {"default": {"cpu": 10**16}}, "all")], [], {}
    )
    assert found.lendable((COHORT, "all")) == {"cpu": 2**63 - 1}


# Facts of the specification, as states in which a decision is made.


def test_120_121_a_preemptor_of_twice_the_weight_counts_half() -> None:
    incoming = {"a": cpu(5), "b": cpu(5)}
    assert surely_equal(of(shares(threes(), [], incoming), "a"), of(shares(threes(), [], incoming), "b"))
    found = shares(threes(a="2"), [], incoming)
    assert surely_above(of(found, "b"), of(found, "a"))


def test_125_a_queue_over_nominal_in_a_cohort_that_does_not_borrow() -> None:
    queues = [queue("a", cpu(2), "low"), queue("b", cpu(4), "low"), queue("c", cpu(4), "top")]
    found = shares(queues, [cohort("low", parent="top")], {"a": cpu(5)})
    assert of(found, "a").borrowed
    assert not found.share((COHORT, "low")).borrowed


def test_128_the_share_of_a_cohort_counts_where_the_paths_part() -> None:
    none = {"default": {"cpu": 0}}
    queues = [queue(name, none, parent) for name, parent in [("d", "B"), ("e", "B"), ("f", "C"), ("g", "C")]]
    cohorts = [cohort("A", cpu(200)), cohort("B", parent="A"), cohort("C", parent="A")]
    held = {"d": 10, "e": 20, "f": 0, "g": 100}
    heads = {"d": 70, "e": 61, "f": 1, "g": 1}

    def with_head(name: str, node: NodeName) -> float:
        usage = {each: cpu(amount + (heads[each] if each == name else 0)) for each, amount in held.items()}
        return finite(shares(queues, cohorts, usage).share(node))

    assert [with_head(name, (QUEUE, name)) for name in "defg"] == [400, 405, 5, 505]
    assert (with_head("d", (COHORT, "B")), with_head("f", (COHORT, "C"))) == (500, 505)
    forest = Forest(queues, cohorts)
    assert sides(forest, "d", "f") == ((COHORT, "B"), (COHORT, "C"))
    assert sides(forest, "d", "e") == ((QUEUE, "d"), (QUEUE, "e"))
    assert sides(forest, "d", "d") is None


def test_queues_of_different_trees_are_not_compared() -> None:
    forest = Forest([queue("a", cpu(1), "x"), queue("b", cpu(1), "y"), queue("c", cpu(1))], [])
    assert sides(forest, "a", "b") is None
    assert sides(forest, "a", "c") is None


def test_shares_that_differ_only_by_rounding_are_neither_above_nor_equal() -> None:
    left, right = Share(Fraction(1), Fraction(3)), Share(Fraction(2), Fraction(6))
    assert not surely_equal(left, right)
    assert not surely_above(left, right)
    assert surely_equal(Share(weight=Fraction(0)), Share())
    assert str(Share(Fraction(1000, 3))) == "333.333"


# The naive formula: everything recomputed from nested dictionaries, one number at a time.

NAMES = ("a", "b", "c", "d")
PARENTS: dict[str, str | None] = {
    "a": "low",
    "b": "low",
    "c": "mid",
    "d": "top",
    "low": "mid",
    "mid": "top",
    "top": None,
}
PAIRS = (("f", "cpu"), ("g", "cpu"), ("f", "gpu"))
amounts = st.integers(0, 9)
limit = st.one_of(st.none(), amounts)
node = st.fixed_dictionaries(
    {
        "nominal": st.tuples(*(amounts,) * 3),
        "borrow": st.tuples(*(limit,) * 3),
        "lend": st.tuples(*(limit,) * 3),
        "weight": st.sampled_from(["0", "0.5", "1", "3"]),
        "uses": st.tuples(*(st.integers(0, 20),) * 3),
    }
)


class Naive:
    """Shares by the letter of the definition."""

    def __init__(self, nodes: Mapping[str, Tree]) -> None:
        self.nodes = nodes

    def children(self, name: str) -> list[str]:
        return [each for each in PARENTS if PARENTS[each] == name]

    def has(self, name: str, pair: int) -> int:
        below = [self.has(each, pair) - self.keeps(each, pair) for each in self.children(name)]
        return int(self.nodes[name]["nominal"][pair]) + sum(below)

    def keeps(self, name: str, pair: int) -> int:
        lend = self.nodes[name]["lend"][pair]
        return 0 if lend is None or PARENTS[name] is None else max(0, self.has(name, pair) - int(lend))

    def uses(self, name: str, pair: int) -> int:
        if name in NAMES:
            return int(self.nodes[name]["uses"][pair])
        return sum(max(0, self.uses(each, pair) - self.keeps(each, pair)) for each in self.children(name))

    def could(self, name: str, pair: int) -> int:
        parent = PARENTS[name]
        if parent is None:
            return self.has(name, pair)
        most, borrow = self.keeps(name, pair) + self.could(parent, pair), self.nodes[name]["borrow"][pair]
        return most if borrow is None else min(most, self.has(name, pair) + int(borrow))

    def ratio(self, name: str) -> Fraction:
        parent = PARENTS[name]
        assert parent is not None
        best = Fraction(0)
        for resource in ("cpu", "gpu"):
            pairs = [number for number, pair in enumerate(PAIRS) if pair[1] == resource]
            borrowed = sum(max(0, self.uses(name, pair) - self.has(name, pair)) for pair in pairs)
            lend = sum(self.could(parent, pair) for pair in pairs)
            best = max(best, Fraction(1000 * borrowed, lend) if lend > 0 else Fraction(0))
        return best


def cells(numbers: tuple[int | None, ...]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (flavor, resource), number in zip(PAIRS, numbers, strict=True):
        if number is not None:
            found.setdefault(flavor, {})[resource] = number
    return found


@given(st.fixed_dictionaries(dict.fromkeys(PARENTS, node)))
def test_shares_are_those_of_the_naive_formula(nodes: Mapping[str, Tree]) -> None:
    def parts(name: str) -> Tree:
        limits = {"borrowingLimit": cells(nodes[name]["borrow"]), "lendingLimit": cells(nodes[name]["lend"])}
        return {
            "cells": cells(nodes[name]["nominal"]),
            "weight": nodes[name]["weight"],
            **(limits if name != "top" else {}),
        }

    queues = [queue(name, cohort=str(PARENTS[name]), **parts(name)) for name in NAMES]
    cohorts = [cohort(name, parent=PARENTS[name] or "", **parts(name)) for name in ("low", "mid", "top")]
    found = shares(queues, cohorts, {name: cells(nodes[name]["uses"]) for name in NAMES})
    naive = Naive(nodes)
    for name, parent in PARENTS.items():
        if parent is not None:
            share = found.share((QUEUE if name in NAMES else COHORT, name))
            assert (share.ratio, share.weight) == (naive.ratio(name), Fraction(nodes[name]["weight"]))
