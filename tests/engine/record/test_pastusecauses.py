"""Does an explanation in a usage-based ClusterQueue say which LocalQueues go first, with the past use of the engine?"""

from math import inf, log

import pytest

from pykueue.base.units import MICROS, Instant, Seconds, after
from pykueue.engine.model import AdmissionFairSharing, LocalQueue, Options
from pykueue.engine.record.causes import HIDDEN, PastUseCause, PastUseRow, UseLead
from pykueue.engine.record.causetree import tree_of_queue
from pykueue.engine.record.pastusecauses import ROWS_MAX
from pykueue.engine.record.pastusetree import past_use_nodes, past_use_text, queue_past_use_nodes
from tests.engine.record.explained import System, lines, queue

FIVE_MINUTES = 300 * MICROS
"""A start costs half of what it requests."""
USED = Options(admission_fair_sharing=AdmissionFairSharing(half_life_micros=FIVE_MINUTES))
START = Instant(1_800_000_000 * MICROS)
TURNS = "the place changes with every start, because LocalQueues take turns by their past use"


def two(options: Options = USED, *, usage_based: bool = True, weight: float = 2.0) -> System:
    """LocalQueues u1 and u2, which has another weight, in a ClusterQueue of 1 cpu; one workload of u1 runs."""
    locals_ = (LocalQueue("lab/u1", "main"), LocalQueue("lab/u2", "main", weight=weight))
    system = System(queue("main", 1, usage_based=usage_based), *locals_, options=options)
    for number in range(3):
        system.submit(f"u1-{number}", "u1")
        system.submit(f"u2-{number}", "u2")
    return system


def queue_lines(system: System, local_queue: str) -> str:
    return "\n".join(lines(tree_of_queue(system.local_queue(local_queue))))


@pytest.mark.parametrize(
    ("options", "usage_based"),
    [
        pytest.param(Options(), True, id="not configured"),
        pytest.param(USED, False, id="a ClusterQueue that is not usage-based"),
    ],
)
def test_where_past_use_does_not_count_it_is_not_mentioned(options: Options, usage_based: bool) -> None:
    system = two(options, usage_based=usage_based)
    assert system.why("u1-2").past_use is None
    text = system.text("u1-2") + system.queue_text("main") + queue_lines(system, "u1")
    assert "past use" not in text
    assert TURNS not in text


def test_a_local_queue_with_less_past_use_goes_first() -> None:
    system = two()
    found = system.why("u1-2")
    lead = UseLead("cpu", 0.502307823 * 2.0 * 300.0 / log(2) / 60)
    first = PastUseRow("lab/u2", 0.0, 2.0, 3, START, lead)
    assert found.past_use is not None
    assert found.past_use.own == PastUseRow("lab/u1", 0.502307823, 1.0, 2, after(START, Seconds(1)))
    assert (found.past_use.others, found.past_use.count) == ((first,), 1)
    text = system.text("u1-2")
    assert "past use: that of LocalQueue lab/u1 is 0.5023, counted up to 2027-01-15T08:00:01Z\n" in text
    assert "LocalQueue lab/u2 goes first: its past use is 0 (weight 2); 3 of its workloads wait" in text
    assert "; 3 of its workloads wait; this job would be next after about 7.2 core-minutes of it\n" in text
    assert f"place in line: 5 of 5; ahead: lab/u2-0, lab/u2-1, lab/u2-2 and lab/u1-1\n    {TURNS}" in text.replace(
        "    none of them fits now, so they do not block it\n", ""
    )


def test_the_local_queue_with_the_least_past_use_says_so() -> None:
    text = two().text("u2-2")
    assert "past use: that of LocalQueue lab/u2 is 0 (weight 2); no LocalQueue with pending workloads has less" in text
    assert TURNS in text


