"""The address of the API server, and its TLS settings."""

import contextlib
import ipaddress
import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from pykueue.base.struct import Frozen
from pykueue.kube.client.credentials import Credential, CredentialError, Credentials
from pykueue.kube.tls import TlsError, use

DEFAULT_NAMESPACE: Final = "default"


class Connection(Frozen):
    """One API server and one of its users."""

    server: str
    """Its URL without a trailing slash; it may contain a path."""
    credentials: Credentials
    authority: str = ""
    """Trusted certificates as PEM; empty for those of the system."""
    insecure: bool = False
    server_name: str = ""
    """The name that the server's certificate must have, if not the host's."""
    proxy: str = ""
    namespace: str = DEFAULT_NAMESPACE
    headers: tuple[tuple[str, str], ...] = ()
    """Headers of every request, such as those of impersonation."""

    def tls(self, credential: Credential) -> ssl.SSLContext | None:
        """The TLS settings for this credential; None for an unencrypted server."""
        if urlsplit(self.server).scheme != "https":
            return None
        try:
            made = ssl.create_default_context(cadata=self.authority or None)
        except (ssl.SSLError, ValueError) as error:
            raise CredentialError(f"the certificate authority does not contain PEM certificates: {error}") from error
        # Many cluster authorities lack extensions that Python 3.13 requires and other clients do not.
        made.verify_flags &= ~ssl.VERIFY_X509_STRICT
        made.set_alpn_protocols(["http/1.1"])
        if self.insecure:
            made.check_hostname = False
            made.verify_mode = ssl.CERT_NONE
        if credential.certificate:
            try:
                use(made, credential.certificate.encode(), credential.key.encode())
            except TlsError as error:
                raise CredentialError(
                    f"the client certificate cannot be used: {error}; it and its key must be unencrypted PEM and match"
                ) from error
        return made


def proxy_for(server: str, environment: Mapping[str, str]) -> str:
    """The proxy for this server from the environment, by the rules of Go programs; empty if none."""
    url = urlsplit(server)
    host = url.hostname or ""
    name = "HTTPS_PROXY" if url.scheme == "https" else "HTTP_PROXY"
    proxy = environment.get(name) or environment.get(name.lower()) or ""
    if not proxy or host == "localhost" or ((address := address_of(host)) is not None and address.is_loopback):
        return ""
    exempt = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    if any(spares(rule.strip().lower(), host, url.port) for rule in exempt.split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def spares(rule: str, host: str, port: int | None) -> bool:
    """Whether an entry of NO_PROXY matches this host: `*`, an address, a network, a name, or a domain."""
    if rule == "*":
        return True
    if not rule:
        return False
    if (address := address_of(host)) is not None:
        with contextlib.suppress(ValueError):
            return address in ipaddress.ip_network(rule, strict=False)
    name, _, wanted = rule.rpartition(":") if rule.count(":") == 1 else (rule, "", "")
    if wanted and wanted != str(port or ""):
        return False
    bare = name.removeprefix("*").removeprefix(".")
    return host.endswith(f".{bare}") or (host == bare and not name.startswith((".", "*")))


def address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a host is written as; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
