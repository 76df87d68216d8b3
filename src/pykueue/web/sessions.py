"""Who may use the page: one-time codes, and the sessions that they are exchanged for.

A session has two secrets: the id, which the browser keeps in a cookie, and the key, which the page keeps in its own
storage and sends in a header. Cookies are shared between the ports of a host, so the id alone is not enough. Only
hashes of secrets are kept here.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Final

from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Moment

CODE_BYTES: Final = 16
SECRET_BYTES: Final = 32
CODE_MICROS: Final = 60 * MICROS
"""How long a code may be exchanged."""
CODES_MAX: Final = 256
"""Codes that wait at once; the oldest is dropped."""
SESSIONS_MAX: Final = 32
"""Open sessions of a user; the oldest ends."""
SECRET_MAX: Final = 256
"""Longer secrets are refused unread."""


class Grant(Frozen):
    """What a session allows, and to whom."""

    user: str
    namespace: str = ""
    """The namespace of the user."""
    view_only: bool = False
    proof: str = ""
    """Identifies the credentials with which the code was requested; a session ends when they do."""
    seconds: int = 12 * 60 * 60
    """How long the session lasts."""


class Session(Frozen):
    """A browser that exchanged its code."""

    grant: Grant
    id_hash: bytes
    key_hash: bytes
    until: Moment


class Entered(Frozen):
    """A new session, and its secrets, which are not kept."""

    session: Session
    id: str
    key: str

    def __repr__(self) -> str:
        # Secrets must not reach a log through %r.
        return f"Entered({self.session.grant.user})"


def hash_of(secret: str) -> bytes:
    """The hash by which a secret is kept. Secrets are random, so that no salt is needed."""
    return hashlib.sha256(secret.encode(errors="surrogateescape")).digest()


def always(grant: Grant) -> bool:
    """Allow a grant for as long as its session lasts."""
    return True


class Sessions:
    """The codes and sessions of a server; they end with its process."""

    def __init__(
        self,
        clock: Clock,
        *,
        valid: Callable[[Grant], bool] = always,
        random: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self.clock = clock
        self.valid = valid
        """Whether the user still exists and has the credentials of the grant."""
        self.random = random
        self.codes: dict[bytes, tuple[Grant, Moment]] = {}
        """By hash, with the time until which they may be used; the oldest first."""
        self.open: dict[bytes, Session] = {}
        """By the hash of the id; the oldest first."""

    def issue(self, grant: Grant) -> str:
        """A new code for a session."""
        now = self.clock.moment()
        self.codes = {code: one for code, one in self.codes.items() if now < one[1]}
        while len(self.codes) >= CODES_MAX:
            del self.codes[next(iter(self.codes))]
        code = base64.b32encode(self.random(CODE_BYTES)).decode().rstrip("=").lower()
        self.codes[hash_of(code)] = grant, Moment(now + CODE_MICROS)
        return code

    def enter(self, code: str) -> Entered | None:
        """Exchange a code for a session; None if it was used already, is too old, or never existed."""
        if len(code) > SECRET_MAX:
            return None
        grant, until = self.codes.pop(hash_of(code.strip().lower()), (None, Moment(0)))
        now = self.clock.moment()
        if grant is None or now >= until or not self.valid(grant):
            return None
        self.prune()
        own = [one for one in self.open.values() if one.grant.user == grant.user]
        for oldest in own[: max(0, len(own) - SESSIONS_MAX + 1)]:
            self.end(oldest)
        id_, key = (base64.urlsafe_b64encode(self.random(SECRET_BYTES)).decode().rstrip("=") for _ in range(2))
        session = Session(grant, hash_of(id_), hash_of(key), Moment(now + grant.seconds * MICROS))
        self.open[session.id_hash] = session
        return Entered(session, id_, key)

    def of_cookie(self, id_: str) -> Session | None:
        """The session of a cookie."""
        if not id_ or len(id_) > SECRET_MAX:
            return None
        session = self.open.get(hash_of(id_))
        return session if session is not None and self.is_open(session) else None

    def is_open(self, session: Session) -> bool:
        """Whether a session has not ended; one that is over is forgotten."""
        if session.id_hash not in self.open:
            return False
        if self.clock.moment() < session.until and self.valid(session.grant):
            return True
        self.end(session)
        return False

    def end(self, session: Session) -> None:
        """End a session; its streams end within a second."""
        self.open.pop(session.id_hash, None)

    def end_all(self) -> None:
        """End all sessions and forget all codes."""
        self.open.clear()
        self.codes.clear()

    def prune(self) -> None:
        """Forget sessions that are over."""
        for session in list(self.open.values()):
            self.is_open(session)


def has_key(session: Session, key: str) -> bool:
    """Whether this is the key of a session."""
    return bool(key) and len(key) <= SECRET_MAX and hmac.compare_digest(session.key_hash, hash_of(key))
