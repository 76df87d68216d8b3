"""The manager follows a cluster over HTTP, says whether it is ready, and stops when told or when it cannot go on."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from pykueue.api.config.file import MINIMAL, read_configuration
from pykueue.app.controllers import CONTROLLERS
from pykueue.app.manager import CERT_DIR, Manager, ManagerPlan, attend
from pykueue.base.clock import SystemClock
from pykueue.kube.certs import GivenCertificates, OwnCertificates
from pykueue.kube.client.connection import Connection
from pykueue.kube.client.credentials import Credential, Fixed
from pykueue.kube.lease import Always, Election
from tests.fakes.tinyapi import TinyApi

QUIET = """\
health: {healthProbeBindAddress: 127.0.0.1:0}
metrics: {bindAddress: 127.0.0.1:0}
"""
ALONE = QUIET + "leaderElection: {leaderElect: false}\n"
NOWHERE = Connection("http://127.0.0.1:9", Fixed(Credential()))
UNHOOKED = frozenset(CONTROLLERS) - {"webhooks"}


def plan(text: str = ALONE, connection: Connection = NOWHERE, **more: Any) -> ManagerPlan:
    return ManagerPlan(read_configuration(MINIMAL + text), connection, **more)


def manager(text: str = ALONE, **more: Any) -> Manager:
    return Manager(plan(text, **more), SystemClock())


async def test_it_leads_always_or_by_election() -> None:
    assert isinstance(manager().candidacy(), Always)
    elected = manager(QUIET + "leaderElection: {leaderElect: true, resourceNamespace: there, resourceName: ours}\n")
    assert isinstance(elected.candidacy(), Election)


async def test_its_certificate_is_its_own_or_given_or_not_needed(tmp_path: Path) -> None:
    assert isinstance(manager().certificates, OwnCertificates)
    given = manager(ALONE + f"internalCertManagement: {{enable: false}}\nwebhook: {{certDir: {tmp_path}}}\n")
    assert isinstance(given.certificates, GivenCertificates)
    assert given.certificates.folder == tmp_path
    usual = manager(ALONE + "internalCertManagement: {enable: false}\n")
    assert isinstance(usual.certificates, GivenCertificates)
    assert usual.certificates.folder == CERT_DIR
    assert manager(controllers=UNHOOKED, secure_metrics=False).certificates is None


async def test_it_is_ready_once_it_has_listed_everything_and_stops_when_told() -> None:
    async with TinyApi().serve() as api, aiohttp.ClientSession() as client:
        made = manager(connection=api.connection(), controllers=UNHOOKED, secure_metrics=False)
        assert any("workloads" in line for line in made.missing())
        stop = asyncio.Event()
        running = asyncio.create_task(made.run(stop))
        async with asyncio.timeout(60):
            await made.controllers.cluster.until_synced()
        assert list(made.missing()) == []
        async with client.get(f"http://127.0.0.1:{made.endpoints.health_port}/readyz") as answer:
            assert answer.status == 200
        stop.set()
        await running
        assert any("workloads" in path for path in api.asked("GET"))


async def test_a_signal_stops_it() -> None:
    async with TinyApi().serve() as api:
        chosen = plan(connection=api.connection(), controllers=UNHOOKED, secure_metrics=False)
        running = asyncio.create_task(attend(chosen))
        while not api.asked("GET"):
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await running == 0


async def test_it_does_not_start_on_a_port_in_use(caplog: pytest.LogCaptureFixture) -> None:
    async with TinyApi().serve() as api:
        port = api.url.rpartition(":")[2]
        text = ALONE.replace("healthProbeBindAddress: 127.0.0.1:0", f"healthProbeBindAddress: 127.0.0.1:{port}")
        assert await attend(plan(text, api.connection(), controllers=UNHOOKED, secure_metrics=False)) == 1
    assert "manager: cannot start" in caplog.text
