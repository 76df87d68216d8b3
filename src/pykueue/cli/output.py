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
from collections.abc import AsyncIterator, Mapping
from typing import Final
from urllib.parse import urlencode

from pykueue.api.core import Tree
from pykueue.api.names import RUN_CONTAINER
from pykueue.api.trees import mappings, text
from pykueue.base.clock import Clock
from pykueue.base.units import MICROS
from pykueue.kube.client.http import Call, HttpKube, parts, path_of
from pykueue.kube.client.transport import LostError, Stream, UnsentError
from pykueue.kube.logs import HOLD, PART_HEADER, POD_UID, POSITION, SECRET, LogPart, part_of
from pykueue.kube.port import PODS, KubeError, NotFoundError, UnansweredError
from pykueue.node.supervision.followers import ANNOTATION, digest_of
from pykueue.node.supervision.logfiles import STDERR, STDOUT, Records, lost_line

SILENCE_SECONDS: Final = 30 * 86_400.0
"""How long a connection may be silent before it is taken for lost: as long as a command may print nothing."""
AGAIN_MICROS: Final = MICROS // 2
WRITE_BYTES: Final = select.PIPE_BUF
"""A pipe that is ready takes so much without making us wait."""
TURN_BYTES: Final = 1 << 16
"""After so much, other work of the event loop has its turn."""


