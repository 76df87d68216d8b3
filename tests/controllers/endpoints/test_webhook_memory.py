"""Does the webhook server stay within its pod's memory, whoever sends what? A real process, over TLS."""

import asyncio
import contextlib
import io
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import msgspec
import pytest

MEBIBYTE = 1024 * 1024
POD_BYTES = 512 * MEBIBYTE
"""The memory limit of `deploy/manifests.yaml`."""
REVIEW = b'{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u",'
WISH = REVIEW + b'"desiredAPIVersion":"kueue.x-k8s.io/v1beta1","objects":['


class WebhookServer:
    """A webhook server that runs."""

    def __init__(self, pid: int, port: int, authority: str) -> None:
        self.pid = pid
        self.url = f"https://localhost:{port}"
        self.context = ssl.create_default_context(cadata=authority)

    def client(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self.context, limit=0))

    def peak(self) -> int:
        """The most memory that the process had resident, in bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WebhookServer]:
    command = [sys.executable, "-m", "tests.controllers.endpoints.webhookserver", str(tmp_path / "ca.pem")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port = int(process.stdout.readline())
        yield WebhookServer(process.pid, port, (tmp_path / "ca.pem").read_text())
        process.stdin.close()


def flavor(number: int, size: int) -> bytes:
    """A ResourceFlavor of some size."""
    metadata = {"name": f"f-{number}", "annotations": {"padding": "x" * size}}
    return msgspec.json.encode({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": metadata})


def wish(count: int, size: int) -> bytes:
    """A request to convert so many objects of a size."""
    return WISH + b",".join(flavor(number, size) for number in range(count)) + b"]}}"


async def converted(server: WebhookServer, client: aiohttp.ClientSession, body: bytes) -> tuple[int, int]:
    """The status of a conversion, and how many objects came back."""
    try:
        async with client.post(f"{server.url}/convert", data=io.BytesIO(body)) as answer:
            text = await answer.read()
    except aiohttp.ClientError:
        return 0, 0
    if answer.status != 200:
        return answer.status, 0
    return 200, len(msgspec.json.decode(text)["response"]["convertedObjects"])


async def trickle(head: bytes) -> AsyncIterator[bytes]:
    """Many bytes at first, then one a second, for minutes."""
    yield head
    for _ in range(300):
        await asyncio.sleep(1)
        yield b" "


async def test_conversions_go_on_beside_large_and_slow_bodies_within_the_pods_memory(server: WebhookServer) -> None:
    large, honest = wish(1000, 100 * 1024), wish(2000, 1000)
    assert len(large) > 95 * MEBIBYTE
    async with server.client() as client:
        slow = [
            asyncio.create_task(client.post(f"{server.url}/convert", data=trickle(b" " * 20 * MEBIBYTE)))
            for _ in range(10)
        ]
        await asyncio.sleep(1)
        many = [asyncio.create_task(converted(server, client, large)) for _ in range(5)]
        for _ in range(5):
            assert await converted(server, client, honest) == (200, 2000)
        found = await asyncio.gather(*many)
        assert set(found) <= {(200, 1000), (503, 0), (0, 0)}
        assert (200, 1000) in found, "a list of a hundred megabytes is converted in one piece"
        for task in slow:
            task.cancel()
        with contextlib.suppress(Exception):
            await asyncio.gather(*slow, return_exceptions=True)
    assert server.peak() < POD_BYTES * 0.9
    print(f"peak {server.peak() / MEBIBYTE:.0f} MiB")


async def test_an_admission_review_of_a_hundred_megabytes_is_refused_before_it_is_read(server: WebhookServer) -> None:
    with contextlib.suppress(aiohttp.ClientError):
        async with server.client() as client:
            assert (
                await client.post(f"{server.url}/mutate-batch-v1-job", data=io.BytesIO(b" " * 100 * MEBIBYTE))
            ).status == 413
    assert server.peak() < POD_BYTES / 3
