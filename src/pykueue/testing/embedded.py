"""`Embedded`: a whole system inside a test process, synchronous, in memory, with a manual clock.

It owns an event loop that runs only during a call, until nothing is left to do at the current time. There are no
sockets, files or threads: when a call returns, its effects are complete or wait for the clock to advance.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

from pykueue.api.config.file import CURRENT, Loaded, read_configuration
from pykueue.api.config.types import KIND
from pykueue.api.core import Json
from pykueue.apiserver.auth.access import Access
from pykueue.apiserver.auth.users import Users
from pykueue.apiserver.http.front import Front
from pykueue.apiserver.wire.messages import Request, Response, request
from pykueue.app.embedded import PARTS, Local, LocalPlan
from pykueue.base.clock import ManualClock
from pykueue.base.units import MICROS, Instant
from pykueue.testing.pods import ScriptedPods
from pykueue.testing.script import PREFIX

T = TypeVar("T")
P = ParamSpec("P")

SYNC_STEPS: Final = 200
"""How many timers may fire before a call is considered stuck."""


START_SECONDS: Final = 0.1
"""How long our controllers take to sync their caches."""


class Inline(ThreadPoolExecutor):
    """An executor that runs its work at once, in the calling thread."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function; return its result as a done future."""
        made: Future[T] = Future()
        try:
            made.set_result(fn(*args, **kwargs))
        except Exception as error:
            made.set_exception(error)
        return made


def loaded(config: Mapping[str, Any] | None, gates: Mapping[str, bool] | None) -> Loaded:
    """Load a Configuration from the fields of its file and feature gates."""
    tree = {"apiVersion": CURRENT, "kind": KIND, **(config or {})}
    flags = ",".join(f"{name}={str(on).lower()}" for name, on in (gates or {}).items())
    return read_configuration(msgspec.json.encode(tree), feature_gates=flags)


