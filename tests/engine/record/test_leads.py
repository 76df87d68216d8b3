"""Is the use after which another queue no longer goes first told, in units that people know, and does it come true?"""

from math import inf

import pytest

from pykueue.base.units import MICROS, NANO
from pykueue.engine.model import AdmissionFairSharing, Cohort, LocalQueue, Options, Preemption, ShareStrategy
from pykueue.engine.pastuse import PastUse, decayed, value_of
from pykueue.engine.record.causes import BorrowLead, Precedence, UseLead
from pykueue.engine.record.leads import past_use_lead, use_text
from tests.engine.record.explained import System, queue

HOUR = 3600 * MICROS
WEIGHTS = (("cpu", 1.0), ("memory", 0.0), ("nvidia.com/gpu", 40.0))
SHARING = AdmissionFairSharing(half_life_micros=12 * HOUR, resource_weights=WEIGHTS)
FAIR = (ShareStrategy.FINAL, ShareStrategy.INITIAL)


def past_use(sharing: AdmissionFairSharing = SHARING) -> PastUse:
    return PastUse(sharing, lambda _: False)


def test_so_much_use_closes_the_gap() -> None:
    mine, theirs = {"nvidia.com/gpu": 3 * NANO}, {"nvidia.com/gpu": NANO}
    past = past_use()
    first, own = (value_of(used, {}, 1.0, past.weights) for used in (theirs, mine))
    lead = past_use_lead(past, first, own, 1.0, {"cpu": 4 * NANO, "memory": 2**40 * NANO, "nvidia.com/gpu": 4 * NANO})
    assert lead is not None
    assert lead.resource == "nvidia.com/gpu"
    # Many GPUs for a short time, in which little decays.
    gpus, minutes = lead.unit_minutes, 1
    used = decayed(theirs, {"nvidia.com/gpu": round(gpus * NANO)}, minutes * 60 * MICROS, SHARING.half_life_micros)
    assert value_of(used, {}, 1.0, past.weights) == pytest.approx(own, rel=0.01)


@pytest.mark.parametrize(
    ("own", "sharing", "used"),
    [
        pytest.param(inf, SHARING, {"cpu": NANO}, id="a LocalQueue of weight 0 comes last for good"),
        pytest.param(2.0, AdmissionFairSharing(), {"cpu": NANO}, id="no half-life"),
        pytest.param(2.0, SHARING, {"memory": NANO}, id="only what does not count"),
        pytest.param(2.0, SHARING, {}, id="nothing used"),
        pytest.param(1e300, SHARING, {"cpu": NANO}, id="more than anybody can use"),
    ],
)
def test_there_may_be_no_end(own: float, sharing: AdmissionFairSharing, used: dict[str, int]) -> None:
    weights = (("", 0.0), *WEIGHTS)
    sharing = AdmissionFairSharing(sharing.half_life_micros, resource_weights=weights)
    assert past_use_lead(past_use(sharing), 1.0, own, 1.0, used) is None


@pytest.mark.parametrize(
    ("lead", "text"),
    [
        (UseLead("nvidia.com/gpu", 40.2), "40 gpu-minutes"),
        (UseLead("nvidia.com/gpu", 0.0123), "0.012 gpu-minutes"),
        (UseLead("nvidia.com/gpu", 1e-9), "0.01 gpu-minutes"),
        (UseLead("hugepages-2Mi", 2.0 * 2**30), "2 GiB-of-hugepages-2Mi-minutes"),
        (UseLead("cpu", 90.0), "90 core-minutes"),
        (UseLead("cpu", 72_000.0), "1200 core-hours"),
        (UseLead("memory", 3.0 * 2**30), "3 GiB-of-memory-minutes"),
        (UseLead("gpu", 600.0), "10 gpu-hours"),
    ],
)
def test_use_is_told_in_units_that_people_know(lead: UseLead, text: str) -> None:
    assert use_text(lead) == text


def test_what_a_queue_with_the_smaller_share_can_borrow_until_the_other_is_next() -> None:
    never = Preemption()
    weights = (("a", 1.0), ("b", 2.0))
    things = [queue(name, 0, cohort="all", weight=weight, preemption=never) for name, weight in weights]
    system = System(Cohort("all"), queue("lender", 10, cohort="all"), *things, options=Options(fair_sharing=FAIR))
    system.submit("a1", "a", 4)
    system.submit("b1", "b", 4)
    system.submit("filler", "lender", 2)
    system.submit("later", "a", 2)
    system.submit("first", "b", 1)
    found = system.why("later").share
    assert found is not None
    (one,) = found.earlier
    # With its next workload, a has 6 of 10. What b borrows counts half, but the cohort cannot lend 12.
    assert (one.why, one.lead) == (Precedence.SHARE, None)
    system.see(queue("b", 0, cohort="all", preemption=never))
    system.submit("larger", "a", 3)
    found = system.why("larger").share
    assert found is not None
    (one,) = found.earlier
    assert (one.why, one.lead) == (Precedence.SHARE, BorrowLead("cpu", 7_000))
    assert "that of a with this one; a would be next if b borrowed 7 cpu" in system.text("larger")


def test_in_a_usage_based_cohort_past_use_is_told_beside_the_share() -> None:
    options = Options(fair_sharing=FAIR, admission_fair_sharing=AdmissionFairSharing(half_life_micros=300 * MICROS))
    system = System(
        Cohort("all", usage_based=True),
        queue("lender", 4, cohort="all"),
        queue("a", 0, cohort="all"),
        queue("b", 0, cohort="all"),
        LocalQueue("lab/ann", "a", consumed=(("cpu", "8"),)),
        LocalQueue("lab/bob", "b", consumed=(("cpu", "2"),)),
        options=options,
    )
    system.submit("runs", "lender", 4)
    system.submit("later", "ann", 1)
    system.submit("first", "bob", 1)
    found = system.why("later").share
    assert found is not None
    assert [(one.queue, one.why) for one in found.earlier] == [("b", Precedence.PAST_USE)]
    text = system.text("later")
    assert "ClusterQueue a has 0, and would have 0.25 with it, past use 8" in text
    assert (
        "b goes first: the past use of b is 2, below 8, that of a; a would be next after about 43 core-minutes of b"
    ) in text
    text = system.queue_text("b")
    assert "share of what its cohort lends: 0, past use 2; siblings with less past use go first" in text
    assert "ClusterQueue a: 0, past use 8" in text
