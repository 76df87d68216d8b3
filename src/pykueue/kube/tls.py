"""TLS of our servers: the settings of a Configuration, and a certificate that can change while serving."""

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from typing import Final

from pykueue.api.config.types import Tls
from pykueue.base.struct import Frozen

VERSIONS: Final[Mapping[str, ssl.TLSVersion]] = {
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
CURVES: Final[Mapping[int, str]] = {23: "prime256v1", 24: "secp384r1", 25: "secp521r1", 29: "X25519"}
CIPHERS: Final[Mapping[str, str]] = {
    "3DES_EDE_CBC_SHA": "DES-CBC3-SHA",
    "AES_128_CBC_SHA": "AES128-SHA",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_CBC_SHA": "AES256-SHA",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "CHACHA20_POLY1305": "CHACHA20-POLY1305",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
    "RC4_128_SHA": "RC4-SHA",
}
"""OpenSSL's names for the second half of a cipher suite, after `WITH`."""
EXCHANGES: Final[Mapping[str, str]] = {"ECDHE_ECDSA": "ECDHE-ECDSA-", "ECDHE_RSA": "ECDHE-RSA-", "RSA": ""}
"""OpenSSL's names for the first half."""


class TlsError(ValueError):
    """A TLS setting that is not supported here, or an unusable certificate."""


class Bundle(Frozen):
    """The webhooks' certificate, key and authority as PEM. Its repr does not show the keys."""

    authority: bytes
    """The certificate to trust, followed by earlier ones that may still be in use."""
    authority_key: bytes
    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"Bundle({len(self.authority)} bytes of authority, {len(self.certificate)} bytes of certificate)"


def server_context(demands: Tls | None = None) -> ssl.SSLContext:
    """A server context; it needs a certificate (`use`) before any handshake succeeds."""
    demands = demands or Tls()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = VERSIONS[demands.min_version]
    context.set_alpn_protocols(["http/1.1"])
    suites = [suite for suite in demands.cipher_suites if "_WITH_" in suite]
    # Names of TLS 1.3 suites lack WITH; neither Go nor Python lets one choose among them.
    if suites:
        try:
            context.set_ciphers(":".join(map(cipher, suites)))
        except ssl.SSLError as error:
            raise TlsError(
                f"tls.cipherSuites: {', '.join(suites)}: this machine's OpenSSL has none of them; choose stronger ones"
            ) from error
    if demands.curve_preferences:
        choose_curve(context, demands.curve_preferences)
    return context


def cipher(suite: str) -> str:
    """OpenSSL's name for a cipher suite."""
    exchange, _, rest = suite.removeprefix("TLS_").partition("_WITH_")
    return EXCHANGES[exchange] + CIPHERS[rest]


def choose_curve(context: ssl.SSLContext, preferences: tuple[int, ...]) -> None:
    """Restrict the key exchange to one curve; Python cannot name several."""
    wanted = [CURVES[curve] for curve in preferences if curve in CURVES]
    if len(preferences) != 1 or not wanted:
        raise TlsError(
            "tls.curvePreferences: only one curve can be set, and it must be one of "
            f"{', '.join(map(str, CURVES))}; name one, or remove the list"
        )
    context.set_ecdh_curve(wanted[0])


def use(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Use this certificate with its chain from the next handshake on; open connections stay."""
    with in_file(certificate.strip() + b"\n" + key.strip() + b"\n") as path:
        try:
            # A mismatch leaves a context with half of the pair, so the pair is tried on a scratch context first. An
            # empty password prevents a prompt for an encrypted key.
            for loaded in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), context):
                loaded.load_cert_chain(path, password="")
        except (ssl.SSLError, ValueError) as error:
            raise TlsError(f"the certificate and its key cannot be used together: {error}") from error


@contextlib.contextmanager
def in_file(content: bytes) -> Iterator[str]:
    """The path of a temporary file with this content, in memory if the system supports that.

    Python's ssl takes certificates only from files, and keys must not reach a disk.
    """
    if hasattr(os, "memfd_create"):
        handle, path = os.memfd_create("certificate"), ""
    else:
        handle, path = tempfile.mkstemp(suffix=".pem")
    try:
        with open(handle, "wb", closefd=False) as file:
            file.write(content)
        yield path or f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)
        if path:
            os.unlink(path)
