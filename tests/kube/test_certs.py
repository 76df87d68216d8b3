"""Which certificate do we serve with, and who trusts it? Real handshakes with what was made, stored and injected."""

import asyncio
import base64
import logging
import ssl
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from pykueue.base.clock import START, ManualClock
from pykueue.base.units import MICROS, Instant, Seconds, after
from pykueue.kube import certmaking
from pykueue.kube.certmaking import due_at, moment, renewed
from pykueue.kube.certs import CONVERTED, GivenCertificates, Names, OwnCertificates, bundle_in
from pykueue.kube.port import (
    CRDS,
    MUTATING_WEBHOOKS,
    SECRETS,
    VALIDATING_WEBHOOKS,
    DeniedError,
    RejectedError,
    UnansweredError,
)
from pykueue.kube.tls import Bundle, TlsError, server_context
from tests.clocks import SkippingClock
from tests.fakes.faulty import Faulty, settle

NAMES = Names("kueue-system", also=("127.0.0.1", "localhost"))
NOW = START
OURS = {"namespace": "kueue-system", "name": "kueue-webhook-service", "path": "/x", "port": 443}
MUTATING = "kueue-mutating-webhook-configuration"
VALIDATING = "kueue-validating-webhook-configuration"

Tree = dict[str, Any]


def after_days(days: int) -> Instant:
    return after(NOW, Seconds(days * 86_400))


@cache
def made() -> Bundle:
    """A bundle of this time; one for all tests, since the making takes a while."""
    return renewed(None, NAMES.served, NOW)


async def own(api: Faulty, clock: SkippingClock) -> OwnCertificates:
    """Certificates on an API that has committed what the test stored."""
    await settle()
    return OwnCertificates(api, clock, server_context(), NAMES)


def secret_on(api: Faulty) -> Tree:
    return api.at(SECRETS, "kueue-webhook-server-cert", "kueue-system")


def bundle_on(api: Faulty) -> Bundle:
    found = bundle_in(secret_on(api))
    assert found is not None
    return found


def secret(**data: str) -> Tree:
    metadata = {"name": "kueue-webhook-server-cert", "namespace": "kueue-system", "labels": {"app": "kueue"}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}


def stored(bundle: Bundle) -> Tree:
    parts = (bundle.authority, bundle.authority_key, bundle.certificate, bundle.key)
    keys = ("ca.crt", "ca.key", "tls.crt", "tls.key")
    return secret(**{key: base64.b64encode(part).decode() for key, part in zip(keys, parts, strict=True)})


def hooks(name: str, *clients: Tree) -> Tree:
    webhooks = [{"name": f"w{index}.kb.io", "clientConfig": client} for index, client in enumerate(clients)]
    return {"metadata": {"name": name}, "webhooks": webhooks}


def definition(name: str, strategy: str = "Webhook", **client: object) -> Tree:
    conversion: Tree = {"strategy": strategy}
    if strategy == "Webhook":
        conversion["webhook"] = {"conversionReviewVersions": ["v1"], "clientConfig": {"service": OURS, **client}}
    return {"metadata": {"name": name}, "spec": {"group": "kueue.x-k8s.io", "conversion": conversion}}


def installed(bundle: Bundle | None = None) -> Faulty:
    """A cluster with our manifests, where nobody has run yet, but for whoever stored this bundle."""
    api = cluster()
    api.store(SECRETS, secret() if bundle is None else stored(bundle))
    install(api)
    return api


