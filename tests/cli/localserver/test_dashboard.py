"""Whom does the page of one machine serve, with which rights, and until when? A whole server, asked over TLS."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykueue.base.units import Instant
from pykueue.cli.localserver import dashboard
from tests.cli.localserver.standing import Standing, standing
from tests.patience import soon_async
from tests.web.visitor import KEY


@pytest.fixture
async def up(tmp_path: Path) -> AsyncIterator[Standing]:
    async with standing(tmp_path) as made:
        yield made


def page(up: Standing) -> dashboard.MachinePage:
    assert up.mount.page is not None
    return up.mount.page


async def test_a_session_from_its_code_to_its_end(up: Standing) -> None:
    await up.submit("runs", command=("sh", "-c", "echo hello; sleep 600"))
    await up.submit("waits", cpu="64")
    async with up.browser() as admin:
        async with admin.streaming() as stream:
            await stream.until(lambda seen: {row["state"] for row in seen.rows.values()} == {"RUNNING", "PENDING"})
            await stream.until(lambda seen: seen.overview.get("machine") and seen.overview["counts"]["running"] == 1)
            meta = stream.overview["meta"]
            assert (meta["user"], meta["setting"], meta["viewOnly"]) == ("admin", "machine", False)
            assert stream.rows["default/waits"]["clusterQueue"] == "team-a"
            assert [row["name"] for row in stream.overview["longest"]] == ["waits"]
            assert stream.overview["machine"]["cpus"] == {"capacity": 4000, "used": 1000, "own": None}
            await stream.until(lambda seen: seen.overview["meta"]["can"]["cancel"])
            assert await admin.post("act", {"verb": "cancel", "namespace": "default", "name": "waits"}) == (
                200,
                {"said": "job default/waits cancelled"},
            )
            await stream.until(lambda seen: "default/waits" not in seen.rows)
            await stream.until(lambda seen: [one["name"] for one in seen.finished] == ["waits"])
            await stream.until(lambda seen: any(one["kind"] == "cancelled" for one in seen.overview["changes"]))
        status, text, _ = await admin.ask("GET", "/ui/api/logs?namespace=default&name=runs")
        assert (status, text) == (200, "hello\n")


async def test_the_kubernetes_api_does_not_know_the_cookie(up: Standing) -> None:
    async with up.browser() as admin:
        assert (await admin.ask("GET", "/ui/"))[0] == 200
        for path in ("/api/v1/pods", "/apis/pykueue.io/v1alpha1/jobsummaries", "/metrics"):
            assert (await admin.ask("GET", path))[0] == 403, "as anybody without credentials"
        status, text, _ = await admin.ask("POST", "/ui/code", json={"seconds": 600})
        assert status == 401, text


async def test_codes_are_for_those_with_credentials_and_for_themselves(up: Standing) -> None:
    async with up.stranger() as one:
        body = {"seconds": 600}
        ask = one.ask
        assert (await ask("POST", "/ui/code", json=body))[0] == 401
        assert (await ask("POST", "/ui/code", json=body, headers={"Authorization": "Bearer guess"}))[0] == 401
        assert (await ask("GET", "/ui/code", headers=up.headers("ann")))[0] == 405
        as_ann = {**up.headers("admin"), "Impersonate-User": "ann"}
        assert (await ask("POST", "/ui/code", json=body, headers=as_ann))[0] == 403
        for wrong in ({"seconds": 1}, {"seconds": 10**9}, {}, {"seconds": "x"}):
            assert (await ask("POST", "/ui/code", json=wrong, headers=up.headers("ann")))[0] == 400
        assert (await ask("POST", "/ui/code", data=b"x" * 5000, headers=up.headers("ann")))[0] == 413
        status, text, response = await ask("POST", "/ui/code", json=body, headers=up.headers("ann"))
        assert status == 201
        assert f'"address":"{up.base}/ui/enter"' in text
        assert response.headers["Cache-Control"] == "no-store"


async def test_hostile_requests(up: Standing) -> None:
    async with up.stranger() as nobody, up.browser() as admin:
        key = admin.key
        assert (await nobody.ask("GET", "/ui/"))[0] == 401
        assert (await nobody.ask("GET", "/ui/api/stream", headers={KEY: key}))[0] == 401
        assert (await admin.ask("GET", "/ui/api/stream", headers={KEY: ""}))[0] == 401
        assert (await admin.ask("GET", "/ui/", headers={"Host": "evil.example"}))[0] == 421
        assert (await admin.ask("GET", "/ui/api/stream", headers={"Origin": "https://evil.example"}))[0] == 403
        assert (await admin.ask("GET", "/ui/api/api/v1/secrets"))[0] == 404
        assert (await admin.ask("POST", "/ui/enter", data=b"x" * 100_000))[0] in (413, 415)
        code = await up.code()
        assert await nobody.enter(code, Origin="https://evil.example") == 403
        assert await nobody.enter(code) == 200
        assert await nobody.enter(code) == 403


async def test_users_see_what_their_rights_allow(up: Standing) -> None:
    await up.submit("private", "bob")
    await up.submit("mine", "ann")
    async with up.browser("ann") as ann, ann.streaming() as stream:
        await stream.until(lambda seen: seen.complete and seen.rows and seen.overview["queues"])
        assert stream.rows.keys() == {"ann/mine"}
        assert stream.overview["meta"]["user"] == "ann"
        assert not stream.overview["meta"]["can"]["apply"]
        queue = next(one for one in stream.overview["queues"] if one["name"] == "team-a")
        await stream.until(lambda seen: any(one["used"] == 2000 for one in seen.overview["queues"]))
        assert queue["kind"] == "queue", "counts of all, names of one's own"
        status, said = await ann.get("explain?kind=clusterqueue&name=team-a")
        assert status == 200
        assert "private" not in str(said)
        for path in ("job", "eta", "history", "logs"):
            assert (await ann.get(f"{path}?namespace=lab&name=private"))[0] in (403, 404), path
        act = {"verb": "cancel", "namespace": "lab", "name": "private"}
        assert (await ann.post("act", act))[0] in (403, 404)
        assert (await ann.post("preview", {"set": ["clusterqueue/team-a.cpu=64"]}))[0] == 403
        diff = await ann.get("diff?set=clusterqueue/team-a.cpu=3")
        assert (await ann.post("apply", {"set": ["clusterqueue/team-a.cpu=3"], "seen": diff[1]["seen"]}))[0] == 403


async def test_users_of_a_namespace_share_a_snapshot_and_outlive_each_other(up: Standing) -> None:
    await up.submit("private", "bob")
    async with up.browser("bob") as bob, up.browser("carl") as carl, carl.streaming() as stream:
        async with bob.streaming() as other:
            await other.until(lambda seen: seen.rows)
        await stream.until(lambda seen: seen.rows and seen.overview)
        assert stream.overview["meta"]["user"] == "carl"
        assert page(up).site.sources.keys() == {"namespace lab"}
        up.up.users.revoke("bob")
        await up.submit("second", "carl")
        await stream.until(lambda seen: seen.rows.keys() == {"lab/private", "lab/second"})
        # Jobs of another user of the same namespace may be seen, and not changed.
        status, said = await carl.post("act", {"verb": "cancel", "namespace": "lab", "name": "private"})
        assert (status, "bob" in said["message"]) == (403, True), said


@pytest.mark.parametrize("how", ["removed", "rotated", "expired"])
async def test_a_session_and_its_stream_end_with_the_user(up: Standing, how: str) -> None:
    code = await up.code("ann")
    async with up.browser("ann") as ann, up.browser("bob") as bob, ann.streaming() as stream:
        await stream.until(lambda seen: seen.overview)
        match how:
            case "removed":
                up.up.users.revoke("ann")
            case "rotated":
                up.tokens["ann"] = up.up.users.rotate("ann")
            case _:
                with up.up.users.changing() as users:
                    users["ann"] = replace(users["ann"], expires=Instant(1))
        while await stream.next() is not None:
            pass
        assert (await ann.ask("GET", "/ui/"))[0] == 401
        assert (await ann.get("explain?kind=clusterqueue&name=team-a"))[0] == 401
        assert (await bob.ask("GET", "/ui/"))[0] == 200
        assert await ann.enter(code) == 403, "codes of that user are void, too"


async def test_a_screen_on_the_wall_cannot_act(up: Standing) -> None:
    await up.submit("runs")
    async with up.browser(viewOnly=True) as wall, wall.streaming() as stream:
        await stream.until(lambda seen: seen.rows and seen.overview["meta"]["can"]["logs"])
        meta = stream.overview["meta"]
        assert meta["viewOnly"] is True
        assert meta["can"] == {"cancel": False, "hold": False, "apply": False, "logs": True}
        act = {"verb": "cancel", "namespace": "default", "name": "runs"}
        assert (await wall.post("act", act))[0] == 403
        assert (await wall.post("apply", {"set": ["clusterqueue/team-a.cpu=1"], "seen": {}}))[0] == 403
        assert (await wall.post("preview", {"set": ["clusterqueue/team-a.cpu=1"]}))[0] == 200


async def test_a_source_stops_when_its_clients_have_left(up: Standing) -> None:
    async with up.browser() as admin:
        page(up).site.idle = 100_000
        async with admin.streaming() as stream:
            await stream.until(lambda seen: seen.overview)
            await asyncio.sleep(0.3)
            assert page(up).site.sources
        assert await soon_async(lambda: not page(up).site.sources)
        async with admin.streaming() as stream:
            await stream.until(lambda seen: seen.overview)


async def test_nothing_secret_is_logged(up: Standing, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    code = await up.code()
    async with up.stranger() as admin:
        assert await admin.enter(code) == 200
        await admin.get("explain?kind=clusterqueue&name=team-a")
        ids = [one.value for one in admin.session.cookie_jar]
        for secret in (code, admin.key, *ids, up.tokens["admin"]):
            assert secret not in caplog.text
