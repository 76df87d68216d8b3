"""Does the state that is sent with a question arrive as it was when the question was asked?"""

import io
import random

import pytest

from pykueue.controllers.queries.snapshots import question
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Gone, Seen, Stopped, Written
from pykueue.engine.model import Policy, Preemption
from pykueue.engine.record import checkpoint as checkpoints
from pykueue.engine.record.checkpoint import checkpoint
from pykueue.sim.questions import read
from tests.engine.test_engine import NOW, engine_with, queue, workload


def random_engine(seed: int) -> Engine:
    """An engine in the middle of its work: workloads wait, run, preempt and are preempted, writes are in flight."""
    rng = random.Random(seed)
    engine = engine_with(queue(nominal=5, preemption=Preemption(Policy.LOWER)))
    for _ in range(rng.randrange(40)):
        key = f"red/{rng.randrange(12)}"
        match rng.randrange(6):
            case 0:
                engine.observe(Gone("Workload", key))
            case 1:
                engine.observe(Stopped(key))
            case 2:
                engine.decide(NOW)
            case 3:
                engine.observe(Written(key))
            case _:
                engine.observe(
                    Seen(workload(key.partition("/")[2], priority=rng.randrange(3), cpu=rng.randrange(1, 7)))
                )
    return engine


async def sent(engine: Engine, parameters: bytes = b"") -> io.BytesIO:
    return io.BytesIO(b"".join([piece async for piece in question("estimate", parameters, engine)]))


@pytest.mark.parametrize("seed", range(20))
async def test_a_question_carries_the_state(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "PART", 3)
    engine = random_engine(seed)
    stream = await sent(engine, b"which \n workload?")
    assert stream.readline() == b"estimate\n"
    assert read(stream) == (b"which \n workload?", checkpoint(engine))


async def test_changes_while_it_is_sent_are_left_out() -> None:
    engine = random_engine(1)
    before = checkpoint(engine)
    pieces = []
    async for piece in question("estimate", b"", engine):
        engine.observe(Seen(workload("late")))
        engine.decide(NOW)
        pieces.append(piece)
    stream = io.BytesIO(b"".join(pieces[1:]))
    assert read(stream)[1] == before


async def test_a_question_that_is_cut_short_is_no_question() -> None:
    whole = (await sent(random_engine(1))).getvalue().partition(b"\n")[2]
    with pytest.raises(EOFError):
        read(io.BytesIO(whole[:-8]))
