"""What does the cluster get over HTTP? Real servers on free ports, real TLS, and a client that trusts our authority."""

import asyncio
import io
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import aiohttp
import pytest

from pykueue.api.config.types import Configuration, Health, Metrics, Webhook
from pykueue.base.clock import SystemClock
from pykueue.controllers.endpoints.endpoints import EndpointError, Endpoints, Listening, listening
from pykueue.controllers.endpoints.webhooks import Webhooks
from pykueue.jobs.admit_world import AdmitWorld
from pykueue.kube.certmaking import renewed
from pykueue.kube.port import Kube
from pykueue.kube.tls import Bundle, server_context, use
from tests.builders import job
from tests.controllers.endpoints.reviews import Reviewer
from tests.prometheus import rendered

LOCAL = Listening(webhook="127.0.0.1:0", health="127.0.0.1:0", metrics="127.0.0.1:0")
PLAIN = Listening(webhook="0", health="0", metrics="127.0.0.1:0", secure=False)
Tree = dict[str, Any]


async def known(namespace: str, owner: Mapping[str, object] | None) -> AdmitWorld:
    return AdmitWorld()


class Setup:
    """Endpoints that run, and a client for them."""

    def __init__(self, endpoints: Endpoints, client: aiohttp.ClientSession) -> None:
        self.endpoints = endpoints
        self.client = client

    async def get(self, port: int, path: str, *, secure: bool = False, **headers: str) -> tuple[int, str]:
        """The status and the body of an answer."""
        url = f"{'https' if secure else 'http'}://localhost:{port}{path}"
        async with self.client.get(url, headers=headers) as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def running(
    plan: Listening = LOCAL,
    *,
    kube: Kube | None = None,
    missing: Callable[[], Iterable[str]] = tuple,
    page: Callable[[], Generator[None, None, list[bytes]]] = rendered,
    webhooks: Webhooks | None = None,
    reviewed: Callable[[str, int, float], None] | None = None,
) -> AsyncIterator[Setup]:
    context = server_context()
    bundle = certified(context)
    endpoints = Endpoints(
        plan,
        SystemClock(),
        kube or Reviewer(),
        webhooks=webhooks or Webhooks(known),
        context=context,
        page=page,
        missing=missing,
        reviewed=reviewed,
    )
    await endpoints.start()
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=bundle.authority.decode()))
    async with aiohttp.ClientSession(connector=connector) as client:
        try:
            yield Setup(endpoints, client)
        finally:
            await endpoints.stop()


@cache
def made() -> Bundle:
    return renewed(None, ("localhost", "127.0.0.1"), SystemClock().now())


def certified(context: ssl.SSLContext, bundle: Bundle | None = None) -> Bundle:
    bundle = bundle or made()
    use(context, bundle.certificate, bundle.key)
    return bundle


def review(tree: Tree) -> Tree:
    kind = {"group": "batch", "version": "v1", "kind": "Job"}
    request = {"uid": "u", "kind": kind, "operation": "CREATE", "namespace": "team", "name": "x", "object": tree}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


async def test_a_webhook_answers_over_tls() -> None:
    told: list[tuple[str, int]] = []

    def reviewed(path: str, status: int, seconds: float) -> None:
        assert 0 <= seconds < 60
        told.append((path, status))

    async with running(reviewed=reviewed) as setup:
        url = f"https://localhost:{setup.endpoints.webhook_port}"
        async with setup.client.post(
            f"{url}/mutate-batch-v1-job?timeout=10s", json=review(job("x", "q", "team"))
        ) as answer:
            assert answer.status == 200
            assert answer.content_type == "application/json"
            assert (await answer.json())["response"]["patchType"] == "JSONPatch"
        async with setup.client.post(f"{url}/mutate-batch-v1-job", data=b"{") as answer:
            assert answer.status == 400
            assert "the body cannot be decoded" in await answer.text()
        async with setup.client.get(f"{url}/mutate-batch-v1-job") as answer:
            assert answer.status == 405
        async with setup.client.post(f"{url}/elsewhere", json={}) as answer:
            assert answer.status == 404
    assert told == [("/mutate-batch-v1-job", status) for status in (200, 400, 405)], "only paths that there are"


async def test_a_webhook_takes_objects_of_many_megabytes() -> None:
    async with running() as setup:
        tree = job("x", "q", "team")
        tree["metadata"]["annotations"] = {"note": "\u0085" * 2_000_000}
        url = f"https://localhost:{setup.endpoints.webhook_port}/validate-batch-v1-job"
        body = io.BytesIO(json.dumps(review(tree)).encode())
        async with setup.client.post(url, data=body) as answer:
            assert (await answer.json())["response"]["allowed"] is True