class Sink:
    """Where one stream of a command's output goes."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.inside = False
        """Whether the last byte did not end a line."""
        self.closed = False
        """Whether nobody reads it any more."""
        self.problem = ""
        """Why it could not be written."""
        self.always_ready = False
        with contextlib.suppress(OSError):
            self.always_ready = stat.S_ISREG(os.fstat(fd).st_mode)

    async def write(self, data: bytes) -> None:
        """Write some output, as long as there is a reader, without holding the event loop."""
        step = TURN_BYTES if self.always_ready else WRITE_BYTES
        at = 0
        while at < len(data) and not self.closed:
            try:
                if not self.always_ready:
                    await self.ready()
                at += os.write(self.fd, data[at : at + step])
            except BrokenPipeError:
                self.closed = True
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
        """Return when the next write does not wait."""
        poller = select.poll()
        poller.register(self.fd, select.POLLOUT)
        if not poller.poll(0):
            await self.wait()

    async def wait(self) -> None:
        """Return when something can be written."""
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_writer(self.fd, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_writer(self.fd)


class Output:
    """Writes the output of the pods of a Job."""

    def __init__(self, kube: HttpKube, clock: Clock, namespace: str, file: int | None = None) -> None:
        self.kube = kube
        self.clock = clock
        self.namespace = namespace
        self.secret = secrets.token_hex(16)
        self.file = file
        """Where the standard output goes, if not to ours."""
        self.sinks: dict[bytes, Sink] = {}
        self.holds: dict[str, asyncio.Task[None]] = {}
        """By the uid of a pod: what keeps it waiting for us."""
        self.lost = 0
        """Bytes of output that were removed before we could read them."""

    def empty(self) -> None:
        """Empty the file that the output goes to; a pipe or a device has nothing to empty."""
        if self.file is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self.file, 0)

    def announced(self, job: Tree) -> Tree:
        """The Job, so that its pods wait for this process when they print faster than it reads."""
        spec = job["spec"]
        assert isinstance(spec, dict)
        template = spec["template"]
        assert isinstance(template, dict)
        marked: Tree = {"annotations": {ANNOTATION: digest_of(self.secret)}}
        return {**job, "spec": {**spec, "template": {**template, "metadata": marked}}}

    def hold(self, pod: Tree) -> None:
        """Have a pod that runs wait for us, whether or not its output is being shown yet."""
        uid = text(pod, "metadata", "uid")
        if uid not in self.holds and text(pod, "metadata", "annotations", ANNOTATION) == digest_of(self.secret):
            self.holds[uid] = asyncio.create_task(self.held(pod))

    async def held(self, pod: Tree) -> None:
        """Keep a request open for as long as the server knows of the pod's output."""
        while True:
            try:
                # A server that does not know what we ask for sends output instead, and no more of it than this.
                stream = await self.open(pod, {HOLD: "true", "limitBytes": "1"}, follow=False)
            except UnansweredError:
                await self.again()
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
            await self.again()

    async def close(self) -> None:
        """Let go of all pods."""
        for task in self.holds.values():
            task.cancel()
        await asyncio.gather(*self.holds.values(), return_exceptions=True)

    async def show(self, pod: Tree) -> str:
        """Write a pod's output as it comes, until it has ended; what went wrong, or nothing."""
        name = text(pod, "metadata", "name")
        if not self.sinks:
            out = sys.stdout.fileno() if self.file is None else self.file
            self.sinks = {STDOUT: Sink(out), STDERR: Sink(sys.stderr.fileno())}
        try:
            known = await self.first(pod)
            if isinstance(known, LogPart):
                await self.by_position(pod, known)
            else:
                await self.plain(pod, known)
        except NotFoundError:
            return f"pod {name} was deleted together with its output"
        except KubeError as error:
            return f"cannot read the output of pod {name}: {error}"
        return ""

    async def first(self, pod: Tree) -> LogPart | Stream:
        """The beginning of a pod's log, or all of it from a server that does not know positions."""
        while True:
            try:
                stream = await self.open(pod, {POSITION: "0"}, follow=True)
                if not stream.header(PART_HEADER):
                    return stream
                try:
                    return part_of(b"".join([part async for part in parts(stream)]))
                finally:
                    stream.close()
            except (LostError, UnansweredError):
                await self.again()

    async def by_position(self, pod: Tree, part: LogPart) -> None:
        """Write a pod's log, from a server that gives it out by position."""
        records, position, printed = Records(), 0, 0
        while not part.ended:
            if part.position != position:
                records = Records()
            position = part.position + len(part.data)
            for record in records.feed(part.data):
                sink = self.sinks[record.stream]
                if record.printed > printed:
                    self.lost += record.printed - printed
                    await self.sinks[STDOUT].write(
                        lost_line(record.printed - printed, inside=self.sinks[STDOUT].inside)
                    )
                printed = record.printed + len(record.data)
                await sink.write(record.data)
            part = await self.next(pod, position)

    async def next(self, pod: Tree, position: int) -> LogPart:
        """The log from a position on; everything before it is written."""
        call = self.call(pod, {POSITION: str(position)}, follow=True)
        while True:
            try:
                return part_of(await self.kube.call(call))
            except UnansweredError:
                await self.again()

    async def plain(self, pod: Tree, stream: Stream) -> None:
        """Write a pod's output, from a server that begins at the beginning each time."""
        written = 0
        while True:
            passed = 0
            try:
                async for part in drained(stream):
                    # After a broken connection, what was written before is passed over.
                    fresh = part[max(0, written - passed) :]
                    passed += len(part)
                    written += len(fresh)
                    await self.sinks[STDOUT].write(fresh)
                return
            except LostError:
                await self.again()
            while True:
                try:
                    stream = await self.open(pod, {}, follow=True)
                    break
                except UnansweredError:
                    await self.again()

    def problems(self) -> list[str]:
        """What of the output did not come through."""
        found = [f"cannot write the output: {one.problem}" for one in self.sinks.values() if one.problem]
        if self.lost:
            found.append(f"{self.lost} bytes of output were lost: log rotation removed them before they were read")
        return found

    async def again(self) -> None:
        """Wait before the server is asked again."""
        await self.clock.sleep(AGAIN_MICROS)

    def call(self, pod: Tree, more: Mapping[str, str], *, follow: bool) -> Call:
        """A request for a pod's output."""
        meta = pod.get("metadata")
        name, uid = text(meta, "name"), text(meta, "uid")
        names = [text(one, "name") for _, one in mappings(pod, "spec", "containers")]
        # On a cluster, others may have added containers of their own.
        container = RUN_CONTAINER if RUN_CONTAINER in names else names[0]
        ours = {SECRET: self.secret, POD_UID: uid, **more} if more else {}
        query = urlencode({"container": container, **({"follow": "true"} if follow else {}), **ours})
        path = f"{path_of(PODS, self.namespace, name, 'log')}?{query}"
        return Call("GET", path, f"read the log of pod {self.namespace}/{name}", repeatable=True)

    async def open(self, pod: Tree, more: Mapping[str, str], *, follow: bool) -> Stream:
        """The answer to a request for a pod's output, to be read as it comes; one that is an error is raised."""
        call = self.call(pod, more, follow=follow)
        await self.kube.current(call.what)
        try:
            stream = await self.kube.transport.open(self.kube.request(call), SILENCE_SECONDS)
        except (UnsentError, LostError) as error:
            raise UnansweredError(call.what, 0, "ConnectionLost", str(error)) from error
        if stream.status < 300:
            return stream
        # Asked once more by the one who knows what to do about errors.
        stream.close()
        return await self.kube.open(call)


async def drained(stream: Stream) -> AsyncIterator[bytes]:
    """A stream piece by piece, which is closed at the end."""
    try:
        async for part in parts(stream):
            yield part
    finally:
        stream.close()
