"""Does each invariant notice when its promise is broken, and keep silent when it is not?"""

from collections.abc import Callable

import pytest

from pykueue.base.units import MICROS, Instant
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Seen, Synced, Written
from pykueue.engine.items import Claim, Place
from pykueue.engine.model import (
    ClusterQueue,
    Cohort,
    Flavor,
    LocalQueue,
    Namespace,
    Options,
    PodSet,
    PodsReadyOptions,
    Quota,
    ResourceGroup,
    Selector,
    Strategy,
    Workload,
)
from pykueue.engine.record.invariants import at_rest, broken, over_quota, overlooked

NOW = Instant(1_000 * MICROS)


def engine_at_rest() -> Engine:
    """A holder `in` and a parked workload `out`, in a queue of a cohort; unready pods block admission."""
    engine = Engine(Options(pods_ready=PodsReadyOptions(block_admission=True)))
    pods = (PodSet("main", 1, (("cpu", 3),)),)
    big = (PodSet("main", 1, (("cpu", 9),)),)
    for thing in (
        Namespace("red"),
        Flavor("spot"),
        Cohort("all", quotas=(Quota("spot", "cpu", 1),)),
        ClusterQueue(
            "q",
            "all",
            (ResourceGroup(("cpu",), ("spot",)),),
            (Quota("spot", "cpu", 4, None, 2),),
            namespaces=Selector(),
        ),
        LocalQueue("red/q", "q"),
        Workload("red/in", "in", "red/q", Instant(0), pods),
        Workload("red/out", "out", "red/q", Instant(1), big),
    ):
        engine.observe(Seen(thing))
    engine.observe(Synced())
    while not at_rest(engine, NOW):
        for decision in engine.decide(NOW):
            engine.observe(Written(decision.workload))
    return engine


def test_all_is_well_at_rest() -> None:
    engine = engine_at_rest()
    assert engine.world.items["red/in"].place is Place.HOLDING
    assert [item.key for item, parked in engine.world.pending["q"] if parked] == ["red/out"]
    assert [*broken(engine), *over_quota(engine), *overlooked(engine)] == []


def misplace_usage(engine: Engine) -> None:
    engine.world.forest.queues["q"].usage[0] += 1


def misplace_usage_of_cohort(engine: Engine) -> None:
    engine.world.forest.cohorts["all"].usage[0] = 7


def misplace_subtree(engine: Engine) -> None:
    engine.world.forest.cohorts["all"].subtree[0] = 99


def misplace_local(engine: Engine) -> None:
    engine.world.forest.queues["q"].local[0] = 0


def cut_an_edge(engine: Engine) -> None:
    engine.world.forest.queues["q"].parent = None


def forget_a_child(engine: Engine) -> None:
    engine.world.forest.cohorts["all"].children.clear()


def lose_the_tree(engine: Engine) -> None:
    engine.world.forest.queues["q"].tree = None


def unlist_in_the_tree(engine: Engine) -> None:
    for tree in engine.world.forest.trees:
        tree.queues = []


def forget_a_holder(engine: Engine) -> None:
    engine.world.forest.queues["q"].holders.clear()


def lose_a_workload(engine: Engine) -> None:
    del engine.world.items["red/in"]


def book_otherwise(engine: Engine) -> None:
    engine.world.items["red/in"].usage = ()


def mistake_the_lowest(engine: Engine) -> None:
    engine.world.forest.queues["q"].lowest = 77


def mistake_the_ranking(engine: Engine) -> None:
    engine.world.forest.queues["q"].ranking = []


def misplace(engine: Engine) -> None:
    engine.world.items["red/out"].place = Place.IDLE
    engine.world.items["red/out"].queue = ""


def miscount(engine: Engine) -> None:
    for group in engine.world.pending["q"].classes.values():
        group.size += 1


def park_strictly(engine: Engine) -> None:
    engine.world.pending["q"].strategy = Strategy.STRICT


def lose_the_front(engine: Engine) -> None:
    pending = engine.world.pending["q"]
    pending.front.clear()
    for group in pending.classes.values():
        group.parked = None


def keep_an_order_of_nobody(engine: Engine) -> None:
    engine.world.pending["ghost"] = engine.world.pending["q"]


def remember_a_ghost(engine: Engine) -> None:
    engine.world.pending["q"].preemptor = engine.world.items["red/in"]


def stick_to_nobody(engine: Engine) -> None:
    engine.world.pending["q"].sticky = True


