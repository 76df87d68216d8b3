"""The webhooks' certificate: created, stored, rotated and injected, or read from files.

Every replica runs this, leader or not. They agree on one bundle through the Secret that stores it: the first to write
it decides for all. `certmaking` says when a bundle must be replaced.
"""

import asyncio
import base64
import binascii
import logging
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import msgspec

from pykueue.api.config.types import WEBHOOK_SECRET, WEBHOOK_SERVICE
from pykueue.api.core import Json, Tree
from pykueue.api.kinds import KINDS
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen, Wire
from pykueue.base.units import MICROS
from pykueue.kube.port import (
    CRDS,
    MUTATING_WEBHOOKS,
    SECRETS,
    VALIDATING_WEBHOOKS,
    ConflictError,
    DeniedError,
    ExistsError,
    Kube,
    KubeError,
    NotFoundError,
    Patch,
    Resource,
)
from pykueue.kube.tls import Bundle, TlsError, use

LOG: Final = logging.getLogger(__name__)

CONVERTED: Final = tuple(
    f"{KINDS[kind].plural}.{KINDS[kind].group}"
    for kind in ("LocalQueue", "ClusterQueue", "Cohort", "Workload", "MultiKueueCluster")
)
"""The definitions whose objects a webhook converts."""
ENTRIES: Final = ("ca.crt", "ca.key", "tls.crt", "tls.key")
"""The entries of the Secret, in the order of a bundle's fields."""
ATTEMPTS: Final = 5
SETTLED_SECONDS: Final = 60
FIRST_SECONDS: Final = 1
FILES_SECONDS: Final = 5


class Certificates(Protocol):
    """A source of the server's certificate."""

    ready: asyncio.Event
    """Whether there is a certificate."""
    trouble: str
    """The present problem; empty if there is none."""
    shown: Callable[[bytes, bytes], None]
    """Called with every certificate and key that are served from then on."""

    async def run(self) -> None:
        """Keep the certificate up to date until cancelled."""


class Names(Frozen):
    """Names of the objects that the certificates concern."""

    namespace: str
    service: str = WEBHOOK_SERVICE
    secret: str = WEBHOOK_SECRET
    also: tuple[str, ...] = ()
    """Further names and addresses of the webhooks."""

    @property
    def served(self) -> tuple[str, ...]:
        """The names that the certificate covers."""
        host = f"{self.service}.{self.namespace}.svc"
        return (host, f"{host}.cluster.local", *self.also)

    def configuration(self, stage: str) -> str:
        """The name of this service's webhook configuration, `mutating` or `validating`."""
        return f"{self.service.removesuffix('-webhook-service')}-{stage}-webhook-configuration"


class ServiceReference(Wire):
    """The Service of a webhook."""

    namespace: str = ""
    name: str = ""


class ClientConfig(Wire):
    """How a webhook is reached and verified."""

    service: ServiceReference | None = None
    ca_bundle: str = ""


class Webhook(Wire):
    """One webhook of a configuration."""

    name: str
    client_config: ClientConfig = ClientConfig()


class WebhookConfiguration(Wire):
    """A webhook configuration, as far as trust is concerned."""

    webhooks: list[Webhook] | None = None


class ConversionWebhook(Wire):
    """The webhook that converts objects."""

    client_config: ClientConfig | None = None


class Conversion(Wire):
    """How objects are converted."""

    strategy: str = ""
    webhook: ConversionWebhook | None = None


class DefinitionSpec(Wire):
    """The conversion part of a definition."""

    conversion: Conversion | None = None


class Definition(Wire):
    """A CustomResourceDefinition, as far as trust is concerned."""

    spec: DefinitionSpec = DefinitionSpec()


class PatchOperation(Frozen):
    """One operation of a JSON patch."""

    op: Literal["test", "add"]
    path: str
    value: str


WEBHOOK_CONFIGURATION: Final = msgspec.json.Decoder(WebhookConfiguration)
DEFINITION: Final = msgspec.json.Decoder(Definition)
TREE: Final = msgspec.json.Decoder(dict[str, Any])


