"""How does a test talk to a whole system in its own process? `Embedded`: synchronous, in memory, under a manual clock.

It owns an event loop, which runs only during a call and only until nothing is left to do at the present instant. No
socket, no file, no thread: what a call set in motion is done, or waits for time to pass, when the call returns.
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
"""Timers that may pass while a call that needs time comes to its end."""


START_SECONDS: Final = 0.1
"""What our controllers take to have a first full picture."""


class Inline(ThreadPoolExecutor):
    """Does at once, in the same thread, what is meant for another."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """What came of it."""
        made: Future[T] = Future()
        try:
            made.set_result(fn(*args, **kwargs))
        except Exception as error:
            made.set_exception(error)
        return made


def loaded(config: Mapping[str, Any] | None, gates: Mapping[str, bool] | None) -> Loaded:
    """A Configuration given as the fields of its file, and gates."""
    tree = {"apiVersion": CURRENT, "kind": KIND, **(config or {})}
    flags = ",".join(f"{name}={str(on).lower()}" for name, on in (gates or {}).items())
    return read_configuration(msgspec.json.encode(tree), feature_gates=flags)


class Embedded:
    """A whole system in memory: API, admission, our controllers, Kubernetes' own, and pods that are played."""

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
            page=self.page,
            missing=self.missing,
            reasons=self.local.reason,
        )
        self.call(self.local.prepare())
        if acting and nodes:
            self.call(self.scripted.add_node())
        self.loop.call_soon(self.begin, pods)
        self.advance(START_SECONDS)

    async def build(self, plan: LocalPlan) -> Local:
        """The parts, made where a loop runs."""
        return Local(plan, self.clock)

    def begin(self, pods: Callable[[Local], Coroutine[None, None, None]] | None) -> None:
        """Have everyone act; where nobody is to, admission still has to know what there is."""
        if not self.acting:
            self.local.controllers.begin("follow", self.local.controllers.cluster.follow)
            return
        self.local.start()
        played = self.scripted.run() if pods is None else pods(self.local)
        self.local.begin("pods", lambda: played)

    # Time.

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What comes of a coroutine; time passes only where it has to for that."""
        task = self.loop.create_task(coroutine)
        self.settle()
        for _ in range(SYNC_STEPS):
            if task.done() or not self.step():
                break
        if not task.done():
            task.cancel()
            self.settle()
            raise AssertionError(f"{coroutine!r} waits for something that does not come")
        return task.result()

    def settle(self) -> None:
        """Return when nothing is left to do at this instant."""
        self.loop.run_until_complete(self.clock.settle())

    def step(self) -> bool:
        """Let time pass until the next timer; whether there was one."""
        self.settle()
        due = self.clock.next_due()
        if due is None:
            return False
        self.clock.turn_to(due)
        self.settle()
        return True

    def advance(self, seconds: float) -> None:
        """Let time pass, from timer to timer."""
        self.loop.run_until_complete(self.clock.advance(seconds))

    def advance_to(self, instant: Instant) -> None:
        """Let time pass until an instant."""
        self.advance(max(0, instant - self.clock.now()) / MICROS)

    # The API.

    def ask(self, request: Request) -> Response:
        """The answer to a request, whoever asks; the body may be a stream."""
        return self.call(self.front.answer(request))

    def request(
        self, verb: str, path: str, body: "bytes | Json" = None, content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        """Code and body of the answer to an admin's request."""
        answer = self.ask(self.asked(verb, path, body, content_type))
        content = answer.body if isinstance(answer.body, bytes) else self.call(joined(answer.body))
        self.settle()
        return answer.code, content

    def asked(self, verb: str, path: str, body: "bytes | Json", content_type: str) -> Request:
        """A request of the admin's."""
        data = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        headers = {
            "authorization": f"Bearer {self.token}",
            "accept": "application/json",
            "content-type": content_type,
            "user-agent": "pykueue-testing",
        }
        return request(verb, path, data, headers)

    def watch(self, path: str) -> "Watching":
        """The events of a watch, as far as there are any."""
        answer = self.ask(self.asked("GET", path, None, ""))
        return Watching(self, answer)

    # The manager.

    def page(self) -> bytes:
        """The metrics as Prometheus reads them."""
        return self.local.controllers.metrics.page()

    def metrics(self) -> str:
        """The same as text."""
        return self.page().decode()

    def missing(self) -> Iterator[str]:
        """What keeps us from being ready."""
        yield from self.local.controllers.cluster.missing()

    def restart_manager(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        gates: Mapping[str, bool] | None = None,
        controllers: frozenset[str] = PARTS,
    ) -> None:
        """Stop our controllers, and start them with another Configuration on the objects that are there."""
        self.call(self.local.restart(loaded(config, gates), controllers & PARTS))
        self.advance(START_SECONDS)

    def failed(self) -> None:
        """Raise what ended anything that should go on."""
        for error in self.local.failures():
            raise error

    def close(self) -> None:
        """End everything."""
        if self.closed:
            return
        self.closed = True
        try:
            self.call(self.local.land())
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
    """A watch that is open."""

    def __init__(self, embedded: Embedded, answer: Response) -> None:
        self.embedded = embedded
        self.code = answer.code
        self.lines: list[bytes] = []
        """What came and was not taken yet."""
        self.rest = b""
        self.over = False
        if isinstance(answer.body, bytes):
            self.lines = answer.body.splitlines()
            self.over = True
        else:
            self.task = embedded.loop.create_task(self.follow(answer.body))
        embedded.settle()

    async def follow(self, chunks: AsyncIterator[bytes]) -> None:
        """Collect what comes."""
        async for chunk in chunks:
            *whole, self.rest = (self.rest + chunk).split(b"\n")
            self.lines += [line for line in whole if line]
        self.over = True

    def events(self) -> list[dict[str, Any]]:
        """The events that came since this was asked last."""
        self.embedded.settle()
        came, self.lines = self.lines, []
        return [msgspec.json.decode(line) for line in came]

    def close(self) -> None:
        """Watch no more."""
        if not self.over:
            self.task.cancel()
            self.embedded.settle()


async def joined(chunks: AsyncIterator[bytes]) -> bytes:
    """A whole body."""
    return b"".join([chunk async for chunk in chunks])
