"""Stream the output of a job to the terminal: complete, in order, standard output and standard error apart.

The embedded server serves the log of a pod by position: each request states what was written here and asks for the
next part, so nothing is lost when the connection breaks or the server restarts. A second request stays open and blocks
a job that prints faster than we can write. A cluster supports neither: there the log is read as `kubectl logs -f` reads
it, with both streams merged.
"""

import asyncio
import contextlib
import os
import secrets
import select
import stat
import sys
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

from pykueue.api.core import Tree
from pykueue.api.names import RUN_CONTAINER
from pykueue.api.trees import mapping, mappings, text
from pykueue.base.clock import Clock
from pykueue.base.units import MICROS, Moment
from pykueue.cli.messages import tell
from pykueue.kube.client.http import Call, HttpKube, parts, path_of
from pykueue.kube.client.transport import LostError, Stream, UnsentError
from pykueue.kube.logs import END_HEADER, HOLD, PART_HEADER, POD_UID, POSITION, SECRET, LogPart, part_of
from pykueue.kube.port import PODS, KubeError, NotFoundError, UnansweredError
from pykueue.node.supervision.followers import ANNOTATION, digest_of
from pykueue.node.supervision.logfiles import STDERR, STDOUT, Records, lost_line

Answer = TypeVar("Answer")

SILENCE_SECONDS: Final = 30 * 86_400.0
"""How long a connection may be idle: as long as a command may print nothing."""
AGAIN_MICROS: Final = MICROS // 2
PATIENCE: Final = 30 * MICROS
"""How long to ask again a server that answers with errors; one that does not answer may be restarting."""
WRITE_BYTES: Final = select.PIPE_BUF
"""A ready pipe accepts this much without blocking."""
TURN_BYTES: Final = 1 << 16
"""Yield to the event loop after this much."""


