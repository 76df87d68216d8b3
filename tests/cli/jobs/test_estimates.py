"""Does `pykueue eta` print one sentence per job, and one for what it cannot tell?"""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta, timezone
from typing import Any, cast

import msgspec
import pytest

from pykueue.api.estimates import EstimateStatus, StartState
from pykueue.cli.jobs.chosen import Named
from pykueue.cli.jobs.estimates import JobEstimate, printed, sentence
from pykueue.kube.client.http import Call, HttpKube
from pykueue.kube.port import JOBS, KubeError, NotFoundError, RejectedError, Resource
from tests import builders

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
STATUS = EstimateStatus(
    StartState.PENDING,
    asked="2026-01-01T10:00:00Z",
    earliest="2026-01-01T12:10:00Z",
    latest="2026-01-02T13:30:00Z",
    runs=40,
    runs_that_start=40,
)


def test_a_job_that_never_starts_is_referred_to_explain() -> None:
    found = sentence(JobEstimate("lab", "a", "job-a", EstimateStatus(StartState.PENDING, runs=40)), NOW)
    assert found == "a: does not start within 30 days in any of 40 runs. `pykueue explain a` shows why"


class Server:
    """A namespace with the jobs `waits`, which has a Workload, and `new`, which has none."""

    def __init__(self, answer: EstimateStatus | KubeError) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def get(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        if name not in ("waits", "new"):
            raise NotFoundError("get", 404, "NotFound", "no")
        return msgspec.json.encode(builders.job(name, "main", "lab", {"uid": f"uid-{name}"}, suspend=True))

    async def call(self, call: Call) -> bytes:
        self.asked.append(call.path)
        if isinstance(self.answer, KubeError):
            raise self.answer
        return msgspec.json.encode({"kind": "Estimate", "status": self.answer})


async def asked(server: Server, monkeypatch: pytest.MonkeyPatch, *names: str, output: str | None = None) -> int:
    labels = {"kueue.x-k8s.io/job-uid": "uid-waits"}

    async def each(kube: Any, resource: Resource, namespace: str, *, labels: str = "") -> AsyncIterator[Any]:
        yield workload

    async def everything(kube: Any, resource: Resource, namespace: str, *, labels: str = "") -> list[Any]:
        assert resource is JOBS
        return []

    async def of_deleted(kube: Any, namespace: str, name: str) -> str:
        return ""

    workload = {"metadata": {"name": "job-waits-1", "namespace": "lab", "labels": labels}}
    monkeypatch.setattr("pykueue.cli.jobs.verbs.each", each)
    monkeypatch.setattr("pykueue.cli.jobs.chosen.everything", everything)
    monkeypatch.setattr("pykueue.cli.jobs.chosen.of_deleted", of_deleted)
    wanted = [Named(name) for name in names]
    return await printed(cast("HttpKube", server), "lab", wanted, "arrivals=ignored&runs=40", output)


async def test_each_job_gets_a_sentence_or_a_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server(STATUS)
    assert await asked(server, monkeypatch, "waits", "new", "gone") == 1
    found = capsys.readouterr()
    assert found.out.startswith("waits: starts between 2026-01-01 ")
    assert "no job 'gone' in namespace lab" in found.err
    assert "job lab/new has no Workload yet" in found.err
    path = "/apis/query.pykueue.io/v1alpha1/namespaces/lab/workloads/job-waits-1/estimates?arrivals=ignored&runs=40"
    assert server.asked == [path]


async def test_json_has_the_answer_of_the_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await asked(Server(STATUS), monkeypatch, "waits", output="json") == 0
    (item,) = msgspec.json.decode(capsys.readouterr().out)["items"]
    assert (item["name"], item["workload"], item["status"]["runsThatStart"]) == ("waits", "job-waits-1", 40)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (NotFoundError("get", 404, "NotFound", "the server could not find the requested resource"), "`pykueue up`"),
        (NotFoundError("get", 404, "NotFound", 'workload.query.pykueue.io "x" not found'), "not found"),
        (RejectedError("get", 429, "TooManyRequests", "your last question is not answered yet"), "last question"),
    ],
)
async def test_what_the_server_cannot_tell_is_one_sentence(
    error: KubeError, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await asked(Server(error), monkeypatch, "waits") == 1
    found = capsys.readouterr()
    assert (found.out, len(found.err.splitlines()), text in found.err) == ("", 1, True)
