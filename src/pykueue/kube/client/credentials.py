"""Credentials for the API server: a token or a client certificate, from any source, renewed as necessary."""

import logging
from pathlib import Path
from typing import Final, Protocol

from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Moment

LOG: Final = logging.getLogger(__name__)

REREAD_MICROS: Final = 60 * MICROS
"""How long the content of a file is used before it is read again."""


class Credential(Frozen):
    """A credential, and until when it may be used without fetching it again."""

    authorization: str = ""
    """The value of the Authorization header, with its scheme."""
    certificate: str = ""
    key: str = ""
    until: Moment | None = None

    def __repr__(self) -> str:
        # Secrets must not reach a log through %r.
        return f"Credential(until={self.until})"

    def same(self, other: "Credential") -> bool:
        """Whether a server that refuses this one refuses the other too."""
        return (self.authorization, self.certificate, self.key) == (other.authorization, other.certificate, other.key)


class CredentialError(Exception):
    """There is no credential: the source, what is wrong, and what to do."""


class Credentials(Protocol):
    """A source of credentials."""

    async def fetch(self, clock: Clock) -> Credential:
        """The credential to use from now on; called again when it expires or a server refuses it."""


class Fixed:
    """A credential that never changes."""

    def __init__(self, credential: Credential) -> None:
        self.credential = credential

    async def fetch(self, clock: Clock) -> Credential:
        """The one credential."""
        return self.credential


class Files:
    """Credentials in files that are replaced from time to time."""

    def __init__(
        self,
        *,
        token: Path | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
        rest: Credential = Credential(),  # noqa: B008  # it is frozen
    ) -> None:
        self.rest = rest
        """The parts that are not in files."""
        self.token = token
        self.certificate = certificate
        self.key = key
        self.last: Credential | None = None

    async def fetch(self, clock: Clock) -> Credential:
        """The present content of the files; while they cannot be read, the previous one."""
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
            LOG.warning("credentials: cannot read, using the previous ones error=%s", error)
            found = Credential(self.last.authorization, self.last.certificate, self.last.key, until)
        self.last = found
        return found


def text_of(path: Path) -> str:
    """The content of a file."""
    try:
        found = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialError(f"{path}: cannot be read: {error}; check that it exists and is readable") from error
    if not found.strip():
        raise CredentialError(f"{path}: is empty; it should hold a credential")
    return found
