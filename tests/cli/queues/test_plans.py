"""The queues that `pykueue queue` plans."""

from fractions import Fraction
from typing import Any

import pytest

from pykueue.cli.queues.examples import cluster_queue
from pykueue.cli.queues.plans import (
    PlanError,
    capacity,
    changed,
    described,
    limited,
    overcommitted,
    quotas,
    share_of,
    shared,
)
from pykueue.cli.queues.quotas import nominal

GI = 2**30
MACHINE = {"cpu": 4000, "memory": 10 * GI, "nvidia.com/gpu": 3}


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("25%", Fraction(1, 4)),
        ("12.5%", Fraction(1, 8)),
        ("1/3", Fraction(1, 3)),
        ("0", Fraction(0)),
        ("1", Fraction(1)),
    ],
)
def test_a_share_is_read(text: str, share: Fraction) -> None:
    assert share_of(text) == share


@pytest.mark.parametrize("text", ["", "half", "0.5", "-1/2", "1/0", "3/2", "101%", "50 %", "\u0665%"])
def test_a_share_that_is_none_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(PlanError, match=r"; (write|use) "):
        share_of(text)


def test_a_machine_is_divided_without_pods_and_disks() -> None:
    allocatable = {"memory": "10Gi", "pods": "110", "ephemeral-storage": "9Ti", "nvidia.com/gpu": "3", "cpu": "4"}
    found = capacity([{"status": {"allocatable": {**allocatable, "hugepages-2Mi": "0", "bad": "x y"}}}])
    assert found == MACHINE
    assert list(found) == ["cpu", "memory", "nvidia.com/gpu"]
    assert capacity([{"status": {"allocatable": {"cpu": "1500m"}}}] * 2) == {"cpu": 3000}


def test_shares_are_rounded_down() -> None:
    assert shared(MACHINE, Fraction(1, 3)) == {"cpu": "1333m", "memory": "3413Mi", "nvidia.com/gpu": "1"}
    assert shared(MACHINE, Fraction(1, 4))["nvidia.com/gpu"] == "0"


def test_what_is_named_counts_before_the_share() -> None:
    assert quotas({"cpu": "3"}, "50%", MACHINE) == {"cpu": "3", "memory": "5Gi", "nvidia.com/gpu": "1"}
    assert quotas({"cpu": "3"}, None, MACHINE) == {"cpu": "3", "memory": "0", "nvidia.com/gpu": "0"}


def test_a_quota_is_changed_where_it_is() -> None:
    before = cluster_queue("a", {"cpu": "1", "memory": "1Gi"})
    after = changed(before, {"memory": "2Gi"})
    assert after == cluster_queue("a", {"cpu": "1", "memory": "2Gi"})
    assert before == cluster_queue("a", {"cpu": "1", "memory": "1Gi"})
    with pytest.raises(PlanError, match="has no quota for nvidia"):
        changed(before, {"nvidia.com/gpu": "1"})


def test_a_resource_in_several_flavors_is_not_guessed() -> None:
    tree: Any = cluster_queue("a", {"cpu": "1"})
    flavors = tree["spec"]["resourceGroups"][0]["flavors"]
    flavors.append({**flavors[0], "name": "other"})
    with pytest.raises(PlanError, match="has cpu in 2 flavors"):
        changed(tree, {"cpu": "2"})


def test_a_queue_can_be_kept_from_borrowing_and_lending() -> None:
    made = limited(cluster_queue("a", {"cpu": "1"}), ["borrowingLimit", "lendingLimit"])
    [group] = made["spec"]["resourceGroups"]
    assert group["flavors"][0]["resources"] == [
        {"name": "cpu", "nominalQuota": "1", "borrowingLimit": "0", "lendingLimit": "0"}
    ]


def test_queues_that_own_more_than_there_is_are_named() -> None:
    queues = [cluster_queue("a", {"cpu": "3", "memory": "5Gi"}), cluster_queue("b", {"cpu": "2", "memory": "5Gi"})]
    [warning] = overcommitted(nominal(queues), MACHINE)
    assert warning.startswith("all queues together own 5 cpu, but the machine has 4: ")
    [warning] = overcommitted(nominal([cluster_queue("a", {"example.com/npu": "1"})]), MACHINE)
    assert warning.startswith("all queues together own 1 example.com/npu, but the machine has 0: ")


def test_quotas_in_words() -> None:
    assert described({"cpu": "2", "memory": "0"}) == "it owns 2 cpu, and borrows memory"
    assert described({"cpu": "2"}) == "it owns 2 cpu"
    assert described({"cpu": "0", "memory": "0"}) == "it owns no quota and uses what it can borrow"
