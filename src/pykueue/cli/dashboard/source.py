"""What the page shows, read with the rights of one user and kept up to date: one snapshot for all its clients."""

import asyncio
import contextlib
import gc
import logging
import re
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from heapq import nsmallest
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from pykueue.api.jobsummary import UNNAMED, UNQUEUED, FinishedJob, JobSummary
from pykueue.api.trees import Tree, text
from pykueue.base.clock import Clock
from pykueue.base.timers import timeout
from pykueue.base.turns import in_steps
from pykueue.base.units import MICROS, format_instant
from pykueue.cli.dashboard.changes import Changes, Occurrence, at_first, between, hour_before, is_recent
from pykueue.cli.dashboard.jobsfeed import JobsChange, job_changes
from pykueue.cli.dashboard.overview import (
    Can,
    Disk,
    Meta,
    Overview,
    QueueRow,
    counts_of,
    machine_use,
    queue_row,
    totals,
)
from pykueue.cli.dashboard.rights import rights
from pykueue.cli.jobs.servedrows import key_of
from pykueue.cli.jobs.source import Asked, finished, with_reasons
from pykueue.cli.jobs.watch import GONE
from pykueue.cli.objects import everything
from pykueue.cli.queues.policies import Policy, policies
from pykueue.cli.queues.reading import Queues, read_queues
from pykueue.cli.serverstate import UNAUTHORIZED
from pykueue.kube.client.http import HttpKube
from pykueue.kube.informer import gc_paused
from pykueue.kube.port import NODES, DeniedError, KubeError
from pykueue.web.stream import FINISHED_MAX, Feed

LOG: Final = logging.getLogger(__name__)

OVERVIEW_MICROS: Final = 1 * MICROS
QUEUES_MICROS: Final = 2 * MICROS
REST: Final = 40
"""Queues that took long to read are read again only after this many times as long."""
OVERVIEW_BYTES: Final = 128 * 1024
"""An overview of this size is sent once a second at most; a larger one less often."""
RIGHTS_MICROS: Final = 60 * MICROS
FINISHED_MICROS: Final = 1 * MICROS
FINISHED_SECONDS: Final = {"machine": 5.0, "cluster": 300.0}
"""How often finished jobs are read even if no job has left the list."""
RETRY_MICROS: Final = 2 * MICROS
DENIED_MICROS: Final = 30 * MICROS
STEP_ROWS: Final = 500
MOVED_MAX: Final = 500
"""Rows of which only the place changed that are sent at once."""
MOVED_STEP: Final = 4_000
FROZEN_ROWS: Final = 5_000
"""So many rows are excluded from garbage collection: scanning them takes longer than the loop may be held."""
ONLY_OWN: Final = "You see only your own jobs (namespace {})."
DENIED: Final = "You may not list {} in namespace {}; choose another with `pykueue dashboard -n NAMESPACE`."
FORBIDDEN: Final = re.compile(r": .*?(?P<resource>[a-z]+)[a-z0-9.-]* is forbidden: .*")
"""What the server says about something that may not be read, in a note."""
SHOWN_FIRST: Final = frozenset({"follow_jobs", "follow_queues"})
"""The page is out of date until both have been read again."""
ASK_REASONS: Final = 10
"""Changes of jobs after which reasons that had to be looked up are looked up again."""


def no_disk() -> Disk | None:
    """The disk of a server that runs elsewhere."""
    return None


