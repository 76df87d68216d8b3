"""Are queues counted right, with what is decided and not yet written, and at a cost that follows what is asked?"""

import pytest

from pykueue.base.units import Instant
from pykueue.engine.decisions import Decision
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Gone, Seen, Synced, Written
from pykueue.engine.model import (
    Check,
    CheckRule,
    ClusterQueue,
    Cohort,
    Flavor,
    LocalQueue,
    Namespace,
    Options,
    PodSet,
    Quota,
    ResourceGroup,
    Selector,
    StopPolicy,
    Thing,
    Workload,
)
from pykueue.engine.record import tally

NOW = Instant(10)


def queue(name: str, cpu: int = 3000, **fields: object) -> ClusterQueue:
    given: dict[str, object] = {
        "groups": (ResourceGroup(("memory", "cpu"), ("spot", "dear")),),
        "quotas": tuple(
            Quota(flavor, resource, amount)
            for flavor in ("spot", "dear")
            for resource, amount in (("cpu", cpu if flavor == "spot" else 0), ("memory", 100))
        ),
        "namespaces": Selector(),
        **fields,
    }
    return ClusterQueue(name, **given)  # type: ignore[arg-type]  # the fields are given by name


def workload(name: str, local: str = "door", cpu: int = 1000, memory: int = 1) -> Workload:
    requests = (("cpu", cpu), ("memory", memory))
    return Workload(f"team/{name}", name, f"team/{local}", Instant(1), (PodSet("main", 1, requests),))


def engine_with(*things: Thing, options: Options | None = None) -> Engine:
    engine = Engine(options)
    base = (Namespace("team"), Flavor("spot"), Flavor("dear"), queue("main"), LocalQueue("team/door", "main"))
    for thing in (*base, *things):
        engine.observe(Seen(thing))
    engine.observe(Synced())
    decide(engine)
    return engine


def decide(engine: Engine) -> list[Decision]:
    found: list[Decision] = []
    while (wake := engine.next_wake()) is not None and wake <= NOW:
        found += engine.decide(NOW)
    return found


def test_what_is_decided_counts_before_it_is_written() -> None:
    engine = engine_with(*(workload(f"w{n}") for n in range(5)))
    found = tally.of_queue(engine, "main")
    assert found is not None
    assert (found.pending, found.reserved.workloads, found.admitted.workloads) == (2, 3, 3)
    assert found.reserved.amounts == {("spot", "cpu"): 3000, ("spot", "memory"): 3}
    engine.observe(Written("team/w0"))
    assert tally.of_queue(engine, "main") == found


def test_a_reservation_that_waits_for_checks_is_reserved_and_not_admitted() -> None:
    engine = engine_with()
    engine.observe(Seen(queue("main", checks=(CheckRule("budget"),))))
    engine.observe(Seen(Check("budget", True)))
    engine.observe(Seen(workload("w")))
    decide(engine)
    found = tally.of_queue(engine, "main")
    assert found is not None
    assert (found.reserved.workloads, found.admitted) == (1, tally.Holdings())
    assert tally.uses_check(engine, "budget")
    assert not tally.uses_check(engine, "other")


@pytest.mark.parametrize("doors", [1, 2], ids=["one door", "two doors"])
def test_the_doors_of_a_queue_are_counted_apart_and_add_up(doors: int) -> None:
    more = (LocalQueue("team/other", "main"),) if doors == 2 else ()
    engine = engine_with(*more, *(workload(f"w{n}", "other" if n % doors else "door") for n in range(7)))
    whole = tally.of_queue(engine, "main")
    parts = tally.of_local_queues(engine, "main")
    assert whole is not None
    assert len(parts) == doors
    assert sum(part.pending for part in parts.values()) == whole.pending == 4
    assert sum(part.admitted.workloads for part in parts.values()) == whole.admitted.workloads
    assert {key: tally.of_local_queue(engine, key) for key in parts} == parts


def test_a_door_that_is_stopped_has_nobody_waiting() -> None:
    engine = engine_with(*(workload(f"w{n}") for n in range(5)))
    engine.observe(Seen(LocalQueue("team/door", "main", StopPolicy.HOLD)))
    before = tally.of_local_queue(engine, "team/door")
    assert before is not None
    assert (before.pending, before.admitted.workloads) == (0, 3)
    decide(engine)
    whole = tally.of_queue(engine, "main")
    assert whole is not None
    assert whole.pending == 0


def test_behind_a_door_that_leads_nowhere_workloads_wait_and_hold_nothing() -> None:
    engine = engine_with(*(workload(f"w{n}") for n in range(5)))
    engine.observe(Gone("ClusterQueue", "main"))
    decide(engine)
    found = tally.of_local_queue(engine, "team/door")
    assert found is not None
    assert (found.pending, found.reserved.workloads) == (2, 0)
    assert tally.of_queue(engine, "main") is None
    assert tally.of_local_queue(engine, "team/none") is None


def test_a_queue_that_is_stopped_says_why_it_cannot_admit() -> None:
    engine = engine_with(queue("main", stop=StopPolicy.HOLD))
    assert tally.inactive_because(engine, "main") == (("Stopped", "is stopped"),)


def test_flavors_stand_in_the_order_of_the_queue_and_resources_by_name() -> None:
    engine = engine_with()
    main = engine.queue("main")
    assert main is not None
    assert list(tally.pairs_of(main).items()) == [("spot", ("cpu", "memory")), ("dear", ("cpu", "memory"))]
    assert tally.nominal_of(main)["spot", "cpu"] == 3000
    assert tally.uses_flavor(engine, "dear")
    assert not tally.uses_flavor(engine, "other")


def test_cohorts_in_a_cycle_are_a_reason_and_are_walked_once() -> None:
    engine = engine_with(Cohort("a", "b"), Cohort("b", "a"), queue("main", cohort="a"))
    assert tally.inactive_because(engine, "main") == (tally.CYCLE,)
    assert tally.of_cohort(engine, "b").queues == ("main",)
    assert tally.position(engine, "main") == tally.Position("a", "")
    assert tally.cohorts_above(engine, "main") == ()


def test_quota_and_reservations_of_a_cohort_include_the_cohorts_below_it() -> None:
    engine = engine_with(Cohort("all"), Cohort("some", "all"), queue("main", cohort="some"), workload("w"))
    found = tally.of_cohort(engine, "all")
    assert found.position == tally.Position("", "all")
    assert found.quota["spot", "cpu"] == 3000
    assert found.reserved["spot", "cpu"] == 1000
    assert tally.position(engine, "main") == tally.Position("some", "all")
    assert tally.cohorts_above(engine, "main") == ("some", "all")
    assert tally.has_holders(engine, "main")
    assert not tally.has_holders(engine, "none")


def test_until_the_engine_has_decided_nobody_is_in_their_place() -> None:
    engine = engine_with()
    assert engine.is_settled
    engine.observe(Seen(workload("w")))
    assert not engine.is_settled
    decide(engine)
    assert engine.is_settled
