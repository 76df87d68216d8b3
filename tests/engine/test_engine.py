"""Does the front door keep its word: levels in, decisions out, nothing twice, nothing early, nothing forgotten?"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from pykueue.base.units import MICROS, Instant, Seconds, after
from pykueue.engine.decisions import Admit, Decision, Evict, EvictionReason, Requeue, Reserve, Unreserve, Wait
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Fact, Gone, Leading, Refused, Seen, Stopped, Synced, Written
from pykueue.engine.model import (
    Admission,
    Assignment,
    Check,
    CheckRule,
    CheckState,
    ClusterQueue,
    Cohort,
    Flavor,
    LocalQueue,
    Namespace,
    Options,
    PodSet,
    PodsReady,
    PodsReadyOptions,
    Policy,
    Preemption,
    Quota,
    ResourceGroup,
    Selector,
    StopPolicy,
    Thing,
    Workload,
)
from pykueue.engine.record.invariants import at_rest, broken, overlooked

NOW = Instant(1_000 * MICROS)
TIMEOUT = Seconds(1800)
CYCLES_MAX = 50


def queue(name: str = "q", nominal: int = 4, cohort: str = "", **rest: Any) -> ClusterQueue:
    groups, quotas = (ResourceGroup(("cpu",), ("spot",)),), (Quota("spot", "cpu", nominal),)
    return ClusterQueue(name, cohort, groups, quotas, namespaces=Selector(), **rest)


def workload(name: str = "w", cpu: int = 4, local: str = "q", created: int = 0, **rest: Any) -> Workload:
    pods = (PodSet("main", 1, (("cpu", cpu),)),)
    return Workload(f"red/{name}", name, f"red/{local}", Instant(created), pods, **rest)


CLUSTER: tuple[Thing, ...] = (Namespace("red"), Flavor("spot"), queue(), LocalQueue("red/q", "q"))


def engine_with(*things: Thing, options: Options | None = None) -> Engine:
    engine = Engine(options)
    for thing in (*CLUSTER, *things):
        engine.observe(Seen(thing))
    engine.observe(Synced())
    return engine


def run(engine: Engine, now: Instant = NOW) -> list[Decision]:
    """Decide, and store every decision, until there is nothing more to do at this instant."""
    found: list[Decision] = []
    for _ in range(CYCLES_MAX):
        decided = engine.decide(now)
        found.extend(decided)
        for decision in decided:
            engine.observe(Written(decision.workload))
        if at_rest(engine, now):
            assert [*broken(engine), *overlooked(engine)] == []
            return found
    raise AssertionError(f"the engine does not come to rest: {found[-4:]}")


def edit(engine: Engine, name: str = "w", **changes: object) -> None:
    engine.observe(Seen(replace(engine.world.items[f"red/{name}"].workload, **changes)))


def kinds(decisions: list[Decision]) -> list[tuple[str, str]]:
    return [(type(decision).__name__, decision.workload.removeprefix("red/")) for decision in decisions]


def test_a_workload_that_fits_is_admitted_once() -> None:
    engine = engine_with(workload())
    assert kinds(run(engine)) == [("Admit", "w")]
    assert run(engine) == []


@pytest.mark.parametrize(
    "fact",
    [
        pytest.param(Seen(Flavor("spot")), id="a flavor"),
        pytest.param(Seen(Cohort("all", quotas=(Quota("spot", "cpu", 0),))), id="a cohort"),
        pytest.param(Seen(queue()), id="a queue"),
        pytest.param(Seen(LocalQueue("red/q", "q")), id="a local queue"),
        pytest.param(Seen(Namespace("red")), id="a namespace"),
        pytest.param(Seen(Check("budget", active=True)), id="a check"),
        pytest.param(Seen(workload("late", finished=True)), id="a workload that is done"),
        pytest.param(Gone("Flavor", "other"), id="a flavor that never was"),
        pytest.param(Gone("Cohort", "other"), id="a cohort that never was"),
        pytest.param(Gone("ClusterQueue", "other"), id="a queue that never was"),
        pytest.param(Gone("LocalQueue", "other"), id="a local queue that never was"),
        pytest.param(Gone("Namespace", "other"), id="a namespace that never was"),
        pytest.param(Gone("Check", "other"), id="a check that never was"),
        pytest.param(Gone("Workload", "red/other"), id="a workload that never was"),
        pytest.param(Stopped("red/other"), id="a stop of a workload that never was"),
        pytest.param(Stopped("red/w"), id="a stop of a workload that was not evicted"),
        pytest.param(Written("red/other"), id="a write of a workload that never was"),
        pytest.param(Refused("red/w"), id="a refusal of nothing"),
        pytest.param(Synced(), id="that all was told"),
        pytest.param(Leading(True), id="that it leads"),
    ],
)
def test_hearing_it_twice_changes_nothing(fact: Fact) -> None:
    engine = engine_with(workload())
    engine.observe(fact)
    run(engine)
    levels, wake = {key: item.workload for key, item in engine.world.items.items()}, engine.next_wake()
    evaluations = engine.evaluations
    engine.observe(fact)
    assert run(engine) == []
    assert {key: item.workload for key, item in engine.world.items.items()} == levels
    assert engine.next_wake() == wake
    if not isinstance(fact, Stopped):
        assert engine.evaluations == evaluations, "what is no news costs nothing"


def test_nothing_is_decided_before_everything_was_told() -> None:
    engine = Engine()
    for thing in (*CLUSTER, workload()):
        engine.observe(Seen(thing))
    assert engine.decide(NOW) == []
    assert engine.next_wake() is None
    engine.observe(Synced())
    assert engine.next_wake() is not None
    assert kinds(run(engine)) == [("Admit", "w")]


def test_a_follower_decides_nothing_and_catches_up_when_it_leads() -> None:
    engine = engine_with(workload())
    engine.observe(Leading(False))
    assert engine.decide(NOW) == []
    assert engine.next_wake() is None
    engine.observe(Seen(workload("late")))
    engine.observe(Gone("Workload", "red/w"))
    engine.observe(Leading(True))
    assert kinds(run(engine)) == [("Admit", "late")]


def test_the_order_of_the_first_picture_does_not_matter() -> None:
    things: list[Thing] = [*CLUSTER, workload("a", 2, created=1), workload("b", 3), workload("c", 2, created=2)]
    told = []
    for picture in (things, things[::-1]):
        engine = Engine()
        for thing in picture:
            engine.observe(Seen(thing))
        engine.observe(Synced())
        told.append(sorted(msgspec.json.encode(decision) for decision in run(engine)))
    assert told[0] == told[1]


def test_a_refused_admission_is_decided_again() -> None:
    engine = engine_with(workload())
    assert kinds(engine.decide(NOW)) == [("Admit", "w")]
    engine.observe(Refused("red/w", "conflict"))
    assert engine.world.items["red/w"].workload.admission is None
    assert kinds(run(engine)) == [("Admit", "w")]


def test_a_refused_release_is_decided_again() -> None:
    engine = engine_with(workload())
    run(engine)
    edit(engine, checks=(CheckState("budget", "Retry", NOW, requeue_after=Seconds(60)),))
    assert kinds(run(engine)) == [("Evict", "w")]
    engine.observe(Stopped("red/w"))
    assert kinds(engine.decide(NOW)) == [("Unreserve", "w")]
    engine.observe(Refused("red/w"))
    assert kinds(run(engine)) == [("Unreserve", "w")]


def test_a_refusal_takes_back_all_that_was_decided_on_a_workload() -> None:
    engine = engine_with(workload("a", 3, created=0), workload("b", 3, created=1))
    assert kinds(engine.decide(NOW)) == [("Admit", "a")]
    engine.observe(Refused("red/a"))
    edit(engine, "a", active=False)
    assert ("Admit", "b") in kinds(run(engine))


def test_an_old_version_is_no_news() -> None:
    engine = Engine()
    for thing in CLUSTER:
        engine.observe(Seen(thing, 5))
    engine.observe(Seen(workload(), 5))
    engine.observe(Synced())
    run(engine)
    engine.observe(Seen(queue(nominal=0), 4))
    engine.observe(Seen(workload(active=False), 4))
    assert run(engine) == []
    assert engine.world.forest.queues["q"].spec == queue()
    engine.observe(Seen(queue(nominal=1), 6))
    assert engine.world.forest.queues["q"].spec == queue(nominal=1)


def test_an_object_that_was_deleted_starts_over() -> None:
    engine = engine_with()
    engine.observe(Seen(Flavor("spot", (("kind", "a"),)), 9))
    engine.observe(Gone("Flavor", "spot"))
    engine.observe(Seen(Flavor("spot", (("kind", "b"),)), 3))
    assert engine.world.flavors["spot"].labels == (("kind", "b"),)


@pytest.mark.parametrize("version", [pytest.param(7, id="with a version"), pytest.param(0, id="without a version")])
@pytest.mark.parametrize("outcome", [Written, Refused])
def test_what_is_said_during_a_write_is_heard_after_it(version: int, outcome: Callable[[str], Fact]) -> None:
    engine = engine_with(workload())
    decided = engine.decide(NOW)
    assert kinds(decided) == [("Admit", "w")]
    told = replace(engine.world.items["red/w"].workload if outcome is Written else workload(), active=False)
    engine.observe(Seen(told, version))
    assert engine.world.items["red/w"].workload.active, "not before the write is through"
    engine.observe(outcome("red/w"))
    assert not engine.world.items["red/w"].workload.active


def test_the_echo_of_an_earlier_state_does_not_undo_a_write() -> None:
    engine = engine_with()
    engine.observe(Seen(workload(), 3))
    assert kinds(engine.decide(NOW)) == [("Admit", "w")]
    engine.observe(Seen(workload(priority=1), 4))
    engine.observe(Written("red/w", 5))
    assert engine.world.items["red/w"].workload.admission is not None
    assert run(engine) == []


# When to wake.


def test_with_nothing_to_do_nothing_wakes() -> None:
    engine = engine_with()
    run(engine)
    assert engine.next_wake() is None


def test_the_timeout_of_pods_wakes_to_the_moment() -> None:
    engine = engine_with(workload())
    run(engine)
    due = after(NOW, TIMEOUT)
    assert engine.next_wake() == due
    assert engine.decide(Instant(due - 1)) == []
    assert engine.next_wake() == due
    evicted = engine.decide(due)
    assert [type(decision) for decision in evicted] == [Evict]


def test_pods_that_became_ready_wake_nobody() -> None:
    engine = engine_with(workload())
    run(engine)
    edit(engine, pods_ready=PodsReady(True, "PodsReady", NOW))
    run(engine)
    assert engine.next_wake() is None


def test_a_backoff_ends_to_the_moment() -> None:
    engine = engine_with(workload())
    run(engine)
    timeout = after(NOW, TIMEOUT)
    evicted = run(engine, timeout)[0]
    assert isinstance(evicted, Evict)
    assert evicted.reason is EvictionReason.PODS_READY_TIMEOUT
    engine.observe(Stopped("red/w"))
    assert kinds(run(engine, timeout)) == [("Unreserve", "w")]
    assert evicted.requeue_at is not None
    assert engine.next_wake() == evicted.requeue_at
    assert run(engine, Instant(evicted.requeue_at - 1)) == []
    assert kinds(run(engine, evicted.requeue_at)) == [("Requeue", "w"), ("Admit", "w")]


def test_the_limit_of_running_time_wakes_to_the_moment() -> None:
    engine = engine_with(workload(max_run=Seconds(60)), options=Options(pods_ready=None))
    run(engine)
    due = after(NOW, Seconds(60))
    assert engine.next_wake() == due
    assert kinds(run(engine, due)) == [("Deactivate", "w"), ("Evict", "w")]


def test_a_workload_that_finished_wakes_nobody() -> None:
    engine = engine_with(workload())
    run(engine)
    edit(engine, finished=True)
    run(engine)
    assert engine.next_wake() is None


# Who is tried again.


def wakes(engine: Engine, fact: Fact) -> bool:
    """Whether the waiting workload `late` is admitted after a fact."""
    before = kinds(run(engine))
    assert ("Admit", "late") not in before
    engine.observe(fact)
    return ("Admit", "late") in kinds(run(engine))


@pytest.mark.parametrize(
    ("things", "fact"),
    [
        pytest.param((workload(), workload("late", created=1)), Gone("Workload", "red/w"), id="a holder is deleted"),
        pytest.param((workload("late", 9),), Seen(queue(nominal=9)), id="a quota is raised"),
        pytest.param((workload("late"), queue(stop=StopPolicy.HOLD)), Seen(queue()), id="a queue is started"),
        pytest.param(
            (workload("late"), LocalQueue("red/q", "q", StopPolicy.HOLD)),
            Seen(LocalQueue("red/q", "q")),
            id="a local queue is started",
        ),
        pytest.param((workload("late", local="new"),), Seen(LocalQueue("red/new", "q")), id="a local queue is created"),
        pytest.param(
            (workload("late", local="new"), LocalQueue("red/new", "new")), Seen(queue("new")), id="a queue is created"
        ),
        pytest.param(
            (workload("late"), queue(cohort="a"), Cohort("a", "b"), Cohort("b", "a")),
            Gone("Cohort", "b"),
            id="a cycle is broken",
        ),
        pytest.param((workload("late", gated_by="gate"),), Seen(workload("late")), id="a gate is opened"),
        pytest.param((workload("late", 9),), Seen(workload("late", 3, generation=2)), id="it is made smaller"),
        pytest.param(
            (workload("late"), queue(checks=(CheckRule("budget"),))), Seen(queue()), id="a missing check is dropped"
        ),
        pytest.param(
            (workload("late", 6), queue(cohort="all"), queue("rich", 0, "all")),
            Seen(queue("rich", 2, "all")),
            id="a neighbour gets more to lend",
        ),
        pytest.param(
            (workload("late", 6), queue(cohort="all")),
            Seen(Cohort("all", quotas=(Quota("spot", "cpu", 2),))),
            id="a cohort gets quota",
        ),
    ],
)
def test_who_waits_is_tried_again_when(things: tuple[Thing, ...], fact: Fact) -> None:
    assert wakes(engine_with(*things), fact)


def test_a_flavor_or_a_namespace_that_appears_wakes() -> None:
    for missing in (Flavor("spot"), Namespace("red")):
        engine = Engine()
        for thing in (*CLUSTER, workload("late")):
            if thing != missing:
                engine.observe(Seen(thing))
        engine.observe(Synced())
        assert wakes(engine, Seen(missing))


# Preemption from end to end.


def test_a_preemptor_waits_until_its_victim_has_stopped() -> None:
    engine = engine_with(queue(preemption=Preemption(within_queue=Policy.LOWER)), workload("victim"))
    run(engine)
    engine.observe(Seen(workload("boss", priority=5)))
    found = run(engine)
    assert [decision.by for decision in found if isinstance(decision, Evict)] == ["red/boss"]
    assert not any(isinstance(decision, Admit) for decision in found)
    engine.observe(Seen(workload("thief", priority=0)))
    assert ("Admit", "thief") not in kinds(run(engine))
    engine.observe(Stopped("red/victim"))
    found = run(engine)
    assert [type(decision) for decision in found if decision.workload == "red/victim"][:1] == [Unreserve]
    assert [decision.workload for decision in found if isinstance(decision, Admit)] == ["red/boss"]


def test_an_eviction_that_is_refused_is_decided_again() -> None:
    engine = engine_with(queue(preemption=Preemption(within_queue=Policy.LOWER)), workload("victim"))
    run(engine)
    engine.observe(Seen(workload("boss", priority=5)))
    for decision in engine.decide(NOW):
        engine.observe((Refused if isinstance(decision, Evict) else Written)(decision.workload))
    assert ("Evict", "victim") in kinds(run(engine))


# Reservations, and what becomes of them.


def test_a_check_that_must_speak_first_makes_it_a_reservation() -> None:
    engine = engine_with(Check("budget", active=True), queue(checks=(CheckRule("budget"),)), workload())
    found = run(engine)
    assert [type(decision) for decision in found] == [Reserve]
    edit(engine, checks=(CheckState("budget", "Ready", NOW),))
    found = run(engine)
    assert [decision.reserved_before for decision in found if isinstance(decision, Admit)] == [True]


def test_a_reservation_in_a_queue_that_does_not_exist_counts_once_it_does() -> None:
    given = Admission("new", (Assignment("main", (("cpu", "spot"),), (("cpu", 4),), 1),))
    engine = engine_with(workload(local="new", admission=given, reserved_at=NOW, admitted_at=NOW))
    run(engine)
    engine.observe(Seen(queue("new")))
    engine.observe(Seen(LocalQueue("red/new", "new")))
    engine.observe(Seen(workload("late", local="new")))
    assert ("Admit", "late") not in kinds(run(engine))
    engine.observe(Gone("Workload", "red/w"))
    assert ("Admit", "late") in kinds(run(engine))


def test_unready_pods_block_others_where_that_is_asked_for() -> None:
    blocking = Options(pods_ready=PodsReadyOptions(block_admission=True))
    engine = engine_with(workload("a", 2), workload("b", 2, created=1), options=blocking)
    assert [decision.workload for decision in run(engine) if isinstance(decision, Admit)] == ["red/a"]
    edit(engine, "a", pods_ready=PodsReady(True, "PodsReady", NOW))
    assert [decision.workload for decision in run(engine) if isinstance(decision, Admit)] == ["red/b"]


def test_who_fits_but_is_blocked_by_unready_pods_preempts_nobody() -> None:
    """The first flavor fits; that it is blocked must not send the scan on to one where somebody would have to leave."""
    both = ClusterQueue(
        "q",
        groups=(ResourceGroup(("cpu",), ("fast", "spot")),),
        quotas=(Quota("fast", "cpu", 4), Quota("spot", "cpu", 3)),
        namespaces=Selector(),
        preemption=Preemption(within_queue=Policy.LOWER),
    )
    given = Admission("q", (Assignment("main", (("cpu", "spot"),), (("cpu", 2),), 1),))
    holder = workload("holder", 2, admission=given, reserved_at=NOW, admitted_at=NOW)
    blocking = Options(pods_ready=PodsReadyOptions(block_admission=True))
    engine = engine_with(Flavor("fast"), both, holder, workload(cpu=2, priority=2), options=blocking)
    assert kinds(run(engine)) == [("Wait", "w")]
    edit(engine, "holder", pods_ready=PodsReady(True, "PodsReady", NOW))
    assert [decision.admission for decision in run(engine) if isinstance(decision, Admit)] == [
        Admission("q", (Assignment("main", (("cpu", "fast"),), (("cpu", 2),), 1),))
    ]


def test_a_reason_is_told_once() -> None:
    engine = engine_with(workload(cpu=9))
    assert [type(decision) for decision in run(engine)] == [Wait]
    engine.observe(Seen(Flavor("spot", (("kind", "new"),))))
    engine.observe(Seen(Namespace("red", (("team", "new"),))))
    assert run(engine) == []


def test_a_requeue_is_decided_when_a_stopped_queue_starts_again() -> None:
    engine = engine_with(workload())
    run(engine)
    engine.observe(Seen(queue(stop=StopPolicy.DRAIN)))
    assert ("Evict", "w") in kinds(run(engine))
    engine.observe(Stopped("red/w"))
    assert ("Unreserve", "w") in kinds(run(engine))
    engine.observe(Seen(queue()))
    found = run(engine)
    assert any(isinstance(decision, Requeue) for decision in found)
    assert kinds(found)[-1] == ("Admit", "w")


def test_what_was_stored_stays_when_the_next_write_is_refused() -> None:
    engine = engine_with(workload(cpu=2, max_run=Seconds(10)))
    run(engine)
    deactivated, evicted = engine.decide(after(NOW, Seconds(10)))
    assert [type(deactivated).__name__, type(evicted).__name__] == ["Deactivate", "Evict"]
    engine.observe(Written("red/w", 5))
    engine.observe(Refused("red/w"))
    level = engine.world.items["red/w"].workload
    assert (level.active, level.evicted) == (False, None)
    assert kinds(engine.decide(after(NOW, Seconds(10)))) == [("Evict", "w")]


def test_reasons_are_coarse_without_observability() -> None:
    held = queue(checks=(CheckRule("prov"),))
    engine = engine_with(Check("prov", True), held, workload(cpu=2), options=Options(observability=False))
    run(engine)
    engine.observe(Seen(replace(held, stop=StopPolicy.HOLD)))
    reasons = [decision.reason for decision in run(engine) if isinstance(decision, Unreserve | Wait)]
    assert reasons == ["Inadmissible", "Inadmissible"]


def test_without_scheduling_nothing_is_admitted_and_timeouts_still_evict() -> None:
    running = workload(
        "running",
        cpu=2,
        admission=Admission("q", (Assignment("main", (("cpu", "spot"),), (("cpu", 2),), 1),)),
        reserved_at=NOW,
        admitted_at=NOW,
    )
    engine = engine_with(running, workload("waiting", cpu=2), options=Options(scheduling=False))
    assert engine.decide(NOW) == []
    due = engine.next_wake()
    assert due is not None
    assert due > NOW, "a tree with a head that could start must not keep the engine awake"
    (decision,) = engine.decide(due)
    assert isinstance(decision, Evict)
    assert (decision.workload, decision.reason) == ("red/running", EvictionReason.PODS_READY_TIMEOUT)
