"""What runs, and how is it put together? Here: the controllers, on any API, and the manager of a cluster around them.

`applocal` puts the same controllers on an API of their own.
"""

import asyncio
import gc
import logging
import signal
import ssl
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import uvloop

from pykueue.api.config import WEBHOOK_SECRET, WEBHOOK_SERVICE
from pykueue.api.configfile import Loaded
from pykueue.base.clock import Clock, SystemClock
from pykueue.base.struct import Frozen
from pykueue.base.timers import waited
from pykueue.base.units import MICROS
from pykueue.controllers.admission import Admission
from pykueue.controllers.barepods import BarePods
from pykueue.controllers.cluster import Cluster, settings
from pykueue.controllers.endpoints import EndpointError, Endpoints, listening
from pykueue.controllers.jobs import Jobs
from pykueue.controllers.journalfile import JournalFile
from pykueue.controllers.metrics import Metrics
from pykueue.controllers.provisioning import Provisioning
from pykueue.controllers.scheduling import Pump
from pykueue.controllers.status import Statuses
from pykueue.controllers.webhooks import Webhooks
from pykueue.controllers.workloads import Workloads
from pykueue.jobs.batch import BATCH
from pykueue.kube.certs import Certificates, GivenCertificates, Names, OwnCertificates
from pykueue.kube.connection import Connection
from pykueue.kube.http import HttpKube
from pykueue.kube.lease import Always, Election, Fenced, Leadership
from pykueue.kube.port import Kube
from pykueue.kube.tls import TlsError, server_context

LOG: Final = logging.getLogger(__name__)

CONTROLLERS: Final = ("scheduling", "jobs", "workloads", "checks", "status", "pods", "webhooks")
"""The parts that can be turned off."""
DECIDING: Final = frozenset({"scheduling", "workloads", "status"})
"""The parts that need the engine: its cycles, what it says about workloads, and its picture of the queues."""
LEAD: Final = "lead"
TAKE_OVER: Final = "take over"
LANDING_SECONDS: Final = 1.0
"""How long writes on their way are waited for at the end."""
GC_THRESHOLDS: Final = (200_000, 20, 100)
"""Objects that form cycles are rare here, and a full collection takes longer than a cycle of decisions."""
CERT_DIR: Final = Path(tempfile.gettempdir()) / "k8s-webhook-server" / "serving-certs"
LOOPBACK: Final = ("localhost", "127.0.0.1")
"""Where the webhooks are reached when the API server is on the same machine."""


class Plan(Frozen):
    """How to run the manager."""

    loaded: Loaded
    connection: Connection
    controllers: frozenset[str] = frozenset(CONTROLLERS)
    journal: Path | None = None
    secure_metrics: bool = True
    identity: str = "pykueue"
    seed: int = 0
    """Feeds the jitter of backoffs."""


class LostError(Exception):
    """This process leads no more, and must end."""


