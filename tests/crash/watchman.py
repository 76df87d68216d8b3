"""Who watches during a crash run? The auditor, on a thread of its own, with a history on disk and a few counts."""

import asyncio
import contextlib
import gzip
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from pykueue.api.checks import ProvisioningRequest
from pykueue.api.workload import Workload
from pykueue.audit.auditor import Auditor
from pykueue.audit.follow import Follower, Server
from pykueue.audit.history import Line, encode, event_of
from pykueue.audit.times import Instant
from pykueue.audit.views import Job, condition, finished, holds
from pykueue.audit.world import Change, Finding, Settings, World
from pykueue.base.clock import SystemClock
from tests.crash.starvation import Starvation

HOLD_SECONDS = 10
"""How long events are held back to be put in order: a machine that is full to the brim is seconds late with some."""
LAG_SECONDS = 15
"""How long a write may be in flight here: three times the default, because these runs keep the machine busy."""
ANSWERS = ("Provisioned", "Failed", "BookingExpired", "CapacityRevoked")


class Tally:
    """Counts what happens."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def seen(self, change: Change, world: World) -> Iterator[Finding]:
        old, new = change.of(Workload) or (None, None)
        if new is not None and not change.listed:
            for type_ in ("QuotaReserved", "Admitted", "Evicted", "Finished"):
                if holds(new, type_) and not (old is not None and holds(old, type_)):
                    self.counts[type_] += 1
                    if type_ == "Evicted":
                        found = condition(new, type_)
                        self.counts[f"Evicted {found.reason if found else ''}"] += 1
        earlier, request = change.of(ProvisioningRequest) or (None, None)
        if request is not None and not change.listed:
            self.counts["requests"] += earlier is None
            for type_ in ANSWERS:
                self.counts[type_] += holds(request, type_) and not (earlier is not None and holds(earlier, type_))
        before, job = change.of(Job) or (None, None)
        if job is not None and finished(job) and not (before is not None and finished(before)):
            self.counts["Jobs ended"] += 1
            self.counts["Jobs failed"] += holds(job, "Failed")
        yield from ()

    def late(self, at: Instant, world: World) -> Iterator[Finding]:
        yield from ()


class Watchman:
    """The auditor at work."""

    def __init__(
        self,
        kubeconfig: Path,
        history: Path,
        settings: Settings,
        *,
        ended: Callable[[str], None],
        found: Callable[[Finding], None],
        asked: Callable[[str, str], None] = lambda name, uid: None,
        hold_seconds: float = HOLD_SECONDS,
    ) -> None:
        self.hold_seconds = hold_seconds
        self.auditor = Auditor(settings)
        self.tally = Tally()
        self.auditor.rules = (*self.auditor.rules, self.tally)
        self.found, self.ended, self.asked = found, ended, asked
        self.clock = SystemClock()
        self.file = gzip.GzipFile(history, "ab", compresslevel=1)
        self.server = Server.of(str(kubeconfig))
        self.follower: Follower | None = None
        self.loop = asyncio.new_event_loop()
        self.excuses = 0
        """How many blocks of `excused` are not over yet."""
        self.starvation = Starvation(self.excused)
        self.ready = threading.Event()
        self.failed: BaseException | None = None
        self.thread = threading.Thread(target=self.run, name="watchman", daemon=True)

    def __enter__(self) -> "Watchman":
        self.thread.start()
        self.ready.wait()
        if self.failed is not None:
            raise self.failed
        self.starvation.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.starvation.__exit__(*error)
        self.loop.call_soon_threadsafe(self.cancel)
        self.thread.join()
        self.file.close()

    @contextlib.contextmanager
    def excused(self) -> Iterator[None]:
        """Count no waiting during the block, in which the manager cannot act in time."""
        uptime = self.auditor.uptime
        self.excuses += 1
        self.loop.call_soon_threadsafe(uptime.pause)

        def resume() -> None:
            self.excuses -= 1
            if not self.excuses:
                uptime.resume(end)

        try:
            yield
        finally:
            end = self.clock.now()
            # What happened during the block is evaluated that much later.
            self.loop.call_soon_threadsafe(self.loop.call_later, self.hold_seconds + 1, resume)

    def cancel(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()

    def run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self.follow())
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            self.failed = error
        finally:
            self.ready.set()
            self.loop.close()

    async def follow(self) -> None:
        self.follower = Follower(
            self.server,
            self.auditor,
            self.clock,
            arrived=self.arrived,
            observed=self.heard,
            late=self.report,
            hold_seconds=self.hold_seconds,
        )
        following = asyncio.create_task(self.follower.run())
        beginning = asyncio.create_task(self.follower.began.wait())
        await asyncio.wait([following, beginning], return_when=asyncio.FIRST_COMPLETED)
        self.ready.set()
        await following

    def arrived(self, line: Line) -> None:
        """Say at once when a Job has ended, so that another may take its place, and when capacity is asked for."""
        if line.kind == "ProvisioningRequest" and line.type == "ADDED":
            request = event_of(line).object
            self.asked(request.name, request.metadata.uid or "")
        if line.kind == "Job":
            job = event_of(line).object
            if isinstance(job, Job) and (finished(job) or line.type == "DELETED"):
                self.ended(job.metadata.uid or "")

    def heard(self, line: Line, found: list[Finding]) -> None:
        self.file.write(encode(line))
        if line.kind == "Job" and line.type in ("LISTED", "VANISHED"):
            self.arrived(line)
        self.report(found)

    def report(self, found: list[Finding]) -> None:
        for finding in found:
            self.found(finding)

    def check(self) -> None:
        """Raise what ended the watch, if it has ended."""
        if self.failed is not None:
            raise RuntimeError(f"the auditor stopped: {self.failed!r}") from self.failed