def test_a_local_queue_without_pending_workloads_does_not_go_first() -> None:
    system = System(queue("main", 1, usage_based=True), LocalQueue("lab/u1", "main"), options=USED)
    system.submit("runs", "u1")
    system.submit("waits", "u1")
    text = system.text("waits")
    assert "is 0.5023, counted up to 2027-01-15T08:00:01Z; no LocalQueue with pending workloads has less" in text
    assert TURNS not in text, "nobody else waits"


def test_with_the_weight_0_a_local_queue_comes_last() -> None:
    system = two(weight=0.0)
    text = system.text("u2-2")
    assert "past use: that of LocalQueue lab/u2 is infinite (weight 0)" in text
    assert "LocalQueue lab/u1 goes first: its past use is 0.5023; 2 of its workloads wait" in text
    assert TURNS not in text + system.text("u1-2")


def test_without_a_half_life_nobody_takes_turns() -> None:
    system = two(Options(admission_fair_sharing=AdmissionFairSharing()))
    assert "past use: that of LocalQueue lab/u1 is 0; no LocalQueue" in system.text("u1-2")
    assert TURNS not in system.text("u1-2")


def test_a_workload_that_runs_has_no_past_use() -> None:
    assert two().why("u1-0").past_use is None


def test_the_past_use_of_a_local_queue_is_compared_with_its_siblings() -> None:
    system = two()
    text = (
        "past use: 0.5023, counted up to 2027-01-15T08:00:01Z; LocalQueues of this ClusterQueue with less go first\n"
        "    LocalQueue lab/main: 0\n"
    )
    assert f"{text}    LocalQueue lab/u2: 0 (weight 2); 3 of its workloads wait\n" in queue_lines(system, "u1")


def test_a_cluster_queue_lists_all_its_local_queues() -> None:
    system = two()
    text = (
        "past use of its LocalQueues; those with less go first:\n    LocalQueue lab/main: 0\n    LocalQueue lab/u2: 0"
    )
    assert text in system.queue_text("main")
    assert "    LocalQueue lab/u1: 0.5023; 2 of its workloads wait\n" in system.queue_text("main")


def test_only_the_first_of_many_are_named() -> None:
    many = tuple(LocalQueue(f"lab/u{number}", "main") for number in range(ROWS_MAX + 2))
    system = System(queue("main", 1, usage_based=True), *many, options=USED)
    for number in range(ROWS_MAX + 2):
        system.submit(f"first-{number}", f"u{number}")
    system.submit("waits", "u0")
    found = system.why("waits").past_use
    assert found is not None
    assert (len(found.others), found.count) == (ROWS_MAX, ROWS_MAX + 1)
    assert "1 more LocalQueue goes first, with less past use" in system.text("waits")
    assert f"LocalQueue lab/u{ROWS_MAX - 1} goes first: its past use is 0; 1 of its workloads waits;" in system.text(
        "waits"
    )


@pytest.mark.parametrize(
    ("hidden", "more", "text"),
    [
        (1, 0, "1 LocalQueue of another namespace goes first, with less past use"),
        (2, 0, "2 LocalQueues of other namespaces go first, with less past use"),
        (2, 3, "2 LocalQueues of other namespaces and 3 more go first, with less past use"),
        (0, 3, "3 more LocalQueues go first, with less past use"),
    ],
)
def test_those_that_may_not_be_named_are_counted(hidden: int, more: int, text: str) -> None:
    own, other = PastUseRow("u1", 1.0, 1.0, 1), PastUseRow(HIDDEN, 0.25, 1.0, 1)
    cause = PastUseCause(own, (other,) * hidden, hidden + more)
    (node,) = past_use_nodes(cause)
    assert [one.text for one in node.children] == [text]
    (about,) = queue_past_use_nodes(cause)
    assert [one.text for one in about.children] == [text.partition(" go")[0]]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.0048176, "0.004818"),
        (0.5, "0.5"),
        (0.000012345, "0.00001234"),
        (3e9, "3000000000"),
        (inf, "infinite"),
    ],
)
def test_past_use_is_written_without_exponents(value: float, text: str) -> None:
    assert past_use_text(value) == text
