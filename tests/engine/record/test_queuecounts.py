"""Are all workloads of a queue counted, in steps that are short however many there are?"""

from collections.abc import Generator
from typing import TypeVar

from pykueue.engine.engine import Engine
from pykueue.engine.facts import Gone, Seen
from pykueue.engine.model import LocalQueue, Options, StopPolicy
from pykueue.engine.record import tally
from pykueue.engine.record.queuecounts import STEP, Group, Line, QueueCounts, queue_counts, waiting_for_queue
from tests.engine.record.test_tally import decide, engine_with, queue, workload
from tests.story import Story

Result = TypeVar("Result")


def finished(steps: Generator[None, None, Result]) -> tuple[Result, int]:
    """The result, and how many times the work was interrupted."""
    times = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Result = end.value
            return found, times
        times += 1


def counts(engine: Engine, name: str) -> QueueCounts:
    found, _ = finished(queue_counts(engine, name))
    assert found is not None
    return found


def test_who_is_in_line_and_who_is_set_aside() -> None:
    engine = engine_with(
        *(workload(f"fits{n}") for n in range(3)),
        *(workload(f"same{n}", cpu=2000) for n in range(4)),
        workload("single", cpu=2500),
    )
    found = counts(engine, "main")
    assert found.line == Line(0, 5, 0, 2)
    assert found.requested == {"cpu": 10500, "memory": 5}
    assert found.local_queues["team/door"].line.parked == 5
    engine.observe(Seen(LocalQueue("team/other", "main")))
    engine.observe(Seen(workload("late", "other", cpu=2000)))
    decide(engine)
    found = counts(engine, "main")
    assert {key: one.line for key, one in found.local_queues.items()} == {
        "team/door": Line(0, 5),
        "team/other": Line(0, 1),
    }
    assert counts(engine, "main").line == Line(0, 6, 0, 2)
    assert finished(queue_counts(engine, "none")) == (None, 0)


def test_what_workloads_hold_is_counted_as_for_the_status() -> None:
    engine = engine_with(LocalQueue("team/other", "main"), workload("a"), workload("b", "other"), workload("c"))
    whole, parts = tally.of_queue(engine, "main"), tally.of_local_queues(engine, "main")
    found = counts(engine, "main")
    assert whole is not None
    assert (found.reserved, found.admitted) == (whole.reserved, whole.admitted)
    for key, part in parts.items():
        assert (found.local_queues[key].reserved, found.local_queues[key].admitted) == (part.reserved, part.admitted)


def test_who_steps_aside_for_a_strict_head_is_in_line() -> None:
    story = Story(
        queues=["owner cpu=4+1 cohort=c strategy=StrictFIFO", "guest cpu=0 cohort=c", "lender cpu=2 cohort=c"],
        locals=["owner queue=owner", "guest queue=guest", "other queue=guest"],
    )
    story.do("queue runs owner cpu=3")
    assert story.decide() == ["admit runs"]
    story.do("queue blocked owner cpu=4 priority=5", "queue big guest cpu=2", "queue small guest cpu=1")
    story.do("queue huge other cpu=9")
    story.decide()
    assert story.engine.item("ns/big") in story.engine.world.pending["guest"].parked.values()
    found = counts(story.engine, "guest")
    assert found.line == Line(1, 1, 1, 1)
    lines = {key: one.line for key, one in found.local_queues.items()}
    assert lines == {"ns/guest": Line(1, 0), "ns/other": Line(0, 1)}


def test_in_a_queue_that_cannot_admit_all_are_set_aside() -> None:
    engine = engine_with(queue("main", stop=StopPolicy.HOLD), workload("w"), workload("v"))
    assert counts(engine, "main").line == Line(0, 2, 0, 1)


def test_the_first_in_line_is_the_first_in_order() -> None:
    story = Story(queues=["main cpu=1 strategy=StrictFIFO"], locals=["main queue=main"])
    story.do("queue low main cpu=2", "queue high main cpu=3 priority=7", "queue late main cpu=2 priority=7")
    story.decide()
    line, _ = finished(story.engine.line("main"))
    assert counts(story.engine, "main").first is line[0]
    assert line[0].key == "ns/high"
    assert counts(engine_with(), "main").first is None


def test_workloads_are_counted_by_any_group() -> None:
    engine = engine_with(*(workload(name) for name in ("a1", "a2", "b3")), *(workload(f"b{n}") for n in range(4, 7)))

    def letter(key: str) -> Group:
        return (key.partition("/")[2][0],)

    found, _ = finished(queue_counts(engine, "main", letter))
    assert found is not None
    assert found.pending_groups == {(True, ("b",)): 3}
    assert found.admitted_groups == {("team/door", ("a",)): 2, ("team/door", ("b",)): 1}


def test_a_long_line_is_counted_in_steps() -> None:
    """Whether each workload has a class of its own, or all share one, with one LocalQueue or two."""
    for equivalence in (True, False):
        options = Options(equivalence=equivalence)
        engine = engine_with(
            LocalQueue("team/other", "main"),
            *(workload(f"w{n}", ("door", "other")[n % 2], cpu=9000 + n % 7) for n in range(3 * STEP)),
            options=options,
        )
        found, times = finished(queue_counts(engine, "main"))
        assert found is not None
        assert found.line.parked == 3 * STEP
        assert [one.line.parked for one in found.local_queues.values()] == [3 * STEP // 2] * 2
        assert times >= 3


def test_workloads_that_wait_for_their_queue_are_counted_in_steps() -> None:
    engine = engine_with(*(workload(f"w{n}", cpu=9000) for n in range(2 * STEP)))
    engine.observe(Gone("ClusterQueue", "main"))
    decide(engine)
    assert finished(waiting_for_queue(engine, "team/door")) == (2 * STEP, 2)
    assert finished(waiting_for_queue(engine, "team/none")) == (0, 0)
