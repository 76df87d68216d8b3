"""How does a program give us our credential? The exec plugins of kubeconfig, `client.authentication.k8s.io`."""

import asyncio
import contextlib
import os
from collections.abc import Mapping
from typing import Final

import msgspec

from pykueue.api.core import Tree
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen, Wire
from pykueue.base.timers import timeout
from pykueue.base.units import MICROS, Moment, parse_instant
from pykueue.kube.client.credentials import Credential, CredentialError

GROUP: Final = "client.authentication.k8s.io"
VERSIONS: Final = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
INFO: Final = "KUBERNETES_EXEC_INFO"
PATIENCE_SECONDS: Final = 60.0
EARLY_MICROS: Final = 10 * MICROS
"""How long before it expires a credential is no longer used, so that none expires on its way."""
SAID_MAX: Final = 500
"""Characters of a program's complaint that an error repeats."""


class ExecStatus(Wire):
    """The credential that a program has printed."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str = ""


class ExecCredential(Wire):
    """What a program prints."""

    api_version: str = ""
    kind: str = ""
    status: ExecStatus | None = None


class Program(Frozen):
    """A program that prints credentials, and what it wants to know."""

    command: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    """Set on top of our own."""
    api_version: str
    cluster: Tree | None = None
    """What it is told of the cluster, if it asks for it."""
    hint: str = ""
    """How to install it."""
    where: str = ""
    """Which file and field names it."""


CREDENTIAL: Final = msgspec.json.Decoder(ExecCredential)


class Plugin:
    """Credentials from a program."""

    def __init__(self, program: Program) -> None:
        self.program = program

    async def fetch(self, clock: Clock) -> Credential:
        """What the program prints now."""
        return self.read(await self.output(), clock)

    async def output(self) -> bytes:
        """What the program writes to its standard output."""
        program = self.program
        spec: Tree = {"interactive": False}
        if program.cluster is not None:
            spec["cluster"] = program.cluster
        info = msgspec.json.encode({"kind": "ExecCredential", "apiVersion": program.api_version, "spec": spec})
        try:
            process = await asyncio.create_subprocess_exec(
                program.command,
                *program.arguments,
                env={**os.environ, **program.environment, INFO: info.decode()},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            advice = program.hint.strip() or "install it, or correct the command"
            raise self.fault(f"{program.command!r} cannot be started: {error.strerror or error}; {advice}") from error
        try:
            async with timeout(PATIENCE_SECONDS):
                said, complaint = await process.communicate()
        except TimeoutError as error:
            raise self.fault(f"{program.command!r} has not ended after {PATIENCE_SECONDS:.0f} s") from error
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode:
            last = complaint.decode(errors="replace").strip()[-SAID_MAX:]
            raise self.fault(f"{program.command!r} ended with {process.returncode}: {last or 'it says nothing'}")
        return said

    def read(self, said: bytes, clock: Clock) -> Credential:
        """The credential in what the program has printed, which no error repeats."""
        try:
            found = CREDENTIAL.decode(said)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.fault(f"{self.program.command!r} has printed no ExecCredential") from error
        status = found.status
        if found.kind != "ExecCredential" or found.api_version != self.program.api_version or status is None:
            raise self.fault(
                f"{self.program.command!r} has printed {found.api_version or 'nothing'} {found.kind} "
                f"where {self.program.api_version} ExecCredential with a status was wanted"
            )
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self.fault(f"{self.program.command!r} has printed a certificate without its key, or the reverse")
        if not status.token and not status.client_certificate_data:
            raise self.fault(f"{self.program.command!r} has printed neither a token nor a certificate")
        return Credential(
            authorization=f"Bearer {status.token}" if status.token else "",
            certificate=status.client_certificate_data,
            key=status.client_key_data,
            until=self.expiry(status.expiration_timestamp, clock),
        )

    def expiry(self, text: str, clock: Clock) -> Moment | None:
        """When the program must be asked again; None where it has not said."""
        if not text:
            return None
        try:
            expires = parse_instant(text)
        except ValueError as error:
            raise self.fault(f"{self.program.command!r} has printed {text!r} as expirationTimestamp") from error
        left = expires - clock.now()
        return Moment(clock.moment() + max(left - EARLY_MICROS, min(left, 0)))

    def fault(self, problem: str) -> CredentialError:
        """An error that says which file and field led to it."""
        return CredentialError(f"{self.program.where}: {problem}")
