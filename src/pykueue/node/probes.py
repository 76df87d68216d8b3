"""Probes of containers: a command, an HTTP request or a TCP connection, repeated."""

import asyncio
import contextlib
import ipaddress
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal, TypeAlias, TypeVar

from pykueue.api.trees import has, mapping, mappings, member, text, whole
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS
from pykueue.node.podstatus import LOCALHOST
from pykueue.node.setup.environment import strings
from pykueue.node.spawn import Outcome

Kind: TypeAlias = Literal["readiness", "liveness", "startup"]
T = TypeVar("T")

AGENT: Final = "kube-probe/1.36"


class Answer(Frozen):
    """The result of a probe; the message says why it failed."""

    well: bool
    message: str = ""


class Timing(Frozen):
    """When a probe runs, and its thresholds."""

    delay: int = 0
    period: int = 10
    timeout: int = 1
    successes: int = 1
    failures: int = 3


def timing(probe: Mapping[str, object]) -> Timing:
    """The timing of a probe, with the API's defaults."""
    return Timing(
        whole(probe, "initialDelaySeconds") or 0,
        whole(probe, "periodSeconds") or 10,
        whole(probe, "timeoutSeconds") or 1,
        whole(probe, "successThreshold") or 1,
        whole(probe, "failureThreshold") or 3,
    )


def port_of(container: Mapping[str, object], port: object) -> int:
    """The number of a port, given as such or by its name; 0 if there is no such port."""
    if isinstance(port, int):
        return port
    if isinstance(port, str) and port.isdecimal():
        return int(port)
    named = (found for _, found in mappings(container, "ports") if text(found, "name") == port)
    return next((whole(found, "containerPort") or 0 for found in named), 0)