class Sink:
    """The destination of one output stream."""

    def __init__(self, fd: int, unread: asyncio.Event | None = None) -> None:
        self.fd = fd
        self.unread = unread
        """Set when the reader has closed it."""
        self.inside = False
        """Whether the last line is incomplete."""
        self.closed = False
        """Whether the reader has closed it, or writing failed."""
        self.problem = ""
        """Why writing failed."""
        self.always_ready = False
        with contextlib.suppress(OSError):
            self.always_ready = stat.S_ISREG(os.fstat(fd).st_mode)

    async def write(self, data: bytes) -> None:
        """Write output without blocking the event loop; discard it once the reader has closed the stream."""
        step = TURN_BYTES if self.always_ready else WRITE_BYTES
        at = 0
        while at < len(data) and not self.closed:
            try:
                if not self.always_ready:
                    await self.ready()
                at += os.write(self.fd, data[at : at + step])
            except BrokenPipeError:
                self.closed = True
                if self.unread is not None:
                    self.unread.set()
            except BlockingIOError:
                await self.wait()
            except OSError as error:
                self.closed = True
                self.problem = error.strerror or str(error)
            if at % TURN_BYTES < step:
                await asyncio.sleep(0)
        if data:
            self.inside = not data.endswith(b"\n")

    async def ready(self) -> None:
        """Return when the next write does not block."""
        poller = select.poll()
        poller.register(self.fd, select.POLLOUT)
        if not poller.poll(0):
            await self.wait()

    async def wait(self) -> None:
        """Return when the descriptor is writable."""
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_writer(self.fd, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_writer(self.fd)


class LastLines:
    """Keeps the last lines of what is added."""

    def __init__(self, lines: int) -> None:
        self.lines = lines
        self.kept: deque[tuple[bytes, bytes]] = deque()
        """The pieces, each with its stream."""
        self.newlines = 0

    def add(self, stream: bytes, data: bytes) -> None:
        """Add a piece of output; drop what is no longer among the last lines."""
        self.kept.append((stream, data))
        self.newlines += data.count(b"\n")
        excess = self.newlines + (not data.endswith(b"\n")) - self.lines
        while excess > 0 and self.kept:
            stream, first = self.kept.popleft()
            ends = first.count(b"\n")
            self.newlines -= ends
            if ends >= excess:
                rest = first.split(b"\n", excess)[-1]
                self.newlines += rest.count(b"\n")
                if rest:
                    self.kept.appendleft((stream, rest))
            excess -= ends


class Retries:
    """Requests for the same output that fail, one after the other."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.since: Moment | None = None
        """Since when the server has answered with errors."""

    async def wait(self, error: KubeError | LostError | None = None) -> None:
        """Wait before the next request; raises an error that the server has given for too long."""
        if isinstance(error, KubeError) and error.code:
            if self.since is None:
                self.since = self.clock.moment()
                tell(f"the server cannot send the output, retrying: {error}")
            if self.clock.moment() - self.since > PATIENCE:
                raise error
        else:
            self.since = None
        await self.clock.sleep(AGAIN_MICROS)


class Output:
    """Streams the output of the pods of a Job."""

    def __init__(self, kube: HttpKube, clock: Clock, namespace: str, file: int | None = None) -> None:
        self.kube = kube
        self.clock = clock
        self.namespace = namespace
        self.secret = secrets.token_hex(16)
        self.file = file
        """The descriptor for standard output; None for our own."""
        self.sinks: dict[bytes, Sink] = {}
        self.holds: dict[str, asyncio.Task[None]] = {}
        """By pod UID: the task with the request that makes the pod block for us."""
        self.unread = asyncio.Event()
        """Set when the reader of the output is gone."""
        self.ending = asyncio.Event()
        """Set when only the output that there is now is to be shown."""
        self.lost = 0
        """Bytes of output that were removed before we read them."""

    def empty(self) -> None:
        """Truncate the output file; has no effect on a pipe or device."""
        if self.file is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self.file, 0)

    def announced(self, job: Tree) -> Tree:
        """The Job with an annotation that makes its pods block when they print faster than we read."""
        spec = job["spec"]
        assert isinstance(spec, dict)
        template = spec["template"]
        assert isinstance(template, dict)
        annotations = {**mapping(template, "metadata", "annotations"), ANNOTATION: digest_of(self.secret)}
        marked: Tree = {"annotations": annotations}  # type: ignore[dict-item]  # parts of a Tree are Json
        return {**job, "spec": {**spec, "template": {**template, "metadata": marked}}}

    def hold(self, pod: Tree) -> None:
        """Make a running pod block for us, even before its output is shown."""
        uid = text(pod, "metadata", "uid")
        if uid not in self.holds and text(pod, "metadata", "annotations", ANNOTATION) == digest_of(self.secret):
            self.holds[uid] = asyncio.create_task(self.held(pod))

    async def held(self, pod: Tree) -> None:
        """Keep a request open until the server has no more output of the pod."""
        while True:
            try:
                # A server without this feature sends output instead; limit it to one byte.
                stream = await self.open(pod, {HOLD: "true", "limitBytes": "1"}, follow=False)
            except UnansweredError:
                await self.clock.sleep(AGAIN_MICROS)
                continue
            except KubeError:
                return
            try:
                with contextlib.suppress(LostError):
                    while await stream.readany():
                        pass
                    return
            finally:
                stream.close()
            await self.clock.sleep(AGAIN_MICROS)

    async def close(self) -> None:
        """Release all pods."""
        for task in self.holds.values():
            task.cancel()
        await asyncio.gather(*self.holds.values(), return_exceptions=True)

    async def show(self, pod: Tree, *, follow: bool = True, tail: int | None = None) -> str:
        """Write a pod's output; return an error message, or an empty string.

        With `follow`, until the pod ends, otherwise what there is now. `tail` limits what there is now to these lines.
        Raises `UnansweredError` if the server keeps answering with errors of its own.
        """
        name = text(pod, "metadata", "name")
        follow = follow and not self.ending.is_set()
        if not self.sinks:
            out = sys.stdout.fileno() if self.file is None else self.file
            self.sinks = {STDOUT: Sink(out, self.unread), STDERR: Sink(sys.stderr.fileno(), self.unread)}
        try:
            known = await self.first(pod, follow=follow, tail=tail)
            if isinstance(known, LogPart):
                await self.by_position(pod, known, follow=follow, tail=tail)
            else:
                await self.plain(pod, known, follow=follow, resumes=tail is None)
        except NotFoundError:
            return f"pod {name} was deleted together with its output"
        except UnansweredError:
            raise
        except KubeError as error:
            return f"cannot read the output of pod {name}: {error}"
        return ""

    async def first(self, pod: Tree, *, follow: bool, tail: int | None) -> LogPart | Stream:
        """The first part of a pod's log, or a stream of all of it from a server without positions."""
        # A server with positions ignores the number of lines.
        lines = {} if tail is None else {"tailLines": str(tail)}
        retries = Retries(self.clock)
        while True:
            try:
                stream = await self.open(pod, {POSITION: "0", **lines}, follow=follow)
                if not stream.header(PART_HEADER):
                    return stream
                end = stream.header(END_HEADER)
                try:
                    part = part_of(b"".join([part async for part in parts(stream)]))
                finally:
                    stream.close()
                return LogPart(part.position, part.data, part.ended, int(end) if end else None)
            except (LostError, UnansweredError) as error:
                await retries.wait(error)

    async def by_position(self, pod: Tree, part: LogPart, *, follow: bool, tail: int | None) -> None:
        """Write a pod's log from a server that serves it by position."""
        records, position, printed, end = Records(), 0, 0, part.end
        last = None if tail is None else LastLines(tail)
        while not part.ended:
            if part.position != position:
                records = Records()
            position = part.position + len(part.data)
            for record in records.feed(part.data):
                if record.printed > printed and last is None:
                    self.lost += record.printed - printed
                    await self.sinks[STDOUT].write(
                        lost_line(record.printed - printed, inside=self.sinks[STDOUT].inside)
                    )
                printed = record.printed + len(record.data)
                if last is None:
                    await self.sinks[record.stream].write(record.data)
                else:
                    last.add(record.stream, record.data)
            # A server of an earlier version does not say where the log ends.
            caught_up = not part.data or (end is not None and position >= end)
            if caught_up and last is not None:
                await self.flush(last)
                last = None
            if caught_up and not follow:
                return
            known = await self.unless_ending(self.next(pod, position, follow=True)) if follow else None
            if known is None:
                if follow:
                    tip = await self.first(pod, follow=False, tail=None)
                    follow, end = False, tip.end if isinstance(tip, LogPart) else None
                known = await self.next(pod, position, follow=False)
            part = known
        if last is not None:
            await self.flush(last)

    async def flush(self, last: "LastLines") -> None:
        """Write the last lines of what there was."""
        for stream, data in last.kept:
            await self.sinks[stream].write(data)

    async def next(self, pod: Tree, position: int, *, follow: bool) -> LogPart:
        """The log from a position; everything before it was written."""
        call = self.call(pod, {POSITION: str(position)}, follow=follow)
        retries = Retries(self.clock)
        while True:
            try:
                return part_of(await self.kube.call(call))
            except UnansweredError as error:
                await retries.wait(error)

    async def plain(self, pod: Tree, stream: Stream, *, follow: bool, resumes: bool) -> None:
        """Write a pod's output from a server that always starts at the beginning.

        Unless it `resumes`, a lost connection is an error: after a reconnect, the last lines are others.
        """
        written = 0
        while True:
            passed = 0
            retries = Retries(self.clock)
            try:
                async for part in self.until_ending(stream):
                    # After a reconnect, skip what was already written.
                    fresh = part[max(0, written - passed) :]
                    passed += len(part)
                    written += len(fresh)
                    await self.sinks[STDOUT].write(fresh)
                if not (follow and resumes and self.ending.is_set()):
                    return
                follow = False
            except LostError as error:
                if not resumes:
                    raise UnansweredError("follow its log", 0, "ConnectionLost", str(error)) from error
                await retries.wait()
            while True:
                try:
                    stream = await self.open(pod, {}, follow=follow)
                    break
                except UnansweredError as error:
                    await retries.wait(error)

    async def until_ending(self, stream: Stream) -> AsyncIterator[bytes]:
        """Yield the chunks of a stream until it ends or only what there is now is to be shown; close it."""
        try:
            while part := await self.unless_ending(stream.readany()):
                yield part
        finally:
            stream.close()

    async def unless_ending(self, work: Coroutine[Any, Any, Answer]) -> Answer | None:
        """The result of some work; None if `ending` is set before."""
        task, ending = asyncio.create_task(work), asyncio.create_task(self.ending.wait())
        try:
            await asyncio.wait((task, ending), return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            task.cancel()
            ending.cancel()
            await asyncio.gather(task, ending, return_exceptions=True)

    def problems(self) -> list[str]:
        """Errors about missing output."""
        found = [f"cannot write the output: {one.problem}" for one in self.sinks.values() if one.problem]
        if self.lost:
            found.append(f"{self.lost} bytes of output were lost: log rotation removed them before they were read")
        return found

    def call(self, pod: Tree, more: Mapping[str, str], *, follow: bool) -> Call:
        """A request for a pod's output."""
        meta = pod.get("metadata")
        name, uid = text(meta, "name"), text(meta, "uid")
        ours = {SECRET: self.secret, POD_UID: uid, **more} if more else {}
        query = urlencode({"container": container_of(pod), **({"follow": "true"} if follow else {}), **ours})
        path = f"{path_of(PODS, self.namespace, name, 'log')}?{query}"
        return Call("GET", path, f"read the log of pod {self.namespace}/{name}", repeatable=True)

    async def open(self, pod: Tree, more: Mapping[str, str], *, follow: bool) -> Stream:
        """Open a stream of a pod's output; raises an error response."""
        call = self.call(pod, more, follow=follow)
        await self.kube.current(call.what)
        try:
            stream = await self.kube.transport.open(self.kube.request(call), SILENCE_SECONDS)
        except (UnsentError, LostError) as error:
            raise UnansweredError(call.what, 0, "ConnectionLost", str(error)) from error
        if stream.status < 300:
            return stream
        # Send it again through the client, which handles errors.
        stream.close()
        return await self.kube.open(call)


def container_of(pod: Tree) -> str:
    """The container whose output is that of the job."""
    names = [text(one, "name") for _, one in mappings(pod, "spec", "containers")]
    # On a cluster, webhooks may have added containers.
    return RUN_CONTAINER if RUN_CONTAINER in names else names[0]
