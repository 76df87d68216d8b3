"""Are questions about a start answered, refused and remembered as they should be?"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from pykueue.api.estimates import Estimate, EstimateStatus, StartState
from pykueue.controllers.queries.calibration import EstimateLog
from pykueue.controllers.queries.estimates import Estimates
from pykueue.controllers.queries.questions import Questions
from pykueue.engine.facts import Leading
from pykueue.kube.aggregated import AggregatedCall, AggregatedError
from pykueue.kube.port import JOBS
from tests.builders import job
from tests.controllers.queries.test_pendingworkloads import Anyone
from tests.controllers.running import TEAM, Running, running

ANSWER = EstimateStatus(
    StartState.PENDING,
    asked="2026-01-01T14:00:00Z",
    earliest="2026-01-01T14:10:00Z",
    latest="2026-01-01T15:30:00Z",
    runs=40,
    runs_that_start=40,
)


def answering(found: EstimateStatus = ANSWER, seconds: float = 0) -> Questions:
    """A child that gives this answer to everything."""
    text = msgspec.json.encode(found).decode()
    code = f"import sys, time; sys.stdin.buffer.read(); time.sleep({seconds}); print({text!r})"
    return Questions((sys.executable, "-P", "-c", code))


def call(name: str, query: Mapping[str, Sequence[str]] = {}) -> AggregatedCall:
    return AggregatedCall("v1alpha1", "workloads/estimates", TEAM, name, Anyone(), query)


class Asked:
    """A manager with one workload that runs and one that waits."""

    def __init__(self, made: Running, questions: Questions | None = None) -> None:
        self.counted: list[str] = []
        self.log = EstimateLog(self.counted.append)
        self.made = made
        made.cluster.workloads.listen(self.log.workload_changed)
        self.estimates = Estimates(made.cluster, made.pump.engine, self.log, questions or answering())

    async def ask(self, name: str, **query: str) -> Estimate:
        found = await self.estimates.answer(call(name, {key: [value] for key, value in query.items()}))
        return msgspec.json.decode(found, type=Estimate)


async def test_a_workload_that_waits_is_estimated_and_the_estimate_is_compared_with_its_start() -> None:
    made = Running()
    made.queues("main", cpu="1")
    made.workload("runs", "main")
    async with running(made):
        asked = Asked(made)
        made.workload("waits", "main")
        await made.clock.advance(2)
        found = (await asked.ask("waits", arrivals="learned", runs="20")).status
        assert found.message == "starts between 2026-01-01T14:10:00Z and 2026-01-01T15:30:00Z (nine of ten runs)"
        made.change_condition("runs", "Finished", "True", "Succeeded")
        await made.clock.advance(2)
        assert asked.counted == ["late"]
        assert asked.log.calibration == msgspec.convert({"estimates": 1, "right": 0}, type(asked.log.calibration))
        started = (await asked.ask("waits")).status
        assert (started.state, bool(started.started)) == (StartState.STARTED, True)
        assert started.calibration == asked.log.calibration, "every answer has it, also one that costs nothing"
        assert (await asked.ask("runs")).status.state is StartState.FINISHED


async def test_what_runs_out_teaches_how_long_such_jobs_run() -> None:
    made = Running()
    made.queues("main")
    made.workload("one", "main")
    async with running(made):
        await made.clock.advance(120)
        made.change_condition("one", "Finished", "True", "Succeeded")
        await made.clock.advance(1)
        (kind,) = made.cluster.run_times.learned(made.clock.now()).kinds
        assert (kind.kind.queue, kind.kind.requests) == (f"{TEAM}/main", (("cpu", 1000),))
        assert 118 <= kind.seconds[0] <= 121


async def test_a_manager_that_starts_learns_from_the_finished_workloads_that_are_there() -> None:
    made = Running()
    made.queues("main")
    conditions: list[dict[str, Any]] = [
        {"type": kind, "status": "True", "reason": "Succeeded", "message": "", "lastTransitionTime": at}
        for kind, at in (("Admitted", "2026-01-01T00:00:00Z"), ("Finished", "2026-01-01T01:00:00Z"))
    ]
    made.workload("old", "main", status={"conditions": conditions})
    async with running(made):
        assert [one.seconds for one in made.cluster.run_times.learned(made.clock.now()).kinds] == [(3600,)]


GATE = "kueue.x-k8s.io/admission-gated-by"
OURS = {GATE: "pykueue.io/dependencies"}


@pytest.mark.parametrize(
    ("annotations", "state", "message"),
    [
        (
            {**OURS, "pykueue.io/after-ok": "train"},
            StartState.GATED,
            "waits for job train to succeed, so it cannot be estimated",
        ),
        (
            {**OURS, "pykueue.io/begin": "2099-01-01T09:44:00Z"},
            StartState.GATED,
            "not before 2099-01-01T09:44:00Z, and cannot be estimated until then",
        ),
        ({**OURS, "pykueue.io/after-ok": "gone"}, StartState.NEVER, "can never start: job gone does not exist"),
        ({GATE: "example.com/gate"}, StartState.GATED, "is gated by example.com/gate, so it cannot be estimated"),
    ],
)
async def test_a_job_that_is_not_in_line_is_told_what_it_waits_for(
    annotations: dict[str, str], state: StartState, message: str
) -> None:
    made = Running()
    made.queues("main", cpu="1")
    for name in ("train", "eval"):
        metadata = {"annotations": annotations, "uid": name} if name == "eval" else {"uid": name}
        made.store.store(JOBS, job(name, "main", TEAM, metadata, suspend=True))
    uid = made.store.at(JOBS, "eval", TEAM)["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "eval", "uid": uid, "controller": True}
    made.workload("waits", "main", metadata={"annotations": annotations, "ownerReferences": [owner]})
    async with running(made):
        await made.clock.advance(2)
        asked = Asked(made)
        found = (await asked.ask("waits")).status
        assert (found.state, found.message, asked.log.open) == (state, message, {})


async def test_a_job_that_is_held_is_not_estimated() -> None:
    made = Running()
    made.queues("main", cpu="1")
    mark = {"annotations": {"pykueue.io/deactivated-by": "hold"}}
    made.workload("waits", "main", metadata=mark, spec={"active": False})
    async with running(made):
        await made.clock.advance(2)
        found = (await Asked(made).ask("waits")).status
        assert (found.state, found.message) == (
            StartState.HELD,
            "held by its owner; `pykueue release` queues it again",
        )


async def test_a_job_that_starts_in_no_run_gets_the_reason() -> None:
    nothing = EstimateStatus(StartState.PENDING, asked="2026-01-01T14:00:00Z", runs=40)
    made = Running()
    made.queues("main", cpu="1")
    made.queues("stopped", cpu="1", stopPolicy="Hold")
    made.workload("large", "main", cpu="9")
    made.workload("waits", "stopped")
    async with running(made):
        await made.clock.advance(2)
        asked = Asked(made, answering(nothing))
        found = (await asked.ask("large")).status
        assert found.state is StartState.NEVER
        assert found.message == "can never start: asks for 9 cpu, this queue can have 1 at most"
        found = (await asked.ask("waits")).status
        assert found.state is StartState.PENDING
        assert found.message == "does not start within 30 days in any of 40 runs: ClusterQueue stopped is inactive"


@pytest.mark.parametrize(
    ("name", "query", "code", "text"),
    [
        ("gone", {}, 404, 'workload.query.pykueue.io "gone" not found'),
        ("waits", {"runs": ["5"]}, 400, "runs: '5' is not a number from 20 to 200"),
        ("waits", {"runs": ["x" * 99]}, 400, "runs: 'xxx"),
        ("waits", {"arrivals": ["all"]}, 400, "arrivals: 'all' is neither ignored nor learned"),
    ],
)
async def test_what_cannot_be_answered_is_refused(
    name: str, query: Mapping[str, Sequence[str]], code: int, text: str
) -> None:
    made = Running()
    made.queues("main", cpu="1")
    async with running(made):
        with pytest.raises(AggregatedError) as caught:
            await Asked(made).estimates.answer(call(name, query))
        assert (caught.value.code, text in caught.value.message) == (code, True), caught.value.message


async def test_a_leader_that_stops_leading_while_it_estimates_says_so() -> None:
    made = Running()
    made.queues("main", cpu="1")
    made.workload("large", "main", cpu="9")
    async with running(made):
        await made.clock.advance(1)
        asked = Asked(made, answering(seconds=0.2))
        answer = asyncio.ensure_future(asked.ask("large"))
        await asyncio.sleep(0.05)
        made.pump.observe(Leading(False))
        with pytest.raises(AggregatedError, match="does not lead"):
            await answer
        assert asked.log.open == {}
