"""Does `pykueue jobs` give the reasons that `pykueue status` gives?"""

from pathlib import Path

from msgspec.structs import replace

from pykueue.api.jobsummary import UNNAMED, UNQUEUED, JobSummary
from pykueue.api.names import WorkloadCondition
from pykueue.bridge.sentences import condition, pending_text, unnamed
from pykueue.cli.jobs.cluster import listed
from pykueue.cli.jobs.explained import explained
from pykueue.cli.queues.state import read_state
from pykueue.engine.decisions import PreemptionReason
from pykueue.engine.record.parsing import Preemption
from pykueue.testing.kueue import Kueue
from tests import builders

QUEUES = Path(__file__).resolve().parents[3] / "examples/testing/queues.yaml"


def rows(kueue: Kueue) -> dict[str, JobSummary]:
    """The jobs of a server, by name, before their reasons are looked up."""
    found, _ = kueue.embedded.call(listed(kueue.embedded.kube, "default", ""))
    return {row.name: row for row in found.summaries()}


def reasons(kueue: Kueue) -> dict[str, str]:
    found = kueue.embedded.call(explained(kueue.embedded.kube, [*rows(kueue).values()], "default"))
    return {row.name: row.reason for row in found}


def pending(kueue: Kueue) -> dict[str, str]:
    """What `pykueue status` says."""
    jobs = kueue.embedded.call(explained(kueue.embedded.kube, [*rows(kueue).values()], "default"))
    found = kueue.embedded.call(read_state(kueue.embedded.kube, "default", jobs)).pending_workloads
    return {one.job.removeprefix("default/"): one.why for one in found}


def test_a_priority_class_that_does_not_exist(kueue: Kueue) -> None:
    kueue.apply(QUEUES)
    kueue.job("lost", queue="red", priority="nonesuch")
    assert rows(kueue)["lost"].reason == UNQUEUED
    assert reasons(kueue) == pending(kueue) == {"lost": "WorkloadPriorityClass nonesuch not found"}


def test_a_job_that_asks_for_what_is_not_built(kueue: Kueue) -> None:
    kueue.apply(QUEUES)
    about = {"annotations": {"kueue.x-k8s.io/elastic-job": "true"}}
    kueue.apply(builders.job("grows", "red", "default", about, suspend=True))
    why = "metadata.annotations[kueue.x-k8s.io/elastic-job]: elastic jobs are not supported yet; remove the annotation"
    assert reasons(kueue) == pending(kueue) == {"grows": why}


def test_the_preemptor_is_named(kueue: Kueue) -> None:
    kueue.apply(QUEUES)
    kueue.job("victim", queue="red", cpu=6)
    kueue.job("owner", queue="blue", cpu=4)
    name = kueue.workload("owner")["metadata"]["name"]
    words = f"preempted for Job owner (Workload {name}), which took back what blue owns"
    # As it is listed until the engine has looked for room again.
    evicted = condition(kueue.workload("victim"), WorkloadCondition.EVICTED)
    victim = replace(rows(kueue)["victim"], reason=pending_text(evicted))
    assert victim.reason.startswith(UNNAMED)
    (found,) = kueue.embedded.call(explained(kueue.embedded.kube, [victim], "default"))
    assert found.reason == words
    (later,) = kueue.embedded.call(
        explained(kueue.embedded.kube, [replace(victim, since="2099-01-01T00:00:00Z")], "default")
    )
    assert later.reason == victim.reason, "the Event is about an earlier preemption"


def test_a_reason_without_a_name_is_known_by_its_beginning() -> None:
    assert unnamed(Preemption("u", "j", PreemptionReason.IN_QUEUE, "blue")).startswith(f"{UNNAMED}blue,")
