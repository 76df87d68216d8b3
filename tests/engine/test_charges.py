from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pykueue.base.units import MICROS, NANO, Instant
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Leading, Refused, Seen, Synced, Written
from pykueue.engine.model import AdmissionFairSharing, LocalQueue, Options, ShareStrategy
from pykueue.engine.record.checkpoint import checkpoint, restore
from tests.story import Story

FIVE_MINUTES = 300 * MICROS
SHARING = AdmissionFairSharing(half_life_micros=FIVE_MINUTES)
OPTIONS = Options(admission_fair_sharing=SHARING)
AT_ADMISSION = Options(admission_fair_sharing=SHARING, afs_anchor=False)


def used(story: Story, local_queue: str) -> float:
    """The number by which a LocalQueue is ordered."""
    found = story.engine.past_use_value(f"ns/{local_queue}", story.now)
    assert found is not None
    return found


def stored(story: Story, local_queue: str) -> float:
    """Past use of cores, as the status has it."""
    found = story.engine.past_use(f"ns/{local_queue}", story.now)
    assert found is not None
    return found[0].get("cpu", 0) / NANO


def story(options: Options = OPTIONS, queue: str = "main cpu=10 usage_based", locals: str = "a b") -> Story:
    """A usage-based queue with some LocalQueues."""
    local_queues = [f"{name} queue=main" for name in locals.split()]
    return Story(options=options, cohorts=["all"], queues=[queue], locals=local_queues)


def test_a_charge_is_pending_until_the_write_is_confirmed() -> None:
    told = story()
    told.do("queue w a cpu=4", "delay w")
    told.decide(1)
    assert (used(told, "a"), stored(told, "a")) == (2.0, 0.0)
    told.do("confirm w")
    assert (used(told, "a"), stored(told, "a")) == (2.0, 2.0)


def test_a_refused_write_takes_the_charge_back() -> None:
    told = story()
    told.do("queue w a cpu=4", "delay w")
    told.decide(1)
    told.engine.observe(Refused("ns/w"))
    told.do("edit w active=false")
    told.decide(1)
    assert used(told, "a") == 0.0


@pytest.mark.parametrize("end", ["finish w", "delete w", "edit w queue=b"])
def test_a_charge_that_cannot_settle_is_dropped(end: str) -> None:
    told = story(AT_ADMISSION, "main cpu=10 usage_based checks=prov")
    told.do("queue w a cpu=4")
    told.decide()
    assert used(told, "a") == 2.0
    told.do(end)
    told.decide()
    assert used(told, "a") == 0.0


def test_a_deactivated_workload_keeps_its_charge_while_it_holds_quota() -> None:
    told = story(AT_ADMISSION, "main cpu=10 usage_based checks=prov")
    told.do("queue w a cpu=4")
    told.decide()
    told.do("edit w active=false")
    told.decide()
    assert used(told, "a") == 2.0
    told.do("stopped w")
    told.decide()
    assert used(told, "a") == 0.0


def test_every_reservation_is_charged_where_use_counts_from_the_reservation() -> None:
    told = story(OPTIONS, "main cpu=10 usage_based checks=prov")
    told.do("queue w a cpu=4")
    told.decide()
    assert stored(told, "a") == 2.0
    told.do("edit w check=prov:Retry:1s")
    told.decide()
    told.do("stopped w")
    told.decide()
    assert stored(told, "a") == 2.0, "what it has cost stays"
    told.wait("2s")
    told.decide()
    assert stored(told, "a") == pytest.approx(4.0, rel=0.01)


def test_only_covered_resources_are_charged_under_ignore_undeclared() -> None:
    told = story(replace(OPTIONS, ignore_undeclared=True))
    told.do("queue w a cpu=4 memory=1Gi")
    told.decide()
    assert used(told, "a") == 2.0