class Embedded:
    """A whole system in memory: API, admission, our controllers, the Kubernetes controllers, and scripted pods."""

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        gates: Mapping[str, bool] | None = None,
        controllers: frozenset[str] = PARTS,
        admission: bool = True,
        acting: bool = True,
        pods: Callable[[Local], Coroutine[None, None, None]] | None = None,
        nodes: bool = True,
        autoscaler: bool = True,
        prefix: str = PREFIX,
    ) -> None:
        plan = LocalPlan(
            loaded(config, gates),
            parts=controllers & PARTS,
            admission=admission,
            lag_seconds=0,
            autoscaler=autoscaler,
        )
        self.clock = ManualClock()
        self.loop = asyncio.SelectorEventLoop()
        self.loop.set_default_executor(Inline())
        self.acting = acting
        self.closed = False
        self.local = self.call(self.build(plan))
        self.kube = self.local.kube
        self.scripted = ScriptedPods(self.kube, self.clock, prefix=prefix)
        users = Users()
        self.token = users.add("admin", role="admin")
        self.front = Front(
            self.local.registry,
            Access(users),
            self.clock,
            page=self.local.controllers.metrics.steps,
            missing=self.missing,
            reasons=self.local.reason,
            own=self.local.own_api,
            aggregated=self.local.aggregated,
        )
        self.call(self.local.prepare())
        if acting and nodes:
            self.call(self.scripted.add_node())
        self.loop.call_soon(self.begin, pods)
        self.advance(START_SECONDS)

    async def build(self, plan: LocalPlan) -> Local:
        """Build the system inside the event loop."""
        return Local(plan, self.clock)

    def begin(self, pods: Callable[[Local], Coroutine[None, None, None]] | None) -> None:
        """Start the controllers; with `acting=False`, only the informers that admission needs."""
        if not self.acting:
            self.local.controllers.begin("follow", self.local.controllers.cluster.follow)
            return
        self.local.start()
        played = self.scripted.run() if pods is None else pods(self.local)
        self.local.begin("pods", lambda: played)

    # Time.

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result; the clock advances only if needed."""
        task = self.loop.create_task(coroutine)
        self.settle()
        for _ in range(SYNC_STEPS):
            if task.done() or not self.step():
                break
        if not task.done():
            task.cancel()
            self.settle()
            raise AssertionError(
                f"{coroutine!r} did not finish after {SYNC_STEPS} timers, or with none left to wait for"
            )
        return task.result()

    def settle(self) -> None:
        """Run until nothing is left to do at the current time."""
        self.loop.run_until_complete(self.clock.settle())

    def step(self) -> bool:
        """Advance to the next timer; return whether there was one."""
        self.settle()
        due = self.clock.next_due()
        if due is None:
            return False
        self.clock.turn_to(due)
        self.settle()
        return True

    def advance(self, seconds: float) -> None:
        """Advance the clock, firing timers on the way."""
        self.loop.run_until_complete(self.clock.advance(seconds))

    def advance_to(self, instant: Instant) -> None:
        """Advance the clock to an instant."""
        self.advance(max(0, instant - self.clock.now()) / MICROS)

    # The API.

    def ask(self, request: Request) -> Response:
        """Send a request; the body of the response may be a stream."""
        return self.call(self.front.answer(request))

    def request(
        self, verb: str, path: str, body: "bytes | Json" = None, content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        """Send a request as admin; return the status code and body."""
        answer = self.ask(self.asked(verb, path, body, content_type))
        content = answer.body if isinstance(answer.body, bytes) else self.call(joined(answer.body))
        self.settle()
        return answer.code, content

    def asked(self, verb: str, path: str, body: "bytes | Json", content_type: str) -> Request:
        """A request with the credentials of the admin."""
        data = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        headers = {
            "authorization": f"Bearer {self.token}",
            "accept": "application/json",
            "content-type": content_type,
            "user-agent": "pykueue-testing",
        }
        return request(verb, path, data, headers)

    def watch(self, path: str) -> "Watching":
        """Open a watch."""
        answer = self.ask(self.asked("GET", path, None, ""))
        return Watching(self, answer)

    # The manager.

    def metrics(self) -> str:
        """The metrics in the Prometheus text format."""
        return self.local.controllers.metrics.page().decode()

    def missing(self) -> Iterator[str]:
        """Why the system is not ready yet."""
        yield from self.local.controllers.cluster.missing()

    def restart_manager(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        gates: Mapping[str, bool] | None = None,
        controllers: frozenset[str] = PARTS,
    ) -> None:
        """Restart our controllers with another Configuration on the existing objects."""
        self.call(self.local.restart(loaded(config, gates), controllers & PARTS))
        self.advance(START_SECONDS)

    def failed(self) -> None:
        """Raise the error of a failed background task, if any."""
        for error in self.local.failures():
            raise error

    def close(self) -> None:
        """Stop the system and close the event loop."""
        if self.closed:
            return
        self.closed = True
        try:
            self.call(self.local.shut_down())
            self.call(self.local.close())
        finally:
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.settle()
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    def __enter__(self) -> "Embedded":
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


class Watching:
    """An open watch."""

    def __init__(self, embedded: Embedded, answer: Response) -> None:
        self.embedded = embedded
        self.code = answer.code
        self.lines: list[bytes] = []
        """Received events that `events` has not returned yet."""
        self.rest = b""
        self.over = False
        if isinstance(answer.body, bytes):
            self.lines = answer.body.splitlines()
            self.over = True
        else:
            self.task = embedded.loop.create_task(self.follow(answer.body))
        embedded.settle()

    async def follow(self, chunks: AsyncIterator[bytes]) -> None:
        """Collect events."""
        async for chunk in chunks:
            *whole, self.rest = (self.rest + chunk).split(b"\n")
            self.lines += [line for line in whole if line]
        self.over = True

    def events(self) -> list[dict[str, Any]]:
        """The events received since the last call."""
        self.embedded.settle()
        came, self.lines = self.lines, []
        return [msgspec.json.decode(line) for line in came]

    def close(self) -> None:
        """Close the watch."""
        if not self.over:
            self.task.cancel()
            self.embedded.settle()


async def joined(chunks: AsyncIterator[bytes]) -> bytes:
    """The complete body."""
    return b"".join([chunk async for chunk in chunks])
