"""Are jobs of a server without our API listed in the same words as by the embedded one?"""

from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest

from pykueue.api.codec import decode_as
from pykueue.api.jobsummary import JobState, JobSummary, SummaryList
from pykueue.api.workload import Workload
from pykueue.cli.jobs.cluster import ClusterJobs, finished, listed
from pykueue.jobs.batch import JobView, read_job
from pykueue.kube.port import PODS, WORKLOADS, DeniedError, Kube, Resource
from pykueue.testing.kueue import Kueue
from tests import builders
from tests.builders import cluster_queue, local_queue

FLAVOR = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "default"}}


@pytest.fixture
def kueue() -> Iterator[Kueue]:
    made = Kueue()
    made.apply(FLAVOR, cluster_queue(cpu="2"), local_queue())
    yield made
    made.close()


class Narrow:
    """A server that refuses to list some kinds."""

    def __init__(self, kube: Kube, *refused: Resource) -> None:
        self.kube = kube
        self.refused = refused

    async def pages(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[bytes]:
        if resource in self.refused:
            raise DeniedError(f"list {resource}", 403, "Forbidden", f'User "ann" cannot list resource "{resource}"')
        async for page in self.kube.pages(resource, namespace, labels=labels, fields=fields):
            yield page


def plain(row: JobSummary) -> JobSummary:
    """Without what only the embedded server knows."""
    return msgspec.structs.replace(row, place=None)


def test_rows_are_those_of_the_embedded_server(kueue: Kueue) -> None:
    kueue.job("runs", queue="main")
    kueue.job("waits", queue="main", cpu=2)
    kueue.job("never", queue="main", cpu=64, activeDeadlineSeconds=60)
    kueue.job("done", queue="main")
    kueue.finish("done")
    kueue.advance("10s")
    found, notes = kueue.embedded.call(listed(kueue.embedded.kube, "default", ""))
    code, body = kueue.embedded.request("GET", "/apis/pykueue.io/v1alpha1/namespaces/default/jobsummaries")
    assert code == 200
    own = [plain(one) for one in msgspec.json.decode(body, type=SummaryList).items]
    assert sorted(found.summaries(), key=lambda row: row.name) == sorted(own, key=lambda row: row.name)
    assert [row.name for row in own if row.state is JobState.RUNNING] == ["runs"]
    assert notes == []


def after_ok(name: str, other: str) -> dict[str, object]:
    """A Job that waits until another has succeeded."""
    gate = {"kueue.x-k8s.io/admission-gated-by": "pykueue.io/dependencies", "pykueue.io/after-ok": other}
    return builders.job(name, "main", "default", {"annotations": gate}, suspend=True)


def reasons(kueue: Kueue) -> tuple[dict[str, str], dict[str, str]]:
    """Why jobs wait, as the embedded server says and as the rows made of its objects do."""
    found, _ = kueue.embedded.call(listed(kueue.embedded.kube, "default", ""))
    _, body = kueue.embedded.request("GET", "/apis/pykueue.io/v1alpha1/namespaces/default/jobsummaries")
    own = msgspec.json.decode(body, type=SummaryList).items
    return {row.name: row.reason for row in own}, {row.name: row.reason for row in found.summaries()}


def test_a_job_of_which_some_pods_have_succeeded_is_listed(kueue: Kueue) -> None:
    kueue.job("parts", queue="main", completions=3, parallelism=1)
    kueue.finish("parts")
    kueue.advance("10s")
    found, _ = kueue.embedded.call(listed(kueue.embedded.kube, "default", ""))
    assert [(row.name, row.state) for row in found.summaries()] == [("parts", JobState.RUNNING)]


def test_a_job_that_waits_for_another_says_for_which_and_that_it_never_starts(kueue: Kueue) -> None:
    kueue.job("train", queue="main", backoffLimit=0)
    kueue.apply(after_ok("evaluate", "train"), after_ok("plot", "evaluate"), after_ok("a", "b"), after_ok("b", "a"))
    waits = {
        "train": "",
        "evaluate": "waits for job train to succeed",
        "plot": "waits for job evaluate to succeed",
        "a": "can never start: the jobs wait for each other: a -> b -> a",
        "b": "can never start: the jobs wait for each other: b -> a -> b",
    }
    assert reasons(kueue) == (waits, waits)
    kueue.fail("train")
    del waits["train"]
    waits["evaluate"] = "can never start: job train failed"
    assert reasons(kueue) == (waits, waits)
    kueue.delete("train")
    waits["evaluate"] = "can never start: job train does not exist"
    assert reasons(kueue) == (waits, waits)


def test_what_may_not_be_read_is_said_and_the_rest_is_shown(kueue: Kueue) -> None:
    kueue.job("runs", queue="main")
    kube = Narrow(kueue.embedded.kube, WORKLOADS, PODS)
    found, notes = kueue.embedded.call(listed(kube, "default", ""))  # type: ignore[arg-type]  # it only lists
    assert [row.name for row in found.summaries()] == ["runs"]
    assert len(notes) == 2
    assert notes[0].startswith("states and reasons are omitted: ")


def test_finished_jobs_that_exist(kueue: Kueue) -> None:
    kueue.job("bad", queue="main", backoffLimit=0)
    kueue.fail("bad", exit_code=7)
    kueue.job("good", queue="main")
    kueue.finish("good")
    rows, notes = kueue.embedded.call(finished(kueue.embedded.kube, "default", "", kueue.now))
    told = {(row.name, row.state, row.exit_code) for row in rows}
    assert told == {("bad", JobState.FAILED, 7), ("good", JobState.COMPLETED, 0)}
    assert notes == []


def job(name: str, **status: object) -> JobView:
    tree = builders.job(name, "main", "lab", {"uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}, suspend=True)
    return read_job(msgspec.json.encode(tree | {"status": status}))


def test_the_end_of_a_job_changes_the_rows_of_those_that_wait_for_it() -> None:
    known = ClusterJobs()
    first = job("first")
    gate = {"kueue.x-k8s.io/admission-gated-by": "pykueue.io/dependencies", "pykueue.io/after-ok": "first"}
    tree = builders.job("second", "main", "lab", {"uid": "second", "annotations": gate}, suspend=True)
    queued = builders.workload("job-second", "main", "1", "lab", {"labels": {"kueue.x-k8s.io/job-uid": "second"}})
    known.job(None, read_job(msgspec.json.encode(tree)))
    known.workload(None, decode_as(Workload, msgspec.json.encode(queued)))
    known.job(None, first)
    assert known.summaries()[0].reason == "waits for job first to succeed"
    known.job(first, job("first", conditions=[{"type": "Failed", "status": "True"}]))
    assert [row.reason for row in known.summaries()] == ["can never start: job first failed"]


def test_changes_are_followed_and_endings_told() -> None:
    known = ClusterJobs()
    first, second = job("first"), job("second")
    known.job(None, first)
    known.job(None, second)
    assert [row.name for row in known.summaries()] == ["first", "second"]
    known.job(first, None)
    known.job(second, job("second", conditions=[{"type": "Complete", "status": "True"}]))
    ended = [(row.name, row.state) for row in known.endings()]
    assert ended == [("first", JobState.CANCELLED), ("second", JobState.COMPLETED)]
    assert known.summaries() == []
    assert known.endings() == []