async def test_a_webhook_is_not_served_without_tls() -> None:
    async with running() as setup:
        with pytest.raises(aiohttp.ClientError):
            await setup.get(setup.endpoints.webhook_port, "/convert")


async def test_who_does_not_trust_our_authority_does_not_get_through() -> None:
    async with running() as setup, aiohttp.ClientSession() as stranger:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await stranger.get(f"https://localhost:{setup.endpoints.webhook_port}/convert")


async def test_a_new_certificate_is_shown_to_the_next_who_connects() -> None:
    async with running() as setup:
        renewed_one = certified(setup.endpoints.context, renewed(None, ("localhost",), SystemClock().now()))
        trusting = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=renewed_one.authority.decode()))
        async with aiohttp.ClientSession(connector=trusting) as client:
            url = f"https://localhost:{setup.endpoints.webhook_port}/mutate-batch-v1-job"
            async with client.post(url, json=review(job("x", "q", "team"))) as answer:
                assert answer.status == 200


async def test_alive_is_alive_and_ready_says_what_is_missing() -> None:
    lacking = ["workloads.kueue.x-k8s.io: not listed yet", "the certificate is not made yet"]
    async with running(missing=lambda: lacking) as setup:
        port = setup.endpoints.health_port
        assert await setup.get(port, "/healthz") == (200, "ok\n")
        assert await setup.get(port, "/readyz") == (
            503,
            "not ready:\n- workloads.kueue.x-k8s.io: not listed yet\n- the certificate is not made yet\n",
        )
        lacking.clear()
        assert await setup.get(port, "/readyz") == (200, "ok\n")
        setup.endpoints.webhook_port = 0
        assert await setup.get(port, "/readyz") == (
            503,
            "not ready:\n- the webhook server does not listen yet\n",
        )
        assert (await setup.get(port, "/elsewhere"))[0] == 404


async def test_probes_have_the_names_that_the_configuration_gives() -> None:
    plan = Listening(webhook="0", health="127.0.0.1:0", metrics="0", readiness="/ready", liveness="live")
    async with running(plan) as setup:
        assert await setup.get(setup.endpoints.health_port, "/live") == (200, "ok\n")
        assert await setup.get(setup.endpoints.health_port, "/ready") == (200, "ok\n")
        assert (await setup.get(setup.endpoints.health_port, "/readyz"))[0] == 404
        assert setup.endpoints.webhook_port == 0
        assert setup.endpoints.metrics_port == 0


def counted() -> Generator[None, None, list[bytes]]:
    return rendered(b"pending 3\n")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({}, 401, id="nobody"),
        pytest.param({"Authorization": "Basic a2ltOng="}, 401, id="by password"),
        pytest.param({"Authorization": "Bearer "}, 401, id="an empty token"),
        pytest.param({"Authorization": "Bearer unknown"}, 401, id="an unknown token"),
        pytest.param({"Authorization": "Bearer pod"}, 403, id="somebody without the role"),
        pytest.param({"Authorization": "Bearer prometheus"}, 200, id="somebody with the role"),
        pytest.param({"authorization": "bearer prometheus"}, 200, id="in small letters"),
    ],
)
async def test_metrics_are_for_those_whom_the_clusters_roles_let(headers: dict[str, str], status: int) -> None:
    kube = Reviewer(tokens={"pod": "system:pod", "prometheus": "system:prometheus"}, readers={"system:prometheus"})
    async with running(kube=kube, page=counted) as setup:
        found, body = await setup.get(setup.endpoints.metrics_port, "/metrics", secure=True, **headers)
        assert found == status
        assert ("pending 3" in body) is (status == 200)


async def test_plain_metrics_are_for_anybody() -> None:
    kube = Reviewer()
    async with running(PLAIN, kube=kube, page=counted) as setup:
        port = setup.endpoints.metrics_port
        status, body = await setup.get(port, "/metrics")
        assert status == 200
        assert "pending 3" in body
        assert (await setup.get(port, "/"))[0] == 404
        async with setup.client.post(f"http://localhost:{port}/metrics") as answer:
            assert answer.status == 405
    assert kube.asked == []


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        pytest.param("identity", None, id="as it is"),
        pytest.param("deflate, gzip;q=0.5", "gzip", id="compressed"),
    ],
)
@pytest.mark.parametrize("wanted", ["*/*", "application/openmetrics-text; version=1.0.0, text/plain;q=0.5"])
async def test_metrics_come_as_text_and_compressed_for_whom_that_suits(
    accepted: str, encoding: str | None, wanted: str
) -> None:
    async with running(PLAIN, page=counted) as setup:
        url = f"http://localhost:{setup.endpoints.metrics_port}/metrics"
        async with setup.client.get(url, headers={"Accept": wanted, "Accept-Encoding": accepted}) as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            assert answer.headers.get("Content-Encoding") == encoding
            assert await answer.text() == "pending 3\n"


