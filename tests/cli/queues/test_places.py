"""Do jobs of a cluster get their place in line, and does one who may not see it get the rest?"""

from typing import Any, cast

import msgspec
import pytest

from pykueue.api.jobsummary import JobState
from pykueue.cli.jobs.cluster import ClusterJobs
from pykueue.cli.queues.places import ROOT, places
from pykueue.jobs.batch import read_job
from pykueue.kube.client.http import Call, HttpKube
from pykueue.kube.port import DeniedError, KubeError, NotFoundError, UnansweredError
from tests import builders


class Server:
    """Answers what it has documents for."""

    def __init__(self, documents: dict[str, Any]) -> None:
        self.documents = documents
        self.asked: list[str] = []

    async def call(self, call: Call) -> bytes:
        self.asked.append(call.path)
        found = self.documents.get(call.path.partition("?")[0])
        if found is None:
            raise NotFoundError("get", 404, "NotFound", "no")
        if isinstance(found, KubeError):
            raise found
        return msgspec.json.encode(found)


def row(uid: str, place: int) -> dict[str, Any]:
    return {"metadata": {"ownerReferences": [{"uid": uid}]}, "positionInClusterQueue": place}


def path(namespace: str, queue: str) -> str:
    return f"{ROOT}/namespaces/{namespace}/localqueues/{queue}/pendingworkloads"


async def asked(server: Server, *queues: tuple[str, str]) -> dict[str, int]:
    return await places(cast("HttpKube", server), queues)


async def test_places_count_from_one_and_queues_that_may_not_be_read_are_left_out() -> None:
    denied = DeniedError("get", 403, "Forbidden", "no")
    server = Server({ROOT: {}, path("a", "q"): denied, path("b", "q"): {"items": [row("x", 0), row("y", 4)]}})
    assert await asked(server, ("b", "q"), ("a", "q"), ("c", "gone")) == {"x": 1, "y": 5}
    assert await asked(server) == {}


@pytest.mark.parametrize("trouble", [None, UnansweredError("get", 503, "ServiceUnavailable", "down")])
async def test_without_the_api_there_are_two_requests_whatever_the_number_of_queues(trouble: KubeError | None) -> None:
    server = Server({ROOT: trouble})
    assert await asked(server, *((str(number), "q") for number in range(50))) == {}
    assert len(server.asked) == 2


def test_a_job_that_waits_shows_its_place_and_one_that_runs_does_not() -> None:
    known = ClusterJobs()
    for name, suspended in (("waits", True), ("runs", False)):
        tree = builders.job(name, "main", "lab", {"uid": name}, suspend=suspended)
        known.job(None, read_job(msgspec.json.encode(tree)))
    known.update()
    assert known.waiting_in() == {("lab", "main")}
    known.places = {"waits": 3, "runs": 1}
    assert {(row.name, row.place) for row in known.summaries()} >= {("waits", 3)}
    assert [row.place for row in known.summaries() if row.state is not JobState.PENDING] in ([], [None])