def cluster() -> Faulty:
    api = Faulty(ManualClock())
    api.namespaces("kueue-system")
    api.serve(MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
    return api


def install(api: Faulty) -> None:
    api.store(MUTATING_WEBHOOKS, hooks(MUTATING, {"service": OURS}, {"service": OURS}))
    api.store(VALIDATING_WEBHOOKS, hooks(VALIDATING, {"service": OURS}))
    for name in CONVERTED:
        api.store(CRDS, definition(name))


async def shown(context: ssl.SSLContext, authority: bytes, at: Instant, name: str = "localhost") -> x509.Certificate:
    """The certificate that a server with this context shows to a client who trusts the authority at that time."""
    client = ssl.create_default_context(cadata=authority.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    # The test's time is not the machine's, so the lives of certificates are looked at here.
    client.verify_flags |= 0x200000  # X509_V_FLAG_NO_CHECK_TIME
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=name)
        found = x509.load_der_x509_certificate(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
        writer.close()
    assert found.not_valid_before_utc <= moment(at) < found.not_valid_after_utc
    return found


def test_an_authority_vouches_for_the_servers_names() -> None:
    authority, serving = (x509.load_pem_x509_certificate(one) for one in (made().authority, made().certificate))
    assert authority.subject.rfc4514_string() == "CN=kueue-ca,O=kueue"
    assert isinstance(serving.public_key(), ec.EllipticCurvePublicKey)
    assert authority.not_valid_after_utc - moment(NOW) == timedelta(days=3652)
    assert serving.not_valid_after_utc - moment(NOW) == timedelta(days=365)
    names = serving.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [
        "kueue-webhook-service.kueue-system.svc",
        "kueue-webhook-service.kueue-system.svc.cluster.local",
        "localhost",
    ]
    vouched = serving.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    assert vouched == authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    assert serving.extensions.get_extension_for_class(x509.KeyUsage).critical
    assert authority.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    assert "PRIVATE" not in repr(made())


def test_the_authority_has_a_name_and_a_key_that_kueue_can_read() -> None:
    authority = x509.load_pem_x509_certificate(made().authority)
    names = authority.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["kueue-ca"]
    assert made().authority_key.startswith(b"-----BEGIN RSA PRIVATE KEY-----")


def test_an_authority_that_kueue_could_not_read_is_replaced() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = certmaking.named("kueue-ca")
    life = certmaking.begun(subject, subject, key.public_key(), NOW, 3652)
    constraints = x509.BasicConstraints(ca=True, path_length=0)
    authority = certmaking.Pair(life.add_extension(constraints, critical=True).sign(key, hashes.SHA256()), key)
    serving = certmaking.new_serving(authority, NAMES.served, NOW)
    pairs = (authority.certificate, authority.key), (serving.certificate, serving.key)
    parts = [part for one, key in pairs for part in (certmaking.certificate_pem(one), certmaking.key_pem(key))]
    held = Bundle(*parts)
    assert renewed(held, NAMES.served, NOW).authority.endswith(held.authority)


@pytest.mark.parametrize("name", ["kueue-webhook-service.kueue-system.svc", "localhost", "127.0.0.1"])
async def test_a_strict_client_gets_through_by_every_name(name: str) -> None:
    api, clock = installed(made()), SkippingClock()
    certificates = await own(api, clock)
    assert await certificates.once()
    await shown(certificates.context, bundle_on(api).authority, clock.now(), name)


def test_a_long_name_is_served_too() -> None:
    names = Names("n" * 63, service="s" * 63).served
    named = renewed(made(), names, NOW)
    assert named.authority == made().authority
    assert renewed(named, names, NOW) == named


@pytest.mark.parametrize(
    ("days", "same_authority", "same_certificate"),
    [
        pytest.param(274, True, True, id="young"),
        pytest.param(276, True, False, id="ninety days before its end"),
        pytest.param(400, True, False, id="past its end"),
        pytest.param(3563, False, False, id="ninety days before the end of the authority"),
        pytest.param(4000, False, False, id="past the end of the authority"),
        pytest.param(-1, False, False, id="before its time"),
    ],
)
def test_a_certificate_is_replaced_in_time(days: int, same_authority: bool, same_certificate: bool) -> None:
    first, now = made(), after_days(days)
    second = renewed(first, NAMES.served, now)
    assert (second.authority == first.authority) is same_authority
    assert (second.certificate == first.certificate) is same_certificate
    assert renewed(second, NAMES.served, now) == second


def test_who_still_shows_an_old_certificate_is_trusted_beside_a_new_authority() -> None:
    first = made()
    second = renewed(first, NAMES.served, after_days(3600))
    assert second.authority.endswith(first.authority)
    third = renewed(second, NAMES.served, after_days(7200))
    assert first.authority not in third.authority, "what is past its end is trusted no longer"
    assert x509.load_pem_x509_certificates(third.authority)[1:] == x509.load_pem_x509_certificates(second.authority)[:1]


def test_another_name_asks_for_another_certificate_by_the_same_authority() -> None:
    first = made()
    second = renewed(first, (*NAMES.served, "::1"), NOW)
    assert second.authority == first.authority
    assert second.certificate != first.certificate


def numbered_zero(certificate: bytes) -> bytes:
    """A certificate with the serial number 0 in place of 7; `cryptography` does not sign such certificates."""
    version = b"\xa0\x03\x02\x01\x02"
    der = ssl.PEM_cert_to_DER_cert(certificate.decode())
    return ssl.DER_cert_to_PEM_cert(der.replace(version + b"\x02\x01\x07", version + b"\x02\x01\x00")).encode()


def test_a_bundle_that_kueue_has_made_is_used() -> None:
    """Its keys are RSA, its certificate is for the one name, and its authority has the serial number 0.

    A warning about that number would be an error here.
    """
    keys = [rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2)]
    subject = certmaking.named("kueue-ca")
    life = (moment(NOW) - timedelta(hours=1), moment(NOW) + timedelta(days=3652))

    def signed(key: rsa.RSAPrivateKey, name: x509.Name, extension: x509.ExtensionType) -> bytes:
        builder = x509.CertificateBuilder(subject, name, key.public_key(), 7, *life)
        return builder.add_extension(extension, critical=True).sign(keys[0], hashes.SHA256()).public_bytes(Encoding.PEM)

    def written(key: rsa.RSAPrivateKey) -> bytes:
        return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())

    host = NAMES.served[0]
    alternatives = x509.SubjectAlternativeName([x509.DNSName(host)])
    bundle = Bundle(
        authority=numbered_zero(signed(keys[0], subject, x509.BasicConstraints(ca=True, path_length=None))),
        authority_key=written(keys[0]),
        certificate=signed(keys[1], certmaking.named(host), alternatives),
        key=written(keys[1]),
    )
    assert renewed(bundle, (host,), NOW) == bundle
    assert due_at(bundle) == after_days(3652 - 90)
    assert renewed(bundle, NAMES.served, after_days(3600)).authority.endswith(bundle.authority)
    more = renewed(bundle, NAMES.served, NOW)
    assert more.authority == bundle.authority
    assert renewed(more, NAMES.served, NOW) == more


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(None, id="no Secret"),
        pytest.param(secret(), id="an empty Secret"),
        pytest.param(secret(**{"ca.crt": "???", "ca.key": "", "tls.crt": "", "tls.key": ""}), id="no base64"),
        pytest.param(secret(**dict.fromkeys(("ca.crt", "ca.key", "tls.crt", "tls.key"), "eA==")), id="no certificates"),
        pytest.param({**secret(), "data": None}, id="no entries"),
    ],
)
async def test_a_bundle_is_made_where_there_is_none(there: Tree | None) -> None:
    api, clock = installed(), SkippingClock()
    api.drop(SECRETS, "kueue-webhook-server-cert", "kueue-system")
    if there is not None:
        api.store(SECRETS, there)
    certificates = await own(api, clock)
    assert await certificates.once()
    assert certificates.ready.is_set()
    assert certificates.trouble == ""
    assert certificates.used == bundle_on(api)
    kept = secret_on(api)
    assert kept["metadata"].get("labels") == (None if there is None else {"app": "kueue"})