async def test_metrics_that_cannot_be_collected_are_a_failure_of_that_request_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pages = iter((0, 1))
    async with running(PLAIN, page=lambda: rendered(b"x %d\n" % (1 / next(pages)))) as setup:
        assert (await setup.get(setup.endpoints.metrics_port, "/metrics"))[0] == 500
        assert await setup.get(setup.endpoints.metrics_port, "/metrics") == (200, "x 1\n")
    assert "ZeroDivisionError" in caplog.text


async def test_an_address_that_is_taken_is_named_with_its_setting() -> None:
    async def story(plan: Listening) -> None:
        async with running(plan):
            raise AssertionError("it listens on a port that another has")

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        plan = Listening(webhook=f"127.0.0.1:{port}", health="127.0.0.1:0", metrics="0")
        with pytest.raises(EndpointError, match=rf"webhook\.port: cannot listen on 127\.0\.0\.1:{port}: "):
            await story(plan)


@pytest.mark.parametrize("address", ["", "8443", ":http", ":-1", ":65536", "localhost:"])
async def test_what_is_no_address_is_refused(address: str) -> None:
    async def story() -> None:
        async with running(Listening(webhook="0", health="0", metrics=address)):
            raise AssertionError("it listens nowhere")

    with pytest.raises(EndpointError, match=r"metrics\.bindAddress: .* is not an address; write host:port"):
        await story()


@pytest.mark.parametrize("address", [":0", "0.0.0.0:0", "[::]:0", "localhost:0"])
async def test_an_address_may_be_written_as_go_writes_it(address: str) -> None:
    if "::" in address and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    async with running(Listening(webhook="0", health=address, metrics="0")) as setup:
        assert (await setup.get(setup.endpoints.health_port, "/healthz"))[0] == 200


def test_the_configuration_says_where() -> None:
    configuration = Configuration(
        webhook=Webhook(port=1, host="::1"),
        health=Health(health_probe_bind_address=":2", readiness_endpoint_name="r", liveness_endpoint_name="l"),
        metrics=Metrics(bind_address="0"),
    )
    assert listening(configuration, secure=False) == Listening("[::1]:1", ":2", "0", False, "r", "l")
    assert listening(Configuration(), webhook=False) == Listening(webhook="0")


async def test_a_client_that_does_not_wait_for_its_answer_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    begun, left, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def slow() -> Generator[None, None, list[bytes]]:
        begun.set()
        while not left.is_set():
            yield
        ended.set()
        return [b"# nothing\n"]

    async with running(PLAIN, page=slow) as setup:
        _, writer = await asyncio.open_connection("127.0.0.1", setup.endpoints.metrics_port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await begun.wait()
        writer.transport.abort()
        await asyncio.sleep(0.1)
        left.set()
        await ended.wait()
        await asyncio.sleep(0.1)
    assert caplog.text == ""


async def test_everything_is_gone_within_a_second_whatever_is_in_flight() -> None:
    asked = asyncio.Event()

    async def never(namespace: str, owner: Mapping[str, object] | None) -> AdmitWorld:
        asked.set()
        await asyncio.Event().wait()
        return AdmitWorld()

    loop = asyncio.get_running_loop()
    async with running(webhooks=Webhooks(never)) as setup:
        ports = [getattr(setup.endpoints, f"{name}_port") for name in ("webhook", "health", "metrics")]
        await setup.get(ports[1], "/healthz")  # leaves a connection open
        idle = await asyncio.open_connection("127.0.0.1", ports[0])  # says nothing
        url = f"https://localhost:{ports[0]}/mutate-batch-v1-job"
        pending = asyncio.create_task(setup.client.post(url, json=review(job("x", "q", "team"))))
        await asked.wait()
        began = loop.time()
        await setup.endpoints.stop()
        took = loop.time() - began
        with pytest.raises(aiohttp.ClientError):
            await pending
        for port in ports:
            with pytest.raises(OSError, match=r"refused|failed"):
                await asyncio.open_connection("127.0.0.1", port)
        idle[1].close()
    assert took < 1


async def test_many_questions_at_once_are_answered_in_good_time() -> None:
    async with running() as setup:
        url = f"https://localhost:{setup.endpoints.webhook_port}/mutate-batch-v1-job"
        body = json.dumps(review(job("x", "q", "team"))).encode()

        async def ask() -> None:
            async with setup.client.post(url, data=body) as answer:
                assert answer.status == 200
                await answer.read()

        await ask()
        began = asyncio.get_running_loop().time()
        for _ in range(5):
            await asyncio.gather(*(ask() for _ in range(40)))
        assert (asyncio.get_running_loop().time() - began) / 200 < 0.05, "seconds for each of them, client included"
