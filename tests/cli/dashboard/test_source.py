"""Is the snapshot right, at first, after changes, without rights, and when the server goes away and returns?"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pykueue.apiserver.auth.access import identity_of
from pykueue.apiserver.wire.identity import AUTHENTICATED, Identity
from pykueue.cli.dashboard import jobsfeed, source
from pykueue.cli.dashboard.overview import Can, Meta
from pykueue.cli.dashboard.source import Source, personal, plain
from pykueue.cli.jobs.watch import GONE
from pykueue.cli.localserver.dashboard import MachineWorld
from pykueue.kube.client.http import HttpKube
from pykueue.kube.client.transport import Request, Response, UnsentError
from pykueue.kube.port import CLUSTER_QUEUES, JOBS, Patch
from tests.cli.localserver.standing import Standing, standing
from tests.patience import soon_async


@pytest.fixture(params=["machine", "cluster"])
async def up(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Standing]:
    monkeypatch.setattr(source, "REST", 1)
    async with standing(tmp_path) as made:
        if request.param == "cluster":
            # Without our own API it answers as a cluster does.
            made.up.front.own = None
        yield made


def kube_of(up: Standing, user: str) -> HttpKube:
    def who() -> Identity:
        found = up.up.users.named(user)
        return Identity(user, frozenset({AUTHENTICATED}), "nowhere") if found is None else identity_of(found)

    return MachineWorld(up.up).kube_as(who)


@asynccontextmanager
async def reading(up: Standing, user: str = "admin", home: str = "default") -> AsyncIterator[Source]:
    made = Source(kube_of(up, user), up.up.clock, home=home, meta=Meta())
    made.start()
    try:
        yield made
    finally:
        made.stop()
        await asyncio.sleep(0)


def shown(found: Source) -> dict[str, Any]:
    """The rows as clients have them."""
    return {key: msgspec.json.decode(row) for key, row in found.feed.table.rows.items()}


def overview(found: Source) -> Any:
    return msgspec.json.decode(found.feed.overview or b"{}")


async def test_jobs_queues_and_ends(up: Standing) -> None:
    await up.submit("runs")
    await up.submit("waits", cpu="64")
    await up.submit("fails", command=("sh", "-c", "exit 3"))
    async with reading(up) as found:
        assert await soon_async(
            lambda: (
                {key: row["state"] for key, row in shown(found).items()}
                == {"default/runs": "RUNNING", "default/waits": "PENDING"}
            )
        )
        assert await soon_async(lambda: shown(found)["default/waits"].get("place") == 1)
        assert await soon_async(lambda: shown(found)["default/waits"].get("clusterQueue") == "team-a")
        assert await soon_async(lambda: [msgspec.json.decode(one)["name"] for one in found.feed.finished] == ["fails"])
        assert await soon_async(lambda: overview(found).get("counts", {}).get("finishedLastHour") == 1)
        counts = overview(found)["counts"]
        assert (counts["running"], counts["pending"]) == (1, 1)
        assert {one["name"] for one in overview(found)["queues"]} == {"machine", "team-a", "team-b"}
        assert overview(found)["policies"]["team-a"]["localQueues"] == ["ann/team-a", "default/team-a", "lab/team-a"]
        await up.up.admin.delete(JOBS, "waits", "default")
        await up.submit("later")
        assert await soon_async(lambda: shown(found).keys() == {"default/runs", "default/later"})
        kinds = {("runs", "started"), ("later", "submitted"), ("later", "started"), ("fails", "failed")}
        assert await soon_async(lambda: kinds <= {(one["job"], one["kind"]) for one in overview(found)["changes"]}), (
            overview(found)["changes"]
        )
        served = up.up.front.own is not None
        assert (found.meta.setting, overview(found)["machine"] is None) == (
            "machine" if served else "cluster",
            not served,
        )


async def test_an_eviction_is_a_change_and_so_is_the_start_of_a_job_that_has_ended(up: Standing) -> None:
    await up.submit("ends", command=("true",))
    await up.submit("runs")
    async with reading(up) as found:
        assert await soon_async(lambda: shown(found).get("default/runs", {}).get("state") == "RUNNING")
        stop = msgspec.json.encode({"spec": {"stopPolicy": "HoldAndDrain"}})
        await up.up.admin.patch(CLUSTER_QUEUES, "team-a", stop, how=Patch.MERGE)
        kinds = {("runs", "evicted"), ("ends", "submitted"), ("ends", "started"), ("ends", "finished")}
        assert await soon_async(
            lambda: kinds <= {(one["job"], one["kind"]) for one in overview(found).get("changes", ())}
        ), overview(found)["changes"]


async def test_of_others_there_are_no_rows(up: Standing) -> None:
    await up.submit("private", "bob")
    await up.submit("mine", "ann")
    async with reading(up, "ann", "ann") as found:
        assert await soon_async(lambda: shown(found).keys() == {"ann/mine"} and found.feed.overview)
        assert await soon_async(lambda: found.meta.namespace == "ann" and found.meta.notes)
        assert [one for one in found.meta.notes if "ann" in one] == ["You see only your own jobs (namespace ann)."]
        assert "private" not in str(overview(found))
        if found.meta.setting == "machine":
            assert await soon_async(
                lambda: (overview(found)["machine"] or {}).get("cpus") == {"capacity": 4000, "used": 2000, "own": 1000}
            ), overview(found)["machine"]


async def test_who_may_nothing_gets_a_page_that_says_so(up: Standing) -> None:
    async with reading(up, "stranger", "elsewhere") as found:
        assert await soon_async(lambda: found.feed.complete and found.feed.overview)
        assert shown(found) == {}
        assert await soon_async(lambda: found.meta.jobs_denied and found.policies)
        choose = "in namespace elsewhere; choose another with `pykueue dashboard -n NAMESPACE`."
        assert found.meta.jobs_denied == f"You may not list jobs {choose}"
        # Everyone may read the ClusterQueues of this server.
        assert (found.meta.home, found.meta.queues_denied, found.meta.reads_quotas) == ("elsewhere", "", True)
        found.deny("follow_queues")
        assert (found.meta.queues_denied, found.meta.reads_quotas) == (f"You may not list LocalQueues {choose}", False)
        assert not any("forbidden" in one for one in found.meta.notes), found.meta.notes


@pytest.mark.parametrize(
    ("note", "words"),
    [
        (
            'containers that cannot start are omitted: watch pods vision: pods is forbidden: User "ann" cannot watch',
            "containers that cannot start are omitted: you may not read pods",
        ),
        (
            'states are omitted: workloads.kueue.x-k8s.io is forbidden: User "ann" cannot list: no rule: none',
            "states are omitted: you may not read workloads",
        ),
        ("exit codes are omitted: the server is busy", "exit codes are omitted: the server is busy"),
    ],
)
def test_a_refusal_is_told_in_plain_words(note: str, words: str) -> None:
    assert plain(note) == words


async def test_an_outage_is_told_and_ends(up: Standing, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((source, "RETRY_MICROS"), (jobsfeed, "POLL_MICROS")):
        monkeypatch.setattr(module, name, 100_000)
    await up.submit("runs")
    async with reading(up) as found:
        assert await soon_async(lambda: shown(found))
        transport = found.kube.transport
        before = transport.exchange

        async def gone(request: Request) -> Response:
            raise UnsentError("connection refused")

        transport.exchange = gone  # type: ignore[method-assign]  # the server does not respond
        if up.up.front.own is not None:
            assert await soon_async(lambda: found.meta.stale == GONE)
            assert shown(found), "what was known stays"
            await up.up.admin.delete(JOBS, "runs", "default")
        transport.exchange = before  # type: ignore[method-assign]  # it does again
        await up.submit("second")
        names = {"default/second"} if up.up.front.own is not None else {"default/runs", "default/second"}
        assert await soon_async(lambda: not found.meta.stale and shown(found).keys() == names), shown(found).keys()


async def test_the_data_are_out_of_date_until_queues_are_read_again(up: Standing) -> None:
    async with reading(up) as found:
        assert await soon_async(lambda: found.feed.overview)
        found.trouble("follow_queues", "the queues cannot be read")
        found.trouble("follow_jobs", "")
        assert found.meta.stale == "the queues cannot be read"
        assert await soon_async(lambda: not found.meta.stale)


async def test_rejected_credentials_are_reported(up: Standing) -> None:
    told: list[str] = []
    made = Source(kube_of(up, "ann"), up.up.clock, home="ann", meta=Meta(), rejected=told.append)
    transport = made.kube.transport

    async def rejected(request: Request) -> Response:
        return Response(401, "", b'{"kind":"Status","message":"Unauthorized","reason":"Unauthorized","code":401}')

    transport.exchange = rejected  # type: ignore[method-assign]  # as after `pykueue user remove`
    made.start()
    assert await soon_async(lambda: told)
    made.stop()


def test_a_session_that_can_only_look_is_offered_nothing() -> None:
    meta = Meta(user="ann", can=Can(True, True, True, True))
    assert msgspec.json.decode(personal(meta, "bob", view_only=False))["can"]["cancel"] is True
    found = msgspec.json.decode(personal(meta, "", view_only=True))
    assert (found["user"], found["viewOnly"]) == ("ann", True)
    assert found["can"] == {"cancel": False, "hold": False, "apply": False, "logs": True}
