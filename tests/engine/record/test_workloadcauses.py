"""Does an explanation have the numbers of the engine, and does asking for it change nothing?"""

import msgspec
import pytest
from msgspec.structs import replace

from pykueue.base.steps import at_once
from pykueue.base.units import MICROS, Instant
from pykueue.engine.decisions import OverCapacity, PreemptionReason, Short
from pykueue.engine.facts import Seen
from pykueue.engine.model import (
    Check,
    CheckRule,
    CheckState,
    Cohort,
    Evicted,
    Flavor,
    LocalQueue,
    Options,
    PodSet,
    Preempted,
    Requeued,
    ShareStrategy,
    StopPolicy,
    Strategy,
    Taint,
)
from pykueue.engine.record.causes import Fix, Shrink, State
from pykueue.engine.record.causetree import smaller_text
from pykueue.engine.record.checkpoint import checkpoint
from pykueue.engine.record.recent import Overtakings, Recent
from pykueue.engine.record.rooms import Limit
from pykueue.engine.record.workloadcauses import of_workload
from tests.engine.record.explained import System, queue


def test_the_shortfall_is_that_of_now_though_it_was_decided_when_more_was_free() -> None:
    system = System(queue("main", 4))
    system.submit("large", "main", 8)
    system.submit("runs", "main", 2)
    system.submit("waits", "main", 3)
    system.submit("small", "main", 2)
    (row,) = system.why("waits").pod_sets[0].flavors
    assert (row.asked, row.room.nominal, row.room.used, row.room.free, row.missing) == (3000, 4000, 4000, 0, 3000)
    assert "waits: needs 3 more cpu in flavor default" in system.text("waits")


@pytest.mark.parametrize(
    ("limits", "binding"),
    [
        ((None, None), Limit("cohort", "Cohort", "all")),
        ((1, None), Limit("borrowingLimit", "ClusterQueue", "main")),
        ((None, 1), Limit("cohort", "Cohort", "all")),
    ],
)
def test_the_limit_that_binds_is_named(limits: tuple[int | None, int | None], binding: Limit) -> None:
    mine, others = limits
    system = System(
        Cohort("all"), queue("main", 4, cohort="all", limit=mine), queue("other", 4, cohort="all", limit=others)
    )
    system.submit("runs", "main", 5)
    system.submit("waits", "main", 4)
    (row,) = system.why("waits").pod_sets[0].flavors
    assert row.room.limit == binding


def test_a_queue_without_a_cohort_is_limited_by_its_own_quota() -> None:
    system = System(queue("main", 4))
    system.submit("runs", "main", 4)
    system.submit("waits", "main", 1)
    (row,) = system.why("waits").pod_sets[0].flavors
    assert row.room.limit == Limit("nominalQuota", "ClusterQueue", "main")
    assert row.obstacle == Short("default", "cpu", 1000)


def test_one_that_can_never_start_says_so_first() -> None:
    system = System(queue("main", 4))
    system.submit("never", "main", 3, pods=2)
    causes = system.why("never")
    assert causes.never == "can never start: asks for 6 cpu, this queue can have 4 at most"
    assert isinstance(causes.pod_sets[0].flavors[0].obstacle, OverCapacity)
    assert causes.ways[0] == Shrink("main", "cpu", 2000, 6000, 1)
    assert system.text("never").splitlines()[0] == causes.never


def test_one_that_was_not_evaluated_yet_is_measured_as_it_would_be() -> None:
    system = System(queue("main", 4, strategy=Strategy.STRICT))
    system.submit("runs", "main", 3)
    system.submit("head", "main", 2)
    system.submit("behind", "main", 4)
    causes = system.why("behind")
    assert causes.place is not None
    assert (causes.place.ahead, causes.place.first, causes.place.total) == (1, ("lab/head",), 2)
    assert causes.pod_sets[0].flavors[0].missing == 3000
    assert "StrictFIFO: nothing behind its head starts" in system.text("behind")


def test_those_that_went_past_are_counted() -> None:
    system = System(queue("main", 4))
    system.submit("runs", "main", 2)
    system.submit("waits", "main", 4)
    for name in ("a", "b"):
        system.submit(name, "main", 1)
    causes = system.why("waits")
    assert causes.place is not None
    past = causes.place.overtaken
    assert (past.count, past.smaller, past.last, past.since) == (2, 2, ("lab/b", "lab/a"), None)
    text = "2 behind it started before it, all of which ask for less; the latest: lab/b and lab/a"
    assert text in system.text("waits")


