"""Does `pykueue dashboard` open a page for its user, and for that user alone? Real processes and a real server."""

import asyncio
import re
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiohttp import web
from click.testing import CliRunner

from pykueue.cli.main import cli
from tests.cli.clusters import kubeconfig_of
from tests.cli.machine import SOON, Machine, machine_in
from tests.fakes.tinyapi import TinyApi, status
from tests.web.visitor import visitor


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with machine_in(tmp_path_factory.mktemp("dashboard")) as made:
        made.up()
        done = made.run("run", "--detach", "-q", "team-a", "--cpu", "64", "--name", "waits", "--", "true")
        assert done.returncode == 0, done.stderr
        yield made


class Opened:
    """A dashboard that runs, and the file that opens it."""

    def __init__(self, process: "subprocess.Popen[str]", path: Path) -> None:
        self.process = process
        self.path = path
        text = path.read_text()
        self.base = str(re.search(r'action="(http://127\.0\.0\.1:\d+)/ui/enter"', text)[1])  # type: ignore[index]  # it is there
        self.code = str(re.search(r'name="code" value="([^"]+)"', text)[1])  # type: ignore[index]  # it is there


@contextmanager
def opened(machine: Machine, *flags: str) -> Iterator[Opened]:
    process = machine.start("dashboard", "--no-browser", *flags)
    assert process.stdout is not None
    try:
        yield Opened(process, Path(process.stdout.readline().strip()))
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SOON)
        assert process.returncode in (0, 1), (out, err)


def test_a_session_from_the_file_to_ctrl_c(machine: Machine) -> None:
    with opened(machine) as found:
        assert found.path.stat().st_mode & 0o777 == 0o600
        assert found.path.parent.stat().st_mode & 0o777 == 0o700
        arguments = Path(f"/proc/{found.process.pid}/cmdline").read_text()
        assert found.code not in arguments

        async def visit() -> None:
            async with visitor(found.base) as admin:
                assert (await admin.ask("GET", "/ui/"))[0] == 401
                assert await admin.enter(found.code) == 200
                assert await admin.enter(found.code) == 403
                assert (await admin.ask("GET", "/ui/"))[0] == 200
                async with admin.streaming() as stream:
                    await stream.until(lambda seen: seen.rows and seen.overview.get("machine"))
                    assert stream.overview["meta"]["server"] == f"https://127.0.0.1:{machine.port}"
                    assert stream.overview["meta"]["user"] == "admin"
                    assert stream.rows["default/waits"]["state"] == "PENDING"
                    assert stream.overview["machine"]["disk"]["free"] > 0
                assert (await admin.get("explain?kind=job&namespace=default&name=waits"))[0] == 200
                assert (await admin.ask("GET", "/api/v1/pods"))[0] == 401, "it is no proxy, and the cookie is for /ui"

        asyncio.run(visit())
        assert not found.path.exists(), "the file is removed with its use"
    assert found.process.returncode == 0


def test_the_namespace_that_is_named_is_that_of_the_session(machine: Machine) -> None:
    with opened(machine, "-n", "vision") as found:

        async def visit() -> None:
            async with visitor(found.base) as admin:
                assert await admin.enter(found.code) == 200
                async with admin.streaming() as stream:
                    await stream.until(lambda seen: bool(seen.overview))
                    assert stream.overview["meta"]["home"] == "vision"

        asyncio.run(visit())


def test_two_restricted_sessions_and_their_length(machine: Machine) -> None:
    with opened(machine, "--view-only", "--session", "30m") as wall:

        async def visit() -> None:
            async with visitor(wall.base) as screen:
                assert await screen.enter(wall.code) == 200
                act = {"verb": "cancel", "namespace": "default", "name": "waits"}
                assert (await screen.post("act", act))[0] == 403
                (cookie,) = screen.session.cookie_jar
                assert cookie["max-age"] == "1800"

        asyncio.run(visit())


def test_the_page_of_the_server_itself(machine: Machine) -> None:
    done = machine.run("dashboard", "--code", "--view-only")
    assert done.returncode == 0, done.stderr
    base = f"https://127.0.0.1:{machine.port}"
    assert f"enter this code at {base}/ui/enter within a minute" in done.stderr
    tls = ssl.create_default_context(cafile=str(machine.data / "tls/ca.crt"))

    async def visit() -> None:
        async with visitor(base, tls) as screen:
            assert await screen.enter(done.stdout.strip()) == 200
            async with screen.streaming() as stream:
                await stream.until(lambda seen: seen.rows and seen.overview)
                assert stream.overview["meta"]["viewOnly"] is True

    asyncio.run(visit())
    assert done.stdout.strip() not in (machine.data / "up.log").read_text()


def test_it_ends_when_the_server_rejects_the_credentials(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text((machine.data / "kubeconfig").read_text())
    file.chmod(0o600)
    process = subprocess.Popen(
        [*machine.command("dashboard")[:3], "dashboard", "--no-browser", "--kubeconfig", str(file)],
        env=machine.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    found = Opened(process, Path(process.stdout.readline().strip()))

    async def visit() -> None:
        async with visitor(found.base) as admin:
            assert await admin.enter(found.code) == 200
            async with admin.streaming() as stream:
                await stream.until(lambda seen: seen.overview)
                done = await asyncio.to_thread(machine.run, "user", "rotate", "admin")
                assert done.returncode == 0, done.stderr
                while await stream.next() is not None:
                    pass

    asyncio.run(visit())
    _, said = process.communicate(timeout=SOON)
    assert process.returncode == 1
    assert "the server rejected these credentials" in said


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--session", "x"], "--session: 'x' is not a duration; write it as in 30m, 12h or 168h"),
        (["--session", "1s"], "--session: 1s is out of range; use 1m to 720h"),
        (["--session", "1000h"], "--session: 1000h is out of range; use 1m to 720h"),
        (["--port", "x"], "'x' is not a whole number"),
    ],
)
def test_invalid_input(flags: list[str], said: str) -> None:
    done = CliRunner().invoke(cli, ["dashboard", *flags])
    assert done.exit_code == 2
    assert said in done.output


def test_a_port_that_is_in_use(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = machine.run("dashboard", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert "Address already in use; choose another one" in done.stderr


async def test_a_code_for_a_cluster_is_for_the_page_that_is_served_here(tmp_path: Path) -> None:
    async def unknown(request: web.Request) -> web.Response:
        return status(404, "NotFound", "the server could not find the requested resource")

    async with TinyApi().serve() as api:
        api.accident = unknown
        file = kubeconfig_of(api, tmp_path)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pykueue", "dashboard", "--code", "--kubeconfig", str(file)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            said, code = (await process.stderr.readline()).decode(), (await process.stdout.readline()).decode().strip()
            found = re.search(r"enter this code at (http://127\.0\.0\.1:\d+)/ui/enter within a minute", said)
            assert found, said
            async with visitor(found[1]) as one:
                assert 'name="code"' in (await one.ask("GET", "/ui/enter"))[1]
                assert await one.enter(code, Origin=found[1]) == 200
                assert (await one.ask("GET", "/ui/"))[0] == 200
        finally:
            process.send_signal(signal.SIGINT)
            await process.communicate()
    assert process.returncode == 0


def test_a_server_that_does_not_run(tmp_path: Path) -> None:
    with machine_in(tmp_path) as nowhere:
        done = nowhere.run("dashboard", "--no-browser")
    assert done.returncode == 2
    assert "no server found" in done.stderr