def test_use_of_all_flavors_is_sampled_together() -> None:
    told = Story(options=OPTIONS, queues=["main spot.cpu=2 other.cpu=2 usage_based"], locals=["a queue=main"])
    told.do("queue w1..2 a cpu=2")
    told.decide()
    told.wait("50m")
    told.decide()
    assert stored(told, "a") == pytest.approx(4.0, rel=0.01)


def test_other_local_queues_sample_what_is_admitted() -> None:
    told = story(OPTIONS, "main cpu=10 checks=prov")
    told.do("queue w a cpu=4")
    told.decide()
    told.wait("50m")
    told.decide()
    assert stored(told, "a") == 0.0
    told.do("edit w check=prov:Ready")
    told.decide()
    told.wait("50m")
    told.decide()
    assert stored(told, "a") == pytest.approx(4.0, rel=0.01)


def test_what_is_read_late_is_as_if_it_had_been_sampled() -> None:
    told, other = story(), story()
    for one in (told, other):
        one.do("queue w a cpu=4")
        one.decide()
    for _ in range(12):
        told.wait("5m")
        told.decide()
    other.wait("60m")
    assert stored(other, "a") == pytest.approx(stored(told, "a"), abs=1e-6)
    other.decide()
    assert stored(other, "a") == pytest.approx(stored(told, "a"), abs=1e-6)


def test_a_restart_goes_on_from_what_is_stored_and_counts_the_time_between() -> None:
    told = story()
    told.do("queue w a cpu=4")
    told.decide()
    told.wait("10m")
    told.decide()
    before = stored(told, "a")
    assert before == pytest.approx(3.5)
    told.store_past_use()
    told.now = Instant(told.now + FIVE_MINUTES)
    told.do("restart")
    told.decide()
    told.wait("5m")
    told.decide()
    assert stored(told, "a") == pytest.approx(3.875, rel=0.01)


def test_stored_past_use_from_the_future_counts_from_now_on() -> None:
    told = story()
    local = LocalQueue("ns/a", "main", consumed=(("cpu", "8"),), last_update=Instant(told.now + 100 * FIVE_MINUTES))
    told.put("LocalQueue", "ns/a", local)
    told.decide()
    told.wait("5m")
    told.decide()
    assert stored(told, "a") == 4.0


def test_a_clock_that_is_set_back_does_not_stop_the_decay() -> None:
    told = story()
    told.do("queue w a cpu=4")
    told.decide()
    told.now = Instant(told.now - 20 * FIVE_MINUTES)
    told.do("queue x b cpu=1")
    told.decide()
    assert stored(told, "a") == 2.0
    told.wait("5m")
    told.decide()
    assert stored(told, "a") == 3.0


def test_a_follower_takes_what_the_leader_stores_and_a_leader_does_not() -> None:
    engine = Engine(OPTIONS)
    engine.observe(Leading(False))
    engine.observe(Seen(LocalQueue("ns/a", "main", consumed=(("cpu", "1"),), last_update=Instant(0)), 1))
    engine.observe(Synced())
    later = LocalQueue("ns/a", "main", consumed=(("cpu", "3"),), last_update=Instant(0))
    engine.observe(Seen(later, 2))
    assert engine.past_use("ns/a", Instant(0)) is None, "another process computes it"
    engine.observe(Leading(True))
    engine.decide(Instant(0))
    engine.observe(Seen(replace(later, consumed=()), 3))
    assert engine.past_use("ns/a", Instant(0)) == ({"cpu": 3 * NANO}, 0)


def test_a_status_write_touches_no_workload() -> None:
    told = story()
    told.do("queue w a cpu=40")
    told.decide()
    told.put("LocalQueue", "ns/a", LocalQueue("ns/a", "main", consumed=(("cpu", "1"),), last_update=told.now))
    assert told.engine.is_settled
    wake = told.engine.next_wake()
    assert wake is None or wake > told.now