async def test_entries_of_others_stay_in_the_secret() -> None:
    api = installed()
    api.store(SECRETS, secret(other="eA=="))
    await (await own(api, SkippingClock())).once()
    assert secret_on(api)["data"]["other"] == "eA=="


async def test_replicas_that_start_together_agree_on_one_bundle() -> None:
    api, clock = installed(), SkippingClock()
    replicas = [await own(api, clock) for _ in range(3)]
    assert await asyncio.gather(*(one.once() for one in replicas)) == [True] * 3
    assert {one.used for one in replicas} == {bundle_on(api)}
    assert len([what for what in api.calls if what.startswith("replace")]) == 3, "each tried to be the first"


async def test_a_bundle_that_another_replica_has_just_written_is_taken() -> None:
    api, clock = installed(), SkippingClock()
    theirs = made()

    def faster(what: str) -> None:
        if what.startswith("replace"):
            api.before = None
            api.store(SECRETS, stored(theirs))

    certificates = await own(api, clock)
    api.before = faster
    await certificates.once()
    assert certificates.used == theirs
    assert bundle_on(api) == theirs


async def test_a_secret_that_keeps_changing_is_given_up_with_words() -> None:
    api, clock = installed(), SkippingClock()

    def always(what: str) -> None:
        if what.startswith("replace"):
            api.store(SECRETS, secret())

    api.before = always
    certificates = await own(api, clock)
    assert not await certificates.once()
    assert "keeps changing" in certificates.trouble
    assert not certificates.ready.is_set()


