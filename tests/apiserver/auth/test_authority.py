"""How do a client and this server trust each other? Handshakes in memory, with certificates of ours and of others."""

import contextlib
import ssl
import stat
from pathlib import Path

import pytest

from pykueue.apiserver.auth.authority import Authority, Credentials, peer_of
from pykueue.base.clock import SystemClock
from pykueue.base.datafolder import CERTIFICATE_FILES, CERTIFICATES
from pykueue.base.units import MICROS, Instant
from pykueue.kube.tls import in_file

NOW = Instant(1_800_000_000 * MICROS)
"""Handshakes go by the machine's own clock instead."""


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.open(None, Instant(1_790_000_000 * MICROS))


def client(authority: Authority, shown: Credentials | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    if shown is not None:
        with in_file(shown.certificate + shown.key) as path:
            context.load_cert_chain(path)
    return context


def shake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> bytes | None:
    """The certificate that the server sees; an `ssl.SSLError` where the two do not trust each other."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(up, down, server_side=True)
    theirs = client.wrap_bio(down, up, server_hostname=name)
    for _ in range(4):
        for side in (theirs, ours):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    with contextlib.suppress(ssl.SSLWantReadError):
        ours.read(1)
    return ours.getpeercert(binary_form=True)


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1"])
def test_a_client_needs_no_certificate(name: str) -> None:
    authority = Authority.open(None, SystemClock().now())
    assert shake(authority.context(), client(authority, None), name) is None
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(authority.context(), client(authority, None), "elsewhere.example")


def test_a_certificate_of_ours_says_whose_it_is_and_another_is_refused() -> None:
    now = SystemClock().now()
    authority, stranger = Authority.open(None, now), Authority.open(None, now)
    shown, fingerprint = authority.issue("ann", ("pykueue:users",), now)
    der = shake(authority.context(), client(authority, shown), "localhost")
    assert der is not None
    found = peer_of(der)
    assert found is not None
    assert (found.name, found.fingerprint) == ("ann", fingerprint)
    forged, _ = stranger.issue("ann", ("pykueue:users",), now)
    with pytest.raises(ssl.SSLError):
        shake(authority.context(), client(authority, forged), "localhost")


def test_a_serving_certificate_is_none_of_a_client() -> None:
    authority = Authority.open(None, SystemClock().now())
    serving = Credentials(authority.bundle.certificate, authority.bundle.key)
    with pytest.raises(ssl.SSLError):
        shake(authority.context(), client(authority, serving), "localhost")


def test_the_authority_stays_in_its_folder_and_only_the_owner_reads_it(tmp_path: Path) -> None:
    first = Authority.open(tmp_path, NOW)
    assert Authority.open(tmp_path, NOW).bundle == first.bundle
    folder = tmp_path / CERTIFICATES
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == dict.fromkeys(
        CERTIFICATE_FILES, 0o600
    )


def test_a_certificate_that_comes_to_its_end_is_renewed_by_the_same_authority(tmp_path: Path) -> None:
    first = Authority.open(tmp_path, NOW)
    later = Authority.open(tmp_path, Instant(NOW + 300 * 86400 * MICROS))
    assert later.bundle.authority == first.bundle.authority
    assert later.bundle.certificate != first.bundle.certificate
    named = Authority.open(tmp_path, NOW, ("localhost", "box.lab"))
    assert named.bundle.authority == first.bundle.authority
    assert named.bundle.certificate != later.bundle.certificate


def test_printing_credentials_shows_no_key(authority: Authority) -> None:
    shown, _ = authority.issue("ann", (), NOW)
    assert "PRIVATE" not in repr(shown)
    assert peer_of(b"no certificate") is None