def claim_without_preempting(engine: Engine) -> None:
    engine.world.items["red/out"].claim = Claim((), (), (), None)


def forget_a_member(engine: Engine) -> None:
    del engine.world.members["red/q"]["red/out"]


def list_a_stranger(engine: Engine) -> None:
    engine.world.members["red/other"] = {"red/in": engine.world.items["red/in"]}


def forget_the_unready(engine: Engine) -> None:
    engine.world.not_ready.clear()


def stop_the_clock(engine: Engine) -> None:
    engine.world.timers.clear()


def sleep_through(engine: Engine) -> None:
    engine.world.now = Instant(NOW + 10_000 * MICROS)


@pytest.mark.parametrize(
    ("sabotage", "sentence"),
    [
        pytest.param(misplace_usage, "usage of queue q on spot/cpu is 4, expected 3", id="usage"),
        pytest.param(misplace_usage_of_cohort, "usage of cohort all", id="usage of a cohort"),
        pytest.param(misplace_subtree, "subtree quota of cohort all on spot/cpu is 99", id="subtree quota"),
        pytest.param(misplace_local, "guaranteed quota of queue q", id="guaranteed quota"),
        pytest.param(cut_an_edge, "queue q has the parent ''", id="a cut edge"),
        pytest.param(forget_a_child, "queue q is not listed as a child of its cohort all", id="a forgotten child"),
        pytest.param(lose_the_tree, "queue q does not belong to the tree", id="a lost tree"),
        pytest.param(unlist_in_the_tree, "queue q is not listed in its tree", id="an unlisted queue"),
        pytest.param(forget_a_holder, "red/in is HOLDING in queue q", id="a forgotten holder"),
        pytest.param(lose_a_workload, "is not a known workload", id="a holder that nobody knows"),
        pytest.param(book_otherwise, "red/in has another usage booked", id="a wrong booking"),
        pytest.param(mistake_the_lowest, "has the wrong lowest priority", id="a wrong lowest priority"),
        pytest.param(mistake_the_ranking, "has its holders in the wrong order", id="a wrong ranking"),
        pytest.param(misplace, "red/out is IDLE in '' but should be QUEUED in 'q'", id="a wrong place"),
        pytest.param(miscount, "counts 2 members but has 1", id="a wrong count"),
        pytest.param(park_strictly, "is parked in a strict queue", id="a class parked in a strict queue"),
        pytest.param(lose_the_front, "has the head none", id="a lost front"),
        pytest.param(keep_an_order_of_nobody, "not the queues that exist", id="an order of nobody"),
        pytest.param(remember_a_ghost, "the preemptor of queue q, red/in, is not pending", id="a ghost preemptor"),
        pytest.param(stick_to_nobody, "has a sticky preemptor but no preemptor", id="a sticky nobody"),
        pytest.param(claim_without_preempting, "red/out has a claim", id="a claim of no preemptor"),
        pytest.param(forget_a_member, "does not list red/out", id="a forgotten member"),
        pytest.param(list_a_stranger, "LocalQueue red/other lists red/in", id="a stranger"),
        pytest.param(forget_the_unready, "red/in has unready pods but is not listed", id="forgotten unready pods"),
        pytest.param(stop_the_clock, "red/in is due for review", id="a stopped clock"),
        pytest.param(sleep_through, "red/in has an overdue decision", id="a missed moment"),
    ],
)
def test_a_broken_promise_is_noticed(sabotage: Callable[[Engine], None], sentence: str) -> None:
    engine = engine_at_rest()
    sabotage(engine)
    found = list(broken(engine))
    assert any(sentence in one for one in found), found


def test_too_much_usage_is_noticed() -> None:
    engine = engine_at_rest()
    engine.world.forest.cohorts["all"].usage[0] = 9
    assert list(over_quota(engine)) == ["cohort all uses 9 of spot/cpu but may use only 3"]


def test_who_is_parked_though_there_is_room_is_noticed() -> None:
    engine = engine_at_rest()
    engine.world.not_ready.clear()
    for node in (engine.world.forest.queues["q"], engine.world.forest.cohorts["all"]):
        node.subtree[0] = 50
        node.potentials = {}
    assert [reason for _, reason in enumerate(overlooked(engine))] == ["red/out is parked in queue q but fits now"]
    engine.world.items["red/out"].claim = Claim((), (), (), None)
    assert list(overlooked(engine)) == [], "a claim explains it"
