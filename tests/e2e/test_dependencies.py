"""When is a Job queued that waits for other Jobs, or for a time?"""

from typing import Any

import pytest

from pykueue.base.units import Seconds, after, format_instant, parse_instant
from tests.e2e.job import Job
from tests.e2e.team import Queue, Team
from tests.plane.client import Tree, condition

pytestmark = pytest.mark.ours("Kueue honours the gate, and our job controller removes it")

GATED = "kueue.x-k8s.io/admission-gated-by"
GATE = "pykueue.io/dependencies"
GATED_SAYS = f"Admission is gated by: {GATE}"


def waiting(queue: Queue, name: str, *, how: dict[str, Any] | None = None, **needs: str) -> Job:
    """A Job that waits as its annotations say."""
    notes = {f"pykueue.io/{key.replace('_', '-')}": text for key, text in needs.items()}
    return queue.job(name, annotations={GATED: GATE, **notes}, **(how or {}))


def gates(job: Job) -> Any:
    return job.tree()["metadata"].get("annotations", {}).get(GATED)


def test_a_job_that_comes_after_another_starts_when_that_one_has_ended(team: Team) -> None:
    queue = team.queue(cpu=4)
    first = queue.job("first", backoffLimit=0)
    first.runs()
    second = waiting(queue, "second", after="first")
    third = waiting(queue, "third", after_ok="second")
    second.waits("AdmissionGated", GATED_SAYS)
    second.event("WaitingForDependencies", "The job waits for job first to end")
    third.waits("AdmissionGated", GATED_SAYS)
    first.pods_do("failed")
    second.runs()
    second.event("DependenciesMet")
    assert gates(second) is None
    assert gates(third) == GATE
    second.ends()
    third.runs()


def test_a_job_whose_forerunner_fails_never_starts_and_says_so(team: Team) -> None:
    queue = team.queue(cpu=4)
    first = queue.job("first", backoffLimit=0)
    first.runs()
    second = waiting(queue, "second", after_ok="first")
    second.waits("AdmissionGated", GATED_SAYS)
    first.pods_do("failed")
    second.event("DependencyNeverMet", "The job can never start: job first failed", "Warning")
    first.delete()
    second.event("DependencyNeverMet", "The job can never start: job first does not exist", "Warning")
    second.never_runs(0.5)


def test_a_deleted_job_counts_as_ended_and_what_was_met_is_not_forgotten(team: Team) -> None:
    queue = team.queue(cpu=4)
    one, two = queue.job("one"), queue.job("two")
    one.runs()
    two.runs()
    last = waiting(queue, "last", after="two", after_ok="one")
    last.waits("AdmissionGated", GATED_SAYS)
    one.ends()
    team.client.wait_for("Job", "last", team.namespace, lambda tree: "pykueue.io/after-ok" not in notes(tree))
    one.delete()
    last.never_runs(0.5)
    two.delete()
    last.runs()


def notes(tree: Tree) -> Any:
    return tree["metadata"].get("annotations", {})


def test_a_job_begins_at_its_time_and_keeps_its_place_in_line(team: Team) -> None:
    queue = team.queue(cpu=1, queueingStrategy="StrictFIFO")
    early = waiting(queue, "early", begin="2020-01-01T00:00:00Z")
    early.runs()
    late = waiting(queue, "late", begin="2999-01-01T00:00:00Z")
    late.waits("AdmissionGated", GATED_SAYS)
    # Places in line are compared by the second.
    team.sleep(1.1)
    other = queue.job("other")
    other.waits("WaitingForQuota")
    late.patch({"metadata": {"annotations": {"pykueue.io/begin": "2020-01-01T00:00:00Z"}}})
    late.until(lambda tree: condition(tree, "QuotaReserved")["reason"] != "AdmissionGated", "its place in line")
    early.ends()
    late.runs()
    other.never_runs(0.5)


def test_a_job_begins_by_itself_when_its_time_has_come(team: Team) -> None:
    queue = team.queue(cpu=4)
    created = parse_instant(queue.job("clock").tree()["metadata"]["creationTimestamp"])
    job = waiting(queue, "job", begin=format_instant(after(created, Seconds(4))))
    job.waits("AdmissionGated", GATED_SAYS)
    job.runs()
    workload = job.workload()
    assert parse_instant(condition(workload, "Admitted")["lastTransitionTime"]) >= after(created, Seconds(4))


def test_jobs_that_wait_for_each_other_say_so(team: Team) -> None:
    queue = team.queue(cpu=4)
    one = waiting(queue, "one", after_ok="two")
    one.event("DependencyNeverMet", "The job can never start: job two does not exist", "Warning")
    two = waiting(queue, "two", after="one")
    says = "The job can never start: the jobs wait for each other: "
    two.event("DependencyNeverMet", f"{says}two -> one -> two", "Warning")
    one.event("DependencyNeverMet", f"{says}one -> two -> one", "Warning")
    two.patch({"metadata": {"annotations": {GATED: None}}})
    two.runs()
    two.ends()
    one.runs()


def test_a_user_starts_a_waiting_job_by_removing_the_gate(team: Team) -> None:
    queue = team.queue(cpu=4)
    job = waiting(queue, "one", begin="2999-01-01T00:00:00Z")
    job.waits("AdmissionGated", GATED_SAYS)
    job.patch({"metadata": {"annotations": {GATED: None}}})
    job.runs()
