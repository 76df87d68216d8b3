"""What does a list show to a user with few rights, and of a server that is away for a while?"""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, cast

import msgspec
import pytest

from pykueue.cli.kueuectl.discovery import ForError, object_called, resource_called
from pykueue.cli.kueuectl.listing import LISTED, Row, Wanted
from pykueue.cli.kueuectl.lists import AGAIN_SECONDS, Answer, Lines, Question, answer, changes, show
from pykueue.cli.queues.places import positions
from pykueue.kube.client.http import Call, HttpKube
from pykueue.kube.port import DeniedError, GoneError, NotFoundError, Resource, UnansweredError

DOCUMENTS: dict[str, Any] = {
    "/apis": {"groups": [{"name": "batch", "preferredVersion": {"groupVersion": "batch/v1"}}]},
    "/api/v1": {"groupVersion": "v1", "resources": [{"name": "pods", "kind": "Pod", "namespaced": True}]},
    "/apis/batch/v1": {
        "groupVersion": "batch/v1",
        "resources": [
            {"name": "jobs", "singularName": "job", "kind": "Job", "namespaced": True},
            {"name": "jobs/status", "kind": "Job"},
        ],
    },
}
VISIBILITY = "/apis/visibility.kueue.x-k8s.io/v1beta2"


class Server:
    """Answers as a server does; `denied` are the resources and namespaces that may not be listed."""

    def __init__(self, **objects: list[Any]) -> None:
        self.objects = objects
        self.documents = dict(DOCUMENTS)
        self.denied: set[tuple[str, str]] = set()
        self.watches: list[Any] = []
        self.asked: list[str] = []

    async def call(self, call: Call) -> bytes:
        if call.path not in self.documents:
            raise NotFoundError(call.what, 404, "NotFound", "not found")
        found = self.documents[call.path]
        if isinstance(found, Exception):
            raise found
        return msgspec.json.encode(found)

    async def get(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        for one in self.objects.get(resource.plural, []):
            if one["metadata"]["name"] == name:
                return msgspec.json.encode(one)
        raise NotFoundError("get", 404, "NotFound", "not found")

    async def pages(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[bytes]:
        self.asked.append(labels)
        if (resource.plural, namespace) in self.denied:
            raise DeniedError("list", 403, "Forbidden", f"cannot list {resource} in {namespace or 'all namespaces'}")
        there = [one for one in self.objects.get(resource.plural, []) if not labels or one.get("has") == labels]
        yield msgspec.json.encode({"metadata": {"resourceVersion": "5"}, "items": there})

    async def watch(self, resource: Resource, namespace: str = "", **_: str) -> AsyncIterator[bytes]:
        for one in self.watches.pop(0):
            if isinstance(one, Exception):
                raise one
            yield msgspec.json.encode(one)


def kube(server: Server) -> HttpKube:
    return cast("HttpKube", server)


def workload(name: str, version: str = "1") -> dict[str, Any]:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"uid-{name}"}
    return {
        "metadata": {
            "name": name,
            "namespace": "mine",
            "uid": name,
            "resourceVersion": version,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [owner],
        },
        "spec": {"queueName": "q"},
    }


QUEUE = {"metadata": {"name": "q", "namespace": "mine"}, "spec": {"clusterQueue": "main"}}


def question(namespace: str = "mine", **given: Any) -> Question:
    return Question(LISTED["workload"], namespace, own_namespace="mine", **given)


async def test_who_may_not_list_all_namespaces_gets_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    server = Server(workloads=[workload("a")], localqueues=[QUEUE])
    server.denied = {("workloads", "")}
    found = await answer(kube(server), question(""))
    assert (found.namespace, [row.cluster_queue for row in found.rows]) == ("mine", ["main"])
    said = capsys.readouterr().err
    assert said == "cannot list workloads.kueue.x-k8s.io in all namespaces; only namespace mine is listed\n"


async def test_who_may_not_read_queues_or_places_still_gets_workloads() -> None:
    server = Server(workloads=[workload("a")], localqueues=[QUEUE])
    server.denied = {("localqueues", "mine")}
    server.documents[VISIBILITY] = DeniedError("get", 403, "Forbidden", "no")
    server.documents["/apis/batch/v1"] = DeniedError("get", 403, "Forbidden", "no")
    (row,) = (await answer(kube(server), question())).rows
    assert (row.cluster_queue, row.types, row.position) == ("", (), "")


async def test_who_may_not_list_at_all_is_refused() -> None:
    server = Server()
    server.denied = {("workloads", "mine")}
    with pytest.raises(DeniedError):
        await answer(kube(server), question())


async def test_places_come_from_the_visibility_api_where_there_is_one() -> None:
    server = Server(workloads=[workload("a")], localqueues=[QUEUE])
    server.documents[VISIBILITY] = {"resources": [{}]}
    pending = {"metadata": {"namespace": "mine", "name": "a"}, "positionInLocalQueue": 4}
    server.documents[f"{VISIBILITY}/namespaces/mine/localqueues/q/pendingworkloads?limit=100000"] = {"items": [pending]}
    (row,) = (await answer(kube(server), question())).rows
    assert (row.types, row.position) == (("job",), "4")
    assert await positions(kube(server), [("mine", "unknown")]) == {}


async def test_an_aggregated_api_that_is_down_is_left_out() -> None:
    server = Server()
    server.documents[VISIBILITY] = UnansweredError("get", 503, "ServiceUnavailable", "down")
    assert await positions(kube(server), [("mine", "q")]) == {}


async def test_workloads_of_a_job_are_found_by_their_label_and_else_by_their_owner() -> None:
    labelled = {**workload("a"), "has": "kueue.x-k8s.io/job-uid=uid-a"}
    server = Server(workloads=[labelled, workload("b")], localqueues=[QUEUE])
    for name, asked in (("a", 1), ("b", 2)):
        server.asked.clear()
        found = await answer(kube(server), question(wanted=Wanted(owner=f"uid-{name}")))
        assert [row.tree["metadata"]["name"] for row in found.rows] == [name]  # type: ignore[index]  # an object
        assert len([one for one in server.asked if one]) == 1
        assert len(server.asked) >= asked


@pytest.mark.parametrize("typed", ["job/a", "jobs/a", "jobs.batch/a", "Job.batch/a"])
async def test_an_object_is_found_by_any_name_of_its_kind(typed: str) -> None:
    served, tree = await object_called(kube(Server(jobs=[workload("a")])), typed, "mine")
    assert (served.kind, tree["metadata"]["uid"]) == ("job.batch", "a")  # type: ignore[index]  # an object


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("job/none", "--for: jobs.batch none not found in namespace mine"),
        ("jobs.other/a", '--for: the server doesn\'t have a resource type "jobs.other"'),
        ("job", "invalid value 'job' used in --for flag; value must be in the format TYPE[.API-GROUP]/NAME"),
        ("a/b/c", "arguments in resource/name form may not have more than one slash"),
    ],
)
async def test_an_object_that_is_not_there_is_an_error(typed: str, says: str) -> None:
    with pytest.raises(ForError) as error:
        await object_called(kube(Server()), typed, "mine")
    assert str(error.value) == says


