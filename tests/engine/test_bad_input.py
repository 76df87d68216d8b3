"""Does the engine survive whatever it is told, and say why a workload waits that it cannot place?

What the API's own schema refuses never reaches the bridge; but an engine may run beside an older schema, or be told by
a test or a simulation, so the same nonsense is put to it directly as well.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from pykueue.api.codec import decode
from pykueue.api.core import KubeObject
from pykueue.base.units import MICROS, UNLIMITED, Instant
from pykueue.bridge import inbound
from pykueue.engine import model
from pykueue.engine.decisions import Admit, Decision
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Gone, Seen, Synced, Written
from pykueue.engine.record.invariants import broken, over_quota, overlooked

NOW = Instant(1_000 * MICROS)
CYCLES_MAX = 50
LONG = "n" * 300

Tree = dict[str, Any]


def outcome(*things: model.Thing) -> tuple[Engine, list[Decision]]:
    """An engine that was told all of this and came to rest, and what it decided; its books are in order."""
    engine = Engine()
    for thing in (model.Namespace("red"), model.Flavor("spot"), *things):
        engine.observe(Seen(thing))
    engine.observe(Synced())
    found: list[Decision] = []
    for _ in range(CYCLES_MAX):
        decided = engine.decide(NOW)
        found.extend(decided)
        for decision in decided:
            engine.observe(Written(decision.workload))
        wake = engine.next_wake()
        if wake is None or wake > NOW:
            break
    else:
        pytest.fail("the engine does not come to rest")
    assert [*broken(engine), *overlooked(engine)] == []
    assert msgspec.json.decode(msgspec.json.encode(found)) is not None, "whatever is decided can be written down"
    return engine, found


def admitted(decisions: list[Decision]) -> set[str]:
    return {decision.workload for decision in decisions if isinstance(decision, Admit)}


def says_why(engine: Engine) -> bool:
    """Whether every workload either holds quota or has a reason why it does not."""
    levels = [item.workload for item in engine.world.items.values()]
    return all(level.admission is not None or (level.waiting and level.waiting.message) for level in levels)


def queue(nominal: int = 10, name: str = "q", **rest: Any) -> model.ClusterQueue:
    return model.ClusterQueue(
        name,
        groups=(model.ResourceGroup(("cpu",), ("spot",)),),
        quotas=(model.Quota("spot", "cpu", nominal),),
        namespaces=model.Selector(),
        **rest,
    )


def workload(*pod_sets: model.PodSet, name: str = "w", **rest: Any) -> model.Workload:
    key = f"red/{name}"
    return model.Workload(key, name, "red/q", Instant(0), pod_sets, **rest)


def pods(count: int = 1, cpu: int = 1, name: str = "main", **rest: Any) -> model.PodSet:
    return model.PodSet(name, count, (("cpu", cpu),), **rest)


LOCAL = model.LocalQueue("red/q", "q")


@pytest.mark.parametrize(
    ("seen", "starts"),
    [
        pytest.param(workload(), True, id="no pod sets"),
        pytest.param(workload(pods(0)), True, id="no pods"),
        pytest.param(workload(model.PodSet("main", 3)), True, id="no requests"),
        pytest.param(workload(pods(1, UNLIMITED)), False, id="more than can be counted"),
        pytest.param(workload(pods(2**31 - 1, UNLIMITED)), False, id="very many pods of more than can be counted"),
        pytest.param(workload(*(pods(2**31, UNLIMITED, f"p{n}") for n in range(8))), False, id="eight times that"),
        pytest.param(workload(pods(), pods()), True, id="two pod sets of one name"),
        pytest.param(workload(pods(6), pods(6)), False, id="two pod sets of one name, too large together"),
        pytest.param(workload(pods(3, min_count=9)), True, id="at least more than all"),
        pytest.param(workload(pods(99, min_count=200)), False, id="at least more than all, and too many"),
        pytest.param(workload(pods(99, min_count=0)), True, id="at least none"),
        pytest.param(workload(pods(99, min_count=-5)), True, id="at least less than none"),
        pytest.param(workload(pods(), priority=2**31 - 1), True, id="the highest priority"),
        pytest.param(workload(pods(), priority=2**63), True, id="a priority beyond 64 bits"),
        pytest.param(workload(pods(), priority=-(2**70)), True, id="a priority far below 64 bits"),
        pytest.param(workload(pods(), reclaimable=(("main", 99),)), True, id="more pods done than there are"),
        pytest.param(workload(pods(), reclaimable=(("other", 1),)), True, id="pods done of another pod set"),
        pytest.param(workload(pods(99), reclaimable=(("main", -5),)), False, id="less than no pods done"),
        pytest.param(workload(pods(), name=LONG), True, id="a very long name"),
        pytest.param(workload(pods(name=LONG)), True, id="a pod set with a very long name"),
        pytest.param(workload(model.PodSet("main", 1, (("gpu", 1),))), False, id="a resource that nobody covers"),
        pytest.param(workload(model.PodSet("main", 1, (("", 1),))), False, id="a resource without a name"),
        pytest.param(workload(pods(selector=(("", ""),))), True, id="a selector of nothing"),
        pytest.param(workload(pods(affinity=((("a", "Nonsense", ()),),))), True, id="a term with an unknown operator"),
    ],
)
def test_a_workload_of_any_kind(seen: model.Workload, starts: bool) -> None:
    engine, decisions = outcome(queue(), LOCAL, seen)
    assert admitted(decisions) == ({seen.key} if starts else set())
    assert says_why(engine)
    assert list(over_quota(engine)) == []
    assert all(used >= 0 for used in engine.world.forest.queues["q"].usage.values())


@pytest.mark.parametrize("count", [pytest.param(-1, id="minus one"), pytest.param(-(2**40), id="far below none")])
def test_fewer_than_no_pods_make_no_room_for_others(count: int) -> None:
    engine, _ = outcome(queue(), LOCAL, workload(pods(count, 5)), workload(pods(1, 11), name="large"))
    assert engine.world.items["red/large"].workload.admission is None
    assert says_why(engine)


def test_requests_below_nothing_make_no_room_for_others() -> None:
    engine, _ = outcome(queue(), LOCAL, workload(pods(1, -50)), workload(pods(1, 11), name="large"))
    assert engine.world.items["red/large"].workload.admission is None


@pytest.mark.parametrize(
    "things",
    [
        pytest.param((queue(-5),), id="a quota below nothing"),
        pytest.param((model.ClusterQueue("q", namespaces=model.Selector()),), id="a queue without resources"),
        pytest.param((queue(cohort="a"), model.Cohort("a", "a")), id="a cohort that is its own parent"),
        pytest.param(
            (queue(cohort="a"), model.Cohort("a", "b"), model.Cohort("b", "c"), model.Cohort("c", "a")),
            id="a cycle of three cohorts",
        ),
        pytest.param(
            (queue(cohort="c0"), *(model.Cohort(f"c{number}", f"c{number + 1}") for number in range(2_000))),
            id="a chain of two thousand cohorts",
        ),
        pytest.param((queue(checks=(model.CheckRule("ghost"),)),), id="a check that does not exist"),
        pytest.param((queue(), Gone("Flavor", "spot")), id="a flavor that is gone"),
        pytest.param((), id="no queue at all"),
        pytest.param((queue(), model.LocalQueue("red/q", "")), id="a local queue that leads nowhere"),
        pytest.param((queue(terminating=True),), id="a queue on its way out"),
        pytest.param((queue(unbuilt="something we cannot do"),), id="a queue that asks for too much"),
    ],
)
def test_a_queue_that_can_admit_nobody(things: tuple[model.Thing | Gone, ...]) -> None:
    engine = Engine()
    for thing in (model.Namespace("red"), model.Flavor("spot"), LOCAL, *things, workload(pods())):
        engine.observe(thing if isinstance(thing, Gone) else Seen(thing))
    engine.observe(Synced())
    for _ in range(3):
        for decision in engine.decide(NOW):
            assert not isinstance(decision, Admit)
            engine.observe(Written(decision.workload))
    assert list(broken(engine)) == []
    assert says_why(engine)


def test_a_holder_below_a_cycle_can_come_and_go() -> None:
    given = model.Admission("q", (model.Assignment("main", (("cpu", "spot"),), (("cpu", 50),), 1),))
    engine, _ = outcome(
        queue(cohort="a"),
        model.Cohort("a", "b"),
        model.Cohort("b", "a"),
        LOCAL,
        workload(pods(1, 50), admission=given, reserved_at=NOW, admitted_at=NOW),
    )
    engine.observe(Gone("Workload", "red/w"))
    engine.decide(NOW)
    assert list(broken(engine)) == []


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(model.Admission("", ()), id="in no queue"),
        pytest.param(model.Admission("q", ()), id="of nothing"),
        pytest.param(model.Admission("q", (model.Assignment("other", (), (("cpu", 3),), 0),)), id="of no flavor"),
        pytest.param(
            model.Admission("q", (model.Assignment("main", (("cpu", "ghost"),), (("cpu", 3),), 1),)),
            id="of a flavor that does not exist",
        ),
        pytest.param(
            model.Admission("q", (model.Assignment("main", (("cpu", "spot"),), (("cpu", 3),), 0),)), id="for no pods"
        ),
        pytest.param(
            model.Admission("q", (model.Assignment("main", (("cpu", "spot"),), (("cpu", 3),), -2),)),
            id="for less than no pods",
        ),
    ],
)
@pytest.mark.parametrize("reclaimable", [(), (("main", 1),), (("main", 7),)], ids=["", "one done", "too many done"])
def test_a_reservation_of_any_kind(given: model.Admission, reclaimable: tuple[tuple[str, int], ...]) -> None:
    holder = workload(pods(2, 3), admission=given, reserved_at=NOW, admitted_at=NOW, reclaimable=reclaimable)
    engine, _ = outcome(queue(), LOCAL, holder, workload(pods(), name="late"))
    assert says_why(engine)
    assert all(used >= 0 for used in engine.world.forest.queues["q"].usage.values())


def test_ten_thousand_resource_groups() -> None:
    names = [f"r{number}" for number in range(10_000)]
    wide = model.ClusterQueue(
        "q",
        groups=tuple(model.ResourceGroup((name,), ("spot",)) for name in names),
        quotas=tuple(model.Quota("spot", name, 5) for name in names),
        namespaces=model.Selector(),
    )
    some = model.PodSet("main", 1, tuple((name, 1) for name in names[::4_000]))
    too_many = workload(model.PodSet("main", 9, (("r7", 1),)), name="large")
    engine, decisions = outcome(wide, LOCAL, workload(some), too_many)
    assert admitted(decisions) == {"red/w"}
    assert says_why(engine)


def test_a_chain_of_a_hundred_cohorts() -> None:
    chain = [model.Cohort(f"c{number}", f"c{number + 1}") for number in range(100)]
    _, decisions = outcome(queue(cohort="c0"), *chain, LOCAL, workload(pods(4)))
    assert admitted(decisions) == {"red/w"}


# The same through the bridge.


def view(kind: str, name: str, spec: Mapping[str, Any], **rest: Any) -> KubeObject:
    tree: Tree = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}
    tree["metadata"] |= rest
    return decode(tree)


def thing(seen: KubeObject) -> model.Thing:
    found = inbound.thing(seen)
    assert found is not None, f"nothing of the engine's comes of {type(seen).__name__}"
    return found


def cluster(quantity: str | int) -> tuple[model.Thing, ...]:
    covered = {"name": "spot", "resources": [{"name": "cpu", "nominalQuota": quantity}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [covered]}]
    return (
        thing(view("ResourceFlavor", "spot", {})),
        thing(view("ClusterQueue", "q", {"namespaceSelector": {}, "resourceGroups": groups})),
        thing(view("LocalQueue", "q", {"clusterQueue": "q"}, namespace="red")),
    )


def requesting(quantity: str | int, count: int = 1, **spec: Any) -> model.Thing:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": quantity}}}
    pod_set = {"name": "main", "count": count, "template": {"spec": {"containers": [container]}}}
    return thing(
        view("Workload", "w", {"queueName": "q", "podSets": [pod_set], **spec}, namespace="red", uid="u", generation=1)
    )


@pytest.mark.parametrize(
    ("quota", "request_", "count", "starts"),
    [
        pytest.param("10", "1", 1, True, id="plain"),
        pytest.param("0", "0", 1, True, id="nothing of nothing"),
        pytest.param("10", "1n", 1, True, id="a billionth"),
        pytest.param("1n", "1n", 1, True, id="a billionth of a billionth, both rounded up"),
        pytest.param("999999999999E", "1E", 1, True, id="no limit"),
        pytest.param("10", "999999999999E", 1, False, id="more than can be counted"),
        pytest.param("999999999999E", "999999999999E", 1000, True, id="more than can be counted of no limit"),
        pytest.param("10", "1e60", 1, False, id="sixty zeros"),
        pytest.param("10", "nonsense", 1, False, id="no quantity"),
        pytest.param("10", "-5", 1, True, id="less than nothing counts as nothing"),
        pytest.param("-5", "1", 1, False, id="a quota of less than nothing"),
        pytest.param("10", "1", 0, True, id="no pods"),
        pytest.param("10", "1", 2**31 - 1, False, id="two billion pods"),
    ],
)
def test_quantities_of_any_kind(quota: str, request_: str, count: int, starts: bool) -> None:
    engine, decisions = outcome(*cluster(quota), requesting(request_, count))
    assert admitted(decisions) == ({"red/w"} if starts else set())
    assert says_why(engine)


def test_names_of_three_hundred_letters() -> None:
    local = thing(view("LocalQueue", LONG, {"clusterQueue": LONG}, namespace="red"))
    engine, decisions = outcome(*cluster("10"), local, requesting("1", queueName=LONG))
    assert admitted(decisions) == set()
    assert says_why(engine)
