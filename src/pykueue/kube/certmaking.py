"""Certificates of our own: a certificate authority, what it signs, and when to renew it.

The authority's key is RSA in PKCS#1 format: Kueue reads no other, and would fail on any other if it were installed
again after us. The authority signs certificates with P-256 keys.
"""

import ipaddress
import warnings
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pykueue.base.struct import Frozen
from pykueue.base.units import EPOCH, Instant
from pykueue.kube.tls import Bundle

AUTHORITY_NAME: Final = "kueue-ca"
ORGANIZATION: Final = "kueue"
AUTHORITY_DAYS: Final = 3652
SERVING_DAYS: Final = 365
AHEAD: Final = timedelta(days=90)
"""A certificate is replaced this long before it expires, or after two thirds of its lifetime if that is later."""
RSA_BITS: Final = 2048
RSA_EXPONENT: Final = 65537
SKEW: Final = timedelta(hours=1)
"""The validity begins this far in the past, for clients whose clocks are behind."""
NAME_MAX: Final = 64
"""The most characters of a common name."""

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class Pair(Frozen):
    """A certificate and its key, decoded."""

    certificate: x509.Certificate
    key: Key

    def __repr__(self) -> str:
        return f"Pair({self.certificate.subject.rfc4514_string()})"


def moment(now: Instant) -> datetime:
    """The instant in the form that certificates use."""
    return EPOCH + timedelta(microseconds=now)


def renewed(held: Bundle | None, names: tuple[str, ...], now: Instant) -> Bundle:
    """The bundle to use now for a server of these names: the present one, unless it must be replaced.

    The present authority signs a new certificate as long as it can; a new authority is followed by the old one in the
    bundle, so that older certificates stay trusted.
    """
    authority = None if held is None else pair_in(held.authority, held.authority_key)
    if authority is not None and (due(authority.certificate, now) or not is_authority(authority)):
        authority = None
    if held is not None and authority is not None and suits(held, authority.certificate, names, now):
        return held
    trusted = b"" if held is None else held.authority
    if authority is None:
        authority = new_authority(now)
        trusted = certificate_pem(authority.certificate) + still_valid(trusted, now)
    serving = new_serving(authority, names, now)
    return Bundle(
        authority=trusted,
        authority_key=key_pem(authority.key),
        certificate=certificate_pem(serving.certificate),
        key=key_pem(serving.key),
    )


def suits(held: Bundle, authority: x509.Certificate, names: tuple[str, ...], now: Instant) -> bool:
    """Whether the present certificate can be used for a while."""
    serving = pair_in(held.certificate, held.key)
    if serving is None or due(serving.certificate, now):
        return False
    return serves(serving.certificate, authority, names)


def pair_in(certificate: bytes, key: bytes) -> Pair | None:
    """Decode a certificate and its key; None if they do not match."""
    try:
        found = certificates_in(certificate)[0]
        secret = serialization.load_pem_private_key(key, password=None)
        same = public_bytes(found) == secret.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return Pair(found, secret) if same and isinstance(secret, Key) else None


def certificates_in(text: bytes) -> list[x509.Certificate]:
    """Decode the certificates of a PEM text; raises ValueError if there is none or one is malformed."""
    with warnings.catch_warnings():
        # Kueue's authority has the serial number 0.
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        return x509.load_pem_x509_certificates(text)


def public_bytes(certificate: x509.Certificate) -> bytes:
    """The public key of a certificate."""
    return certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def due(certificate: x509.Certificate, now: Instant) -> bool:
    """Whether a certificate must be renewed, or is not valid yet."""
    return not certificate.not_valid_before_utc <= moment(now) < renewal(certificate)


def renewal(certificate: x509.Certificate) -> datetime:
    """When a certificate must be renewed."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return end - min(AHEAD, (end - begin) / 3)


def due_at(held: Bundle) -> Instant:
    """When a bundle must be renewed."""
    found = [certificates_in(text)[0] for text in (held.authority, held.certificate)]
    return Instant((min(map(renewal, found)) - EPOCH) // timedelta(microseconds=1))


def is_authority(pair: Pair) -> bool:
    """Whether a certificate is an authority that we and Kueue accept."""
    if not isinstance(pair.key, rsa.RSAPrivateKey):
        return False
    try:
        return pair.certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return False


def serves(certificate: x509.Certificate, authority: x509.Certificate, names: tuple[str, ...]) -> bool:
    """Whether a server of these names can use this certificate with clients that trust the authority."""
    try:
        certificate.verify_directly_issued_by(authority)
        listed = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound, x509.DuplicateExtension):
        return False
    return all(alternative(name) in listed for name in names)


def still_valid(trusted: bytes, now: Instant) -> bytes:
    """The certificates in this text that have not expired, without malformed ones."""
    try:
        found = certificates_in(trusted)
    except ValueError:
        return b""
    return b"".join(certificate_pem(one) for one in found if moment(now) < one.not_valid_after_utc)


def alternative(name: str) -> x509.GeneralName:
    """A server's name as a subject alternative name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def new_authority(now: Instant) -> Pair:
    """A new certificate authority."""
    key = rsa.generate_private_key(public_exponent=RSA_EXPONENT, key_size=RSA_BITS)
    subject = named(AUTHORITY_NAME)
    made = begun(subject, subject, key.public_key(), now, AUTHORITY_DAYS)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    made = made.add_extension(usage(signs=True), critical=True)
    # Kueue looks for its name here, and recreates everything if it is missing.
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(AUTHORITY_NAME)]), critical=False)
    made = made.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    return Pair(made.sign(key, hashes.SHA256()), key)


def new_serving(authority: Pair, names: tuple[str, ...], now: Instant) -> Pair:
    """A certificate for a server of these names."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = authority.certificate
    made = begun(named(names[0]), issuer.subject, key.public_key(), now, SERVING_DAYS)
    made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    made = made.add_extension(usage(signs=False), critical=True)
    made = made.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    made = made.add_extension(x509.SubjectAlternativeName([*map(alternative, names)]), critical=False)
    made = made.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False
    )
    return Pair(made.sign(authority.key, hashes.SHA256()), key)


def begun(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey,
    now: Instant,
    days: int,
) -> x509.CertificateBuilder:
    """The common part of all our certificates."""
    at = moment(now)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(at - SKEW)
        .not_valid_after(at + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def named(name: str) -> x509.Name:
    """A subject of this name; a name that is too long is only in the alternative names."""
    short = [x509.NameAttribute(NameOID.COMMON_NAME, name)] if len(name) <= NAME_MAX else []
    return x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION), *short])


def usage(*, signs: bool) -> x509.KeyUsage:
    """The key usage: signing certificates, or serving."""
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def certificate_pem(certificate: x509.Certificate) -> bytes:
    """A certificate as text."""
    return certificate.public_bytes(Encoding.PEM)


def key_pem(key: Key) -> bytes:
    """A key as text, in the notation of its kind."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