@pytest.mark.parametrize(
    ("past", "text"),
    [
        (Overtakings(2, 0), ""),
        (Overtakings(1, 1), ", which asks for less"),
        (Overtakings(3, 1), ", 1 of which asks for less"),
        (Overtakings(3, 2), ", 2 of which ask for less"),
        (Overtakings(3, 3), ", all of which ask for less"),
        (Overtakings(3, 3, since=Instant(1)), ", 3 of which ask for less"),
    ],
)
def test_the_smaller_of_those_that_went_past_are_counted(past: Overtakings, text: str) -> None:
    assert smaller_text(past) == text


def test_what_is_free_beyond_its_own_could_be_borrowed() -> None:
    system = System(Cohort("all"), queue("main", 4, cohort="all"), queue("other", 4, cohort="all"))
    assert "free 8, 4 of it could be borrowed" in system.queue_text("main")


def preempted() -> System:
    system = System(Cohort("all"), queue("main", 4, cohort="all"), queue("other", 4, cohort="all"))
    system.submit("victim", "main", 8)
    system.advance(600)
    system.submit("owner", "other", 4)
    return system


def test_an_eviction_tells_for_whom_by_which_clause_and_what_was_lost() -> None:
    system = preempted()
    found = system.why("victim").eviction
    assert found is not None
    assert (system.why("victim").state, found.by, found.by_queue) == (State.STOPPING, "lab/owner", "other")
    assert (found.clause, found.lost_micros) == (PreemptionReason.RECLAIM, 601 * MICROS)
    assert (found.still_waits, found.started_at) == (True, None)
    assert found.preemption is not None
    assert (found.preemption.victims, [one.flavor for one in found.preemption.taken]) == (1, ["default"])
    system.stop("victim")
    found = system.why("victim").eviction
    assert found is not None
    assert (found.still_waits, found.started_at) == (False, system.now)
    text = system.text("victim")
    assert "preempted for lab/owner, which took back what other owns (InCohortReclamation)" in text
    assert "it had run for 10 min, which is lost unless it saved its work" in text


def test_after_a_restart_an_eviction_is_told_from_the_condition() -> None:
    system = preempted()
    system.stop("victim")
    causes = at_once(of_workload(system.engine, "lab/victim", Recent()))
    assert causes is not None
    assert causes.eviction is not None
    assert causes.recent == ()
    found = causes.eviction
    assert (found.by, found.by_queue, found.clause) == ("lab/owner", "other", PreemptionReason.RECLAIM)
    assert (found.lost_micros, found.started_at) == (None, system.now)


def test_an_eviction_for_one_that_is_gone_says_what_it_knows() -> None:
    system = System(queue("main", 4))
    made = system.submit("gone", "main", 8)
    message = (
        "Preempted to accommodate a workload (UID: x, JobUID: y) due to prioritization in the ClusterQueue; "
        "preemptor path: /main; preemptee path: /main"
    )
    old = replace(
        made,
        evicted=Evicted("Preempted", made.created, message),
        preempted=Preempted("InClusterQueue", made.created),
        requeued=Requeued(True, "Preempted"),
    )
    system.engine.observe(Seen(old, 7))
    system.settle()
    text = system.text("gone")
    assert "preempted for another workload, which goes before it in main" in text
    assert "whether another workload started is not recorded" in text


def test_the_node_selector_that_excludes_a_flavor_is_named() -> None:
    system = System(
        Flavor("ssd", (("disk", "ssd"),)),
        Flavor("tainted", taints=(Taint("gpu", "yes", "NoSchedule"),)),
        queue("main", 4, flavors=("ssd", "tainted")),
    )
    system.submit("picky", "main", 1, pod={"selector": (("disk", "hdd"),)})
    causes = system.why("picky")
    assert causes.never
    assert causes.pod_sets[0].conflicts == (("ssd", "disk", "hdd"),)
    assert causes.ways == (
        Fix("take disk=hdd out of the node selector of pod set main to use flavor ssd"),
        Fix("tolerate gpu to use flavor tainted"),
    )


def test_a_resource_that_the_queue_does_not_cover_is_named() -> None:
    system = System(queue("main", 4))
    system.submit("odd", "main", pod_sets=(PodSet("main", 1, (("cpu", 1), ("tpu", 1))),))
    assert system.why("odd").pod_sets[0].uncovered == ("tpu",)
    assert "tpu: its ClusterQueue does not cover this resource" in system.text("odd")


