from decimal import Decimal
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.base.units import MICROS, NANO, Instant
from pykueue.engine.model import AdmissionFairSharing
from pykueue.engine.pastuse import Charge, Holding, PastUse, charge_of, decayed, growth, ratio, value_of
from tests.engine.pastusereference import Event, outcome

FIVE_MINUTES = 300 * MICROS
WEEK = 168 * 3600 * MICROS
HOLD_AND_CHARGE = ("hold", "release", "charge", "drop", "settle", "sample")


def by_admission(_: str) -> bool:
    """Count workloads from their admission on."""
    return False


@pytest.mark.parametrize(
    ("elapsed", "half_life", "share"),
    [
        pytest.param(FIVE_MINUTES, FIVE_MINUTES, 0.5, id="one half-life"),
        pytest.param(2 * FIVE_MINUTES, FIVE_MINUTES, 0.75, id="two half-lives"),
        pytest.param(0, FIVE_MINUTES, 0.0, id="no time"),
        pytest.param(FIVE_MINUTES, 0, 0.0, id="no half-life"),
    ],
)
def test_past_use_moves_by_half_in_each_half_life(elapsed: int, half_life: int, share: float) -> None:
    assert growth(elapsed, half_life) == share


def test_products_are_rounded_down_to_billionths() -> None:
    assert decayed({"cpu": 3}, {}, FIVE_MINUTES, FIVE_MINUTES) == {"cpu": 1}
    assert decayed({"cpu": 3}, {"cpu": 3}, FIVE_MINUTES, FIVE_MINUTES) == {"cpu": 2}
    assert decayed({"cpu": 1}, {}, FIVE_MINUTES, FIVE_MINUTES) == {}


def test_a_factor_is_its_shortest_decimal_form() -> None:
    top, bottom = ratio(0.1)
    assert (top, bottom) == (1, 10)
    assert ratio(1e-7) == (1, 10**7)


def test_small_use_adds_up_over_a_long_half_life() -> None:
    used: dict[str, int] = {}
    for _ in range(2016):
        used = decayed(used, {"cpu": 2 * NANO}, FIVE_MINUTES, WEEK)
    assert used["cpu"] == pytest.approx(NANO, rel=1e-3)


def test_a_charge_is_the_share_of_one_interval_in_the_units_of_kubernetes() -> None:
    half = ratio(0.5)
    assert charge_of((("memory", 1024), ("cpu", 1500), ("cpu", 500), ("pods", 0)), half) == (
        ("cpu", NANO),
        ("memory", 512 * NANO),
    )


@pytest.mark.parametrize(
    ("weight", "value"),
    [
        pytest.param(1.0, 14.0, id="the weighted sum of past use and charges"),
        pytest.param(2.0, 7.0, id="divided by the weight"),
        pytest.param(0.0, inf, id="weight 0 comes last"),
        pytest.param(-1.0, inf, id="a negative weight too"),
    ],
)
def test_the_value_by_which_local_queues_are_ordered(weight: float, value: float) -> None:
    consumed, pending = {"cpu": 4 * NANO, "gpu": NANO}, {"gpu": NANO, "memory": 5 * NANO}
    assert value_of(consumed, pending, weight, {"gpu": 5.0, "memory": 0.0}) == value


def test_an_idle_local_queue_of_weight_0_comes_last_too() -> None:
    assert value_of({}, {}, 0.0, {}) == inf


def test_a_sample_without_a_half_life_clears_past_use() -> None:
    past = PastUse(AdmissionFairSharing(), by_admission)
    account = past.open("ns/a", 1.0)
    past.seed(account, (("cpu", NANO),), Instant(0))
    assert account.value == 1.0
    past.sample_all(Instant(FIVE_MINUTES))
    assert past.value("ns/a") == 0.0


def test_a_clock_that_is_set_back_neither_adds_nor_decays() -> None:
    past = PastUse(AdmissionFairSharing(half_life_micros=FIVE_MINUTES), by_admission)
    account = past.open("ns/a", 1.0)
    past.seed(account, (("cpu", 8 * NANO),), Instant(100 * FIVE_MINUTES))
    past.begin(Instant(10 * FIVE_MINUTES))
    assert account.consumed == {"cpu": 8 * NANO}
    past.sample_all(Instant(11 * FIVE_MINUTES))
    assert account.consumed == {"cpu": 4 * NANO}


def test_a_settlement_before_the_last_sample_only_adds_the_charge() -> None:
    past = PastUse(AdmissionFairSharing(half_life_micros=FIVE_MINUTES), by_admission)
    account = past.open("ns/a", 1.0)
    past.seed(account, (("cpu", 8 * NANO),), Instant(FIVE_MINUTES))
    past.charge("ns/w", Charge("ns/a", (("cpu", NANO),)))
    past.settle("ns/w", Instant(0))
    assert (account.consumed, account.at) == ({"cpu": 9 * NANO}, FIVE_MINUTES)


def test_a_second_charge_replaces_the_first() -> None:
    past = PastUse(AdmissionFairSharing(half_life_micros=FIVE_MINUTES), by_admission)
    past.open("ns/a", 1.0)
    past.charge("ns/w", Charge("ns/a", (("cpu", NANO),)))
    past.charge("ns/w", Charge("ns/a", (("cpu", 2 * NANO),)))
    assert past.value("ns/a") == 2.0
    past.drop("ns/w")
    assert past.value("ns/a") == 0.0


def test_a_deleted_local_queue_takes_its_charges_along() -> None:
    past = PastUse(AdmissionFairSharing(half_life_micros=FIVE_MINUTES), by_admission)
    past.open("ns/a", 0.0)
    past.charge("ns/w", Charge("ns/a", (("cpu", NANO),)))
    past.close("ns/a")
    past.settle("ns/w", Instant(0))
    assert (past.value("ns/a"), past.charges) == (0.0, {})


@given(
    st.lists(
        st.tuples(
            st.sampled_from(HOLD_AND_CHARGE), st.integers(0, 3), st.integers(0, 64_000), st.integers(-60, 100_000)
        ),
        max_size=30,
    ),
    st.sampled_from([0, 60, 300, 86_400]),
)
def test_the_reference_comes_to_the_same(steps: list[tuple[str, int, int, int]], half_life: int) -> None:
    past = PastUse(AdmissionFairSharing(half_life_micros=half_life * MICROS), by_admission)
    account = past.open("ns/a", 1.0)
    past.begin(Instant(0))
    now, events = 0, []
    for what, number, millicores, seconds in steps:
        now = max(0, now + seconds)
        workload, instant = f"ns/w{number}", Instant(now * MICROS)
        events.append(Event(now, what, workload, Decimal(millicores) / 1000))
        match what:
            case "hold":
                past.count(workload, Holding("ns/a", (("cpu", millicores),), admitted=True))
            case "release":
                past.count(workload, None)
            case "charge":
                past.charge(workload, Charge("ns/a", past.charge_for((("cpu", millicores),))))
            case "drop":
                past.drop(workload)
            case "settle":
                past.settle(workload, instant)
            case _:
                events[-1] = Event(now, what)
                past.sample_all(instant)
    consumed, pending = outcome(events, begin=0, half_life=half_life, interval=300)
    assert account.consumed.get("cpu", 0) == int(consumed * NANO)
    assert account.pending.get("cpu", 0) == int(pending * NANO)
    assert account.value == pytest.approx(float(consumed + pending))
