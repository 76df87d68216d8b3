"""Is recorded of a preemption what the engine knew when it decided, once for all victims?"""

from msgspec.structs import replace

from pykueue.engine.decisions import Evict, Short, SparedReason
from pykueue.engine.model import Cohort, Flavor, Fungibility, Fungible, Preference, Quota
from pykueue.engine.preempt import Spared
from pykueue.engine.record.preemptions import PassedFlavor, Passing, PreemptionRecord, Preemptions
from tests.engine.record.explained import System, queue


def record(system: System, victim: str) -> PreemptionRecord:
    found = [one for one in system.recent.of(f"lab/{victim}") if isinstance(one.decision, Evict)]
    assert found[-1].preemption is not None
    return found[-1].preemption


def test_all_victims_share_the_record() -> None:
    system = System(queue("main", 3))
    for name in ("a", "b", "c"):
        system.submit(name, "main", 1)
    system.submit("high", "main", 2, priority=5)
    found = record(system, "c")
    assert found is record(system, "b")
    assert (found.by, found.at, found.victims, {*found.first}) == ("lab/high", system.now, 2, {"lab/c", "lab/b"})
    assert (found.spared, found.named) == (1, (Spared("lab/a", SparedReason.ADMITTED_EARLIER),))
    assert not {one.workload for one in found.named} & {*found.first}


def test_two_preemptors_of_one_cycle_have_records_of_their_own() -> None:
    system = System(queue("one", 2), queue("two", 2))
    for name in ("one", "two"):
        system.submit(f"low-{name}", name, 2)
    for name in ("one", "two"):
        level = system.submit(f"high-{name}", "none", 2)
        system.see(replace(level, local_queue=f"lab/{name}", priority=5))
    system.settle()
    assert [record(system, f"low-{name}").by for name in ("one", "two")] == ["lab/high-one", "lab/high-two"]


def test_the_last_preemption_for_a_workload_is_found() -> None:
    system = System(queue("main", 2))
    system.submit("low", "main", 2)
    system.submit("high", "main", 2, priority=5)
    assert system.recent.preemption_by("lab/high") is record(system, "low")
    assert system.recent.preemption_by("lab/low") is None
    assert Preemptions(system.engine).by("lab/low") is None


def two_flavors(fungibility: Fungibility) -> System:
    """A queue with 2 cpu in each of two flavors, and one workload in each."""
    system = System(Flavor("spot"), queue("main", 2, flavors=("default", "spot"), fungibility=fungibility))
    system.submit("first", "main", 2)
    system.submit("second", "main", 2)
    return system


def test_a_flavor_after_the_first_that_will_do_is_not_tried() -> None:
    system = two_flavors(Fungibility(when_can_preempt=Fungible.STOP))
    system.submit("high", "main", 2, priority=5)
    found = record(system, "first")
    assert [one.flavor for one in found.taken] == ["default"]
    assert [(one.flavor, one.why) for one in found.passed] == [("spot", Passing.UNTRIED)]


def test_a_flavor_in_which_nobody_may_be_preempted_is_passed_over() -> None:
    system = System(Flavor("spot"), queue("main", 2, flavors=("default", "spot")))
    system.submit("first", "main", 2, priority=9)
    system.submit("second", "main", 2)
    system.submit("high", "main", 2, priority=5)
    found = record(system, "second")
    assert [one.flavor for one in found.taken] == ["spot"]
    short = Short("default", "cpu", 2000)
    assert found.passed == (PassedFlavor("main", "default", Passing.NO_CANDIDATES, (short,)),)


def test_a_flavor_that_would_need_preemption_too_is_passed_over() -> None:
    system = two_flavors(Fungibility())
    system.submit("high", "main", 2, priority=5)
    found = record(system, "first")
    assert [(one.flavor, one.why) for one in found.passed] == [("spot", Passing.PREEMPT)]


def test_a_flavor_in_which_it_would_borrow_is_passed_over() -> None:
    prefers = Fungibility(when_can_borrow=Fungible.NEXT, preference=Preference.PREEMPTION)
    system = System(
        Cohort("all"),
        Flavor("spot"),
        queue("main", 2, flavors=("default", "spot"), cohort="all", fungibility=prefers),
        queue("lends", 2, cohort="all"),
        queue("full", 2, flavors=("spot",), cohort="all"),
    )
    system.submit("first", "main", 2)
    system.submit("second", "main", 2)
    system.submit("third", "full", 2)
    system.submit("high", "main", 2, priority=5)
    found = record(system, "second")
    assert ([one.flavor for one in found.taken], [(one.flavor, one.why) for one in found.passed]) == (
        ["spot"],
        [("default", Passing.FIT)],
    )


def test_a_flavor_that_only_an_earlier_cycle_tried_is_named() -> None:
    pools = (Flavor("default", (("pool", "a"),)), Flavor("spot", (("pool", "b"),)))
    quotas = (Quota("default", "cpu", 1000), Quota("spot", "cpu", 2000))
    rich = replace(queue("rich", 1, flavors=("default", "spot"), cohort="all"), quotas=quotas)
    system = System(Cohort("all"), *pools, rich, queue("poor", 1, cohort="all"))
    system.submit("low", "rich", 2, priority=-1, pod={"selector": (("pool", "b"),)})
    together = [system.submit("first", "none", 2), system.submit("second", "none", 2)]
    for made, name in zip(together, ("poor", "rich"), strict=True):
        system.see(replace(made, local_queue=f"lab/{name}"))
    system.settle()
    found = record(system, "low")
    assert (found.by, [one.flavor for one in found.taken]) == ("lab/second", ["spot"])
    assert found.passed == (PassedFlavor("main", "default", Passing.EARLIER),)
