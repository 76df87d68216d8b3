"""Does the auditor count as the definitions of quota say? Worked rows, and a search for any room that it denies."""

import random
from typing import Any

import msgspec
import pytest

from pykueue.api.kueue import ClusterQueue, Cohort
from pykueue.audit.tree import COHORT, QUEUE, Account, Forest
from pykueue.base.units import UNLIMITED
from tests.audit.told import quotas

SLOT = ("default", "cpu")


def queue(name: str, cpu: int | str, cohort: str = "", **limits: Any) -> ClusterQueue:
    spec = {"resourceGroups": quotas(cpu, **limits), "cohortName": cohort or None}
    tree = {"metadata": {"name": name}, "spec": {key: value for key, value in spec.items() if value}}
    return msgspec.convert(tree, ClusterQueue)


def cohort(name: str, cpu: int = 0, parent: str = "", **limits: Any) -> Cohort:
    spec = {"resourceGroups": quotas(cpu, **limits), "parentName": parent or None}
    tree = {"metadata": {"name": name}, "spec": {key: value for key, value in spec.items() if value}}
    return msgspec.convert(tree, Cohort)


def account(queues: list[ClusterQueue], cohorts: list[Cohort], **cpu: int) -> Account:
    """The account of the one tree, in thousandths, when the queues hold so much cpu."""
    forest = Forest(queues, cohorts)
    (root,) = set(forest.roots.values())
    assert root is not None
    return Account(forest, root, SLOT, {name: {SLOT: held * 1000} for name, held in cpu.items()})


def left(found: Account, *names: str) -> list[int]:
    return [found.left((QUEUE, name)) // 1000 for name in names]


def test_limits_of_borrowing_and_lending_shape_what_is_left() -> None:
    queues = [queue("a", 10, "co"), queue("b", 10, "co", borrow=2), queue("c", 10, "co", lend=5)]
    assert left(account(queues, [cohort("co", 10)]), "a", "b", "c") == [35, 12, 40]
    assert left(account(queues, [cohort("co", 10)], a=20, b=10, c=6), "a", "b", "c") == [4, 2, 4]


def test_a_debt_eats_what_others_have_left() -> None:
    queues = [queue("a", 10, "co"), queue("b", 10, "co", borrow=0, lend=0)]
    found = account(queues, [cohort("co", 10)], a=31)
    assert left(found, "a", "b") == [-11, -1]
    assert found.excesses() == {(COHORT, "co"): 11_000}


@pytest.mark.parametrize(
    ("held", "over"),
    [
        pytest.param({"a": 12}, {}, id="all that may be borrowed"),
        pytest.param({"a": 13}, {(QUEUE, "a"): 1000}, id="one more than may be borrowed"),
        pytest.param({"a": 12, "b": 8}, {}, id="everything there is"),
        pytest.param({"a": 12, "b": 9}, {(COHORT, "co"): 1000}, id="one more than there is"),
    ],
)
def test_each_limit_is_a_limit_of_its_node(held: dict[str, int], over: dict[tuple[str, str], int]) -> None:
    queues = [queue("a", 10, "co", borrow=2), queue("b", 10, "co")]
    assert account(queues, [], **held).excesses() == over


def test_a_cohort_in_a_cohort_borrows_within_its_own_limit() -> None:
    queues = [queue("a", 4, "left"), queue("b", 6, "right")]
    cohorts = [cohort("left", 0, "top", borrow=3), cohort("right", 0, "top"), cohort("top")]
    assert left(account(queues, cohorts), "a", "b") == [7, 10]
    assert account(queues, cohorts, a=8).excesses() == {(COHORT, "left"): 1000}


def test_what_is_kept_from_others_is_not_counted_above() -> None:
    queues = [queue("a", 10, "co", lend=4), queue("b", 0, "co")]
    found = account(queues, [], a=6, b=4)
    assert found.excesses() == {}
    assert left(found, "a", "b") == [0, 0]


def test_a_queue_alone_has_its_own_and_no_more() -> None:
    found = account([queue("a", 4)], [], a=5)
    assert found.excesses() == {(QUEUE, "a"): 1000}
    assert found.may_use((QUEUE, "a")) == 4000


def test_what_is_unlimited_stays_so() -> None:
    found = account([queue("a", "10P", "co"), queue("b", 0, "co")], [], a=5, b=7)
    assert found.left((QUEUE, "b")) == UNLIMITED


def test_a_circle_of_cohorts_belongs_to_no_tree() -> None:
    forest = Forest([queue("a", 1, "x")], [cohort("x", 1, "y"), cohort("y", 1, "x")])
    assert forest.root_of("a") is None


def test_what_is_left_is_exactly_what_may_be_added() -> None:
    """Whatever the limits, adding all that is left breaks no limit, and adding one more breaks one."""
    rng = random.Random(7)
    for _ in range(400):
        limits = [{key: rng.randint(0, 6) for key in ("borrow", "lend") if rng.random() < 0.5} for _ in range(5)]
        queues = [queue(name, rng.randint(0, 8), rng.choice(["x", "y"]), **limits[i]) for i, name in enumerate("abc")]
        cohorts = [cohort("x", rng.randint(0, 4), "y", **limits[3]), cohort("y", rng.randint(0, 4))]
        held: dict[str, int] = {}
        for name in "abcabc":
            room = left(account(queues, cohorts, **held), name)[0]
            assert room >= 0
            held[name] = held.get(name, 0) + rng.randint(0, room)
        found = account(queues, cohorts, **held)
        assert found.excesses() == {}
        for name in "abc":
            room = left(found, name)[0]
            full = {**held, name: held[name] + room}
            assert account(queues, cohorts, **full).excesses() == {}
            assert account(queues, cohorts, **{**full, name: full[name] + 1}).excesses() != {}