def test_samples_wake_the_engine_only_where_they_can_change_an_order() -> None:
    told = story(replace(OPTIONS, pods_ready=None), "main cpu=4 usage_based strategy=StrictFIFO")
    told.do("queue big a cpu=9")
    told.decide()
    assert told.engine.next_wake() is None, "nothing is in use"
    told.do("delete big", "queue w b cpu=4")
    told.decide()
    assert told.engine.next_wake() is None, "nothing waits"
    told.do("queue big a cpu=4")
    told.decide()
    assert told.engine.next_wake() == told.now + FIVE_MINUTES


def test_a_victim_that_is_spared_is_told_why() -> None:
    told = story(queue="main cpu=4 usage_based within=LowerPriority", locals="a b c")
    told.do("change local b cpu=5", "restart", "queue x a cpu=2 priority=-5", "queue y b cpu=2")
    told.decide()
    told.do("queue u c cpu=2 priority=5")
    assert told.decide()[0].startswith("evict y for u")


LINES = st.one_of(
    st.builds("queue {} {} cpu={} priority={}".format, st.just("NEW"), st.sampled_from("abc"), st.integers(1, 5),
              st.integers(0, 1)),
    st.builds("{} {}".format, st.sampled_from(["finish", "delete", "refuse", "delay", "confirm", "stopped"]),
              st.integers(0, 9)),
    st.builds("edit {} {}".format, st.integers(0, 9),
              st.sampled_from(["active=false", "active=true", "check=prov:Ready", "check=prov:Retry:60s", "queue=b"])),
    st.builds("change local {} weight={}".format, st.sampled_from("abc"), st.sampled_from(["0", "1", "2.5"])),
    st.builds("change queue main usage_based={}".format, st.sampled_from(["true", "false"])),
    st.builds("change cohort all usage_based={}".format, st.sampled_from(["true", "false"])),
    st.builds("change queue main cohort={}".format, st.sampled_from(["all", "none"])),
    st.builds("after {}".format, st.sampled_from(["1s", "4m", "1h", "-30m"])),
    st.sampled_from(["restart", "checkpoint"]),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(LINES, max_size=40), strict=st.booleans(), anchor=st.booleans(), checked=st.booleans(),
    equivalence=st.booleans(), fair=st.booleans(),
)  # fmt: skip
def test_whatever_happens_the_invariants_hold(
    lines: list[str], strict: bool, anchor: bool, checked: bool, equivalence: bool, fair: bool
) -> None:
    words = " ".join(["strategy=StrictFIFO"] * strict + ["checks=prov"] * checked)
    told = story(
        replace(
            OPTIONS,
            afs_anchor=anchor,
            equivalence=equivalence,
            fair_sharing=(ShareStrategy.FINAL,) if fair else (),
        ),
        f"main cpu=6 cohort=all usage_based within=LowerPriority {words}",
        "a b c",
    )
    born = iter(f"w{number}" for number in range(100))
    for line in lines:
        for fact in facts_of(told, line, born):
            told.do(fact)
        if line.startswith("after"):
            pass_time(told, line.split()[1])
        if line == "checkpoint":
            told.engine = restore(checkpoint(told.engine))
        told.decide()


def facts_of(told: Story, line: str, born: Iterator[str]) -> list[str]:
    """A line with the names of workloads that exist; nothing if there is none."""
    verb, *words = line.split()
    if verb in ("after", "checkpoint"):
        return []
    if verb == "queue":
        return [" ".join([verb, next(born), *words[1:]])]
    if verb in ("restart", "change"):
        return [line]
    alive = [key.partition("/")[2] for key in told.workloads()]
    if not alive:
        return []
    name = alive[int(words[0]) % len(alive)]
    return [" ".join([verb, name, *words[1:]])]


def pass_time(told: Story, delay: str) -> None:
    """Time passes, or the clock is set back."""
    if delay.startswith("-"):
        told.now = Instant(told.now - 6 * FIVE_MINUTES)
    else:
        told.wait(delay)


def test_a_write_that_is_confirmed_twice_settles_once() -> None:
    told = story()
    told.do("queue w a cpu=4")
    told.decide()
    told.engine.observe(Written("ns/w", 1000))
    assert stored(told, "a") == 2.0
