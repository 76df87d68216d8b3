"""How do we serve over TLS? The demands of a Configuration, in what a connection gets."""

import ssl
from pathlib import Path

import pytest

from pykueue.api.config.rules import CIPHER_SUITES
from pykueue.api.config.types import Tls
from pykueue.base.units import Instant
from pykueue.kube.certmaking import renewed
from pykueue.kube.tls import TlsError, cipher, in_file, server_context, use

WEAK = ("3DES", "RC4")
"""What today's OpenSSL no longer has."""


@pytest.mark.parametrize(
    ("demanded", "least"),
    [
        pytest.param(None, ssl.TLSVersion.TLSv1_2, id="nothing demanded"),
        pytest.param(Tls(min_version="VersionTLS13"), ssl.TLSVersion.TLSv1_3, id="only 1.3"),
    ],
)
def test_older_versions_are_not_spoken(demanded: Tls | None, least: ssl.TLSVersion) -> None:
    assert server_context(demanded).minimum_version is least


@pytest.mark.parametrize("suite", sorted(one for one in CIPHER_SUITES if "_WITH_" in one))
def test_every_suite_of_a_configuration_has_its_name_here(suite: str) -> None:
    if any(weak in suite for weak in WEAK):
        with pytest.raises(TlsError, match=r"tls\.cipherSuites: .* has none of them; choose stronger ones"):
            server_context(Tls(cipher_suites=(suite,)))
        return
    offered = server_context(Tls(cipher_suites=(suite,))).get_ciphers()
    assert [one["name"] for one in offered if one["protocol"] != "TLSv1.3"] == [cipher(suite)]


def test_suites_of_tls_1_3_are_no_choice() -> None:
    chosen = server_context(Tls(cipher_suites=("TLS_AES_128_GCM_SHA256",)))
    assert [one["name"] for one in chosen.get_ciphers()] == [one["name"] for one in server_context().get_ciphers()]


@pytest.mark.parametrize(
    ("curves", "possible"),
    [
        pytest.param((29,), True, id="one"),
        pytest.param((23, 24), False, id="two"),
        pytest.param((4588,), False, id="one that OpenSSL does not have"),
    ],
)
def test_one_curve_can_be_demanded(curves: tuple[int, ...], possible: bool) -> None:
    if possible:
        assert server_context(Tls(curve_preferences=curves))
        return
    with pytest.raises(TlsError, match="only one curve can be set"):
        server_context(Tls(curve_preferences=curves))


def test_a_key_of_another_certificate_is_refused_before_anything_changes() -> None:
    context = server_context()
    first = renewed(None, ("localhost",), Instant(0))
    other = renewed(first, ("127.0.0.1",), Instant(0))
    use(context, first.certificate, first.key)
    with pytest.raises(TlsError, match="cannot be used together"):
        use(context, other.certificate, first.key)
    use(context, first.certificate, first.key)


def test_the_file_is_gone_as_soon_as_it_is_read() -> None:
    with in_file(b"secret") as path:
        assert Path(path).read_bytes() == b"secret"
    with pytest.raises(OSError, match="No such file"):
        Path(path).read_bytes()
