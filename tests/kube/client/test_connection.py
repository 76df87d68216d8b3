"""Is the right server reached, by the right way, and no other one trusted?"""

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web

from pykueue.base.clock import Clock, SystemClock
from pykueue.kube.client.connection import Connection, proxy_for
from pykueue.kube.client.credentials import Credential, CredentialError, Fixed
from pykueue.kube.client.http import HttpKube
from pykueue.kube.port import DeniedError, UnansweredError
from tests.clocks import SkippingClock
from tests.fakes.tinyapi import THINGS, TinyApi, thing
from tests.plane.keys import Authority

PROXY = "http://gate:3128"


@pytest.mark.parametrize(
    ("server", "environment", "proxy"),
    [
        pytest.param("https://far:6443", {}, "", id="none is set"),
        pytest.param("https://far:6443", {"HTTPS_PROXY": PROXY}, PROXY, id="one is set"),
        pytest.param("https://far:6443", {"https_proxy": "gate:3128"}, PROXY, id="in lower case, without a scheme"),
        pytest.param("https://far:6443", {"HTTP_PROXY": PROXY}, "", id="for the other scheme"),
        pytest.param("http://far:80", {"HTTP_PROXY": PROXY}, PROXY, id="for this scheme"),
        pytest.param("https://127.0.0.1:1", {"HTTPS_PROXY": PROXY}, "", id="the loopback never"),
        pytest.param("https://localhost:1", {"HTTPS_PROXY": PROXY}, "", id="nor by its name"),
        pytest.param("https://10.96.0.1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "a, 10.0.0.0/8"}, "", id="a network"),
        pytest.param("https://11.0.0.1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8"}, PROXY, id="another network"),
        pytest.param("https://10.0.0.1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.0.0.1"}, "", id="an address"),
        pytest.param("https://a.b.c", {"HTTPS_PROXY": PROXY, "no_proxy": "b.c"}, "", id="a domain"),
        pytest.param("https://b.c", {"HTTPS_PROXY": PROXY, "NO_PROXY": "b.c"}, "", id="a host"),
        pytest.param("https://b.c", {"HTTPS_PROXY": PROXY, "NO_PROXY": ".b.c"}, PROXY, id="only what is below"),
        pytest.param("https://a.b.c", {"HTTPS_PROXY": PROXY, "NO_PROXY": ".b.c"}, "", id="what is below"),
        pytest.param("https://ab.c", {"HTTPS_PROXY": PROXY, "NO_PROXY": "b.c"}, PROXY, id="not by half a name"),
        pytest.param("https://b.c:6443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "b.c:6443"}, "", id="with this port"),
        pytest.param("https://b.c:1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "b.c:6443"}, PROXY, id="with another port"),
        pytest.param("https://b.c", {"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}, "", id="nothing at all"),
    ],
)
def test_the_environment_names_the_proxy(server: str, environment: dict[str, str], proxy: str) -> None:
    assert proxy_for(server, environment) == proxy


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("keys"))


def serving(authority: Authority, *hosts: str, clients: bool = False) -> ssl.SSLContext:
    """How the server speaks, with a certificate for these hosts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate, key = authority.issue("-".join(hosts), hosts=hosts)
    context.load_cert_chain(certificate, key)
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority.file)
    return context


async def reach(connection: Connection, clock: Clock | None = None) -> bytes:
    kube = HttpKube(connection, clock or SkippingClock())
    try:
        return await kube.get(THINGS, "a", "default")
    finally:
        await kube.close()


async def over_tls(tls: ssl.SSLContext, connect: Callable[[str], Connection]) -> bytes:
    """What a client that connects like this gets from a server that speaks like that."""
    async with TinyApi().serve(tls) as api:
        await api.put("things", thing("a"))
        return await reach(connect(api.url))


NOBODY = Fixed(Credential())


async def test_a_server_whose_authority_we_trust_is_reached(authority: Authority) -> None:
    tls = serving(authority, "127.0.0.1")
    assert await over_tls(tls, lambda url: Connection(url, NOBODY, authority=authority.pem.decode()))


async def test_a_server_that_nobody_we_trust_vouches_for_is_not(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other").pem.decode()
    tls = serving(authority, "127.0.0.1")
    with pytest.raises(UnansweredError, match="CERTIFICATE_VERIFY_FAILED"):
        await over_tls(tls, lambda url: Connection(url, NOBODY, authority=other))
    with pytest.raises(UnansweredError, match="CERTIFICATE_VERIFY_FAILED"):
        await over_tls(tls, lambda url: Connection(url, NOBODY))


async def test_a_server_of_another_name_is_not_reached_unless_that_name_is_wanted(authority: Authority) -> None:
    tls, pem = serving(authority, "api.example.com"), authority.pem.decode()
    with pytest.raises(UnansweredError, match="CERTIFICATE_VERIFY_FAILED"):
        await over_tls(tls, lambda url: Connection(url, NOBODY, authority=pem))
    assert await over_tls(tls, lambda url: Connection(url, NOBODY, authority=pem, server_name="api.example.com"))


async def test_a_server_can_be_reached_unchecked(authority: Authority) -> None:
    assert await over_tls(serving(authority, "api.example.com"), lambda url: Connection(url, NOBODY, insecure=True))


async def test_a_client_certificate_is_shown(authority: Authority) -> None:
    tls, pem = serving(authority, "127.0.0.1", clients=True), authority.pem.decode()
    certificate, key = authority.issue("me", user="me")
    me = Fixed(Credential("", certificate.read_text(), key.read_text()))
    assert await over_tls(tls, lambda url: Connection(url, me, authority=pem))
    with pytest.raises(UnansweredError):
        await over_tls(tls, lambda url: Connection(url, NOBODY, authority=pem))


async def test_a_new_client_certificate_makes_new_connections(authority: Authority) -> None:
    pem = authority.pem.decode()
    pairs = [[path.read_text() for path in authority.issue(name, user=name)] for name in ("one", "two")]

    class Changing:
        async def fetch(self, clock: Clock) -> Credential:
            certificate, key = pairs.pop(0) if len(pairs) > 1 else pairs[0]
            return Credential("", certificate, key, until=clock.moment())

    async with TinyApi().serve(serving(authority, "127.0.0.1", clients=True)) as api:
        await api.put("things", thing("a"))
        seen: list[str] = []

        async def note(request: web.Request) -> web.StreamResponse | None:
            assert request.transport is not None
            shown = request.transport.get_extra_info("peercert")
            seen.append(dict(pair for names in shown["subject"] for pair in names)["commonName"])
            return None

        api.accident = note
        kube = HttpKube(Connection(api.url, Changing(), authority=pem), SystemClock())
        for _ in range(3):
            await kube.get(THINGS, "a", "default")
        assert seen == ["one", "two", "two"]
        await kube.close()


def test_authorities_without_every_extension_are_accepted(authority: Authority) -> None:
    made = Connection("https://x", NOBODY, authority=authority.pem.decode()).tls(Credential())
    assert made is not None
    assert not made.verify_flags & ssl.VERIFY_X509_STRICT
    assert made.check_hostname
    assert made.verify_mode is ssl.CERT_REQUIRED


async def test_a_certificate_that_is_of_no_use_is_said_to_be_so(authority: Authority) -> None:
    certificate, _ = authority.issue("mine", user="mine")
    _, other = authority.issue("other", user="other")
    with pytest.raises(CredentialError, match="PEM and match"):
        Connection("https://x", NOBODY).tls(Credential("", certificate.read_text(), other.read_text()))
    with pytest.raises(CredentialError, match="certificate authority"):
        Connection("https://x", NOBODY, authority="what?").tls(Credential())
    with pytest.raises(DeniedError, match="PEM and match"):
        await reach(Connection("https://127.0.0.1:1", Fixed(Credential("", certificate.read_text(), "what?"))))


async def test_a_server_below_a_path_is_reached() -> None:
    async with TinyApi().serve() as api:
        await api.put("things", thing("a"))
        assert await reach(Connection(f"{api.url}/k8s/clusters/c-1", NOBODY))
        assert api.log == [("GET", "/k8s/clusters/c-1/apis/example.com/v1/namespaces/default/things/a")]
