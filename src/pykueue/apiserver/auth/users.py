"""The users and their credentials: a file in the data folder, which is read again when it changes.

A token is 32 random bytes, which cannot be guessed: one salted SHA-256 is enough, where a password would need scrypt,
and a lookup takes microseconds. The file holds no tokens, only their hashes and the fingerprints of issued client
certificates. A certificate that is not listed is refused, even if our authority signed it.
"""

import contextlib
import fcntl
import hashlib
import hmac
import logging
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

import msgspec

from pykueue.api.config.types import DEFAULT_NAMESPACE
from pykueue.apiserver.wire.identity import Peer
from pykueue.base.clock import Clock, SystemClock
from pykueue.base.datafolder import FILE_MODE, USERS, put
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant, format_instant

LOG: Final = logging.getLogger(__name__)

ADMIN: Final = "admin"
"""The user that the server creates for the person who started it."""
LOCK: Final = "users.lock"
TOKEN_BYTES: Final = 32
SALT_BYTES: Final = 16
TOKEN_MAX: Final = 512
"""Longer tokens are refused unread."""
NAME: Final = re.compile(r"[a-z_][a-z0-9_.-]{0,62}", re.ASCII)
NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
SYSTEM_NAMESPACES: Final = frozenset({"default", DEFAULT_NAMESPACE})
"""Reserved, together with all that start with `kube-`: no user gets one of these by default."""
LAYOUT: Final = 1

Role = Literal["admin", "user"]


class UsersError(Exception):
    """A users file that cannot be read, or a user that cannot be added: where, what, and what to do."""


class User(Frozen):
    """A user: name, OS account, namespace, role and credentials."""

    name: str
    role: Role = "user"
    os_user: str = ""
    """The account that the user's processes run as, if the server runs as root."""
    namespace: str = ""
    """The one namespace that a user may write to; empty for an admin."""
    salt: str = ""
    hash: str = ""
    """SHA-256 of salt and token, in hexadecimal; empty without a token."""
    certificates: tuple[str, ...] = ()
    """Fingerprints of issued client certificates."""
    revoked: bool = False
    expires: Instant | None = None
    """When its credentials stop being valid; None for never."""

    def admitted(self, now: Instant) -> bool:
        """Whether the user's credentials are valid at this time."""
        return not self.revoked and (self.expires is None or now < self.expires)

    @property
    def credentials(self) -> tuple[str, tuple[str, ...]]:
        """What a client needs to know or have; equal if and only if the same tokens and certificates are valid."""
        return self.hash, self.certificates


class UsersFile(Frozen):
    """The content of the users file."""

    version: int
    users: tuple[User, ...]


KEPT: Final = msgspec.json.Decoder(UsersFile)


class Users:
    """The users, in a file of the data folder; without a folder, in memory."""

    def __init__(self, folder: Path | None = None, clock: Clock | None = None) -> None:
        self.folder = folder
        self.clock = clock or SystemClock()
        self.known: Mapping[str, User] = {}
        self.seen: tuple[int, int, int] | None = None
        """The fingerprint of the file as last read."""
        self.verified: dict[bytes, str] = {}
        """Users by the hash of a verified token."""
        self.failed = False
        if folder is not None:
            self.reread()

    @cached_property
    def path(self) -> Path:
        """The path of the users file; made once, since every request looks at it."""
        assert self.folder is not None, "users that live in memory have no file"
        return self.folder / USERS

    def all(self) -> Mapping[str, User]:
        """The users by name; empty if the file cannot be read, so that access fails closed."""
        if self.folder is None:
            return self.known
        try:
            if fingerprint_of(self.path) != self.seen:
                self.reread()
            self.failed = False
        except UsersError as error:
            if not self.failed:
                LOG.error("users: cannot read the file, rejecting all credentials error=%s", error)
            self.failed = True
            self.forget({})
        return self.known

    def reread(self) -> None:
        """Load the users from the file."""
        seen = fingerprint_of(self.path)
        self.forget({user.name: user for user in read_users(self.path)} if seen else {})
        self.seen = seen

    def forget(self, users: Mapping[str, User]) -> None:
        """Replace the loaded users with these."""
        self.known, self.verified, self.seen = users, {}, None

    def by_token(self, token: str) -> User | None:
        """The user of a valid token."""
        user = self.holder(token)
        return user if user and user.admitted(self.clock.now()) else None

    def holder(self, token: str) -> User | None:
        """The user of a token, even if it has expired."""
        users = self.all()
        if not token or len(token) > TOKEN_MAX:
            return None
        key = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        known = self.verified.get(key)
        if known is None:
            known = next(
                (
                    user.name
                    for user in users.values()
                    if user.hash and hmac.compare_digest(user.hash, hashed(user.salt, token))
                ),
                None,
            )
            if known is None:
                return None
            self.verified[key] = known
        return users[known]

    def certified(self, peer: Peer) -> User | None:
        """The user of a certificate, even if its access has expired."""
        user = self.all().get(peer.name)
        return user if user and peer.fingerprint in user.certificates else None

    def named(self, name: str) -> User | None:
        """The user of this name, unless revoked."""
        user = self.all().get(name)
        return user if user and not user.revoked else None

    def add(
        self,
        name: str,
        *,
        role: Role = "user",
        namespace: str = "",
        os_user: str = "",
        expires: Instant | None = None,
    ) -> str:
        """Add a user, or renew the token of an existing one; returns the token, which is not stored."""
        check(name, namespace)
        namespace = namespace or ("" if role == "admin" else self.namespace_for(name))
        with self.changing() as users:
            users[name], token = with_token(User(name, role, os_user or name, namespace, expires=expires))
        return token

    def rotate(self, name: str, expires: Instant | None = None) -> str:
        """Replace the credentials of a user with a new token, which is returned; everything else stays.

        Without a new expiry the present one stays, and must be in the future.
        """
        with self.changing() as users:
            user = users.get(name)
            if user is None or user.revoked:
                raise unknown(name, users)
            kept = user.expires if expires is None else expires
            if kept is not None and kept <= self.clock.now():
                raise UsersError(
                    f"the credentials of {name!r} expired at {format_instant(kept)}; set how long the new ones are "
                    "valid with --expires"
                )
            users[name], token = with_token(msgspec.structs.replace(user, certificates=(), expires=kept))
        return token

    def namespace_for(self, name: str) -> str:
        """The default namespace of a user; raises `UsersError` if it belongs to another user."""
        namespace = label_of(name)
        if is_system(namespace):
            raise UsersError(f"{name!r}: {namespace} is a system namespace; choose another one with --namespace")
        users = self.all()
        if name in users and users[name].namespace == namespace:
            return namespace
        for user in users.values():
            if user.namespace == namespace:
                raise UsersError(
                    f"{name!r}: the namespace {namespace} belongs to user {user.name}; choose another one with "
                    "--namespace, or name this one if both should share it"
                )
        return namespace

    def certify(self, name: str, fingerprint: str) -> None:
        """Add this certificate to the user's credentials."""
        with self.changing() as users:
            user = users.get(name)
            if user is None or user.revoked:
                raise UsersError(f"no user {name!r}; add it first")
            users[name] = msgspec.structs.replace(user, certificates=(*user.certificates, fingerprint))

    def revoke(self, name: str) -> None:
        """Revoke all access of a user; name and OS account stay on record for the objects that the user created."""
        with self.changing() as users:
            user = users.get(name)
            if user is None or user.revoked:
                raise unknown(name, users)
            users[name] = msgspec.structs.replace(user, salt="", hash="", certificates=(), revoked=True)

    @contextlib.contextmanager
    def changing(self) -> Iterator[dict[str, User]]:
        """A block that changes the users and stores them at its end; other processes are locked out meanwhile."""
        if self.folder is None:
            users = dict(self.known)
            yield users
            self.forget(users)
            return
        try:
            with locked(self.folder / LOCK):
                self.reread()
                users = dict(self.known)
                yield users
                write(self.path, tuple(users.values()))
                self.reread()
        except OSError as error:
            raise UsersError(
                f"{self.path}: cannot be written: {error.strerror}; check the free space of its disk, and that this "
                "user can write to the directory"
            ) from error


