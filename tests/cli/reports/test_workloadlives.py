"""Is the life of a workload right, whatever is refused, seen late or missed between two processes?"""

import msgspec

from pykueue.base.units import MICROS, Instant
from pykueue.cli.reports.workloadlives import Lives
from pykueue.engine.decisions import (
    Admit,
    Bypassed,
    Deactivate,
    Evict,
    EvictionReason,
    PreemptionReason,
    Queued,
    Reserve,
    Unassigned,
    Unreserve,
    Wait,
    WaitReason,
)
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Gone, Refused, Seen, Synced
from pykueue.engine.model import Admission, Assignment, ClusterQueue, LocalQueue, Quota, Workload
from pykueue.engine.record.checkpoint import checkpoint

ADMISSION = Admission("red", (Assignment("main", (("cpu", "spot"),), (("cpu", 2000),), 1),))
LEVEL = Workload("lab/w", "u", "lab/team", Instant(0))


def second(number: int) -> Instant:
    return Instant(number * MICROS)


def evict(at: int, preemption: PreemptionReason | None = PreemptionReason.RECLAIM) -> Evict:
    return Evict("lab/w", EvictionReason.PREEMPTED, "", second(at), preemption=preemption)


def unreserve(at: int) -> Unreserve:
    return Unreserve("lab/w", WaitReason.PENDING, Queued(), second(at))


def admit(at: int) -> Admit:
    return Admit("lab/w", ADMISSION, 0, second(at))


def begun(level: Workload = LEVEL) -> Lives:
    lives = Lives()
    lives.at(second(1))
    lives.begin(checkpoint(Engine()))
    lives.observe(Seen(level))
    lives.observe(Synced())
    return lives


def test_a_workload_that_is_preempted_and_comes_back() -> None:
    lives = begun()
    lives.decide(Wait("lab/w", WaitReason.PENDING, Queued(), second(1)))
    for decision in (admit(10), evict(30), unreserve(32), admit(50)):
        lives.at(decision.at)
        lives.decide(decision)
    lives.at(second(70))
    lives.observe(Seen(msgspec.structs.replace(LEVEL, finished=True)))
    (life,) = lives.all()
    assert life.waits == [(0, second(10)), (second(30), second(50))]
    assert [(run.begin, run.end, run.evicted) for run in life.runs] == [
        (second(10), second(30), True),
        (second(50), second(70), False),
    ]
    assert [(one.begin, one.end) for one in life.holdings] == [(second(10), second(32)), (second(50), second(70))]
    assert (life.preempted, life.lost, life.requests, life.state) == (1, second(20), {"cpu": 2000}, "ended")
    assert life.waits_for is not None


def test_the_reason_of_a_wait_is_not_that_of_the_wait_before() -> None:
    lives = begun()
    bypassed = Wait("lab/w", WaitReason.WAITING_FOR_QUOTA, Bypassed(), second(32))
    leaving = Wait("lab/w", WaitReason.WAITING_FOR_PREEMPTED, Unassigned((), victims=1), second(5))
    short = Wait("lab/w", WaitReason.WAITING_FOR_QUOTA, Unassigned(()), second(33))
    (life,) = lives.all()
    for decision, reason in (
        (leaving, leaving),
        (admit(10), leaving),
        (evict(30), leaving),
        (bypassed, bypassed),
        (short, short),
        (bypassed, short),
    ):
        lives.decide(decision)
        assert life.waits_for == reason


def test_a_refused_decision_is_taken_back() -> None:
    lives = begun()
    lives.decide(admit(10))
    lives.decide(evict(20))
    lives.at(second(21))
    lives.observe(Refused("lab/w"))
    (life,) = lives.all()
    assert (life.running, life.runs, life.lost, life.waiting) == (second(10), [], 0, None)
    lives.observe(Refused("lab/w"))
    lives.observe(Refused("lab/unknown"))
    assert life.running == second(10), "once is enough"


def test_checks_hold_quota_before_the_start_and_inactive_ones_do_not_wait() -> None:
    lives = begun()
    lives.decide(Reserve("lab/w", ADMISSION, 0, second(5)))
    lives.decide(admit(8))
    lives.decide(evict(10, None))
    lives.decide(unreserve(10))
    lives.decide(Deactivate("lab/w", None, "", second(20)))
    (life,) = lives.all()
    life.close(second(40))
    assert [(one.begin, one.end) for one in life.holdings] == [(second(5), second(10))]
    assert life.waits == [(0, second(8)), (second(10), second(20))]
    assert (life.state, life.preempted) == ("inactive", 0)


def test_what_holds_quota_when_the_journal_begins_does_so_since_its_reservation() -> None:
    level = msgspec.structs.replace(LEVEL, admission=ADMISSION, reserved_at=second(-5), admitted_at=second(-4))
    lives = begun(level)
    (life,) = lives.all()
    life.close(second(9))
    assert [(one.begin, one.end) for one in life.holdings] == [(second(-5), second(9))]
    assert (life.started, life.state) == (second(-4), "running")


def test_a_stale_level_changes_nothing() -> None:
    lives = begun()
    lives.decide(admit(10))
    lives.observe(Seen(LEVEL))
    (life,) = lives.all()
    assert life.running == second(10)


def test_what_went_while_no_process_was_there_ended_when_it_was_last_seen() -> None:
    lives = begun()
    lives.decide(admit(10))
    lives.at(second(20))
    lives.at(second(500))
    lives.begin(checkpoint(Engine()))
    lives.observe(Synced())
    (life,) = lives.all()
    assert life.ended == second(20)


def test_a_new_workload_of_the_same_name_is_another_one() -> None:
    lives = begun()
    lives.at(second(5))
    lives.observe(Seen(msgspec.structs.replace(LEVEL, uid="v", created=second(5))))
    lives.observe(Gone("Workload", "lab/w"))
    assert [(life.uid, life.ended) for life in lives.all()] == [("u", second(5)), ("v", second(5))]


def test_one_that_is_deactivated_and_activated_again_waits_only_while_it_is_active() -> None:
    lives = begun()
    lives.at(second(10))
    lives.observe(Seen(msgspec.structs.replace(LEVEL, active=False)))
    lives.at(second(30))
    lives.observe(Seen(LEVEL))
    lives.decide(admit(35))
    (life,) = lives.all()
    assert life.waits == [(0, second(10)), (second(30), second(35))]


def test_quotas_change_over_time() -> None:
    lives = begun()
    first = ClusterQueue("red", quotas=(Quota("spot", "cpu", 4000),))
    lives.observe(Seen(first))
    lives.observe(Seen(LocalQueue("lab/team", "red")))
    lives.at(second(50))
    lives.observe(Seen(first))
    lives.observe(Seen(ClusterQueue("red", quotas=(Quota("spot", "cpu", 8000),))))
    lives.at(second(60))
    lives.observe(Gone("ClusterQueue", "red"))
    assert [(one.nominal, one.since) for one in lives.quotas] == [(4000, 0), (8000, second(50)), (0, second(60))]
    assert lives.local == {"lab/team": "red"}
