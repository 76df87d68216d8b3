"""Does the child process answer each kind of question, and refuse with a sentence?"""

import msgspec
import pytest

from pykueue.api.estimates import EstimateStatus
from pykueue.bridge.estimates import KIND, RUNS_MIN, EstimateQuestion
from pykueue.controllers.queries.questions import Questions
from pykueue.controllers.queries.snapshots import question
from pykueue.kube.aggregated import AggregatedError
from tests.engine.test_engine import NOW, engine_with, run, workload


async def estimated(name: str) -> EstimateStatus:
    engine = engine_with(workload("runs", created=1), workload("waits", created=2))
    run(engine)
    asked = msgspec.msgpack.encode(EstimateQuestion(f"red/{name}", NOW, RUNS_MIN))
    return msgspec.json.decode(await Questions().ask("ann", question(KIND, asked, engine)), type=EstimateStatus)


async def test_an_estimate_is_answered() -> None:
    found = await estimated("waits")
    assert (found.runs, found.runs_that_start, found.ahead) == (RUNS_MIN, RUNS_MIN, 1)


async def test_an_estimate_of_nothing_is_refused() -> None:
    with pytest.raises(AggregatedError, match="red/gone does not exist") as caught:
        await estimated("gone")
    assert caught.value.code == 422