async def test_a_second_round_writes_nothing() -> None:
    api, clock = installed(made()), SkippingClock()
    certificates = await own(api, clock)
    assert await certificates.once()
    api.calls.clear()
    assert await certificates.once()
    assert await (await own(api, clock)).once(), "another replica"
    assert {what.split()[0] for what in api.calls} == {"get"}


async def test_the_certificate_changes_while_we_serve() -> None:
    api, clock = installed(made()), SkippingClock()
    certificates = await own(api, clock)
    await certificates.once()
    trusted = bundle_on(api).authority
    first = await shown(certificates.context, trusted, clock.now())
    clock.turn_to(after_days(300))
    await certificates.once()
    second = await shown(certificates.context, trusted, clock.now())
    assert first != second


async def test_a_certificate_of_a_new_authority_is_shown_after_that_is_told() -> None:
    api, clock = installed(made()), SkippingClock()
    certificates = await own(api, clock)
    await certificates.once()
    old = bundle_on(api)
    clock.turn_to(after_days(3600))
    assert not await certificates.once(), "there is something left to do"
    new = bundle_on(api)
    assert new.authority != old.authority
    told = api.at(VALIDATING_WEBHOOKS, VALIDATING)["webhooks"][0]["clientConfig"]["caBundle"]
    assert base64.b64decode(told) == new.authority
    assert certificates.used == old
    assert await certificates.once()
    assert certificates.used == new


