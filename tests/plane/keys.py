"""Where do the certificates and keys of a private control plane come from? From here, made anew for each one."""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pykueue.base.clock import SystemClock
from pykueue.base.units import MICROS


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def key_pair(folder: Path, name: str) -> tuple[Path, Path]:
    """Files with a new private key and its public key, to sign service account tokens with."""
    key = ec.generate_private_key(ec.SECP256R1())
    private, public = folder / f"{name}.key", folder / f"{name}.pub"
    private.write_bytes(private_pem(key))
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return private, public


class Authority:
    """A certificate authority that is trusted by nobody but the test; its files lie in a folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name} of one test run")])
        self.certificate = (
            self.builder(self.subject, self.key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self.key, hashes.SHA256())
        )
        self.file = folder / f"{name}.crt"
        self.file.write_bytes(self.pem)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.fromtimestamp(SystemClock().now() // MICROS, UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=2))
        )

    def issue(
        self, name: str, hosts: Sequence[str] = (), user: str = "", groups: Sequence[str] = ()
    ) -> tuple[Path, Path]:
        """Files `name`.crt and `name`.key: a server's for these hosts, or a client's for this user."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user or name)])
        usage = ExtendedKeyUsageOID.CLIENT_AUTH if user else ExtendedKeyUsageOID.SERVER_AUTH
        built = self.builder(subject, key.public_key()).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if hosts:
            built = built.add_extension(
                x509.SubjectAlternativeName([host_name(host) for host in hosts]), critical=False
            )
        certificate, private = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        certificate.write_bytes(built.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        private.write_bytes(private_pem(key))
        return certificate, private


def host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
