"""Does each comparison put first whom the specification puts first?"""

from typing import Any

import pytest

from pykueue.base.units import MICROS, Instant
from pykueue.engine.decisions import EvictionReason, PreemptionReason, SparedReason
from pykueue.engine.items import Item
from pykueue.engine.model import Evicted, Options, PodsReadyOptions, Preempted, Timestamp, Workload
from pykueue.engine.order import (
    MILLISECOND,
    VICTIM_ORDER,
    head_key,
    later_because,
    pending_key,
    queue_stamp,
    victim_key,
)
from pykueue.engine.world import World

CREATED, LATER, NOW = Instant(5 * MICROS), Instant(9 * MICROS), Instant(20 * MICROS)


def workload(name: str = "w", created: Instant = CREATED, priority: int = 0, **rest: Any) -> Workload:
    return Workload(f"default/{name}", name, "default/queue", created, priority=priority, **rest)


def item(seen: Workload, queue: str = "ours", options: Options | None = None) -> Item:
    options = options or Options()
    found = Item(seen, World(options).shape(seen), queue_stamp(seen, options))
    found.queue = queue
    return found


@pytest.mark.parametrize(
    ("seen", "options", "stamp"),
    [
        pytest.param(workload(), Options(), CREATED, id="by creation"),
        pytest.param(
            workload(evicted=Evicted(EvictionReason.PREEMPTED, LATER)),
            Options(),
            CREATED,
            id="preemption keeps the place",
        ),
        pytest.param(
            workload(evicted=Evicted(EvictionReason.QUEUE_STOPPED, LATER)),
            Options(),
            CREATED,
            id="a stopped queue keeps the place",
        ),
        pytest.param(
            workload(evicted=Evicted(EvictionReason.PODS_READY_TIMEOUT, LATER)),
            Options(),
            LATER,
            id="a timeout sends to the back",
        ),
        pytest.param(
            workload(evicted=Evicted(EvictionReason.PODS_READY_TIMEOUT, LATER)),
            Options(pods_ready=PodsReadyOptions(timestamp=Timestamp.CREATION)),
            CREATED,
            id="a timeout does not send to the back when creation counts",
        ),
        pytest.param(
            workload(evicted=Evicted(EvictionReason.ADMISSION_CHECK, LATER)),
            Options(pods_ready=PodsReadyOptions(timestamp=Timestamp.CREATION)),
            LATER,
            id="a check sends to the back whatever counts",
        ),
        pytest.param(
            workload(preempted=Preempted(PreemptionReason.RECLAIM_WHILE_BORROWING, LATER)),
            Options(priority_sorting=False),
            LATER + MILLISECOND,
            id="reclaimed while borrowing, just behind its preemptor",
        ),
        pytest.param(
            workload(preempted=Preempted(PreemptionReason.RECLAIM_WHILE_BORROWING, LATER)),
            Options(),
            CREATED,
            id="reclaimed while borrowing, with priorities between heads",
        ),
        pytest.param(
            workload(preempted=Preempted(PreemptionReason.RECLAIM, LATER)),
            Options(priority_sorting=False),
            CREATED,
            id="reclaimed from a borrower",
        ),
    ],
)
def test_a_workload_queues_by(seen: Workload, options: Options, stamp: Instant) -> None:
    assert queue_stamp(seen, options) == stamp


def test_the_order_of_a_queue() -> None:
    expected = [
        workload("important", priority=2),
        workload("older"),
        workload("newer-a", LATER),
        workload("newer-b", LATER),
        workload("unimportant", Instant(0), -1),
    ]
    found = sorted(map(item, expected[::-1]), key=pending_key)
    assert [one.uid for one in found] == [one.uid for one in expected]


def test_boost_counts_only_behind_its_gate() -> None:
    boosted, plain = workload("boosted", LATER, boost=1), workload("plain")
    on = Options(priority_boost=True)
    assert pending_key(item(boosted, options=on)) < pending_key(item(plain, options=on))
    assert pending_key(item(boosted)) > pending_key(item(plain))


@pytest.mark.parametrize(
    ("options", "promised", "order"),
    [
        pytest.param(Options(), "", ["thrifty", "important", "preemptor", "plain"], id="who borrows less comes first"),
        pytest.param(
            Options(priority_sorting=False), "", ["thrifty", "preemptor", "plain", "important"], id="without priorities"
        ),
        pytest.param(
            Options(), "preemptor", ["preemptor", "thrifty", "important", "plain"], id="who was promised room first"
        ),
    ],
)
def test_the_order_of_heads(options: Options, promised: str, order: list[str]) -> None:
    heads = {
        "plain": (workload("plain"), 1),
        "important": (workload("important", LATER, 3), 1),
        "thrifty": (workload("thrifty", LATER), 0),
        "preemptor": (workload("preemptor", Instant(CREATED - 1)), 1),
    }

    def key(name: str) -> tuple[bool, int, int, Instant, str]:
        seen, borrowing = heads[name]
        return head_key(item(seen), borrowing=borrowing, promised=name == promised, options=options)

    assert sorted(heads, key=key) == order


def test_the_order_of_victims() -> None:
    expected = [
        item(workload("leaving", priority=9, evicted=Evicted("Preempted", LATER), reserved_at=CREATED)),
        item(workload("theirs-low", reserved_at=CREATED), "theirs"),
        item(workload("theirs-high", priority=1, reserved_at=CREATED), "theirs"),
        item(workload("ours-being-reserved")),
        item(workload("ours-late", reserved_at=LATER)),
        item(workload("ours-early-a", reserved_at=CREATED)),
        item(workload("ours-early-b", reserved_at=CREATED)),
        item(workload("ours-high", priority=1, reserved_at=LATER)),
    ]
    shuffled = expected[3:] + expected[:3]
    found = sorted(shuffled, key=lambda one: victim_key(one, own_queue="ours", entitled=False, now=NOW))
    assert [one.uid for one in found] == [one.uid for one in expected]


@pytest.mark.parametrize(
    ("later", "reason"),
    [
        pytest.param({"evicted": None}, SparedReason.NOT_LEAVING, id="others leave already"),
        pytest.param({"queue": "ours"}, SparedReason.OWN_QUEUE, id="of the preemptor's own queue"),
        pytest.param({"entitled": False}, SparedReason.WEAKER_CLAIM, id="the preemptor is not entitled to its quota"),
        pytest.param({"priority": 1}, SparedReason.HIGHER_PRIORITY, id="more important"),
        pytest.param({"reserved_at": CREATED}, SparedReason.ADMITTED_EARLIER, id="admitted before"),
        pytest.param({}, SparedReason.TIE, id="equal"),
    ],
)
def test_what_puts_a_candidate_later(later: dict[str, Any], reason: SparedReason) -> None:
    def key(name: str, changes: dict[str, Any]) -> Any:
        fields: dict[str, Any] = {"evicted": Evicted("Preempted", LATER), "reserved_at": LATER, **changes}
        queue, entitled = fields.pop("queue", "theirs"), fields.pop("entitled", True)
        return victim_key(item(workload(name, **fields), queue), own_queue="ours", entitled=entitled, now=NOW)

    victim, other = key("a", {}), key("b", later)
    assert victim < other
    assert later_because(other, victim) is reason
    assert len(VICTIM_ORDER) == len(victim)