async def test_a_short_life_is_renewed_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AUTHORITY_DAYS", "SERVING_DAYS"):
        monkeypatch.setattr(certmaking, name, 75 / 86400)
    monkeypatch.setattr(certmaking, "SKEW", timedelta(0))
    api, clock = installed(), SkippingClock()
    certificates = await own(api, clock)
    seen: list[int] = []

    def look(what: str) -> None:
        if what.startswith("get secrets"):
            seen.append((clock.now() - START) // MICROS)

    api.before = look
    task = asyncio.create_task(certificates.run())
    while len(seen) < 4:
        await asyncio.sleep(0)
    task.cancel()
    # Made at 0, due at 50 and shown a second after its authority was told; due again at 100.
    assert seen == [0, 50, 51, 100]


async def test_a_certificate_that_another_replica_renewed_is_shown_here_too() -> None:
    api, clock = installed(made()), SkippingClock()
    first, second = await own(api, clock), await own(api, clock)
    await first.once()
    await second.once()
    clock.turn_to(after_days(300))
    await second.once()
    writes = len([what for what in api.calls if what.startswith("replace")])
    await first.once()
    assert len([what for what in api.calls if what.startswith("replace")]) == writes
    assert first.used == second.used == bundle_on(api)


async def test_everybody_who_asks_us_is_told_whom_to_trust() -> None:
    api, clock = installed(made()), SkippingClock()
    await (await own(api, clock)).once()
    trusted = base64.b64encode(bundle_on(api).authority).decode()
    for resource, name in ((MUTATING_WEBHOOKS, MUTATING), (VALIDATING_WEBHOOKS, VALIDATING)):
        for webhook in api.at(resource, name)["webhooks"]:
            assert webhook["clientConfig"] == {"service": OURS, "caBundle": trusted}
    for name in CONVERTED:
        conversion = api.at(CRDS, name)["spec"]["conversion"]
        assert conversion["webhook"]["clientConfig"] == {"service": OURS, "caBundle": trusted}


async def test_where_kueues_roles_are_in_force_objects_are_replaced() -> None:
    api, clock = installed(made()), SkippingClock()

    def kueues(what: str) -> None:
        if what.startswith("patch"):
            raise DeniedError(what, 403, "Forbidden", "may not patch")

    api.before = kueues
    assert await (await own(api, clock)).once()
    trusted = base64.b64encode(made().authority).decode()
    found = api.at(MUTATING_WEBHOOKS, MUTATING)
    assert [one["clientConfig"] for one in found["webhooks"]] == [{"service": OURS, "caBundle": trusted}] * 2
    definition = api.at(CRDS, CONVERTED[0])
    assert definition["spec"]["group"] == "kueue.x-k8s.io"
    assert definition["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] == trusted


async def test_only_ours_are_told() -> None:
    api, clock = installed(made()), SkippingClock()
    theirs = {"service": {"namespace": "other", "name": "webhook"}, "caBundle": "eA=="}
    local = {"url": "https://127.0.0.1:9443/mutate-batch-v1-job"}
    api.store(MUTATING_WEBHOOKS, hooks(MUTATING, theirs, local))
    api.store(CRDS, definition(CONVERTED[0], "None"))
    api.store(CRDS, definition(CONVERTED[1], service=theirs["service"], caBundle="eA=="))
    before = {name: api.at(CRDS, name) for name in CONVERTED[:2]}
    assert await (await own(api, clock)).once()
    trusted = base64.b64encode(bundle_on(api).authority).decode()
    found = [one["clientConfig"] for one in api.at(MUTATING_WEBHOOKS, MUTATING)["webhooks"]]
    assert found == [theirs, {**local, "caBundle": trusted}]
    assert before == {name: api.at(CRDS, name) for name in CONVERTED[:2]}


async def test_what_is_not_installed_yet_is_told_when_it_comes(caplog: pytest.LogCaptureFixture) -> None:
    api, clock = cluster(), SkippingClock()
    certificates = await own(api, clock)
    with caplog.at_level(logging.INFO):
        assert not await certificates.once()
        assert not await certificates.once()
    assert certificates.ready.is_set(), "the absence of a webhook configuration keeps nobody from serving"
    install(api)
    await settle()
    assert await certificates.once()
    said = [record.getMessage() for record in caplog.records]
    assert len([one for one in said if "does not exist" in one]) == 2 + len(CONVERTED), "said once of each"


async def test_a_configuration_that_changed_in_between_is_told_later() -> None:
    api, clock = installed(made()), SkippingClock()

    def swapped(what: str) -> None:
        if what == f"patch mutatingwebhookconfigurations {MUTATING}":
            api.before = None
            api.put(MUTATING_WEBHOOKS, MUTATING, webhooks=api.at(MUTATING_WEBHOOKS, MUTATING)["webhooks"][::-1])

    api.before = swapped
    certificates = await own(api, clock)
    assert not await certificates.once()
    assert "caBundle" not in api.at(MUTATING_WEBHOOKS, MUTATING)["webhooks"][0]["clientConfig"]
    assert await certificates.once()
    assert "caBundle" in api.at(MUTATING_WEBHOOKS, MUTATING)["webhooks"][0]["clientConfig"]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(DeniedError("get secrets", 403, "Forbidden", "may not get secrets"), id="denied"),
        pytest.param(UnansweredError("get secrets", 0, "", "no route to the server"), id="unreachable"),
        pytest.param(RejectedError("get secrets", 400, "BadRequest", "no"), id="rejected"),
        pytest.param(ZeroDivisionError("a bug"), id="a bug of ours"),
    ],
)
async def test_no_answer_is_reported_and_asked_for_again(error: Exception) -> None:
    api, clock = installed(made()), SkippingClock()

    def broken(what: str) -> None:
        if "secrets" in what:
            raise error

    certificates = await own(api, clock)
    api.before = broken
    task = asyncio.create_task(certificates.run())
    while not certificates.trouble or certificates.trouble == "the certificate is not made yet":
        await asyncio.sleep(0)
    assert not certificates.ready.is_set()
    api.before = None
    await asyncio.wait_for(certificates.ready.wait(), 5)
    task.cancel()


