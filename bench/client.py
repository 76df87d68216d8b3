"""Measure the CPU cost of the HTTP client per write and per watch event, and compare it with a library.

`python -m bench.client` prints both, measured in turns against a server in a process of its own that answers over TLS
with bytes made beforehand: the client is all that is timed. The library is aiohttp, which `kube.proxied` uses; that
`kube.transport` exists is justified by the difference.
"""

import asyncio
import json
import multiprocessing
import resource
import ssl
import tempfile
from collections.abc import Callable
from multiprocessing.queues import Queue
from pathlib import Path
from statistics import median

import uvloop

from pykueue.api.codec import decode_as
from pykueue.api.workload import Workload
from pykueue.base.clock import SystemClock
from pykueue.kube.client.connection import Connection
from pykueue.kube.client.credentials import Credential, Fixed
from pykueue.kube.client.direct import Direct
from pykueue.kube.client.http import HttpKube
from pykueue.kube.client.proxied import Proxied
from pykueue.kube.client.transport import Transport
from pykueue.kube.informer import Informer
from pykueue.kube.port import WORKLOADS, Patch
from tests.plane.keys import Authority

WRITES = 2_000
EVENTS = 2_000
IN_FLIGHT = 16
ROUNDS = 5
BODY = b'{"status":{"conditions":[{"type":"QuotaReserved","status":"True","reason":"QuotaReserved","message":"x"}]}}'


def workload(number: int, version: int) -> bytes:
    """A Workload of 2 KB as a server would send it, managed fields and all."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    variables = [{"name": f"VARIABLE_{index}", "value": "value"} for index in range(8)]
    tree = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": f"workload-{number}",
            "namespace": "default",
            "resourceVersion": str(version),
            "managedFields": [{"manager": "kueue", "fieldsV1": {f"f:field-{index}": {} for index in range(60)}}],
        },
        "spec": {
            "queueName": "queue",
            "podSets": [
                {"name": "main", "count": 1, "template": {"spec": {"containers": [{**container, "env": variables}]}}}
            ],
        },
    }
    return json.dumps(tree, separators=(",", ":")).encode()


class Server(asyncio.Protocol):
    """Answers every request alike, and every watch with all events at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.heard = b""

    def data_received(self, data: bytes) -> None:
        self.heard += data
        while (end := self.heard.find(b"\r\n\r\n")) >= 0:
            head = self.heard[:end].lower()
            _, found, after = head.partition(b"content-length: ")
            size = end + 4 + (int(after.split(b"\r\n")[0]) if found else 0)
            if len(self.heard) < size:
                return
            self.heard = self.heard[size:]
            self.transport.write(EVENTS_ANSWER if b"watch=true" in head else ANSWER)  # type: ignore[attr-defined]  # asyncio gives a transport that writes


def answers() -> tuple[bytes, bytes]:
    """The responses to a write and to a watch."""
    body = workload(0, 1)
    plain = b"HTTP/1.1 200 OK\r\nAudit-Id: 1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(
        body
    )
    lines = [b'{"type":"ADDED","object":%b}\n' % workload(number, number + 1) for number in range(EVENTS)]
    end = {"resourceVersion": str(EVENTS), "annotations": {"k8s.io/initial-events-end": "true"}}
    lines.append(json.dumps({"type": "BOOKMARK", "object": {"metadata": end}}).encode() + b"\n")
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(line), line) for line in lines)
    return plain + body, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks


ANSWER, EVENTS_ANSWER = answers()


def serve(ports: "Queue[int]", certificate: Path, key: Path) -> None:
    """Serve until ended."""

    async def main() -> None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
        server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0, ssl=tls)
        ports.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(main())


def spent() -> float:
    """CPU seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def measure(connection: Connection, transport: Transport) -> tuple[float, float]:
    """CPU microseconds for each write and for each object of a list."""
    kube = HttpKube(connection, SystemClock())
    kube.transport = transport
    left = iter(range(WRITES))

    async def write() -> None:
        for number in left:
            await kube.patch(WORKLOADS, f"workload-{number}", BODY, "default", how=Patch.APPLY, subresource="status")

    began = spent()
    await asyncio.gather(*(write() for _ in range(IN_FLIGHT)))
    written = spent() - began
    informer = Informer(kube, WORKLOADS, lambda raw: decode_as(Workload, raw), SystemClock())
    began = spent()
    following = asyncio.create_task(informer.run())
    await informer.synced.wait()
    followed = spent() - began
    following.cancel()
    await asyncio.wait({following})
    await kube.close()
    return written / WRITES * 1e6, followed / EVENTS * 1e6


def main() -> None:
    """Measure both alternately, and print the medians."""
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        certificate, key = authority.issue("server", hosts=["127.0.0.1"])
        ports: Queue[int] = multiprocessing.Queue()
        server = multiprocessing.Process(target=serve, args=(ports, certificate, key), daemon=True)
        server.start()
        try:
            url = f"https://127.0.0.1:{ports.get()}"
            connection = Connection(url, Fixed(Credential("Bearer token")), authority=authority.pem.decode())
            ways: dict[str, Callable[[], Transport]] = {
                "ours": lambda: Direct(url),
                "aiohttp": lambda: Proxied(url, "", ""),
            }
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
            for _ in range(ROUNDS):
                for name, way in ways.items():
                    found[name].append(uvloop.run(measure(connection, way())))
        finally:
            server.terminate()
            server.join()
    for name, pairs in found.items():
        writes, events = (median(column) for column in zip(*pairs, strict=True))
        print(
            f"{name:8} {writes:4.0f} µs CPU a write ({IN_FLIGHT} in flight), {events:4.0f} µs an event into the cache"
        )


if __name__ == "__main__":
    main()
