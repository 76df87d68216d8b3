"""Build and run `pykueue manager`: the controllers on a cluster, with leader election, webhooks and metrics."""

import asyncio
import logging
import signal
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import uvloop

from pykueue.api.config.file import Loaded
from pykueue.api.config.types import WEBHOOK_SECRET, WEBHOOK_SERVICE
from pykueue.app.controllers import CONTROLLERS, Controllers, LostError
from pykueue.app.queries import queries
from pykueue.base.clock import Clock, SystemClock
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS
from pykueue.controllers.endpoints.aggregatedserver import AggregatedServer
from pykueue.controllers.endpoints.endpoints import EndpointError, Endpoints, listening
from pykueue.controllers.endpoints.frontproxy import FrontProxy
from pykueue.controllers.endpoints.rights import Rights
from pykueue.controllers.endpoints.webhooks import Webhooks
from pykueue.controllers.queries.pendingworkloads import PendingWorkloads
from pykueue.kube.certs import Certificates, GivenCertificates, Names, OwnCertificates
from pykueue.kube.client.connection import Connection
from pykueue.kube.client.http import HttpKube
from pykueue.kube.lease import Always, Election, Leadership
from pykueue.kube.tls import TlsError, server_context

LOG: Final = logging.getLogger(__name__)

CERT_DIR: Final = Path(tempfile.gettempdir()) / "k8s-webhook-server" / "serving-certs"
LOOPBACK: Final = ("localhost", "127.0.0.1")
"""Names of the webhook server for an API server on the same machine."""


class ManagerPlan(Frozen):
    """The settings of a manager."""

    loaded: Loaded
    connection: Connection
    controllers: frozenset[str] = frozenset(CONTROLLERS)
    journal: Path | None = None
    secure_metrics: bool = True
    identity: str = "pykueue"
    seed: int = 0
    """Seed for the jitter of backoffs."""
    merged_events: bool = False
    """Whether an admission has one Event, also for the reservation in the same write."""


class Manager:
    """The manager of a cluster."""

    def __init__(self, plan: ManagerPlan, clock: Clock) -> None:
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
            gathers=True,
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
            merged_events=plan.merged_events,
        )
        for kube in (self.reading, writing):
            kube.observe = self.controllers.metrics.self_metrics.requested
        context = server_context(configuration.tls)
        self.certificates = self.own_or_given(context)
        # The API server reaches a manager by its webhooks and by its aggregated APIs, or by neither.
        called = "webhooks" in plan.controllers
        self.aggregated = self.aggregated_server() if called else None
        self.endpoints = Endpoints(
            listening(
                configuration, webhook=called, secure=plan.secure_metrics, aggregated=self.aggregated is not None
            ),
            clock,
            self.reading,
            webhooks=Webhooks(self.controllers.admission.world),
            context=context,
            page=self.controllers.metrics.steps,
            missing=self.missing,
            aggregated=self.aggregated,
            reviewed=self.controllers.metrics.self_metrics.reviewed,
        )

    def aggregated_server(self) -> AggregatedServer | None:
        """The server of our aggregated APIs; None if there are none."""
        if not self.plan.loaded.gates.values["VisibilityOnDemand"]:
            return None
        controllers = self.controllers
        pending = PendingWorkloads(lambda: controllers.cluster, lambda: controllers.pump.engine)
        proxy = FrontProxy(self.reading, self.clock, self.configuration.tls)
        if self.certificates is not None:
            self.certificates.shown = proxy.certified
        groups = (pending.group, queries(lambda: controllers))
        return AggregatedServer(groups, proxy, Rights(self.reading, self.clock))

    def candidacy(self) -> Leadership:
        """Leader election as configured."""
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
        """The source of our serving certificate; None if nothing is served over https."""
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
        """Why the manager is not ready yet."""
        if self.certificates is not None and not self.certificates.ready.is_set():
            yield self.certificates.trouble
        yield from self.controllers.cluster.missing()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set; raises LostError if leadership is lost."""
        await self.endpoints.start()
        try:
            if self.certificates is not None:
                self.controllers.begin("certificates", self.certificates.run)
            if self.aggregated is not None:
                self.controllers.begin("front proxy", self.aggregated.proxy.run)
            self.controllers.start()
            self.controllers.begin("freeze", self.controllers.freeze)
            self.controllers.begin("watchdog", self.controllers.metrics.watchdog.run)
            await self.controllers.attend(stop)
        finally:
            await self.controllers.shut_down()
            await self.endpoints.stop()
            await self.reading.close()


async def attend(plan: ManagerPlan) -> int:
    """Run the manager until a signal; return the exit code."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await Manager(plan, SystemClock()).run(stop)
    except LostError as error:
        LOG.error("manager: lost leadership, stopping identity=%s: %s", plan.identity, error)
        return 1
    except (EndpointError, TlsError) as error:
        LOG.error("manager: cannot start: %s", error)
        return 1
    LOG.info("manager: stopped identity=%s", plan.identity)
    return 0


def serve(plan: ManagerPlan) -> int:
    """Run the manager in a new event loop until a signal; return the exit code."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(attend(plan))