class OwnCertificates:
    """Certificates that we create, and inject where the API server needs them."""

    def __init__(self, kube: Kube, clock: Clock, context: ssl.SSLContext, names: Names) -> None:
        self.kube = kube
        self.clock = clock
        self.context = context
        self.names = names
        self.ready = asyncio.Event()
        self.trouble = "the certificate is not made yet"
        self.shown: Callable[[bytes, bytes], None] = no_listener
        self.used: Bundle | None = None
        self.announced = b""
        """The authority that was last injected, or should have been."""
        self.told: dict[str, str] = {}
        """The last message about each object that needs the bundle, so that each is logged once."""

    async def run(self) -> None:
        """Keep certificate and trust up to date until cancelled."""
        failures = 0
        while True:
            settled = await self.once()
            failures = 0 if settled else failures + 1
            delay = SETTLED_SECONDS if settled else min(FIRST_SECONDS << min(failures - 1, 6), SETTLED_SECONDS)
            await self.clock.sleep(min(delay * MICROS, self.left()))

    def left(self) -> int:
        """Microseconds until the certificate is to be renewed, at least a second."""
        from pykueue.kube.certmaking import due_at

        until = SETTLED_SECONDS * MICROS if self.used is None else due_at(self.used) - self.clock.now()
        return max(FIRST_SECONDS * MICROS, until)

    async def once(self) -> bool:
        """Bring everything up to date; returns whether nothing is left to do."""
        try:
            bundle = await self.agreed()
            # A certificate of a new authority is served once the API server has had time to learn whom to trust.
            trusted = self.used is None or bundle.authority in (self.used.authority, self.announced)
            if trusted:
                self.show(bundle)
            injected = await self.inject(base64.b64encode(bundle.authority).decode())
            self.announced = bundle.authority
        except (KubeError, TlsError) as error:
            if self.trouble != str(error):
                LOG.error("certificates: update failed, will retry error=%s", error)
            self.trouble = str(error)
            return False
        except Exception:
            LOG.exception("certificates: update failed, will retry")
            self.trouble = "internal error while updating the certificate; see the log"
            return False
        self.trouble = ""
        self.ready.set()
        return injected and trusted

    def show(self, bundle: Bundle) -> None:
        """Serve with this bundle from now on."""
        if bundle == self.used:
            return
        use(self.context, bundle.certificate, bundle.key)
        self.shown(bundle.certificate, bundle.key)
        self.used = bundle
        LOG.info("certificates: serving from a Secret secret=%s/%s", self.names.namespace, self.names.secret)

    async def agreed(self) -> Bundle:
        """The bundle that all replicas use: the stored one, or a new one that is stored first."""
        # The import takes a tenth of a second and many megabytes, and not every process creates certificates.
        from pykueue.kube.certmaking import renewed

        for _ in range(ATTEMPTS):
            stored = await self.stored()
            held = None if stored is None else bundle_in(stored)
            wanted = renewed(held, self.names.served, self.clock.now())
            if wanted == held:
                return wanted
            try:
                await self.store(stored, wanted)
            except (ConflictError, ExistsError):
                continue  # Another replica was faster; use its bundle.
            LOG.info("certificates: stored a new certificate secret=%s/%s", self.names.namespace, self.names.secret)
            return wanted
        raise TlsError(f"Secret {self.names.namespace}/{self.names.secret} keeps changing; find its other writer")

    async def stored(self) -> Tree | None:
        """The Secret, if there is one."""
        try:
            return TREE.decode(await self.kube.get(SECRETS, self.names.secret, self.names.namespace))
        except NotFoundError:
            return None

    async def store(self, stored: Tree | None, bundle: Bundle) -> None:
        """Write the bundle to the Secret, unless it has changed since it was read."""
        values = (bundle.authority, bundle.authority_key, bundle.certificate, bundle.key)
        written: Tree = {key: base64.b64encode(value).decode() for key, value in zip(ENTRIES, values, strict=True)}
        if stored is None:
            metadata: Tree = {"name": self.names.secret, "namespace": self.names.namespace}
            made: Tree = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": written}
            await self.kube.create(SECRETS, msgspec.json.encode(made), self.names.namespace)
            return
        data = stored.get("data")
        # The metadata contains the version that was read, so a later change makes this a conflict.
        changed: Tree = {**stored, "data": {**(data if isinstance(data, dict) else {}), **written}}
        await self.kube.replace(SECRETS, self.names.secret, msgspec.json.encode(changed), self.names.namespace)

    async def inject(self, authority: str) -> bool:
        """Inject the authority wherever it belongs; returns whether it is everywhere."""
        told = await asyncio.gather(
            self.inject_into(MUTATING_WEBHOOKS, self.names.configuration("mutating"), authority),
            self.inject_into(VALIDATING_WEBHOOKS, self.names.configuration("validating"), authority),
            *(self.inject_into(CRDS, name, authority) for name in CONVERTED),
        )
        return all(told)

    async def inject_into(self, resource: Resource, name: str, authority: str) -> bool:
        """Inject the authority into one object; returns whether it is there or not needed.

        A missing object may appear later.
        """
        where = f"{resource.kind} {name}"
        try:
            raw = await self.kube.get(resource, name)
            ours = ServiceReference(self.names.namespace, self.names.service)
            steps = (definition_steps if resource is CRDS else configuration_steps)(raw, authority, ours)
            if steps:
                await self.change(resource, name, raw, steps)
                LOG.info("certificates: injected the authority object=%s", where)
        except NotFoundError:
            self.say(where, "does not exist, so the API server does not call its webhooks", logging.INFO)
            return False
        except (KubeError, msgspec.DecodeError) as error:
            self.say(where, f"did not accept our authority, will retry: {error}", logging.ERROR)
            return False
        self.told.pop(where, None)
        return True

    async def change(self, resource: Resource, name: str, raw: bytes, steps: list[PatchOperation]) -> None:
        """Apply the steps to an object as it was read. Under Kueue's roles we may only replace it."""
        try:
            await self.kube.patch(resource, name, msgspec.json.encode(steps), how=Patch.JSON)
        except DeniedError:
            await self.kube.replace(resource, name, msgspec.json.encode(stepped(TREE.decode(raw), steps)))

    def say(self, where: str, what: str, level: int) -> None:
        """Log a message about an object once."""
        if self.told.get(where) != what:
            LOG.log(level, "certificates: %s %s", where, what)
        self.told[where] = what


