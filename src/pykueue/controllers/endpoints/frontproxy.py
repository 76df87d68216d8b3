"""Identifies callers that the API server forwards: it is a front proxy, and names them in headers.

The headers count only on a connection with a client certificate that the front proxy's authority has signed. Authority,
allowed names and header names are in the ConfigMap `kube-system/extension-apiserver-authentication`.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol
from urllib.parse import unquote

import msgspec

from pykueue.api.config.types import SYSTEM_NAMESPACE, Tls
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen, Wire
from pykueue.base.units import MICROS
from pykueue.kube.port import CONFIG_MAPS, Kube, KubeError
from pykueue.kube.tls import server_context, use

LOG: Final = logging.getLogger(__name__)

AUTHENTICATION: Final = "extension-apiserver-authentication"
AUTHENTICATED: Final = "system:authenticated"
SETTLED_SECONDS: Final = 60
RETRY_SECONDS: Final = 2


class ConfigMap(Wire):
    """A ConfigMap."""

    data: dict[str, str] | None = None


CONFIG_MAP: Final = msgspec.json.Decoder(ConfigMap)
NAMES: Final = msgspec.json.Decoder(tuple[str, ...])


class Trust(Frozen):
    """Whom to believe, and which headers."""

    authority: str
    """PEM; empty if the API server does not say."""
    names: tuple[str, ...] = ()
    """The common names that a certificate may have; empty for any."""
    user_headers: tuple[str, ...] = ()
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()


class RemoteUser(Frozen):
    """The user whom the API server has authenticated."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Headers(Protocol):
    """The headers of a request; names in any case."""

    def getall(self, key: str, default: Sequence[str], /) -> Sequence[str]:
        """Every value of a header."""

    def items(self) -> Any:
        """Names and values."""


class FrontProxy:
    """Follows whom the API server says to believe, and keeps the TLS context that asks for its certificate."""

    def __init__(self, kube: Kube, clock: Clock, tls: Tls | None = None) -> None:
        self.kube = kube
        self.clock = clock
        self.tls = tls
        self.trust: Trust | None = None
        """None until it is known; nobody is believed until then."""
        self.context = server_context(tls)
        self.replaced: Callable[[ssl.SSLContext], None] = no_listener
        """Called with the context for new connections, when those under the present one must end."""
        self.pair: tuple[bytes, bytes] | None = None
        self.ready = asyncio.Event()
        self.told = ""

    def certified(self, certificate: bytes, key: bytes) -> None:
        """Serve with this certificate from now on."""
        self.pair = (certificate, key)
        use(self.context, certificate, key)

    async def run(self) -> None:
        """Follow the ConfigMap until cancelled."""
        while True:
            settled = await self.once()
            await self.clock.sleep((SETTLED_SECONDS if settled else RETRY_SECONDS) * MICROS)

    async def once(self) -> bool:
        """Read the ConfigMap; returns whether the API server can be recognised."""
        try:
            found = trust_in(CONFIG_MAP.decode(await self.kube.get(CONFIG_MAPS, AUTHENTICATION, SYSTEM_NAMESPACE)))
            self.believe(found)
        except (KubeError, msgspec.DecodeError, ssl.SSLError, ValueError) as error:
            self.say(f"cannot read ConfigMap {SYSTEM_NAMESPACE}/{AUTHENTICATION}, will retry error={error}")
            return False
        if not found.authority:
            self.say("the API server names no authority of a front proxy (--requestheader-client-ca-file)")
            return False
        self.told = ""
        return True

    def say(self, what: str) -> None:
        """Log a problem once."""
        if self.told != what:
            LOG.warning("aggregated API: %s", what)
        self.told = what

    def believe(self, trust: Trust) -> None:
        """Believe these from now on."""
        if trust == self.trust:
            return
        context = server_context(self.tls)
        if trust.authority:
            context.load_verify_locations(cadata=trust.authority)
            # Probes have no certificate, and who has none gets a response that says so.
            context.verify_mode = ssl.CERT_OPTIONAL
        if self.pair is not None:
            use(context, *self.pair)
        self.context, self.trust = context, trust
        self.replaced(context)
        self.ready.set()

    def identify(self, certificate: Mapping[str, Any] | None, headers: Headers) -> RemoteUser | None:
        """The user of a request, from the verified certificate of its connection; None if it is not to be believed."""
        trust = self.trust
        if trust is None or not trust.authority or not certificate:
            return None
        if trust.names and not common_names(certificate) & {*trust.names}:
            return None
        name = first_of(headers, trust.user_headers)
        if not name:
            return None
        groups = [value for header in trust.group_headers for value in headers.getall(header, ())]
        if AUTHENTICATED not in groups:
            groups.append(AUTHENTICATED)
        return RemoteUser(name, first_of(headers, trust.uid_headers), tuple(groups), extra_in(headers, trust))


def no_listener(context: ssl.SSLContext) -> None:
    """Nobody serves yet."""


def trust_in(stored: ConfigMap) -> Trust:
    """What the ConfigMap says."""
    data = stored.data or {}

    def names(key: str) -> tuple[str, ...]:
        return NAMES.decode(data.get(f"requestheader-{key}") or "[]")

    return Trust(
        data.get("requestheader-client-ca-file", "").strip(),
        names("allowed-names"),
        names("username-headers"),
        names("uid-headers"),
        names("group-headers"),
        names("extra-headers-prefix"),
    )


def common_names(certificate: Mapping[str, Any]) -> set[str]:
    """The common names in the subject of a certificate."""
    return {value for part in certificate.get("subject", ()) for kind, value in part if kind == "commonName"}


def first_of(headers: Headers, names: tuple[str, ...]) -> str:
    """The first value of these headers; empty if there is none."""
    return next((value for name in names for value in headers.getall(name, ()) if value), "")


def extra_in(headers: Headers, trust: Trust) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What else is known of the user, by key in lower case."""
    found: dict[str, list[str]] = {}
    for name, value in headers.items():
        for prefix in trust.extra_prefixes:
            if name.lower().startswith(prefix.lower()):
                found.setdefault(unquote(name[len(prefix) :].lower()), []).append(value)
                break
    return tuple((key, tuple(values)) for key, values in sorted(found.items()))