def check(name: str, namespace: str) -> None:
    """Raise a `UsersError` if this name, or the namespace if one is given, is not allowed."""
    if not NAME.fullmatch(name):
        raise UsersError(
            f"{name!r}: a user name is a lower-case letter followed by lower-case letters, digits, '-', '_' and '.'"
        )
    if namespace and not NAMESPACE.fullmatch(namespace):
        raise UsersError(
            f"{namespace!r}: a namespace is at most 63 lower-case letters and digits, with '-' between them"
        )


def unknown(name: str, users: Mapping[str, User]) -> UsersError:
    """The error for a user that does not exist."""
    there = sorted(one.name for one in users.values() if not one.revoked)
    what = f"{name!r} is not a user any more" if name in users else f"no user {name!r}"
    return UsersError(f"{what}; users: {', '.join(there) or 'none'}")


def with_token(user: User) -> tuple[User, str]:
    """The user with a new token in place of the present one, and that token."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    salt = secrets.token_hex(SALT_BYTES)
    return msgspec.structs.replace(user, salt=salt, hash=hashed(salt, token)), token


def is_system(namespace: str) -> bool:
    """Whether a namespace is a system namespace."""
    return namespace in SYSTEM_NAMESPACES or namespace.startswith("kube-")


def hashed(salt: str, token: str) -> str:
    """The stored hash of a token."""
    return hashlib.sha256((salt + token).encode(errors="surrogateescape")).hexdigest()


def label_of(name: str) -> str:
    """A user's name as a DNS label, for the user's namespace."""
    return re.sub(r"[^a-z0-9]+", "-", name).strip("-") or "user"


def fingerprint_of(path: Path) -> tuple[int, int, int] | None:
    """A value that changes whenever the file does; None if the file does not exist."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsersError(f"{path}: cannot be read: {error.strerror}; correct its permissions") from error
    return found.st_ctime_ns, found.st_ino, found.st_size


def read_users(path: Path) -> tuple[User, ...]:
    """Read the users from a file that only its owner may write."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            body = file.read()
    except OSError as error:
        raise UsersError(f"{path}: cannot be read: {error.strerror}; correct its permissions") from error
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UsersError(f"{path}: other users can write to it; chown it to this user and chmod it to 600")
    try:
        kept = KEPT.decode(body)
    except msgspec.DecodeError as error:
        raise UsersError(f"{path}: {error}; restore it from a backup, or remove it and add the users again") from error
    if kept.version != LAYOUT:
        raise UsersError(f"{path}: layout {kept.version}, but this version reads {LAYOUT}; use a newer pykueue")
    return kept.users


def write(path: Path, users: tuple[User, ...]) -> None:
    """Write the users to the file."""
    put(path, msgspec.json.format(msgspec.json.encode(UsersFile(LAYOUT, users)), indent=2) + b"\n")


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock that keeps other processes from changing the users."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
