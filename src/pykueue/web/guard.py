"""Checks of a request to the page before anything is answered, and the headers of every response.

A page of another site can send requests here from the user's browser, by its own name for this address too (DNS
rebinding). So the Host must be one of our names, and the Origin must be ours where it is sent.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pykueue.base.struct import Frozen

COOKIE: Final = "pykueue-ui"
KEY_HEADER: Final = "x-pykueue-key"
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
"""No inline scripts or styles, nothing from other hosts, no framing."""
SECURITY: Final = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), geolocation=(), microphone=()"),
)
"""Headers of every response."""
NO_STORE: Final = ("Cache-Control", "no-store")
PORTS: Final = {"http": 80, "https": 443}


class Address(Frozen):
    """Where the page is served: the scheme, and the names with which browsers may ask for it."""

    scheme: str
    names: tuple[str, ...]
    port: int

    @property
    def cookie(self) -> str:
        """The name of the session cookie: servers on several ports of a host share its cookies."""
        return f"{COOKIE}-{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        """The values of the Host header that are ours."""
        return frozenset(self.spelled())

    def spelled(self) -> Iterator[str]:
        """Each name with the port; without it, too, if it is the default one."""
        for name in self.names:
            shown = f"[{name}]" if ":" in name else name.lower()
            yield f"{shown}:{self.port}"
            if self.port == PORTS[self.scheme]:
                yield shown

    def is_host(self, host: str) -> bool:
        """Whether a Host header is ours."""
        return host.lower() in self.hosts

    def is_origin(self, origin: str) -> bool:
        """Whether an Origin header is ours."""
        scheme, _, host = origin.partition("://")
        return scheme == self.scheme and self.is_host(host)


def is_foreign(address: Address, headers: Mapping[str, str]) -> bool:
    """Whether another site made a request, by its Origin or by what the browser says about its initiator."""
    origin = headers.get("origin", "")
    if origin and not address.is_origin(origin):
        return True
    # `same-site` is another port of this host, such as a server of another user.
    return headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def is_foreign_entry(address: Address, headers: Mapping[str, str]) -> bool:
    """Whether another site tries to exchange a code.

    The file that `pykueue dashboard` writes has the Origin null, as has a sandboxed frame of any site. Codes of the
    page on a loopback address are made for one user. A server gives them to all its users, one of whom could have
    others work in a session that is not theirs.
    """
    origin = headers.get("origin", "")
    if not origin or (origin == "null" and address.scheme == "http"):
        return False
    return not address.is_origin(origin)


def cookie_of(address: Address, headers: Mapping[str, str]) -> str:
    """The id in the session cookie; empty if there is none, or if there are several."""
    found = [value for name, value in cookies(headers.get("cookie", "").split(";")) if name == address.cookie]
    return found[0] if len(found) == 1 else ""


def cookies(parts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The names and values in a Cookie header."""
    for part in parts:
        name, equals, value = part.strip().partition("=")
        if equals:
            yield name, value


def set_cookie(address: Address, id_: str, seconds: int) -> tuple[str, str]:
    """The header that gives a browser its session: for our paths only, not for scripts, not for other sites."""
    secure = "; Secure" if address.scheme == "https" else ""
    return (
        "Set-Cookie",
        f"{address.cookie}={id_}; Path=/ui; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}",
    )
