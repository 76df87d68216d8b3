"""A decision that takes quota names the releases in its tree that are decided and not stored yet."""

from collections.abc import Callable

import pytest

from pykueue.engine.decisions import Admit, Decision
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Fact, Gone, Refused, Seen, Stopped, Written
from pykueue.engine.model import LocalQueue, Policy, Preemption, Thing
from pykueue.engine.record.checkpoint import checkpoint, restore
from pykueue.engine.record.invariants import broken
from tests.engine.test_engine import NOW, engine_with, kinds, queue, run, workload

PREEMPTING = Preemption(Policy.LOWER)


def releasing(cohort: str = "") -> tuple[Engine, list[Decision]]:
    """An engine that has just decided that `low` gives its quota back and `high` takes it."""
    engine = engine_with(queue(cohort=cohort, preemption=PREEMPTING), workload("low"))
    run(engine)
    engine.observe(Seen(workload("high", priority=1)))
    run(engine)
    engine.observe(Stopped("red/low"))
    decisions = engine.decide(NOW)
    assert kinds(decisions) == [("Unreserve", "low"), ("Admit", "high")]
    return engine, decisions


def named_by_the_next(engine: Engine, *things: Thing, local: str = "q") -> tuple[str, ...]:
    """The workloads that the next admission comes after, once `high` is gone."""
    engine.observe(Gone("Workload", "red/high"))
    for thing in (*things, workload("next", local=local, priority=2)):
        engine.observe(Seen(thing))
    decisions = [decision for _ in range(3) for decision in engine.decide(NOW)]
    assert list(broken(engine)) == []
    (found,) = [one for one in decisions if isinstance(one, Admit) and one.workload == "red/next"]
    return found.after


def test_an_admission_into_released_quota_comes_after_the_release() -> None:
    engine, decisions = releasing()
    assert [one.after for one in decisions if isinstance(one, Admit)] == [("red/low",)]
    assert named_by_the_next(engine) == ("red/low",)


def test_an_admission_in_another_tree_comes_after_nothing() -> None:
    engine, _ = releasing()
    assert named_by_the_next(engine, queue("isle"), LocalQueue("red/isle", "isle"), local="isle") == ()


@pytest.mark.parametrize("end", [Written, lambda key: Gone("Workload", key)], ids=["stored", "deleted"])
def test_a_release_that_is_over_is_not_named(end: Callable[[str], Fact]) -> None:
    engine, _ = releasing()
    engine.observe(end("red/low"))
    assert named_by_the_next(engine) == ()


def test_a_refused_release_is_not_named() -> None:
    engine, _ = releasing()
    engine.observe(Refused("red/low"))
    assert engine.world.releasing == {}


def test_a_release_follows_its_queue_into_another_cohort() -> None:
    engine, _ = releasing("land")
    assert named_by_the_next(engine, queue(cohort="sea", preemption=PREEMPTING)) == ("red/low",)


def test_a_checkpoint_keeps_the_record() -> None:
    engine, _ = releasing()
    assert named_by_the_next(restore(checkpoint(engine))) == ("red/low",)