def test_a_queue_that_admits_nothing_is_the_first_cause() -> None:
    system = System(queue("main", 4))
    system.see(LocalQueue("lab/held", "main", StopPolicy.HOLD))
    system.submit("held", "held")
    system.submit("lost", "none")
    assert system.why("held").queue.obstacle == "LocalQueue held takes nothing now: it is stopped"
    assert "queue: it cannot be considered, because there is no LocalQueue none" in system.text("lost")
    assert system.why("lost").ways[0] == Fix("create LocalQueue none")
    assert system.why("lost").place is None


CYCLES = (
    pytest.param((Cohort("a", "a"),), id="its own parent"),
    pytest.param((Cohort("a", "b"), Cohort("b", "c"), Cohort("c", "a")), id="of three"),
    pytest.param((Cohort("a", "b"), Cohort("b", "c"), Cohort("c", "b")), id="above its cohort"),
)
FAIR = Options(fair_sharing=(ShareStrategy.FINAL,))


@pytest.mark.parametrize("options", [None, FAIR], ids=["without fair sharing", "with fair sharing"])
@pytest.mark.parametrize("cohorts", CYCLES)
def test_a_cycle_of_cohorts_is_named(cohorts: tuple[Cohort, ...], options: Options | None) -> None:
    system = System(*cohorts, queue("main", 4, cohort="a"), options=options)
    system.submit("waits", "main")
    causes = system.why("waits")
    assert (causes.pod_sets, causes.share) == ((), None)
    assert "ClusterQueue main takes nothing now: its cohorts form a cycle" in system.text("waits")


def test_a_cycle_of_cohorts_that_was_just_seen_is_explained_with_what_was_decided_before() -> None:
    system = System(Cohort("a", "b"), Cohort("b"), queue("main", 4, cohort="a"))
    system.submit("runs", "main", 4)
    system.submit("waits", "main", 1)
    system.see(Cohort("b", "a"))
    causes = system.why("waits")
    assert (causes.reason, causes.pod_sets) == ("WaitingForQuota", ())


def test_checks_are_told_before_and_after_quota_is_reserved() -> None:
    system = System(
        Check("slow", True), Check("quick", True), queue("main", 4, checks=(CheckRule("slow"), CheckRule("quick")))
    )
    made = system.submit("runs", "main", 4)
    system.submit("waits", "main", 4)
    assert "AdmissionChecks, once it has quota: 0 of 2 ready" in system.text("waits")
    causes = system.why("runs")
    assert (causes.state, [one.name for one in causes.checks]) == (State.RESERVED, ["slow", "quick"])
    level = system.engine.workload("lab/runs")
    assert level is not None
    system.engine.observe(
        Seen(replace(level, checks=(CheckState("slow", "Pending", message="asks"), CheckState("quick", "Ready"))), 9)
    )
    system.settle()
    assert "AdmissionChecks: 1 of 2 ready\n    slow: Pending (asks)" in system.text(made.key.partition("/")[2])


def test_a_backoff_says_until_when() -> None:
    system = System(queue("main", 4))
    system.submit("rests", "main", requeue_at=Instant(system.now + 90 * MICROS), requeued=Requeued(True, "x"))
    causes = system.why("rests")
    assert causes.backoff_until == Instant(system.now + 89 * MICROS)
    assert "backoff: it is tried again at" in system.text("rests")


@pytest.mark.parametrize("name", ["victim", "owner", "waits", "small"])
def test_to_ask_changes_nothing(name: str) -> None:
    system = preempted()
    system.submit("waits", "main", 3, pods=2)
    system.submit("small", "other", 1, max_run=60)
    nodes = system.engine.world.forest.queues.values()
    before = msgspec.json.encode(checkpoint(system.engine)), [dict(node.usage) for node in nodes]
    wake = system.engine.next_wake()
    system.why(name)
    system.queue("main")
    system.local_queue("other")
    assert (msgspec.json.encode(checkpoint(system.engine)), [dict(node.usage) for node in nodes]) == before
    assert system.engine.next_wake() == wake


def test_an_unknown_workload_has_no_explanation() -> None:
    system = System(queue("main", 4))
    assert at_once(of_workload(system.engine, "lab/none", system.recent)) is None
