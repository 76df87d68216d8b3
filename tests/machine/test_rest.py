"""Is nobody left to start when the engine is at rest? A fresh engine, told how things stand, would admit nobody."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from pykueue.engine.decisions import Admit, Decision, Reserve
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Seen, Synced, Written
from pykueue.engine.model import Workload
from tests.story import Story

CYCLES = 6
LATEST = 10**9
"""A version later than any of a story."""


def words(*choices: str) -> SearchStrategy[str]:
    """One of several words, or none."""
    return st.sampled_from(("", *choices))


@st.composite
def queue_lines(draw: DrawFn) -> list[str]:
    """Queues of two flavors, mostly in one cohort, with any policies."""
    lines = []
    for number in range(draw(st.integers(1, 4))):
        quotas = f"one.cpu={draw(st.integers(0, 4))} two.cpu={draw(st.integers(0, 3))}"
        parts = [
            draw(st.sampled_from(("cohort=c", "cohort=c", "cohort=c", ""))),
            draw(words("within=LowerPriority", "within=LowerOrNewerEqualPriority")),
            draw(words("reclaim=Any", "reclaim=LowerPriority", "reclaim=LowerPriority borrow=LowerPriority")),
            draw(words("can_borrow=TryNextFlavor")),
            draw(words("can_preempt=MayStopSearch")),
            draw(words("strategy=StrictFIFO")),
        ]
        lines.append(" ".join([f"q{number}", quotas, *filter(None, parts)]))
    return lines


SHAPES = st.sampled_from(
    ("cpu={}", "cpu={} node=pool=a", "cpu={} node=pool=b", "a=1x cpu={} b=1x cpu=1", "main={}x cpu=1 min=1")
)


@given(queues=queue_lines(), data=st.data())
def test_at_rest_nobody_is_left_who_could_start(queues: list[str], data: st.DataObject) -> None:
    story = Story(flavors=["one pool=a", "two pool=b"], queues=queues)
    created = 0
    for _ in range(data.draw(st.integers(1, 6))):
        for _ in range(data.draw(st.integers(1, 3))):
            living = [
                thing.key for thing, _ in story.things.values() if isinstance(thing, Workload) and not thing.finished
            ]
            if living and data.draw(st.integers(0, 2)) == 0:
                verb = data.draw(st.sampled_from(("finish", "delete", "stopped")))
                story.do(f"{verb} {data.draw(st.sampled_from(living)).removeprefix('ns/')}")
                continue
            created += 1
            shape = data.draw(SHAPES).format(data.draw(st.integers(1, 5)))
            queue, priority = data.draw(st.integers(0, len(queues) - 1)), data.draw(st.integers(-1, 1))
            story.do(f"queue w{created} q{queue} {shape} priority={priority}")
        story.decide()
        assert started_afresh(story) == [], story.told


def started_afresh(story: Story) -> list[Decision]:
    """Whom an engine without a memory would start; nobody is asked while victims are leaving."""
    workloads = [thing for thing, _ in story.things.values() if isinstance(thing, Workload)]
    if any(workload.evicted is not None and workload.admission is not None for workload in workloads):
        return []
    engine = Engine(story.options)
    for thing, version in story.things.values():
        engine.observe(Seen(thing, version))
    engine.observe(Synced())
    for _ in range(CYCLES):
        decisions = engine.decide(story.now)
        started: list[Decision] = [decision for decision in decisions if isinstance(decision, Admit | Reserve)]
        if started:
            return started
        for decision in decisions:
            engine.observe(Written(decision.workload, LATEST))
    return []