async def test_a_failure_grows_rarer_and_a_settled_state_is_looked_at_each_minute() -> None:
    api, clock = cluster(), SkippingClock()
    looks: list[int] = []

    def look(what: str) -> None:
        if what.startswith("get secrets"):
            looks.append((clock.now() - START) // MICROS)

    certificates = await own(api, clock)
    api.before = look
    task = asyncio.create_task(certificates.run())
    while len(looks) < 9:
        await asyncio.sleep(0)
    task.cancel()
    assert looks == [0, 1, 3, 7, 15, 31, 63, 123, 183]


async def test_no_key_is_ever_logged(caplog: pytest.LogCaptureFixture) -> None:
    api, clock = installed(made()), SkippingClock()
    with caplog.at_level(logging.DEBUG):
        await (await own(api, clock)).once()
    secret_part = base64.b64encode(bundle_on(api).key).decode()[60:90]
    said = "\n".join(map(str, caplog.records)) + caplog.text
    assert caplog.records
    assert "PRIVATE" not in said
    assert secret_part not in said


def given(folder: Path, bundle: Bundle) -> None:
    (folder / "tls.crt").write_bytes(bundle.certificate)
    (folder / "tls.key").write_bytes(bundle.key)


async def test_given_files_are_served_and_read_again_when_they_change(tmp_path: Path) -> None:
    first, second = made(), renewed(None, NAMES.served, NOW)
    certificates = GivenCertificates(tmp_path, SkippingClock(), server_context())
    certificates.once()
    assert not certificates.ready.is_set()
    assert "webhook.certDir" in certificates.trouble
    given(tmp_path, first)
    certificates.once()
    assert certificates.ready.is_set()
    assert certificates.trouble == ""
    await shown(certificates.context, first.authority, NOW)
    (tmp_path / "tls.key").write_bytes(second.key)
    certificates.once()
    assert "cannot be used together" in certificates.trouble
    await shown(certificates.context, first.authority, NOW)
    given(tmp_path, second)
    certificates.once()
    assert certificates.trouble == ""
    await shown(certificates.context, second.authority, NOW)


async def test_given_files_are_looked_at_for_ever(tmp_path: Path) -> None:
    bundle = made()
    certificates = GivenCertificates(tmp_path, SkippingClock(), server_context())
    task = asyncio.create_task(certificates.run())
    await asyncio.sleep(0)
    given(tmp_path, bundle)
    await asyncio.wait_for(certificates.ready.wait(), 5)
    task.cancel()


Change = Callable[[Bundle], Bundle]


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda b: Bundle(b.authority, b.authority_key, b.certificate, b.authority_key), id="another key"),
        pytest.param(lambda b: Bundle(b.certificate, b.key, b.certificate, b.key), id="no authority"),
        pytest.param(
            lambda b: Bundle(b.authority, b.authority_key, *leaf(renewed(None, NAMES.served, NOW))), id="not its own"
        ),
        pytest.param(lambda b: Bundle(b"x", b.authority_key, b.certificate, b.key), id="an unreadable authority"),
        pytest.param(lambda b: Bundle(b.authority, b"x", b.certificate, b.key), id="an unreadable key"),
    ],
)
def test_a_bundle_that_does_not_hold_together_is_replaced(spoil: Change) -> None:
    wrong = spoil(made())
    right = renewed(wrong, NAMES.served, NOW)
    assert right != wrong
    assert renewed(right, NAMES.served, NOW) == right


def leaf(bundle: Bundle) -> tuple[bytes, bytes]:
    return bundle.certificate, bundle.key


async def test_a_bundle_that_openssl_cannot_use_is_reported() -> None:
    certificates = await own(installed(made()), SkippingClock())
    with pytest.raises(TlsError):
        certificates.show(Bundle(b"", b"", b"x", b"y"))


def test_who_makes_no_certificate_does_not_load_what_makes_them() -> None:
    code = "import sys, pykueue.app.manager; print('cryptography' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
