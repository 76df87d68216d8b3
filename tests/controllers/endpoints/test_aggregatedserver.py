"""Is an aggregated API answered for the API server's users alone? Real TLS, with a front proxy of its own."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from multidict import CIMultiDict

from pykueue.base.clock import ManualClock, SystemClock
from pykueue.controllers.endpoints import aggregatedserver
from pykueue.controllers.endpoints.aggregatedserver import AggregatedServer
from pykueue.controllers.endpoints.endpoints import Endpoints, Listening
from pykueue.controllers.endpoints.frontproxy import AUTHENTICATION, FrontProxy, RemoteUser, Trust, trust_in
from pykueue.controllers.endpoints.frontproxy import ConfigMap as StoredMap
from pykueue.controllers.endpoints.rights import Attributes, Rights
from pykueue.controllers.endpoints.webhooks import Webhooks
from pykueue.jobs.admit_world import AdmitWorld
from pykueue.kube.aggregated import (
    BODY_MAX,
    AggregatedCall,
    AggregatedError,
    AggregatedGroup,
    AggregatedResource,
    unavailable,
)
from pykueue.kube.certmaking import renewed
from pykueue.kube.port import ACCESS_REVIEWS, CONFIG_MAPS, NotFoundError, Resource, UnansweredError
from pykueue.kube.tls import server_context
from tests.fakes.faulty import Faulty
from tests.plane.keys import Authority
from tests.prometheus import rendered

GROUP = "lines.example.com"
OPEN = AggregatedResource("queues", "queue", "line", "Line")
OWN = AggregatedResource("benches", "bench", "line", "Line", namespaced=True)
SECOND = AggregatedResource("benches", "bench", "length", "Length", namespaced=True)
ASKED = AggregatedResource("questions", "question", "", "Question")
SLOW_SECONDS = 0.3
USER = {"X-Remote-User": "ann", "X-Remote-Group": "g"}


class Server(Faulty):
    """An API server that tells by which certificate it is known, and what Ann may do."""

    def __init__(self, data: dict[str, str] | None = None) -> None:
        super().__init__(ManualClock())
        self.data = data
        self.asked: list[dict[str, Any]] = []
        self.down = False

    async def get(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        assert (resource, name, namespace) == (CONFIG_MAPS, AUTHENTICATION, "kube-system")
        if self.data is None:
            raise NotFoundError("get", 404, "NotFound", "no")
        return msgspec.json.encode({"data": self.data})

    async def create(self, resource: Resource, body: bytes, namespace: str = "", **more: str) -> bytes:
        assert resource is ACCESS_REVIEWS
        if self.down:
            raise UnansweredError("create", 0, "", "down")
        spec = msgspec.json.decode(body)["spec"]
        self.asked.append(spec)
        wanted = spec["resourceAttributes"]
        return msgspec.json.encode(
            {"status": {"allowed": spec["user"] == "ann" and "secret" not in (wanted["name"], wanted["namespace"])}}
        )


def told(authority: Authority, names: str = '["front-proxy"]') -> dict[str, str]:
    return {
        "requestheader-client-ca-file": authority.pem.decode(),
        "requestheader-allowed-names": names,
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    }


async def echo(call: AggregatedCall) -> bytes:
    if call.name == "later":
        raise unavailable("this replica does not lead", 2)
    if call.name == "slow":
        await asyncio.sleep(SLOW_SECONDS)
    tree = {name: getattr(call, name) for name in ("version", "resource", "namespace", "name", "query")}
    seen = [await call.caller.may("list", "kueue.x-k8s.io", "workloads", space) for space in ("red", "secret")]
    return msgspec.json.encode(tree | {"body": call.body.decode(), "caller": call.caller.name, "may": seen})


async def known(namespace: str, owner: object) -> AdmitWorld:
    return AdmitWorld()


class Setup:
    """An aggregated server that listens, and clients for it."""

    def __init__(self, folder: Path, server: Server, proxy: FrontProxy, endpoints: Endpoints) -> None:
        self.folder = folder
        self.server = server
        self.proxy = proxy
        self.endpoints = endpoints

    async def get(
        self,
        path: str,
        certificate: str = "front-proxy",
        headers: dict[str, str] | None = None,
        verb: str = "GET",
        body: bytes = b"",
    ) -> tuple[int, Any]:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if certificate:
            context.load_cert_chain(self.folder / f"{certificate}.crt", self.folder / f"{certificate}.key")
        url = f"https://127.0.0.1:{self.endpoints.aggregated_port}{path}"
        connector = aiohttp.TCPConnector(ssl=context)
        data = BytesIO(body) if body else None
        async with (
            aiohttp.ClientSession(connector=connector) as client,
            client.request(verb, url, headers=USER if headers is None else headers, data=data) as answer,
        ):
            found = await answer.read()
            self.headers = answer.headers
            return answer.status, msgspec.json.decode(found) if found.startswith(b"{") else found.decode()


@asynccontextmanager
async def running(folder: Path, names: str = '["front-proxy"]') -> AsyncIterator[Setup]:
    authority = Authority(folder)
    for name in ("front-proxy", "another"):
        authority.issue(name, user=name)
    Authority(folder, "strangers").issue("stranger", user="front-proxy")
    server = Server(told(authority, names))
    clock = SystemClock()
    proxy = FrontProxy(server, clock)
    bundle = renewed(None, ("localhost",), clock.now())
    proxy.certified(bundle.certificate, bundle.key)
    endpoints = Endpoints(
        Listening(webhook="0", health="0", metrics="0", aggregated="127.0.0.1:0"),
        clock,
        server,
        webhooks=Webhooks(known),
        context=server_context(),
        page=rendered,
        missing=tuple,
        aggregated=AggregatedServer(
            [AggregatedGroup(GROUP, ("v2", "v1"), (OPEN, OWN, SECOND, ASKED), echo)], proxy, Rights(server, clock)
        ),
    )
    await endpoints.start()
    try:
        assert await proxy.once()
        yield Setup(folder, server, proxy, endpoints)
    finally:
        await endpoints.stop()


async def test_a_call_of_the_front_proxy_is_answered_for_its_user(tmp_path: Path) -> None:
    async with running(tmp_path) as setup:
        code, tree = await setup.get(f"/apis/{GROUP}/v1/namespaces/red/benches/b/line?limit=3&limit=4")
        assert code == 200
        assert tree == {
            "version": "v1",
            "resource": "benches/line",
            "namespace": "red",
            "name": "b",
            "query": {"limit": ["3", "4"]},
            "body": "",
            "caller": "ann",
            "may": [True, False],
        }
        asked = setup.server.asked[0]
        assert (asked["user"], asked["groups"]) == ("ann", ["g", "system:authenticated"])
        assert asked["resourceAttributes"] == {
            "verb": "get",
            "group": GROUP,
            "version": "v1",
            "resource": "benches",
            "subresource": "line",
            "namespace": "red",
            "name": "b",
        }


@pytest.mark.parametrize(
    ("certificate", "headers"),
    [
        pytest.param("", USER, id="no certificate"),
        pytest.param("another", USER, id="a name that is not allowed"),
        pytest.param("front-proxy", {}, id="no user"),
        pytest.param("front-proxy", {"Authorization": "Bearer x"}, id="a token"),
    ],
)
async def test_who_cannot_prove_to_be_the_front_proxy_is_refused(
    tmp_path: Path, certificate: str, headers: dict[str, str]
) -> None:
    async with running(tmp_path) as setup:
        for path in (f"/apis/{GROUP}/v1/queues/q/line", "/apis", "/elsewhere"):
            code, tree = await setup.get(path, certificate, headers)
            assert (code, tree["reason"]) == (401, "Unauthorized")
        assert setup.server.asked == []


async def test_a_certificate_of_another_authority_ends_the_connection(tmp_path: Path) -> None:
    async with running(tmp_path) as setup:
        with pytest.raises(aiohttp.ClientError):
            await setup.get("/apis", "stranger")


async def test_any_name_will_do_where_none_is_listed(tmp_path: Path) -> None:
    async with running(tmp_path, names="[]") as setup:
        assert (await setup.get("/apis", "another"))[0] == 200


async def test_another_authority_takes_the_place_of_the_first_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as setup:
        assert (await setup.get("/apis"))[0] == 200
        assert setup.server.data is not None
        setup.server.data["requestheader-client-ca-file"] = (tmp_path / "strangers.crt").read_text()
        assert await setup.proxy.once()
        assert (await setup.get("/apis", "stranger"))[0] == 200
        with pytest.raises(aiohttp.ClientError):
            await setup.get("/apis")


async def test_discovery_says_what_there_is(tmp_path: Path) -> None:
    async with running(tmp_path) as setup:
        _, tree = await setup.get("/apis")
        assert [one["name"] for one in tree["groups"]] == [GROUP]
        _, tree = await setup.get(f"/apis/{GROUP}")
        assert (tree["kind"], tree["preferredVersion"]["version"]) == ("APIGroup", "v2")
        _, tree = await setup.get(f"/apis/{GROUP}/v1")
        assert [one["name"] for one in tree["resources"]] == [
            "queues",
            "queues/line",
            "benches",
            "benches/line",
            "benches/length",
            "questions",
        ]
        assert tree["resources"][-1]["verbs"] == ["create"]
        accepted = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
        code, tree = await setup.get("/apis", headers={**USER, "Accept": accepted})
        assert (code, tree["kind"], tree["apiVersion"]) == (200, "APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
        assert setup.headers["Content-Type"].endswith("as=APIGroupDiscoveryList")
        assert [one["version"] for one in tree["items"][0]["versions"]] == ["v2", "v1"]
        assert setup.server.asked == []


async def test_wrong_calls_get_a_status(tmp_path: Path) -> None:
    async with running(tmp_path) as setup:
        root = f"/apis/{GROUP}/v1"
        code, tree = await setup.get(f"{root}/queues/secret/line")
        assert code == 403
        assert tree["message"] == (
            f'queues.{GROUP} "secret" is forbidden: User "ann" cannot get resource "queues/line" '
            f'in API group "{GROUP}" at the cluster scope'
        )
        code, tree = await setup.get(f"{root}/queues/later/line")
        assert (code, setup.headers["Retry-After"], tree["message"]) == (503, "2", "this replica does not lead")
        for path in ("queues/q", "queues", "queues/q/line/x", "benches/b/line", "namespaces/red/queues/q/line"):
            assert (await setup.get(f"{root}/{path}"))[0] == 404, path
        assert (await setup.get(f"/apis/{GROUP}/v3/queues/q/line"))[0] == 404
        assert (await setup.get(f"{root}/queues/q/line", verb="POST"))[0] == 405
        assert (await setup.get(f"{root}/questions"))[0] == 405
        assert (await setup.get(f"{root}/questions/x", verb="POST"))[0] == 404
        assert (await setup.get(root, verb="POST"))[0] == 405
        assert (await setup.get("/healthz", "", {}))[0] == 200
        setup.server.down = True
        assert (await setup.get(f"{root}/queues/new/line"))[0] == 503


async def test_a_question_is_created_with_its_body(tmp_path: Path) -> None:
    async with running(tmp_path) as setup:
        path = f"/apis/{GROUP}/v1/questions"
        code, tree = await setup.get(path, verb="POST", body=b"why?")
        assert (code, tree["resource"], tree["name"], tree["body"]) == (201, "questions", "", "why?")
        assert (setup.server.asked[0]["resourceAttributes"]["verb"]) == "create"
        code, tree = await setup.get(path, verb="POST", body=b"?" * (BODY_MAX + 1))
        assert (code, tree["reason"]) == (413, "RequestEntityTooLarge")


async def test_only_so_many_calls_are_answered_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregatedserver, "ANSWERED_MAX", 2)
    async with running(tmp_path) as setup:
        path = f"/apis/{GROUP}/v1/queues/slow/line"
        codes = [code for code, _ in await asyncio.gather(*(setup.get(path) for _ in range(5)))]
        assert sorted(codes) == [200, 200, 429, 429, 429]
        assert (await setup.get(path))[0] == 200


async def test_until_the_front_proxy_is_known_nobody_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    proxy = FrontProxy(server, ManualClock())
    assert not await proxy.once()
    assert not await proxy.once()
    assert proxy.trust is None
    server.data = {}
    assert not await proxy.once()
    assert proxy.identify({"subject": ((("commonName", "front-proxy"),),)}, CIMultiDict(USER)) is None
    assert len(caplog.records) == 2, "each problem is told once"


def test_headers_have_the_names_that_the_server_gives() -> None:
    proxy = FrontProxy(Server(), ManualClock())
    proxy.trust = trust_in(
        StoredMap(
            {
                "requestheader-client-ca-file": "x",
                "requestheader-allowed-names": '["a", "b"]',
                "requestheader-username-headers": '["X-User", "X-Remote-User"]',
                "requestheader-uid-headers": '["X-Uid"]',
                "requestheader-group-headers": '["X-Group"]',
                "requestheader-extra-headers-prefix": '["X-More-"]',
            }
        )
    )
    assert isinstance(proxy.trust, Trust)
    headers = CIMultiDict(
        [
            ("x-remote-user", "ann"),
            ("X-Uid", "7"),
            ("X-Group", "g"),
            ("X-Group", "h"),
            ("X-More-Example.com%2fScope", "s"),
            ("x-more-example.com%2fscope", "t"),
            ("X-Remote-Extra-No", "n"),
        ]
    )
    found = proxy.identify({"subject": ((("organizationName", "o"),), (("commonName", "b"),))}, headers)
    extra = (("example.com/scope", ("s", "t")),)
    assert found == RemoteUser("ann", "7", ("g", "h", "system:authenticated"), extra)
    assert proxy.identify({"subject": ((("commonName", "c"),),)}, headers) is None


async def test_an_answer_about_rights_is_remembered_for_ten_seconds() -> None:
    server, clock = Server(), ManualClock()
    rights = Rights(server, clock)
    ann, bob = RemoteUser("ann"), RemoteUser("bob")
    wanted = Attributes("get", GROUP, "v1", "queues", "line", "", "q")
    for _ in range(3):
        await rights.check(ann, wanted)
        with pytest.raises(AggregatedError):
            await rights.check(bob, wanted)
    assert len(server.asked) == 2
    await clock.advance(11)
    await rights.check(ann, wanted)
    assert len(server.asked) == 3