class Controllers:
    """What is the same wherever we run: a picture of the cluster, the engine, and all who act on what it decides."""

    def __init__(
        self,
        reading: Kube,
        writing: Kube,
        leadership: Leadership,
        clock: Clock,
        loaded: Loaded,
        *,
        parts: frozenset[str] = frozenset(CONTROLLERS),
        journal: Path | None = None,
        identity: str = "pykueue",
        seed: int = 0,
    ) -> None:
        self.writing = writing
        self.leadership = leadership
        self.parts = parts
        self.cluster = Cluster(
            Fenced(writing, leadership),
            reading,
            clock,
            settings(loaded, seed, scheduling="scheduling" in parts),
            instance=identity,
            with_jobs="jobs" in parts,
        )
        self.metrics = Metrics(loaded)
        self.journal = None if journal is None else JournalFile(journal)
        self.pump = Pump(self.cluster, self.metrics, self.journal)
        self.metrics.watch(self.cluster, self.pump.engine)
        self.duties: dict[str, Callable[[], Coroutine[None, None, None]]] = {}
        """What only a leader does, by name."""
        self.tasks: dict[str, asyncio.Task[None]] = {}
        """What is being done."""
        self.stopping = False
        if "jobs" in parts:
            jobs = Jobs(self.cluster, (BATCH,), self.pump.stopped)
            self.duties["jobs"] = jobs.run
            self.metrics.workings.controllers += jobs.controllers
        if "workloads" in parts:
            workloads = Workloads(self.cluster, self.pump)
            self.duties["workloads"] = workloads.run
            self.metrics.workings.controllers += (workloads.controller, workloads.classes)
        if "checks" in parts:
            provisioning = Provisioning(self.cluster)
            self.duties["checks"] = provisioning.run
            self.metrics.workings.controllers += (provisioning.controller, provisioning.checks)
        if "status" in parts:
            self.duties["status"] = Statuses(self.cluster, self.pump).run
        if "pods" in parts:
            self.duties["pods"] = BarePods(self.cluster).run
        for controller in self.metrics.workings.controllers:
            controller.observe = self.metrics.workings.reconciled
        self.admission = Admission(reading, self.cluster, loaded.configuration, loaded.gates.values)

    def start(self) -> None:
        """Begin to follow the cluster, to decide, and to stand for election."""
        self.begin("follow", self.cluster.follow)
        self.begin("events", self.cluster.events.run)
        self.begin("decide", self.pump.run)
        self.begin(LEAD, lambda: self.leadership.run(self.started, self.stopped))

    async def attend(self, stop: asyncio.Event) -> None:
        """Return when told to stop; raises what any of us fails with, and LostError when another leads before that."""
        self.begin("stop", stop.wait)
        while "stop" in self.tasks:
            done, _ = await asyncio.wait(self.tasks.values(), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                del self.tasks[task.get_name()]
                if task.cancelled():
                    # `stopped` has cancelled it; what the election ended with says why.
                    continue
                task.result()
                if task.get_name() == LEAD and "stop" in self.tasks:
                    raise LostError("the election is over; the log says why")

    async def freeze(self) -> None:
        """Have the garbage collector pass over what stays: the first picture is large, and almost none of it goes."""
        await self.cluster.until_synced()
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)

    def begin(self, name: str, work: Callable[[], Coroutine[None, None, object]]) -> None:
        """Do something until the end."""

        async def done() -> None:
            await work()

        self.tasks[name] = asyncio.get_running_loop().create_task(done(), name=name)

    def started(self) -> None:
        """From now on this process leads."""
        if self.parts & DECIDING:
            self.begin(TAKE_OVER, self.pump.take_over)
        for name, duty in self.duties.items():
            self.begin(name, partial(self.when_synced, duty))

    async def when_synced(self, duty: Callable[[], Coroutine[None, None, None]]) -> None:
        """Do something once there is a first full picture."""
        await self.cluster.until_synced()
        await duty()

    def stopped(self, reason: str) -> None:
        """From now on this process may write no more."""
        for name in (TAKE_OVER, *self.duties):
            if name in self.tasks:
                self.tasks[name].cancel()
        self.pump.lead(False)
        if not self.stopping:
            raise LostError(reason)

    async def land(self) -> None:
        """Stop deciding, let the writes on their way arrive, let go of the lease, end everything."""
        self.stopping = True
        await self.end("decide", TAKE_OVER, *self.duties)
        flights = tuple(self.pump.flights.tasks.values())
        if flights:
            await waited(flights, LANDING_SECONDS)
        await self.end("events")
        # Whoever leads next must not meet a write of ours.
        self.pump.flights.abandon()
        await self.writing.close()
        await self.leadership.release()
        await self.end(*self.tasks)
        if self.journal is not None:
            self.journal.close()

    async def end(self, *names: str) -> None:
        """Stop doing something."""
        await end(self.tasks, *names)


