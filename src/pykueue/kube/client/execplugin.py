"""The exec plugins of kubeconfig (`client.authentication.k8s.io`): credentials from a program."""

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
"""How long before its expiry a credential is replaced, so that none expires in flight."""
SAID_MAX: Final = 500
"""An error repeats this many characters of a program's output."""


class ExecStatus(Wire):
    """The credential that a program prints."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str = ""


class ExecCredential(Wire):
    """The output of a program."""

    api_version: str = ""
    kind: str = ""
    status: ExecStatus | None = None


class Program(Frozen):
    """A program that prints credentials, and its input."""

    command: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    """Added to our own environment."""
    api_version: str
    cluster: Tree | None = None
    """The information about the cluster, if the program asks for it."""
    hint: str = ""
    """How to install it."""
    where: str = ""
    """The file and field that name it."""


CREDENTIAL: Final = msgspec.json.Decoder(ExecCredential)


class Plugin:
    """Credentials from a program."""

    def __init__(self, program: Program) -> None:
        self.program = program

    async def fetch(self, clock: Clock) -> Credential:
        """Run the program and return its credential."""
        return self.read(await self.output(), clock)

    async def output(self) -> bytes:
        """The standard output of the program."""
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
            raise self.fault(f"{program.command!r} did not finish within {PATIENCE_SECONDS:.0f} s") from error
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode:
            last = complaint.decode(errors="replace").strip()[-SAID_MAX:]
            raise self.fault(f"{program.command!r} exited with code {process.returncode}: {last or 'no output'}")
        return said

    def read(self, said: bytes, clock: Clock) -> Credential:
        """The credential in the output, which no error repeats."""
        try:
            found = CREDENTIAL.decode(said)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.fault(f"{self.program.command!r} printed no ExecCredential") from error
        status = found.status
        if found.kind != "ExecCredential" or found.api_version != self.program.api_version or status is None:
            raise self.fault(
                f"{self.program.command!r} printed {found.api_version or 'nothing'} {found.kind}, "
                f"but must print a {self.program.api_version} ExecCredential with a status"
            )
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self.fault(f"{self.program.command!r} printed a certificate without its key, or the reverse")
        if not status.token and not status.client_certificate_data:
            raise self.fault(f"{self.program.command!r} printed neither a token nor a certificate")
        return Credential(
            authorization=f"Bearer {status.token}" if status.token else "",
            certificate=status.client_certificate_data,
            key=status.client_key_data,
            until=self.expiry(status.expiration_timestamp, clock),
        )

    def expiry(self, text: str, clock: Clock) -> Moment | None:
        """When the program must run again; None if it did not say."""
        if not text:
            return None
        try:
            expires = parse_instant(text)
        except ValueError as error:
            raise self.fault(f"{self.program.command!r} printed {text!r} as expirationTimestamp") from error
        left = expires - clock.now()
        return Moment(clock.moment() + max(left - EARLY_MICROS, min(left, 0)))

    def fault(self, problem: str) -> CredentialError:
        """An error that names the file and field."""
        return CredentialError(f"{self.program.where}: {problem}")
