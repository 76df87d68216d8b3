"""Who are we on this machine, whose is the data folder, how long is it trusted, what if there is much to read?"""

import asyncio
import http.client
import os
import pwd
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from pykueue.api.config.file import MINIMAL
from pykueue.api.config.unbuilt import read_built
from pykueue.api.core import Tree
from pykueue.api.names import Annotation
from pykueue.apiserver.auth.users import ADMIN
from pykueue.apiserver.http.server import bind
from pykueue.apiserver.storage.datafile import Lock
from pykueue.apiserver.storage.records import StoreError
from pykueue.app import machine
from pykueue.app.machine import Up, UpPlan
from pykueue.base.clock import SystemClock
from pykueue.base.datafolder import DATABASE
from pykueue.base.units import MICROS, Instant
from pykueue.cli.commands.status import state_of
from pykueue.cli.localserver.server import READING, UpOptions, greeting
from pykueue.cli.queues.examples import example
from pykueue.cli.queues.state import shown
from pykueue.kube.client.http import HttpKube
from pykueue.kube.client.kubeconfig import connection
from pykueue.kube.port import JOBS, LOCAL_QUEUES, WORKLOADS
from pykueue.node.machine import Machine
from pykueue.node.setup import accounts
from tests import builders

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a job as another user")


@contextmanager
def up_in(folder: Path) -> Iterator[Up]:
    """A system on a folder; nothing of it acts."""
    loaded, mistakes = read_built(MINIMAL.encode())
    assert loaded is not None, mistakes

    async def make() -> Up:
        return Up(UpPlan(loaded, folder, Machine(1000, 1 << 30)), SystemClock(), listening)

    with closing(bind("127.0.0.1", 0)) as listening, asyncio.Runner() as runner:
        up = runner.run(make())
        try:
            yield up
        finally:
            runner.run(up.local.close())


@AS_ROOT
def test_a_pod_of_who_is_removed_runs_as_before_but_has_no_folders_of_the_machine(tmp_path: Path) -> None:
    pod: Tree = {"metadata": {"annotations": {Annotation.CREATOR: "nobody"}}}
    with up_in(tmp_path) as up:
        assert up.account(pod) is None
        up.users.add("nobody", role="admin")
        assert up.may_mount(pod)
        up.users.revoke("nobody")
        account = up.account(pod)
        assert account is not None
        assert account.uid == pwd.getpwnam("nobody").pw_uid
        assert not up.may_mount(pod)


def test_it_starts_as_a_user_without_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless(number: int) -> pwd.struct_passwd:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr(pwd, "getpwuid", nameless)
    accounts.own.cache_clear()
    try:
        with up_in(tmp_path) as up:
            up.admit_admin()
            assert up.users.all()[ADMIN].os_user == str(os.geteuid())
    finally:
        accounts.own.cache_clear()


def test_in_a_folder_that_another_holds_nothing_is_written(tmp_path: Path) -> None:
    with closing(Lock(tmp_path / DATABASE)), pytest.raises(StoreError, match="in use by process"), up_in(tmp_path):
        raise AssertionError("the folder is another's")
    assert [one.name for one in tmp_path.iterdir()] == [f"{DATABASE}.lock"]


class Shifted(SystemClock):
    """A clock whose date is behind until it is put right."""

    behind = 280 * 24 * 3600 * MICROS

    def now(self) -> Instant:
        return Instant(super().now() - self.behind)


async def test_the_certificate_is_renewed_while_it_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "RENEW_MICROS", MICROS // 20)
    loaded, mistakes = read_built(MINIMAL.encode())
    assert loaded is not None, mistakes
    clock = Shifted()
    up = Up(UpPlan(loaded, tmp_path, Machine(1000, 1 << 30)), clock, bind("127.0.0.1", 0))
    token = up.users.add(ADMIN, role="admin")
    trust = ssl.create_default_context(cadata=up.authority.certificate.decode())

    def connected() -> tuple[http.client.HTTPSConnection, str]:
        """A connection, and the serial number of the certificate that the server showed."""
        made = http.client.HTTPSConnection("127.0.0.1", up.port, context=trust, timeout=60)
        made.connect()
        found = made.sock.getpeercert()
        assert found
        return made, str(found["serialNumber"])

    def healthy(connection: http.client.HTTPSConnection) -> bool:
        # A connection without a user would be closed after some seconds.
        connection.request("GET", "/healthz", headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().read() == b"ok"

    await up.start()
    try:
        stored = (tmp_path / "tls/server.crt").read_bytes()
        first, serial = await asyncio.to_thread(connected)
        assert await asyncio.to_thread(healthy, first)
        clock.behind = 0
        async with asyncio.timeout(60):
            while (tmp_path / "tls/server.crt").read_bytes() == stored:
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.1)
        second, renewed = await asyncio.to_thread(connected)
        assert renewed != serial
        for connection in (first, second):
            assert await asyncio.to_thread(healthy, connection)
            connection.close()
    finally:
        await up.stop()


async def test_it_serves_while_it_reads_and_admits_nothing_before_it_has_read_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "READ_SECONDS", 0.1)
    loaded, mistakes = read_built(MINIMAL.encode())
    assert loaded is not None, mistakes
    up = Up(UpPlan(loaded, tmp_path, Machine(4000, 1 << 30)), SystemClock(), bind("127.0.0.1", 0))
    workloads, reading = up.local.controllers.cluster.workloads, asyncio.Event()

    async def follow_late() -> None:
        await reading.wait()
        await type(workloads).run(workloads)

    async def job() -> Any:
        return msgspec.json.decode(await up.admin.get(JOBS, "early", "default"))

    async def said() -> str:
        """What the greeting and `pykueue status` say."""
        wanted = cast("UpOptions", SimpleNamespace(data=tmp_path, detached=True, on_stop="keep"))
        hello = greeting(up, wanted, kubeconfig, await up.listed(LOCAL_QUEUES), ())
        kube = HttpKube(connection(str(kubeconfig)), SystemClock())
        try:
            return "\n".join((hello, *shown(await state_of(kube, "default"))))
        finally:
            await kube.close()

    monkeypatch.setattr(workloads, "run", follow_late)
    kubeconfig = up.admit_admin()
    await up.start()
    try:
        await up.create_missing("the example", example({"cpu": 4000, "memory": 1 << 30}))
        pod = builders.pod_spec(command=["true"], resources={"requests": {"cpu": "1"}})
        early = builders.job("early", "team-a", "default", template={"spec": pod})
        await up.admin.create(JOBS, msgspec.json.encode(early), "default")
        await asyncio.sleep(0.5)
        assert [*up.missing()] == ["workloads.kueue.x-k8s.io: not listed yet"]
        status = await said()
        assert READING in status
        assert "not ready: jobs are accepted but not admitted yet; workloads.kueue.x-k8s.io: not listed yet" in status
        assert (await job())["spec"]["suspend"] is True
        assert b'"items":[]' in b"".join([page async for page in up.admin.pages(WORKLOADS)])
        reading.set()
        async with asyncio.timeout(60):
            while (await job())["spec"]["suspend"]:
                await asyncio.sleep(0.05)
        assert not [*up.missing()]
        status = await said()
        assert READING not in status
        assert "not ready" not in status
    finally:
        await up.stop()
