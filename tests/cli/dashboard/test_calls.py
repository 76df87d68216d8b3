"""What does the page get for each of its calls, and what is refused?"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from pykueue.cli.dashboard.calls import LOG_BYTES, NO_MANAGER, calls_of, refusal
from pykueue.cli.dashboard.overview import Can
from pykueue.cli.dashboard.rights import rights
from pykueue.cli.jobs.estimates import NO_QUERIES
from pykueue.kube.client.http import HttpKube
from pykueue.kube.port import CLUSTER_QUEUES, NotFoundError, Patch, RejectedError, Resource, UnansweredError
from tests.cli.dashboard.test_source import kube_of
from tests.cli.localserver.standing import Standing, standing
from tests.web.visitor import Visitor


@pytest.fixture
async def up(tmp_path: Path) -> AsyncIterator[Standing]:
    async with standing(tmp_path) as made:
        await made.submit("runs", command=("sh", "-c", "echo one; echo two; sleep 600"))
        await made.submit("waits", cpu="64")
        yield made


@pytest.fixture
async def admin(up: Standing) -> AsyncIterator[Visitor]:
    async with up.browser() as made:
        yield made


async def got(visitor: Visitor, path: str) -> Any:
    status, body = await visitor.get(path)
    assert status == 200, body
    return body


async def test_questions_about_a_job(up: Standing, admin: Visitor) -> None:
    about = "namespace=default&name=waits"
    found = await got(admin, f"explain?kind=job&{about}")
    assert found["lines"][0].startswith("Job default/waits (Workload job-waits-")
    assert found["object"]["tree"]["text"].startswith("can never start")
    workload = found["object"]["metadata"]["name"]
    assert (await got(admin, f"explain?kind=workload&namespace=default&name={workload}"))["lines"]
    assert (await got(admin, f"eta?{about}"))["state"] in ("Never", "Pending")
    running = "namespace=default&name=runs"
    status, text = 0, ""
    while "two" not in text:
        status, text, _ = await admin.ask("GET", f"/ui/api/logs?{running}&tail=1")
    assert (status, text) == (200, "two\n")
    life = await got(admin, f"history?{running}")
    assert [one["what"] for one in life][:2] == ["Submitted", "Admit"]
    job = await got(admin, f"job?{running}")
    assert "managedFields" not in job["job"]
    assert job["job"].startswith("kind: Job\n") or "\nkind: Job\n" in job["job"]
    assert "kind: Workload" in job["workload"]
    assert [one["phase"] for one in job["pods"]] == ["Running"]
    assert any(one["about"] in ("Job", "Workload") for one in job["events"]), job["events"]


async def test_long_output_is_cut_to_its_last_lines(up: Standing, admin: Visitor) -> None:
    line = "x" * 1000
    await up.submit("loud", command=("sh", "-c", f"yes {line} | head -n 2000; echo last; sleep 600"))
    await up.submit("wide", command=("sh", "-c", "head -c 2000000 /dev/zero; echo; sleep 600"))
    text = ""
    while "last" not in text:
        _, text, _ = await admin.ask("GET", "/ui/api/logs?namespace=default&name=loud")
    assert len(text) < LOG_BYTES
    assert text.endswith(f"{line}\nlast\n")
    while "this line is longer" not in text:
        _, text, _ = await admin.ask("GET", "/ui/api/logs?namespace=default&name=wide")
    assert LOG_BYTES < len(text) < LOG_BYTES + 200
    assert "`pykueue logs wide` prints all of it" in text


async def test_questions_about_queues_and_changes(up: Standing, admin: Visitor) -> None:
    assert (await got(admin, "explain?kind=clusterqueue&name=team-a"))["lines"][0] == "ClusterQueue team-a: is active"
    assert (await got(admin, "explain?kind=localqueue&namespace=default&name=team-a"))["lines"]
    change = "clusterqueue/team-a.cpu=3"
    diff = await got(admin, f"diff?set={change}")
    (one,) = diff["objects"]
    assert (one["kind"], one["name"]) == ("ClusterQueue", "team-a")
    assert {line for line in one["lines"] if line[:1] in "+-"} == {
        "-        nominalQuota: '2'",
        "+        nominalQuota: '3'",
    }
    assert diff["seen"].keys() == {"clusterqueue/team-a"}
    # Another client is faster.
    body = msgspec.json.encode({"spec": {"queueingStrategy": "StrictFIFO"}})
    await up.up.admin.patch(CLUSTER_QUEUES, "team-a", body, how=Patch.MERGE)
    status, said = await admin.post("apply", {"set": [change], "seen": diff["seen"]})
    assert (status, "has changed since" in said["message"]) == (409, True)
    diff = await got(admin, f"diff?set={change}")
    assert await admin.post("apply", {"set": [change], "seen": diff["seen"]}) == (
        200,
        {"said": "changed clusterqueue/team-a"},
    )
    found = msgspec.json.decode(await up.up.admin.get(CLUSTER_QUEUES, "team-a"))
    assert found["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] == "3"
    assert found["spec"]["queueingStrategy"] == "StrictFIFO"
    effects: list[str] = []
    async with asyncio.timeout(60):
        # The preview is of what the scheduler knows, which may not have read the job yet.
        while not effects:
            status, said = await admin.post("preview", {"set": ["clusterqueue/team-a.cpu=64"]})
            assert status in (200, 429, 503), said
            effects = [one["effect"] for one in said.get("affected", ())]
    assert effects == ["Starts"]


async def test_verbs_say_what_came_of_them(up: Standing, admin: Visitor) -> None:
    for verb, said in (
        ("hold", "job default/waits held"),
        ("release", "job default/waits released"),
        ("cancel", "job default/waits cancelled"),
    ):
        act = {"verb": verb, "namespace": "default", "name": "waits"}
        assert await admin.post("act", act) == (200, {"said": said})
    status, said_of = await admin.post("act", {"verb": "hold", "namespace": "default", "name": "nothing"})
    assert (status, "no job 'nothing'" in said_of["message"]) == (404, True)


QUESTIONS: Final = [
    ("explain?kind=job&namespace=default&name=nothing", 404),
    ("explain?kind=pod&namespace=default&name=x", 400),
    ("explain?kind=job&name=runs", 400),
    ("explain?kind=job&namespace=..&name=runs", 400),
    ("explain?kind=job&namespace=default&name=../../secrets/x", 400),
    ("explain?kind=job&namespace=default&name=a%0d%0aX:y", 400),
    ("explain?kind=job&namespace=default&name=runs%2fstatus", 400),
    ("explain?kind=clusterqueue&name=" + "a" * 300, 400),
    ("eta?namespace=default&name=nothing", 404),
    ("logs?namespace=default&name=runs&tail=x", 400),
    ("logs?namespace=default&name=runs&tail=0", 400),
    ("logs?namespace=default&name=runs&tail=99999999999", 400),
    ("diff", 400),
    ("diff?set=clusterqueue/team-a.cpu", 422),
    ("diff?set=clusterqueue/nothing.cpu=3", 422),
    ("diff?set=job/default/runs.suspend=true", 422),
    ("diff?set=clusterqueue/../../api/v1.x=3", 422),
]
"""What makes no sense, and the status of its refusal."""
BODIES: Final[list[tuple[str, object]]] = [
    ("act", {"verb": "delete", "namespace": "default", "name": "runs"}),
    ("act", {"verb": "cancel", "namespace": "default"}),
    ("act", {"verb": "cancel", "namespace": "default", "name": ["runs"]}),
    ("act", {"verb": "cancel", "namespace": "default/jobs", "name": "runs"}),
    ("act", ["cancel"]),
    ("preview", {}),
    ("preview", {"set": "clusterqueue/team-a.cpu=3"}),
    ("preview", {"set": [3]}),
    ("preview", {"set": ["x"] * 51}),
    ("apply", {"set": ["clusterqueue/team-a.cpu=3"]}),
    ("apply", {"set": ["clusterqueue/team-a.cpu=3"], "seen": {"clusterqueue/team-a": 3}}),
    ("apply", {"set": [], "seen": {}}),
]


async def test_what_makes_no_sense_is_refused(admin: Visitor) -> None:
    for path, status in QUESTIONS:
        found = await admin.get(path)
        assert found[0] == status, (path, found)
        assert found[1].keys() == {"message"}
    for path, body in BODIES:
        assert (await admin.post(path, body))[0] == 400, (path, body)


async def test_rights_are_asked_for(up: Standing) -> None:
    assert await rights(kube_of(up, "admin"), "default") == Can(True, True, True, True)
    assert await rights(kube_of(up, "ann"), "ann") == Can(True, True, False, True)
    assert await rights(kube_of(up, "ann"), "lab") == Can()
    assert await rights(kube_of(up, "stranger"), "lab") == Can()


def test_errors_of_the_server_keep_their_code() -> None:
    assert refusal(RejectedError("x", 422, "Invalid", "wrong")).code == 422
    assert refusal(UnansweredError("x", 0, "Lost", "no response")).code == 503
    busy = refusal(UnansweredError("x", 429, "TooMany", "ask later"))
    assert (busy.code, busy.message, busy.retry_after) == (429, "ask later", 1)


@pytest.mark.parametrize("said", ["error trying to reach service: EOF", "service unavailable"])
def test_a_manager_that_is_away_is_named_in_plain_words(said: str) -> None:
    assert refusal(UnansweredError("x", 503, "ServiceUnavailable", said)).message == NO_MANAGER


async def test_a_preview_of_a_server_without_queries_says_what_it_requires(
    admin: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def missing(self: HttpKube, resource: Resource, body: bytes, namespace: str = "") -> bytes:
        raise NotFoundError(f"create {resource}", 404, "NotFound", "404 page not found")

    monkeypatch.setattr(HttpKube, "create", missing)
    status, body = await admin.post("preview", {"set": ["clusterqueue/team-a.cpu=1"], "delete": []})
    assert (status, body["message"]) == (404, NO_QUERIES)


async def test_a_missing_name_is_named(admin: Visitor) -> None:
    for query, said in (("name=x", "namespace is missing"), ("namespace=default&name=X", "name: 'X' is not the name")):
        status, body = await admin.get(f"explain?kind=localqueue&{query}")
        assert (status, body["message"][: len(said)]) == (400, said)


def test_the_list_of_calls_is_closed() -> None:
    calls = calls_of(lambda asked: pytest.fail("nothing is asked"))
    assert calls.keys() == {"explain", "eta", "history", "job", "logs", "diff", "preview", "act", "apply"}
    assert {name for name, call in calls.items() if call.acts} == {"act", "apply"}
    assert {name for name, call in calls.items() if call.method == "POST"} == {"act", "apply", "preview"}
