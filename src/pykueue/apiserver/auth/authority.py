"""The certificate authority in the data folder, and the server and client certificates that it signs.

Every kubeconfig that is written here trusts this authority; a client may also identify itself with a certificate of it.
"""

import contextlib
import hashlib
import ssl
from functools import lru_cache
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pykueue.apiserver.wire.identity import Peer
from pykueue.base.datafolder import CERTIFICATE_FILES, CERTIFICATES, FOLDER_MODE, put
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.kube.certmaking import Pair, begun, certificate_pem, key_pem, pair_in, renewed, usage
from pykueue.kube.tls import Bundle, server_context, use

CLIENT_DAYS: Final = 365
LOCALHOST: Final = "127.0.0.1"
LOOPBACK: Final = ("localhost", LOCALHOST, "::1")


class Credentials(Frozen):
    """A client's certificate and key as PEM; the repr does not show the key."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"Credentials({len(self.certificate)} bytes of certificate)"


class Authority:
    """The CA certificate and key, and the server's own certificate."""

    def __init__(self, bundle: Bundle, folder: Path | None, names: tuple[str, ...]) -> None:
        self.bundle = bundle
        self.folder = folder
        """Where the certificates are stored; None if they are temporary."""
        self.names = names
        """The names of the server."""
        self.contexts: list[ssl.SSLContext] = []
        """The contexts that serve with these certificates."""

    @classmethod
    def open(cls, data: Path | None, now: Instant, names: tuple[str, ...] = LOOPBACK) -> "Authority":
        """The authority of a data folder, created or renewed if necessary; without a folder, a temporary one."""
        if data is None:
            return cls(renewed(None, names, now), None, names)
        folder = data / CERTIFICATES
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        held = stored(folder)
        bundle = renewed(held, names, now)
        if bundle != held:
            store(folder, bundle)
        return cls(bundle, folder, names)

    def renew(self, now: Instant) -> bool:
        """Replace certificates that are due, and serve with the new ones from the next handshake on.

        Returns whether any was replaced; raises `OSError` if they cannot be stored, and then keeps the present ones.
        """
        bundle = renewed(self.bundle, self.names, now)
        if bundle == self.bundle:
            return False
        if self.folder is not None:
            store(self.folder, bundle)
        self.bundle = bundle
        for context in self.contexts:
            self.load(context)
        return True

    @property
    def certificate(self) -> bytes:
        """The CA certificate as PEM, for kubeconfigs."""
        return self.bundle.authority

    def context(self) -> ssl.SSLContext:
        """A TLS context of the server, which `renew` keeps up to date.

        Client certificates are optional, and must be signed by this authority.
        """
        context = server_context()
        self.load(context)
        context.verify_mode = ssl.CERT_OPTIONAL
        self.contexts.append(context)
        return context

    def load(self, context: ssl.SSLContext) -> None:
        """Serve with the present certificate, and trust clients of the present authority."""
        use(context, self.bundle.certificate, self.bundle.key)
        context.load_verify_locations(cadata=self.bundle.authority.decode())

    def issue(self, name: str, groups: tuple[str, ...], now: Instant) -> tuple[Credentials, str]:
        """A client certificate for a user, and its fingerprint."""
        pair = pair_in(self.bundle.authority, self.bundle.authority_key)
        assert pair is not None, "the authority's certificate and key were read together"
        made = client_pair(pair, name, groups, now)
        text = certificate_pem(made.certificate)
        return Credentials(text, key_pem(made.key)), fingerprint(made.certificate.public_bytes(DER))


DER: Final = serialization.Encoding.DER


def client_pair(authority: Pair, name: str, groups: tuple[str, ...], now: Instant) -> Pair:
    """A certificate and key for a client of this name and these groups."""
    key = ec.generate_private_key(ec.SECP256R1())
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in sorted(groups)]
    subject = x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = begun(subject, authority.certificate.subject, key.public_key(), now, CLIENT_DAYS)
    made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    made = made.add_extension(usage(signs=False), critical=True)
    made = made.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
    made = made.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False
    )
    return Pair(made.sign(authority.key, hashes.SHA256()), key)


def fingerprint(der: bytes) -> str:
    """The SHA-256 fingerprint that identifies a certificate."""
    return hashlib.sha256(der).hexdigest()


@lru_cache(maxsize=1024)
def peer_of(der: bytes) -> Peer | None:
    """The subject of a verified client certificate; None if it has no common name."""
    try:
        names = x509.load_der_x509_certificate(der).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except (ValueError, UnsupportedAlgorithm):
        return None
    return Peer(str(names[0].value), fingerprint(der)) if len(names) == 1 else None


def stored(folder: Path) -> Bundle | None:
    """The authority stored in a folder; None if a part is missing."""
    with contextlib.suppress(FileNotFoundError):
        return Bundle(*((folder / name).read_bytes() for name in CERTIFICATE_FILES))
    return None


def store(folder: Path, bundle: Bundle) -> None:
    """Write all files atomically, readable by their owner only."""
    for name, content in zip(
        CERTIFICATE_FILES, (bundle.authority, bundle.authority_key, bundle.certificate, bundle.key), strict=True
    ):
        put(folder / name, content)
