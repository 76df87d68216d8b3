"""Are the last decisions kept, and never more than a fixed number of them?"""

import pytest

from pykueue.base.units import Instant
from pykueue.engine.decisions import Admit, Evict, Queued, Requeue, RequeueReason, Wait, WaitReason
from pykueue.engine.engine import Engine
from pykueue.engine.record import recent
from pykueue.engine.record.recent import DECISIONS_MAX, Recent
from tests.engine.record.explained import System, queue


def again(key: str, at: int) -> Requeue:
    return Requeue(key, RequeueReason.BACKOFF_FINISHED, Instant(at))


def wait(key: str, at: int) -> Wait:
    return Wait(key, WaitReason.PENDING_EVALUATION, Queued(), Instant(at))


def test_a_workload_that_only_waits_is_not_kept() -> None:
    kept = Recent()
    kept.note(Engine(), [wait("a", 1)])
    assert kept.of("a") == ()


def test_of_reasons_to_wait_only_the_last_is_kept() -> None:
    kept = Recent()
    kept.note(Engine(), [again("a", 1), wait("a", 2), wait("a", 3), again("a", 4), wait("a", 5)])
    assert [one.decision.at for one in kept.of("a")] == [1, 3, 4, 5]


def test_a_workload_keeps_its_last_decisions() -> None:
    kept = Recent()
    kept.note(Engine(), [again("a", number) for number in range(20)])
    assert [one.decision.at for one in kept.of("a")] == [*range(20 - DECISIONS_MAX, 20)]


def test_it_is_known_whether_there_were_older_decisions() -> None:
    kept = Recent()
    kept.note(Engine(), [again("a", number) for number in range(DECISIONS_MAX)])
    assert not kept.has_forgotten("a")
    kept.note(Engine(), [again("a", DECISIONS_MAX)])
    assert (kept.has_forgotten("a"), len(kept.of("a"))) == (True, DECISIONS_MAX)
    assert not kept.has_forgotten("b")


def test_the_workload_about_which_nothing_was_decided_for_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "WORKLOADS_MAX", 2)
    kept = Recent()
    kept.note(Engine(), [again("a", 1), again("b", 2), again("a", 3), again("c", 4)])
    assert [*kept.decisions] == ["a", "c"]
    kept.clear()
    assert kept.of("a") == ()


def test_starts_that_were_forgotten_make_the_count_a_least() -> None:
    system = System(queue("main", 2))
    system.submit("runs", "main", 1)
    system.submit("waits", "main", 2)
    system.submit("past", "main", 1)
    item = system.engine.item("lab/waits")
    assert item is not None
    found = system.recent.overtakings(item)
    assert (found.count, found.since) == (1, None)
    for _ in range(recent.STARTS_MAX):
        system.recent.starts.append(system.recent.starts[-1])
    assert system.recent.overtakings(item).since == system.now


def test_starts_of_other_queues_and_before_it_came_do_not_count() -> None:
    system = System(queue("main", 2), queue("other", 2))
    system.submit("old", "main", 1, priority=-5)
    system.submit("waits", "main", 2)
    system.submit("elsewhere", "other", 1)
    system.submit("urgent", "main", 1, priority=5)
    item = system.engine.item("lab/waits")
    assert item is not None
    assert system.recent.overtakings(item).count == 0


def test_decisions_are_kept_as_they_were_made() -> None:
    system = System(queue("main", 2))
    system.submit("low", "main", 2)
    system.submit("high", "main", 2, priority=5)
    kinds = [type(one.decision) for one in system.recent.of("lab/low")]
    assert kinds == [Admit, Evict]
    assert [one.preemption is not None for one in system.recent.of("lab/low")] == [False, True]
