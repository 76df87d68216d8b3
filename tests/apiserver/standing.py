"""How does a test get an API to talk to? A `Stand`: store, registry and front in memory, over TLS where it is wanted.

No controller runs: what a test sees is what it wrote. The server runs in a thread of its own, so that a test can call
kubectl and wait for it.
"""

import asyncio
import contextlib
import http.client
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from pykueue.api.core import Tree
from pykueue.apiserver.auth.access import Access, with_recorded_creator
from pykueue.apiserver.auth.authority import Authority
from pykueue.apiserver.auth.kubeconfigs import kubeconfig, write
from pykueue.apiserver.auth.users import Users
from pykueue.apiserver.http.front import Front
from pykueue.apiserver.http.server import Server
from pykueue.apiserver.kinds.catalog import Catalog
from pykueue.apiserver.storage.store import Store
from pykueue.apiserver.verbs.admission import AdmissionCall
from pykueue.apiserver.verbs.registry import Registry
from pykueue.apiserver.wire.messages import Response, request
from pykueue.apiserver.wire.writeterms import Terms
from pykueue.base.clock import SystemClock
from pykueue.kube.logs import LogError, LogPart, LogQuery
from tests.prometheus import rendered

T = TypeVar("T")

KUBECTL: Final = "/usr/bin/kubectl"
NAMESPACES: Final = ("default", "ann", "lab")
SECONDS: Final = 60
LINES: Final = [f"line {number}\n".encode() for number in range(1, 6)]


class Spoken:
    """Output of containers that a test knows beforehand."""

    async def stream(self, pod: Tree, asked: LogQuery) -> AsyncIterator[bytes]:
        if asked.previous:
            raise LogError(f'previous terminated container "{asked.container}" in pod "p" not found')
        return self.lines(asked)

    async def part(self, pod: Tree, asked: LogQuery) -> LogPart:
        if asked.position:
            raise LogError("the output of this container is no longer kept", gone=True)
        return LogPart(0, b"", True)

    def follows(self, uid: str, secret: str) -> bool:
        return False

    async def lines(self, asked: LogQuery) -> AsyncIterator[bytes]:
        tail = len(LINES) if asked.tail is None else asked.tail
        for line in LINES[len(LINES) - tail :]:
            stamp = b"2027-01-15T08:00:00.000000000Z " if asked.timestamps else b""
            yield stamp + asked.container.encode() + b": " + line
            if asked.follow:
                await asyncio.sleep(0.01)


async def stamp(call: AdmissionCall) -> tuple[Tree, tuple[str, ...]]:
    """Admission that does no more than record who created what."""
    if call.stage == "mutate" or call.operation == "DELETE":
        return with_recorded_creator(call.operation, call.served.resource, call.new, call.old, call.who), ()
    return call.new, ()


class Stand:
    """An API in memory, and the tokens to it."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.users = Users()
        self.tokens = {
            "admin": self.users.add("admin", role="admin"),
            "ann": self.users.add("ann"),
            "bob": self.users.add("bob", namespace="lab"),
            "carl": self.users.add("carl", namespace="lab"),
        }
        self.store = Store.open(None, self.clock)
        self.registry = Registry(self.store, Catalog(), self.clock, stamp)
        self.front = Front(
            self.registry,
            Access(self.users),
            self.clock,
            Spoken(),
            page=lambda: rendered(b"things_total 1\n"),
        )

    async def furnish(self) -> None:
        """Make the namespaces that tests write in."""
        served = self.registry.catalog.find("", "v1", "namespaces")
        assert served is not None
        for name in NAMESPACES:
            await self.registry.create(served, {"metadata": {"name": name}}, "", Terms())

    async def call(
        self,
        verb: str,
        target: str,
        body: object = b"",
        *,
        who: str = "admin",
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """The answer to a call; a body that is no bytes is sent as JSON."""
        sent = body if isinstance(body, bytes) else msgspec.json.encode(body)
        known = {"authorization": f"Bearer {self.tokens[who]}"} if who else {}
        return await self.front.answer(request(verb, target, sent, known | dict(headers or {})))


def told(response: Response) -> Any:
    """What an answer says, decoded."""
    assert isinstance(response.body, bytes)
    return msgspec.json.decode(response.body)


class Serving:
    """A stand that listens, in a thread of its own."""

    def __init__(
        self, stand: Stand, authority: Authority, folder: Path, loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self.stand = stand
        self.authority = authority
        self.folder = folder
        self.loop = loop or asyncio.new_event_loop()
        self.server = Server(stand.front, authority.context())
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of something that is done in the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(SECONDS)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server.port}"

    def kubeconfig(self, who: str, **proof: Any) -> Path:
        """A kubeconfig of this user; by a token if nothing else is shown."""
        path = self.folder / f"{who}{''.join(sorted(proof))}.kubeconfig"
        if not path.exists():
            shown = proof or {"token": self.stand.tokens[who]}
            namespace = {"ann": "ann", "bob": "lab", "carl": "lab"}.get(who, "default")
            write(path, kubeconfig(self.url, self.authority.certificate, user=who, namespace=namespace, **shown))
        return path

    def kubectl(
        self, *arguments: str, who: str = "admin", stdin: str = "", config: Path | None = None, code: int | None = 0
    ) -> str:
        """What kubectl prints; it must end with this code."""
        done = subprocess.run(
            [KUBECTL, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            env={
                "KUBECONFIG": str(config or self.kubeconfig(who)),
                "HOME": str(self.folder),
                "PATH": "/usr/bin:/bin",
                "KUBECTL_KUBERC": "false",
            },
        )
        assert code is None or done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def background(self, *arguments: str, who: str = "admin") -> "subprocess.Popen[str]":
        """A kubectl that runs on; the test ends it."""
        return subprocess.Popen(
            [KUBECTL, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={"KUBECONFIG": str(self.kubeconfig(who)), "HOME": str(self.folder), "PATH": "/usr/bin:/bin"},
        )

    def connection(self) -> http.client.HTTPSConnection:
        """A connection of a plain client."""
        context = ssl.create_default_context(cadata=self.authority.certificate.decode())
        return http.client.HTTPSConnection("127.0.0.1", self.server.port, context=context, timeout=SECONDS)


@contextlib.contextmanager
def serving(folder: Path, loop: asyncio.AbstractEventLoop | None = None) -> Iterator[Serving]:
    """A stand that listens until the block ends, in this loop or in one of asyncio's own."""
    stand = Stand()
    served = Serving(stand, Authority.open(None, stand.clock.now()), folder, loop)
    served.thread.start()
    try:
        served.run(stand.furnish())
        served.run(served.server.start())
        yield served
        served.run(served.server.stop())
        served.run(stand.store.close())
    finally:
        served.loop.call_soon_threadsafe(served.loop.stop)
        served.thread.join(SECONDS)
        served.loop.close()