async def within(clock: Clock, seconds: float, work: Awaitable[T]) -> T:
    """Await some work; raises `TimeoutError` after this many seconds."""
    task = asyncio.ensure_future(work)
    late = asyncio.ensure_future(clock.sleep(int(seconds * MICROS)))
    try:
        await asyncio.wait((task, late), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise TimeoutError
    finally:
        for one in (task, late):
            one.cancel()
        await asyncio.gather(task, late, return_exceptions=True)


def address(host: str) -> str:
    """The address of a host; raises `ValueError` for a name.

    A name server may leave a query unanswered for long, and the thread that waits for it cannot be cancelled.
    """
    if host == "localhost":
        return LOCALHOST
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        raise ValueError(
            f"local pods resolve no host names in probes and hooks; give {host!r} as an IP address, or leave it out "
            "for the pod itself"
        ) from None


async def http(host: str, port: int, get: Mapping[str, object]) -> Answer:
    """Send an HTTP request; a status from 200 to 399 is a success."""
    secure = text(get, "scheme") == "HTTPS"
    context = None
    if secure:
        # As in a kubelet, the certificate is not verified.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(address(host), port, ssl=context)
    try:
        given = {text(one, "name"): text(one, "value") for _, one in mappings(get, "httpHeaders")}
        headers = {"Host": f"{host}:{port}", "User-Agent": AGENT, "Accept": "*/*", **given}
        lines = [f"GET {path_of(get)} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        request = "\r\n".join([*(clean(line) for line in lines), "Connection: close", "", ""])
        writer.write(request.encode())
        await writer.drain()
        first = (await reader.readline()).split()
        code = int(first[1]) if len(first) > 1 and first[1].isdigit() else 0
        if not code:
            return Answer(False, "the response is not HTTP")
        return Answer(200 <= code < 400, "" if 200 <= code < 400 else f"HTTP probe failed with statuscode: {code}")
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def clean(line: str) -> str:
    """A header value without line breaks."""
    return line.replace("\r", " ").replace("\n", " ")


async def tcp(host: str, port: int) -> Answer:
    """Whether a connection can be made."""
    _, writer = await asyncio.open_connection(address(host), port)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return Answer(True)


Run: TypeAlias = Callable[[tuple[str, ...], float], Awaitable[Outcome]]
"""Runs a command beside the container, for at most this many seconds."""


async def ask(
    probe: Mapping[str, object], container: Mapping[str, object], *, host: str, clock: Clock, run: Run
) -> Answer:
    """Run a probe once."""
    seconds = timing(probe).timeout
    if has(probe, "exec"):
        command = tuple(strings(member(probe, "exec", "command")))
        outcome = await run(command, seconds)
        if outcome.timed_out:
            return Answer(False, f"command timed out: {' '.join(command)!r} timed out after {seconds}s")
        return Answer(outcome.code == 0, outcome.output)
    if has(probe, "httpGet"):
        get = mapping(probe, "httpGet")
        where, port = text(get, "host") or host, port_of(container, member(get, "port"))
        scheme = "https" if text(get, "scheme") == "HTTPS" else "http"
        prefix = f'Get "{scheme}://{where}:{port}{path_of(get)}": '
        late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        return await reached(within(clock, seconds, http(where, port, get)), f"{where}:{port}", prefix, prefix + late)
    if has(probe, "tcpSocket"):
        where = text(probe, "tcpSocket", "host") or host
        port = port_of(container, member(probe, "tcpSocket", "port"))
        place = f"{where}:{port}"
        return await reached(within(clock, seconds, tcp(where, port)), place, "", f"dial tcp {place}: i/o timeout")
    return Answer(False, "local pods do not support gRPC probes; use exec, httpGet or tcpSocket")


async def reached(asking: Awaitable[Answer], place: str, prefix: str, late: str) -> Answer:
    """The result of a network probe, with failures in the kubelet's words."""
    try:
        return await asking
    except TimeoutError:
        return Answer(False, late)
    except (OSError, OverflowError, ValueError) as error:
        return Answer(False, f"{prefix}dial tcp {place}: connect: {os_words(error) or error}")


def os_words(error: Exception) -> str:
    """An operating system error in Go's words."""
    number = getattr(error, "errno", None)
    return os.strerror(number).lower() if isinstance(number, int) and number > 0 else ""


def path_of(get: Mapping[str, object]) -> str:
    """The path of the request."""
    path = text(get, "path")
    return path if path.startswith("/") else "/" + path


class Prober:
    """Runs one probe of a container repeatedly, and reports changes of its result."""

    def __init__(
        self,
        kind: Kind,
        probe: Mapping[str, object],
        ask_once: Callable[[], Awaitable[Answer]],
        clock: Clock,
        *,
        changed: Callable[[Kind, bool], None],
        failed: Callable[[Kind, str], None],
    ) -> None:
        self.kind = kind
        self.timing = timing(probe)
        self.ask_once = ask_once
        self.clock = clock
        self.changed = changed
        """Called when enough consecutive results agree on a change."""
        self.failed = failed
        """Called with each failure and its reason."""
        self.well = kind == "liveness"
        """A container is alive until probes fail; it is neither started nor ready until they succeed."""

    async def run(self) -> None:
        """Probe until cancelled; a startup probe ends when the container has started."""
        await self.clock.sleep(self.timing.delay * MICROS)
        row, last = 0, self.well
        while True:
            answer = await self.ask_once()
            row = row + 1 if answer.well == last else 1
            last = answer.well
            if not answer.well:
                self.failed(self.kind, answer.message)
            needed = self.timing.successes if answer.well else self.timing.failures
            if row >= needed and (answer.well != self.well or (not answer.well and self.kind != "readiness")):
                self.well = answer.well
                self.changed(self.kind, answer.well)
                row = 0
                if self.kind == "startup" and answer.well:
                    return
            await self.clock.sleep(self.timing.period * MICROS)


def probes_of(container: Mapping[str, object]) -> dict[Kind, Mapping[str, object]]:
    """The probes of a container."""
    kinds: tuple[Kind, ...] = ("startup", "readiness", "liveness")
    return {kind: mapping(container, f"{kind}Probe") for kind in kinds if has(container, f"{kind}Probe")}
