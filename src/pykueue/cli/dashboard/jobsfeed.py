"""The jobs of a server as a stream of changes: from lists where the server makes them itself, else from watches."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Final

from msgspec.structs import replace

from pykueue.api.jobsummary import SUMMARIES, JobSummary
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen
from pykueue.base.turns import in_steps
from pykueue.base.units import MICROS
from pykueue.cli.jobs.cluster import NO_PROBLEMS, NO_STATES
from pykueue.cli.jobs.clusterwatch import ClusterWatch
from pykueue.cli.jobs.servedrows import ServedRows, key_of
from pykueue.cli.jobs.source import Asked, allowed, own_list
from pykueue.cli.jobs.watch import GONE
from pykueue.cli.queues.leader import LeaderWatch
from pykueue.cli.queues.places import places
from pykueue.kube.client.http import HttpKube
from pykueue.kube.informer import gc_paused
from pykueue.kube.port import JOBS

POLL_MICROS: Final = 1 * MICROS
"""How often a server that lists jobs itself is asked at most."""
REST: Final = 20
"""A list that took long is asked for again only after this many times as long."""
REST_MICROS_MAX: Final = 15 * MICROS
TICK_MICROS: Final = MICROS // 5
"""How often the changes of other servers are passed on."""
PLACES_TICKS: Final = 25
"""Ticks after which places in line are asked for again."""


class JobsChange(Frozen):
    """What has changed since the last one."""

    rows: tuple[JobSummary, ...] = ()
    places: tuple[tuple[str, int | None], ...] = ()
    """Keys of rows of which only the place differs, and the new place."""
    gone: tuple[str, ...] = ()
    ended: bool = False
    """Whether jobs have ended that may not have been listed before."""
    served: bool = True
    """Whether the server lists jobs itself, as one machine does."""
    namespace: str = ""
    """The one that is shown; empty for all."""
    notes: tuple[str, ...] = ()
    trouble: str = ""
    """Why the rows are out of date; empty if they are not."""
    alert: str = ""
    """A warning that no manager is running; empty if one is, or the Lease cannot be read."""


async def job_changes(kube: HttpKube, clock: Clock, home: str) -> AsyncIterator[JobsChange]:
    """The jobs that this user may see, then what changes; raises `KubeError`."""
    async for change in served_changes(kube, clock, Asked("", home)):
        yield change
    async for change in cluster_changes(kube, clock, Asked("", home)):
        yield change


async def served_changes(kube: HttpKube, clock: Clock, asked: Asked) -> AsyncIterator[JobsChange]:
    """The jobs of a server that lists them itself; ends at once if it does not."""
    known = ServedRows()
    notes: tuple[str, ...] = ()
    while True:
        began = clock.moment()
        own = await own_list(kube, SUMMARIES, asked, {})
        if own is None:
            return
        if own[2]:
            # From now on only the user's own namespace is asked for.
            notes, asked = own[2], replace(asked, namespace=own[1])
        # Until the rows are taken over: scanning all of them takes longer than the loop may be held.
        with gc_paused:
            found = await in_steps(known.take(own[0]))
            del own
            took = clock.moment() - began
            yield JobsChange(found.rows, found.places, found.gone, namespace=asked.namespace, notes=notes)
        await clock.sleep(min(max(POLL_MICROS, REST * took), REST_MICROS_MAX))


async def cluster_changes(kube: HttpKube, clock: Clock, asked: Asked) -> AsyncIterator[JobsChange]:
    """The jobs of a server that does not list them itself, by watches."""
    _, namespace, denied = await allowed(asked, lambda one: first_page(kube, one))
    watch = ClusterWatch(kube, clock, namespace)
    watch.start()
    try:
        while not watch.complete:
            await clock.sleep(TICK_MICROS)
        ticks = PLACES_TICKS
        keys: dict[str, str] = {}
        before: dict[str, int] = {}
        notes = denied
        leader, alert = LeaderWatch(kube, clock), ""
        while True:
            made = await in_steps(watch.known.steps())
            ended = bool(watch.known.ended)
            watch.known.ended.clear()
            rows = [replace(row, place=before.get(uid)) for uid, row in made.items() if row is not None]
            gone = tuple(keys.pop(uid) for uid, row in made.items() if row is None and uid in keys)
            keys |= {uid: key_of(row) for uid, row in made.items() if row is not None}
            moved: tuple[tuple[str, int | None], ...] = ()
            ticks += 1
            if ticks >= PLACES_TICKS and not watch.failing:
                ticks = 0
                now = await places(kube, watch.known.waiting_in())
                moved = tuple(
                    (key, now.get(uid))
                    for uid, key in keys.items()
                    if uid in watch.known.rows and now.get(uid) != before.get(uid)
                )
                before = now
                alert = await leader.note()
                notes = (*denied, *unread(watch))
            trouble = GONE if watch.failing else watch.jobs.trouble
            yield JobsChange(tuple(rows), moved, gone, ended, False, namespace, notes, trouble, alert)
            await clock.sleep(TICK_MICROS)
    finally:
        watch.stop()


def unread(watch: ClusterWatch) -> Iterator[str]:
    """Notes on what cannot be watched besides the jobs."""
    for informer, note in ((watch.workloads, NO_STATES), (watch.pods, NO_PROBLEMS)):
        if informer.trouble:
            yield f"{note}: {informer.trouble}"


async def first_page(kube: HttpKube, namespace: str) -> bytes:
    """The first Jobs of a namespace; raises `DeniedError` if they may not be listed."""
    async for page in kube.pages(JOBS, namespace):
        await asyncio.sleep(0)
        return page
    return b""