def no_listener(certificate: bytes, key: bytes) -> None:
    """Nobody else serves with the certificate."""


def stepped(tree: Tree, steps: list[PatchOperation]) -> Tree:
    """The object after the steps of a patch; its resourceVersion takes the place of `test`."""
    for step in steps:
        if step.op == "add":
            *way, last = step.path.split("/")[1:]
            inner: Any = tree
            for part in way:
                inner = inner[int(part)] if isinstance(inner, list) else inner[part]
            inner[last] = step.value
    return tree


def configuration_steps(raw: bytes, authority: str, ours: ServiceReference) -> list[PatchOperation]:
    """The patch that injects the authority into a webhook configuration, except into webhooks of other servers."""
    steps: list[PatchOperation] = []
    for index, webhook in enumerate(WEBHOOK_CONFIGURATION.decode(raw).webhooks or ()):
        if trusts(webhook.client_config, authority, ours):
            continue
        # The list may have changed since it was read.
        steps.append(PatchOperation("test", f"/webhooks/{index}/name", webhook.name))
        steps.append(PatchOperation("add", f"/webhooks/{index}/clientConfig/caBundle", authority))
    return steps


def definition_steps(raw: bytes, authority: str, ours: ServiceReference) -> list[PatchOperation]:
    """The patch that injects the authority into a definition whose objects our webhook converts."""
    conversion = DEFINITION.decode(raw).spec.conversion
    if conversion is None or conversion.strategy != "Webhook" or conversion.webhook is None:
        return []
    client = conversion.webhook.client_config
    if client is None or trusts(client, authority, ours):
        return []
    return [PatchOperation("add", "/spec/conversion/webhook/clientConfig/caBundle", authority)]


def trusts(client: ClientConfig, authority: str, ours: ServiceReference) -> bool:
    """Whether a webhook has the authority already, or belongs to another server."""
    return client.ca_bundle == authority or client.service not in (None, ours)


def bundle_in(secret: Mapping[str, Json]) -> Bundle | None:
    """The bundle in a Secret; None if an entry is missing or malformed."""
    data = secret.get("data")
    if not isinstance(data, dict):
        return None
    found: list[bytes] = []
    for key in ENTRIES:
        value = data.get(key)
        try:
            found.append(base64.b64decode(value, validate=True) if isinstance(value, str) else b"")
        except binascii.Error:
            return None
    return Bundle(*found) if all(found) else None


class GivenCertificates:
    """A certificate maintained by others, as `tls.crt` and `tls.key` in a folder."""

    def __init__(self, folder: Path, clock: Clock, context: ssl.SSLContext) -> None:
        self.folder = folder
        self.clock = clock
        self.context = context
        self.ready = asyncio.Event()
        self.trouble = "the certificate is not read yet"
        self.shown: Callable[[bytes, bytes], None] = no_listener
        self.used: tuple[bytes, bytes] | None = None

    async def run(self) -> None:
        """Read the files, and again after each change, until cancelled."""
        while True:
            self.once()
            delay = FILES_SECONDS if self.ready.is_set() else FIRST_SECONDS
            await self.clock.sleep(delay * MICROS)

    def once(self) -> None:
        """Serve with the present files; while they are invalid, with the previous ones."""
        try:
            found = ((self.folder / "tls.crt").read_bytes(), (self.folder / "tls.key").read_bytes())
            if found != self.used:
                use(self.context, *found)
                self.shown(*found)
                self.used = found
                LOG.info("certificates: serving from files folder=%s", self.folder)
        except (OSError, TlsError) as error:
            says = f"webhook.certDir: {error}; put a certificate in tls.crt and its key in tls.key"
            if self.trouble != says:
                LOG.error("certificates: %s", says)
            self.trouble = says
            return
        self.trouble = ""
        self.ready.set()
