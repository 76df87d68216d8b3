"""Are programs that give credentials asked as they expect, and only when they need to be?"""

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest
import uvloop
from aiohttp import web

from pykueue.base.clock import START, SystemClock
from pykueue.base.units import MICROS, Instant, Moment, format_instant
from pykueue.kube.client import execplugin
from pykueue.kube.client.connection import Connection
from pykueue.kube.client.credentials import Credential, CredentialError
from pykueue.kube.client.execplugin import Plugin, Program
from pykueue.kube.client.http import HttpKube
from pykueue.kube.lease import Election
from tests.clocks import SkippingClock
from tests.fakes.tinyapi import THINGS, TinyApi, in_background, status, thing

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


def plugin(folder: Path, script: str, *, version: str = V1, cluster: Any = None, hint: str = "") -> Plugin:
    """A plugin that runs this script in a shell of its own."""
    path = folder / "login"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    where = "/etc/config: users[me].user.exec"
    return Plugin(Program(str(path), ("one", "two words"), {"GREETING": "hello"}, version, cluster, hint, where))


def says(version: str = V1, **status: str) -> str:
    return f"echo '{json.dumps({'apiVersion': version, 'kind': 'ExecCredential', 'status': status})}'"


@pytest.mark.parametrize("version", [V1, V1BETA1])
async def test_a_program_gives_a_token(version: str, tmp_path: Path) -> None:
    found = await plugin(tmp_path, says(version, token="secret"), version=version).fetch(SystemClock())
    assert found == Credential("Bearer secret")


async def test_a_program_gives_a_certificate_until_it_expires(tmp_path: Path) -> None:
    expires = Instant(START + 3600 * MICROS)
    script = says(clientCertificateData="cert", clientKeyData="key", expirationTimestamp=format_instant(expires))
    found = await plugin(tmp_path, script).fetch(SkippingClock())
    assert found == Credential("", "cert", "key", Moment(expires - 10 * MICROS))


async def test_a_program_is_given_its_arguments_and_environment(tmp_path: Path) -> None:
    script = f'printf "%s|" "$@" "$GREETING" "$KUBERNETES_EXEC_INFO" > {tmp_path}/given\n{says(token="t")}'
    await plugin(tmp_path, script, cluster={"server": "https://it"}).fetch(SystemClock())
    one, two, greeting, info, _ = (tmp_path / "given").read_text().split("|")
    assert (one, two, greeting) == ("one", "two words", "hello")
    assert json.loads(info) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://it"}},
    }


@pytest.mark.parametrize(
    ("script", "said"),
    [
        pytest.param("echo please log in >&2; exit 3", "exited with code 3: please log in", id="it fails"),
        pytest.param("echo secret", "printed no ExecCredential", id="it prints something else"),
        pytest.param(
            says(V1BETA1, token="secret"), "but must print a client.authentication.k8s.io/v1 Exec", id="another version"
        ),
        pytest.param(says(), "neither a token nor a certificate", id="it gives nothing"),
        pytest.param(says(clientCertificateData="secret"), "without its key", id="it gives half"),
        pytest.param(says(token="secret", expirationTimestamp="soon"), "'soon' as expirationTimestamp", id="no time"),
    ],
)
async def test_a_program_that_fails_is_named_and_its_secrets_are_not(script: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(CredentialError) as caught:
        await plugin(tmp_path, script).fetch(SystemClock())
    assert str(caught.value).startswith("/etc/config: users[me].user.exec: ")
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_a_program_that_is_not_there_says_how_to_get_it(tmp_path: Path) -> None:
    missing = Plugin(Program("no-such-program", (), {}, V1, hint="brew install it", where="here"))
    with pytest.raises(CredentialError, match=r"'no-such-program' cannot be started: .*; brew install it"):
        await missing.fetch(SystemClock())


async def test_a_program_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execplugin, "PATIENCE_SECONDS", 0.2)
    with pytest.raises(CredentialError, match="did not finish"):
        await plugin(tmp_path, "exec sleep 60").fetch(SystemClock())


async def test_a_program_is_asked_again_only_when_its_credential_expires_or_is_refused(tmp_path: Path) -> None:
    expires = format_instant(Instant(START + 3600 * MICROS))
    count = f"n=$(cat {tmp_path}/n 2>/dev/null || echo 0); n=$((n + 1)); echo $n > {tmp_path}/n"
    answer = {"apiVersion": V1, "kind": "ExecCredential", "status": {"token": "N", "expirationTimestamp": expires}}
    asked = plugin(tmp_path, f"{count}\necho '{json.dumps(answer)}' | sed s/N/token$n/")
    async with TinyApi().serve() as api:
        await api.put("things", thing("a"))
        clock = SkippingClock()
        kube = HttpKube(Connection(api.url, asked), clock)
        for _ in range(3):
            await kube.get(THINGS, "a", "default")
        assert (tmp_path / "n").read_text() == "1\n"
        clock.time = Instant(START + 3595 * MICROS)
        await kube.get(THINGS, "a", "default")
        assert (tmp_path / "n").read_text() == "2\n"

        async def only_third(request: web.Request) -> web.StreamResponse | None:
            return None if request.headers["Authorization"].endswith("3") else status(401, "Unauthorized")

        api.accident = only_third
        await kube.get(THINGS, "a", "default")
        assert (tmp_path / "n").read_text() == "3\n"
        await kube.close()


def test_a_program_can_be_asked_from_the_thread_of_an_election(tmp_path: Path) -> None:
    """Under uvloop, as in production: starting a program from a second thread is where loops differ."""
    asked = plugin(tmp_path, says(token="secret"))

    async def main(api: TinyApi) -> None:
        leads = asyncio.Event()
        election = Election(
            lambda: HttpKube(Connection(api.url, asked), SystemClock()), SystemClock(), "me", "system", "leader"
        )
        task = asyncio.create_task(election.run(leads.set, lambda why: None))
        await asyncio.wait_for(leads.wait(), 10)
        await election.release()
        await task

    with in_background() as api:
        uvloop.run(main(api))
    assert {headers["Authorization"] for headers in api.headers} == {"Bearer secret"}