async def end(tasks: dict[str, asyncio.Task[None]], *names: str) -> None:
    """Stop tasks, and take them out of those that are under way."""
    ended = [tasks.pop(name) for name in names if name in tasks]
    for task in ended:
        task.cancel()
    if ended:
        await asyncio.wait(ended)


class Manager:
    """Everything that a cluster needs of us, in one process."""

    def __init__(self, plan: Plan, clock: Clock) -> None:
        self.plan = plan
        configuration = plan.loaded.configuration
        self.configuration = configuration
        self.clock = clock
        self.reading = HttpKube(plan.connection, clock)
        leadership = self.candidacy()
        pressure = configuration.client_connection
        writing = HttpKube(
            plan.connection,
            clock,
            qps=pressure.qps if pressure.qps > 0 else None,
            burst=pressure.burst,
            may_write=lambda: leadership.leading,
        )
        self.controllers = Controllers(
            self.reading,
            writing,
            leadership,
            clock,
            plan.loaded,
            parts=plan.controllers,
            journal=plan.journal,
            identity=plan.identity,
            seed=plan.seed,
        )
        for kube in (self.reading, writing):
            kube.observe = self.controllers.metrics.workings.requested
        context = server_context(configuration.tls)
        self.certificates = self.own_or_given(context)
        self.endpoints = Endpoints(
            listening(configuration, webhook="webhooks" in plan.controllers, secure=plan.secure_metrics),
            clock,
            self.reading,
            webhooks=Webhooks(self.controllers.admission.world),
            context=context,
            page=self.controllers.metrics.page,
            missing=self.missing,
        )

    def candidacy(self) -> Leadership:
        """How this process comes to lead."""
        election = self.configuration.leader_election
        if not election.leader_elect:
            return Always()
        return Election(
            lambda: HttpKube(self.plan.connection, self.clock),
            self.clock,
            self.plan.identity,
            election.resource_namespace or self.configuration.namespace,
            election.resource_name,
            lease=election.lease_duration / MICROS,
            renew=election.renew_deadline / MICROS,
            retry=election.retry_period / MICROS,
        )

    def own_or_given(self, context: ssl.SSLContext) -> Certificates | None:
        """Where the certificate of our servers comes from; none where nothing is served over https."""
        if "webhooks" not in self.plan.controllers and not self.plan.secure_metrics:
            return None
        management = self.configuration.internal_cert_management
        if not management.enable:
            folder = self.configuration.webhook.cert_dir or CERT_DIR
            return GivenCertificates(Path(folder), self.clock, context)
        names = Names(
            self.configuration.namespace,
            management.webhook_service_name or WEBHOOK_SERVICE,
            management.webhook_secret_name or WEBHOOK_SECRET,
            LOOPBACK,
        )
        return OwnCertificates(self.reading, self.clock, context, names)

    def missing(self) -> Iterator[str]:
        """What keeps us from being ready."""
        if self.certificates is not None and not self.certificates.ready.is_set():
            yield self.certificates.trouble
        yield from self.controllers.cluster.missing()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until told to stop; raises LostError when another leads before that."""
        await self.endpoints.start()
        try:
            if self.certificates is not None:
                self.controllers.begin("certificates", self.certificates.run)
            self.controllers.start()
            self.controllers.begin("freeze", self.controllers.freeze)
            self.controllers.begin("watchdog", self.controllers.metrics.watchdog.run)
            await self.controllers.attend(stop)
        finally:
            await self.controllers.land()
            await self.endpoints.stop()
            await self.reading.close()


async def attend(plan: Plan) -> int:
    """Run the manager until a signal; the exit code."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await Manager(plan, SystemClock()).run(stop)
    except LostError as error:
        LOG.error("leads no more, and ends: %s", error)
        return 1
    except (EndpointError, TlsError) as error:
        LOG.error("%s", error)
        return 1
    LOG.info("stopped")
    return 0


def serve(plan: Plan) -> int:
    """Run the manager of a cluster until a signal; the exit code."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(attend(plan))
