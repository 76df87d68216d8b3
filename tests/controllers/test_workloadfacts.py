"""The engine is told the level of each Workload: its object, its surroundings, its backoff, its pending reason."""

from typing import Any

import msgspec
import pytest

from pykueue.api.codec import decode_as
from pykueue.api.config.file import default_configuration
from pykueue.api.pods import LimitRange, decode
from pykueue.api.workload import Workload
from pykueue.base.clock import ManualClock
from pykueue.controllers.cluster import Cluster, settings
from pykueue.controllers.pendingreasons import PendingReasons
from pykueue.controllers.workloadfacts import WorkloadFacts
from pykueue.controllers.writebackoff import WriteBackoff
from pykueue.engine import model
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Fact, Gone, Seen
from tests.builders import condition, workload
from tests.fakes.faulty import Faulty

TEAM = "team"


class Told(WorkloadFacts):
    """The facts of Workloads, which also records what it tells the engine."""

    def __init__(self) -> None:
        clock = ManualClock()
        store = Faulty(clock)
        cluster = Cluster(store, store, clock, settings(default_configuration()), instance="host")
        engine = Engine(cluster.settings.options)
        self.told: list[Fact] = []
        super().__init__(cluster, engine, PendingReasons(engine), WriteBackoff(clock), self.tell)

    def tell(self, fact: Fact) -> None:
        self.told.append(fact)
        self.engine.observe(fact)

    def facts(self) -> list[Fact]:
        """What the engine was told since the last call."""
        told, self.told = self.told, []
        return told

    def level_told(self) -> model.Workload:
        """The level that the engine was told, and nothing else."""
        (fact,) = self.facts()
        assert isinstance(fact, Seen)
        assert isinstance(fact.thing, model.Workload)
        return fact.thing


@pytest.fixture
def facts() -> Told:
    return Told()


def seen(name: str = "w", status: dict[str, Any] | None = None, version: str = "7", **metadata: Any) -> Workload:
    held = {"uid": name, "generation": 1, "resourceVersion": version, "creationTimestamp": "2026-01-01T00:00:00Z"}
    tree = workload(name, "main", namespace=TEAM, metadata=held | metadata) | {"status": status or {}}
    return decode_as(Workload, msgspec.json.encode(tree))


def test_a_workload_is_told_with_its_version(facts: Told) -> None:
    facts.see("team/w", seen())
    (fact,) = facts.facts()
    assert isinstance(fact, Seen)
    assert isinstance(fact.thing, model.Workload)
    assert (fact.thing.key, fact.thing.local_queue, fact.version) == ("team/w", "team/main", 7)
    assert dict(fact.thing.pod_sets[0].requests)["cpu"] == 1000
    assert facts.reasons.waiting == {"team/w"}


def test_what_was_read_serves_until_the_workload_changes(facts: Told) -> None:
    facts.see("team/w", seen())
    first = facts.read["team/w"]
    facts.see("team/w", seen(version="8"))
    assert facts.read["team/w"] is first
    facts.see("team/w", seen(generation=2))
    assert facts.read["team/w"] is not first


def test_equal_workloads_share_their_pod_sets(facts: Told) -> None:
    facts.see("team/a", seen("a"))
    facts.see("team/b", seen("b"))
    assert facts.read["team/a"].pod_sets is facts.read["team/b"].pod_sets


def test_a_finished_workload_is_gone_for_the_engine_once(facts: Told) -> None:
    over = seen(status={"conditions": [condition("Finished")]})
    facts.see("team/w", over)
    assert facts.facts() == []
    facts.see("team/w", seen())
    facts.facts()
    facts.see("team/w", over)
    assert facts.facts() == [Gone("Workload", "team/w")]
    assert (facts.read, facts.reasons.waiting) == ({}, set())
    facts.see("team/w", over)
    assert facts.facts() == []


def test_a_workload_that_cannot_be_understood_is_left_out(facts: Told, caplog: pytest.LogCaptureFixture) -> None:
    facts.see("team/w", seen(creationTimestamp="yesterday"))
    assert facts.facts() == [Gone("Workload", "team/w")]
    assert "workloads: ignored an invalid Workload" in caplog.text


def test_a_deleted_workload_is_gone(facts: Told) -> None:
    facts.see("team/w", seen())
    facts.facts()
    facts.remove("team/w")
    assert facts.facts() == [Gone("Workload", "team/w")]
    assert facts.read == {}


def test_a_workload_in_backoff_is_held_off_with_the_reason(facts: Told) -> None:
    facts.backoff.start("team/w", "too large")
    facts.see("team/w", seen())
    level = facts.level_told()
    assert (level.held_off, level.problem) == (True, "too large")
    facts.backoff.clear("team/w")
    facts.see("team/w", seen())
    level = facts.level_told()
    assert (level.held_off, level.problem) == (False, "")


def memory(facts: Told) -> int:
    """The memory that the Workload requests, as the engine is told now."""
    facts.see("team/w", seen())
    return dict(facts.level_told().pod_sets[0].requests).get("memory", 0)


def test_surroundings_are_read_once_and_again_after_they_changed(facts: Told) -> None:
    limits = [{"type": "Container", "defaultRequest": {"memory": "1Gi"}}]
    tree = {"metadata": {"name": "limits", "namespace": TEAM}, "spec": {"limits": limits}}
    ranges = facts.cluster.limit_ranges.objects
    assert memory(facts) == 0
    ranges["team/limits"] = decode(msgspec.json.encode(tree), LimitRange)
    facts.forget_surroundings("other")
    assert memory(facts) == 0
    facts.forget_surroundings(TEAM)
    assert memory(facts) == 1 << 30
    assert facts.surroundings("other").limit_ranges == ()
    del ranges["team/limits"]
    facts.forget_surroundings("")
    assert (memory(facts), list(facts.around)) == (0, ["", TEAM])
    assert facts.surroundings("other") is facts.surroundings(TEAM), "without a LimitRange, namespaces share them"
