"""Who are we to the API server? A token or a client certificate, from wherever it comes, renewed when it grows old."""

import logging
from pathlib import Path
from typing import Final, Protocol

from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Moment

LOG: Final = logging.getLogger(__name__)

REREAD_MICROS: Final = 60 * MICROS
"""How long what a file held is used before the file is read again."""


class Credential(Frozen):
    """What is shown to the server, and until when it need not be asked for again."""

    authorization: str = ""
    """The value of the header, with its scheme."""
    certificate: str = ""
    key: str = ""
    until: Moment | None = None

    def __repr__(self) -> str:
        # Secrets must not reach a log by way of somebody's %r.
        return f"Credential(until={self.until})"

    def same(self, other: "Credential") -> bool:
        """Whether a server that refuses this one refuses the other too."""
        return (self.authorization, self.certificate, self.key) == (other.authorization, other.certificate, other.key)


class CredentialError(Exception):
    """There is no credential to show: where it should have come from, what is wrong, what to do."""


class Credentials(Protocol):
    """A source of credentials."""

    async def fetch(self, clock: Clock) -> Credential:
        """The credential to show from now on; asked for again when its time is up or a server refuses it."""


class Fixed:
    """A credential that never changes."""

    def __init__(self, credential: Credential) -> None:
        self.credential = credential

    async def fetch(self, clock: Clock) -> Credential:
        """The one credential."""
        return self.credential


class Files:
    """Credentials in files that somebody replaces from time to time."""

    def __init__(
        self,
        *,
        token: Path | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
        rest: Credential = Credential(),  # noqa: B008  # it is frozen
    ) -> None:
        self.rest = rest
        """What stands in no file."""
        self.token = token
        self.certificate = certificate
        self.key = key
        self.last: Credential | None = None

    async def fetch(self, clock: Clock) -> Credential:
        """What the files hold now; while they cannot be read, what they held last."""
        until = Moment(clock.moment() + REREAD_MICROS)
        try:
            found = Credential(
                f"Bearer {text_of(self.token).strip()}" if self.token is not None else self.rest.authorization,
                text_of(self.certificate) if self.certificate is not None else self.rest.certificate,
                text_of(self.key) if self.key is not None else self.rest.key,
                until,
            )
        except CredentialError as error:
            if self.last is None:
                raise
            LOG.warning("%s; going on with the credential of before", error)
            found = Credential(self.last.authorization, self.last.certificate, self.last.key, until)
        self.last = found
        return found


def text_of(path: Path) -> str:
    """What a file holds."""
    try:
        found = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialError(f"{path}: cannot be read: {error}; check that it exists and may be read") from error
    if not found.strip():
        raise CredentialError(f"{path}: is empty; it should hold a credential")
    return found
