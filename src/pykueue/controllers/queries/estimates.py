"""Answers when a workload will start: a child process runs the present state forward (`sim.estimates`)."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from pykueue.api.core import ObjectMeta
from pykueue.api.estimates import ESTIMATE, Estimate, EstimateStatus, StartState, words
from pykueue.api.names import Annotation, WorkloadCondition
from pykueue.api.query import ESTIMATES, QUERY_GROUP
from pykueue.api.workload import Workload, held
from pykueue.base.turns import in_steps
from pykueue.base.units import format_instant
from pykueue.bridge.estimates import KIND, RUNS_DEFAULT, RUNS_MAX, RUNS_MIN, EstimateQuestion
from pykueue.controllers.cluster import Cluster
from pykueue.controllers.jobsummaries import FOLLOWED_MAX, queued
from pykueue.controllers.queries.calibration import EstimateLog
from pykueue.controllers.queries.deadlines import deadlines
from pykueue.controllers.queries.group import check_leads
from pykueue.controllers.queries.owners import finder, job_of
from pykueue.controllers.queries.questions import Questions
from pykueue.controllers.queries.snapshots import question
from pykueue.engine.engine import Engine
from pykueue.jobs.dependencies import NEVER, Never, Wait, followed, needs_of, said, verdict
from pykueue.kube.aggregated import AggregatedCall, AggregatedResource, bad_request, not_found

OF_WORKLOADS: Final = AggregatedResource("workloads", "workload", ESTIMATES, ESTIMATE, namespaced=True)
ARRIVALS: Final = ("ignored", "learned")
SHOWN_MAX: Final = 40
"""Characters of a malformed parameter that an error repeats."""
STATUS: Final = msgspec.json.Decoder(EstimateStatus)


class Estimates:
    """Answers for one set of controllers."""

    def __init__(self, cluster: Cluster, engine: Engine, log: EstimateLog, questions: Questions) -> None:
        self.cluster = cluster
        self.engine = engine
        self.log = log
        self.questions = questions

    async def answer(self, call: AggregatedCall) -> bytes:
        """An Estimate, in JSON. It has counts of other workloads, and no names."""
        runs, seed, arrivals = runs_in(call.query), seed_in(call.query), arrivals_in(call.query)
        engine = check_leads(self.engine)
        key = f"{call.namespace}/{call.name}"
        seen = self.cluster.workloads.get(key)
        if seen is None:
            raise not_found(QUERY_GROUP, OF_WORKLOADS.singular, call.name)
        found = self.known(seen)
        if found is None:
            now = self.cluster.clock.now()
            learned = self.cluster.run_times.learned(now)
            asked = EstimateQuestion(key, now, runs, seed, arrivals, await in_steps(deadlines(self.cluster)), learned)
            sent = question(KIND, msgspec.msgpack.encode(asked), engine)
            found = STATUS.decode(await self.questions.ask(call.caller.name, sent))
            # Another replica may have taken over in the meantime, and decided otherwise.
            check_leads(engine)
            self.log.remember(seen.metadata.uid or "", found)
            if not found.runs_that_start:
                found = without_start(seen, found)
        found = replace(found, calibration=self.log.calibration)
        found = replace(found, message=words(found))
        metadata = ObjectMeta(name=call.name, namespace=call.namespace, uid=seen.metadata.uid)
        return msgspec.json.encode(Estimate(metadata=metadata, status=found))

    def known(self, seen: Workload) -> EstimateStatus | None:
        """The answer for a Workload that has started, is held or is gated; None if it is in line."""
        if held(seen, WorkloadCondition.FINISHED) is not None:
            return EstimateStatus(StartState.FINISHED)
        admitted = held(seen, WorkloadCondition.ADMITTED)
        if admitted is not None and held(seen, WorkloadCondition.EVICTED) is None:
            return EstimateStatus(StartState.STARTED, started=admitted.last_transition_time or "")
        if not seen.spec.active:
            return EstimateStatus(StartState.HELD, reason=queued(seen, (), None, "").reason)
        gates = seen.metadata.annotations.get(Annotation.ADMISSION_GATED_BY, "")
        return self.gated(seen, gates) if gates and self.engine.options.admission_gates else None

    def gated(self, seen: Workload, gates: str) -> EstimateStatus:
        """The answer for a Workload that gates keep out of line: what its Job waits for, or the gates."""
        by_gates = EstimateStatus(StartState.GATED, reason=f"is gated by {gates}")
        job = job_of(self.cluster, seen)
        needs = None if job is None else needs_of(job.metadata.annotations)
        if job is None or needs is None:
            return by_gates
        now = self.cluster.clock.now()
        others = followed(needs, finder(self.cluster, seen.metadata.namespace), most=FOLLOWED_MAX)
        found = verdict(job.metadata.name or "", needs, others, now)
        reason = said(found, now) or by_gates.reason
        if isinstance(found, Wait) and not found.left.jobs and found.left.begin is not None:
            return EstimateStatus(StartState.GATED, reason=reason, not_before=format_instant(found.left.begin))
        return EstimateStatus(StartState.NEVER if isinstance(found, Never) else StartState.GATED, reason=reason)


def without_start(seen: Workload, found: EstimateStatus) -> EstimateStatus:
    """The answer for a Workload that starts in no run, with the reason that is known of it."""
    known = queued(seen, (), None, "")
    reason = known.message or known.reason
    return replace(found, state=StartState.NEVER if reason.startswith(NEVER) else found.state, reason=reason)


def runs_in(query: Mapping[str, Sequence[str]]) -> int:
    """How many runs a call asks for."""
    return number_in(query, "runs", RUNS_DEFAULT, RUNS_MIN, RUNS_MAX)


def seed_in(query: Mapping[str, Sequence[str]]) -> int:
    """With which seed the runs are drawn; the same seed and state give the same answer."""
    return number_in(query, "seed", 0, 0, 2**31 - 1)


def number_in(query: Mapping[str, Sequence[str]], name: str, absent: int, least: int, most: int) -> int:
    """A number in a query; raises `AggregatedError` if it is none, or out of range."""
    text = (query.get(name) or ("",))[0]
    if not text:
        return absent
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(most)) else -1
    if not least <= number <= most:
        raise bad_request(f"{name}: {text[:SHOWN_MAX]!r} is not a number from {least} to {most}")
    return number


def arrivals_in(query: Mapping[str, Sequence[str]]) -> bool:
    """Whether other jobs arrive in the runs."""
    text = (query.get("arrivals") or (ARRIVALS[0],))[0]
    if text not in ARRIVALS:
        raise bad_request(f"arrivals: {text[:SHOWN_MAX]!r} is neither {' nor '.join(ARRIVALS)}")
    return text == ARRIVALS[1]