async def test_core_kinds_come_first() -> None:
    found = await resource_called(kube(Server()), "pods")
    assert found is not None
    assert found.kind == "pod"


async def test_a_watch_outlives_its_server(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert AGAIN_SECONDS > 0
    monkeypatch.setattr("pykueue.cli.kueuectl.lists.AGAIN_SECONDS", 0.001)
    server = Server(workloads=[workload("a"), workload("b", "7")], localqueues=[QUEUE])
    away = UnansweredError("watch", 0, "ConnectionLost", "gone")
    server.watches = [
        [{"type": "MODIFIED", "object": workload("a", "6")}, {"type": "BOOKMARK", "object": {}}, away],
        [away],
        [GoneError("watch", 410, "Expired", "too old")],
        [{"type": "DELETED", "object": workload("a", "8")}],
    ]
    seen = []
    first = Answer((await answer(kube(server), question())).rows[:1], "mine", "5")
    following = cast("AsyncGenerator[Row, None]", changes(kube(server), question(), first))
    async with contextlib.aclosing(following):
        async for row in following:
            seen.append((row.tree["metadata"]["name"], row.tree["metadata"]["resourceVersion"]))  # type: ignore[index]  # an object
            if seen[-1] == ("a", "8"):
                break
    # After the list that follows 410 only what differs from what was shown comes again.
    assert seen == [("a", "6"), ("a", "1"), ("b", "7"), ("a", "8")]
    assert capsys.readouterr().err.count("waiting for the server") == 1


@pytest.mark.parametrize(("output", "shown"), [("json", '"items": []'), (None, "")])
async def test_an_empty_list_is_still_a_document(
    output: str | None, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await show(kube(Server()), question(), output=output, no_headers=False, watch=False)
    said = capsys.readouterr()
    assert shown in said.out
    assert said.err == "No resources found in mine namespace.\n"


def test_later_lines_keep_the_widths_and_are_safe_to_print() -> None:
    lines = Lines(["NAME", "AGE"], [["long-name", "1s"]])
    assert lines.first(no_headers=False) == ["NAME        AGE", "long-name   1s"]
    assert lines.line(["a\x1b[2J", "2s"]) == "a\\x1b[2J    2s"
