"""Identities of callers: name, groups, namespace and role."""

from typing import Final

from pykueue.base.struct import Frozen

AUTHENTICATED: Final = "system:authenticated"
MASTERS: Final = "system:masters"


class Peer(Frozen):
    """The subject of a client certificate that our authority signed."""

    name: str
    fingerprint: str
    """SHA-256 of the certificate, in hexadecimal."""


class Identity(Frozen):
    """An authenticated caller."""

    name: str
    groups: frozenset[str] = frozenset()
    namespace: str = ""
    """The one namespace that a user may write to; empty for an admin."""
    admin: bool = False
    uid: str = ""
    is_controller: bool = False
    """Whether the caller is a controller of this process: trusted, so its writes are not validated or admitted."""


SYSTEM: Final = Identity("system:pykueue", frozenset({MASTERS, AUTHENTICATED}), admin=True, is_controller=True)
"""The controllers of this process."""