class Source:
    """Reads a server and fills a feed."""

    def __init__(
        self,
        kube: HttpKube,
        clock: Clock,
        *,
        home: str,
        meta: Meta,
        disk: Callable[[], Disk | None] = no_disk,
        rejected: Callable[[str], None] | None = None,
    ) -> None:
        self.kube = kube
        self.clock = clock
        self.home = home
        """The namespace of the user."""
        self.meta = replace(meta, home=home)
        self.disk = disk
        self.rejected = rejected
        """Called when the server rejects the user's credentials."""
        self.feed = Feed()
        self.rows: dict[str, JobSummary] = {}
        self.places: dict[str, int | None] = {}
        """The places in line. They are apart from the rows, of which most would have to be replaced at each start."""
        self.moved: dict[str, None] = {}
        """Keys of rows of which only the place changed since they were sent."""
        self.namespace = ""
        self.notes: dict[str, tuple[str, ...]] = {}
        """What is left out, by what was read."""
        self.troubles: dict[str, str] = {}
        """Why the data are out of date, by what could not be read."""
        self.owners: dict[tuple[str, str], str] = {}
        """The ClusterQueue of each LocalQueue, by namespace and name."""
        self.queues: tuple[QueueRow, ...] = ()
        self.policies: dict[str, Policy] = {}
        self.nodes: list[Tree] = []
        self.changes = Changes()
        self.ends: dict[str, str] = {}
        """When the last finished jobs ended, by UID."""
        self.left = asyncio.Event()
        """Set when a job is no longer listed, so that its end can be looked up."""
        self.dirty = True
        self.filled = False
        self.lookups = 0
        self.tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to read."""
        for work in (
            self.follow_jobs,
            self.follow_queues,
            self.follow_finished,
            self.follow_rights,
            self.follow_overview,
        ):
            self.tasks.append(asyncio.ensure_future(self.insist(work)))

    def stop(self) -> None:
        """Stop to read."""
        for task in self.tasks:
            task.cancel()
        self.feed.close()

    async def insist(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something for as long as the page is open; a server that does not respond is asked again."""
        while True:
            try:
                await work()
            except DeniedError as error:
                if error.code == UNAUTHORIZED:
                    if self.rejected is None:
                        # No session with these rights is open; the next one brings its own credentials.
                        await self.clock.sleep(RETRY_MICROS)
                        continue
                    self.rejected(error.message)
                self.deny(work.__name__)
                self.trouble(work.__name__, "")
                await self.give_up()
                await self.clock.sleep(DENIED_MICROS)
            except KubeError as error:
                if work.__name__ in SHOWN_FIRST:
                    self.trouble(work.__name__, GONE if not error.code else error.message)
                await self.clock.sleep(RETRY_MICROS)
            except Exception:
                LOG.exception("dashboard: cannot read, will retry what=%s", work.__name__)
                await self.clock.sleep(RETRY_MICROS)

    async def give_up(self) -> None:
        """Show the page without jobs, if they cannot be listed."""
        if not self.filled and self.meta.jobs_denied:
            self.filled = True
            await self.feed.filled()

    def deny(self, what: str) -> None:
        """Record that something may not be listed."""
        if what == "follow_jobs":
            self.tell(jobs_denied=DENIED.format("jobs", self.home))
        elif what == "follow_queues":
            self.tell(queues_denied=DENIED.format("LocalQueues", self.home), reads_quotas=False)

    def tell(self, **fields: str | bool | Can) -> None:
        """Change what the page is told besides its data."""
        meta = replace(self.meta, **fields)
        self.dirty = self.dirty or meta != self.meta
        self.meta = meta

    def note(self, what: str, *said: str) -> None:
        """Record what is left out."""
        # The server's refusal to list all jobs is no news to an ordinary user.
        own = ONLY_OWN.format(self.home)
        said = tuple(own if one.startswith(f"only namespace {self.home} is shown:") else plain(one) for one in said)
        if self.notes.get(what, ()) != said:
            self.notes[what] = said
            self.dirty = True

    def trouble(self, what: str, why: str) -> None:
        """Record why something could not be read; empty once it has been."""
        if why:
            self.troubles[what] = why
        else:
            self.troubles.pop(what, None)
        self.stale(next(iter(self.troubles.values()), ""))

    def stale(self, why: str) -> None:
        """Record why the data are out of date; empty if they are not."""
        self.tell(stale=why)

    # Jobs.

    async def follow_jobs(self) -> None:
        """Keep the rows up to date."""
        begins = True
        async for change in job_changes(self.kube, self.clock, self.home):
            self.namespace = change.namespace
            setting: Literal["machine", "cluster"] = "machine" if change.served else "cluster"
            self.tell(setting=setting, namespace=change.namespace, jobs_denied="", alert=change.alert)
            self.note("follow_jobs", *change.notes)
            if not self.filled:
                await self.fill(change)
            elif begins:
                # The server was away: who has left meanwhile is not among the changes.
                listed = {key_of(row) for row in change.rows}
                left = tuple(key for key in self.rows if key not in listed)
                await self.take(replace(change, gone=(*change.gone, *left)))
            else:
                await self.take(change)
            begins = False
            self.trouble("follow_jobs", change.trouble)

    async def fill(self, change: JobsChange) -> None:
        """Take the first rows."""
        with gc_paused:
            await self.take(change)
            self.filled = True
            await self.feed.filled()
            if len(self.rows) >= FROZEN_ROWS:
                gc.freeze()

    async def take(self, change: JobsChange) -> None:
        """Apply a change of the jobs, in steps."""
        rows = await self.reasoned(change.rows)
        happened: list[Occurrence] = []
        now, since = format_instant(self.clock.now()), hour_before(self.clock.now())
        for number, row in enumerate(rows, 1):
            if number % STEP_ROWS == 0:
                await asyncio.sleep(0)
            key = key_of(row)
            if not self.filled:
                happened += at_first(row, since)
            else:
                happened += between(self.rows.get(key), row, now)
            self.places[key] = row.place
            self.send(key, row)
        for number, (key, place) in enumerate(change.places, 1):
            if number % STEP_ROWS == 0:
                await asyncio.sleep(0)
            if key in self.rows:
                self.places[key] = place
                self.moved[key] = None
        for key in change.gone:
            for known in (self.rows, self.places, self.moved):
                known.pop(key, None)
            self.feed.put(key, None)
        await self.send_moved()
        if happened:
            self.changes.add(happened)
        if change.gone or change.ended:
            self.left.set()
        self.dirty = self.dirty or bool(rows or change.gone or change.places)

    async def reasoned(self, rows: tuple[JobSummary, ...]) -> tuple[JobSummary, ...]:
        """The rows, with reasons that have to be looked up; those of earlier rows are looked up again at times."""
        self.lookups += 1
        if self.lookups % ASK_REASONS == 0:
            given = {key_of(row) for row in rows}
            rows = (*rows, *(row for key, row in self.rows.items() if is_unexplained(row) and key not in given))
        unexplained = await in_steps(any_unexplained(rows))
        return await with_reasons(self.kube, rows, self.namespace) if unexplained else rows

    def send(self, key: str, row: JobSummary) -> None:
        """Keep a row, and send it if it differs."""
        self.rows[key] = row
        self.moved.pop(key, None)
        self.feed.put(key, self.encoded(key, row))

    async def send_moved(self) -> None:
        """Send some rows of which only the place changed, the first in line first."""
        keys = tuple(self.moved)
        chosen: list[str] = []
        for start in range(0, len(keys), MOVED_STEP):
            chosen = nsmallest(MOVED_MAX, (*chosen, *keys[start : start + MOVED_STEP]), key=self.place_of)
            await asyncio.sleep(0)
        for key in chosen:
            self.send(key, self.rows[key])

    def place_of(self, key: str) -> int:
        """The place in line of a job."""
        return self.places.get(key) or 0

    def encoded(self, key: str, row: JobSummary) -> bytes:
        """A row in JSON, with its place, and its ClusterQueue if that is known."""
        place = self.places.get(key)
        body = msgspec.json.encode(row if row.place == place else replace(row, place=place))
        owner = self.owners.get((row.namespace, row.queue))
        return b'%b,"clusterQueue":%b}' % (body[:-1], msgspec.json.encode(owner)) if owner else body

    # Queues.

    async def follow_queues(self) -> None:
        """Keep the queues and the machine up to date."""
        while True:
            began = self.clock.moment()
            found = await read_queues(self.kube, self.home)
            self.note("follow_queues", *([found.note] if found.note else []))
            self.tell(queues_denied="", reads_quotas=found.clusterqueues is not None)
            # Over thousands of queues this takes longer than the loop may be held.
            queues, known = await asyncio.to_thread(digested, found)
            owners = {
                (text(one, "metadata", "namespace"), text(one, "metadata", "name")): text(one, "spec", "clusterQueue")
                for one in found.localqueues
            }
            if self.meta.setting == "machine":
                self.nodes = [*await everything(self.kube, NODES)]
            self.dirty = self.dirty or queues != self.queues or known != self.policies
            self.queues, self.policies = queues, known
            self.trouble("follow_queues", "")
            if owners != self.owners:
                self.owners = owners
                await self.send_all()
            await self.clock.sleep(max(QUEUES_MICROS, REST * (self.clock.moment() - began)))

    async def send_all(self) -> None:
        """Send the rows that differ now that other ClusterQueues are known."""
        for number, (key, row) in enumerate(list(self.rows.items()), 1):
            if number % STEP_ROWS == 0:
                await asyncio.sleep(0)
            if self.rows.get(key) is row:
                self.send(key, row)

    # Jobs that have ended.

    async def follow_finished(self) -> None:
        """Keep the finished jobs up to date: the newest, then those that end."""
        limit = FINISHED_MAX
        while True:
            self.left.clear()
            began = self.clock.moment()
            rows, notes = await finished(self.kube, Asked("", self.home), limit, self.clock.now())
            self.note("follow_finished", *notes)
            new = [row for row in rows if row.uid not in self.ends]
            self.add_finished(new)
            limit = FINISHED_MAX // 5
            await self.clock.sleep(max(FINISHED_MICROS, REST * (self.clock.moment() - began)))
            with contextlib.suppress(TimeoutError):
                # A job may come and go between two lists.
                async with timeout(FINISHED_SECONDS[self.meta.setting]):
                    await self.left.wait()
            # The record of a job is written a moment after the job has left the list.
            await self.clock.sleep(FINISHED_MICROS)

    def add_finished(self, rows: list[FinishedJob]) -> None:
        """Send jobs that have ended."""
        if not rows:
            return
        self.ends |= {row.uid: row.ended for row in rows}
        now = self.clock.now()
        self.ends = {uid: at for uid, at in self.ends.items() if len(self.ends) <= FINISHED_MAX or is_recent(at, now)}
        self.changes.add_ends(rows)
        self.feed.add_finished([msgspec.json.encode(row) for row in rows])
        self.dirty = True

    # Rights.

    async def follow_rights(self) -> None:
        """Keep up to date what the page offers; every request is judged again."""
        while True:
            self.tell(can=await rights(self.kube, self.home))
            await self.clock.sleep(RIGHTS_MICROS)

    # The first screen.

    async def follow_overview(self) -> None:
        """Send the overview whenever something in it has changed."""
        shown: Meta | None = None
        while True:
            size = 0
            if self.dirty and (self.filled or self.meta.stale):
                self.dirty = False
                body = await self.overview()
                notes = tuple(dict.fromkeys(one for some in self.notes.values() for one in some))
                meta = replace(self.meta, notes=notes, as_of="")
                self.meta = replace(meta, as_of=format_instant(self.clock.now()))
                self.feed.show(body, again=meta != shown)
                shown, size = meta, len(body)
            await self.clock.sleep(OVERVIEW_MICROS * max(1, size // OVERVIEW_BYTES))

    async def overview(self) -> bytes:
        """The overview without its `meta`."""
        found = await in_steps(totals(self.rows, self.places))
        now = self.clock.now()
        made = Overview(
            counts_of(found, sum(is_recent(at, now) for at in self.ends.values())),
            self.queues,
            self.policies,
            self.raw(found.longest),
            self.raw(found.next),
            self.changes.shown(now),
            machine_use(self.nodes, found, self.disk(), self.queues, partial=bool(self.namespace)),
        )
        return msgspec.json.encode(made)

    def raw(self, rows: Iterable[JobSummary]) -> list[msgspec.Raw]:
        """Rows as the table has them."""
        return [msgspec.Raw(self.encoded(key_of(row), row)) for row in rows]


def plain(note: str) -> str:
    """A note, with the server's refusal in plain words."""
    return FORBIDDEN.sub(r": you may not read \g<resource>", note)


def is_unexplained(row: JobSummary) -> bool:
    """Whether the reason of a row has to be looked up."""
    return row.reason == UNQUEUED or row.reason.startswith(UNNAMED)


def any_unexplained(rows: Sequence[JobSummary]) -> Generator[None, None, bool]:
    """Whether the reason of any row has to be looked up, in steps."""
    for start in range(0, len(rows), MOVED_STEP):
        if any(map(is_unexplained, rows[start : start + MOVED_STEP])):
            return True
        yield
    return False


def digested(found: Queues) -> tuple[tuple[QueueRow, ...], dict[str, Policy]]:
    """The tree of queues, and their policies."""
    return tuple(map(queue_row, found.usage())), policies(found.clusterqueues or (), found.localqueues)


def personal(meta: Meta, user: str, *, view_only: bool) -> bytes:
    """The `meta` of a session in JSON."""
    can = Can(logs=meta.can.logs) if view_only else meta.can
    return msgspec.json.encode(replace(meta, user=user or meta.user, view_only=view_only, can=can))
