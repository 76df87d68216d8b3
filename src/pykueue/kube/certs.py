"""Which certificate do we serve with, and who must trust it? Made, stored, rotated and injected, or read from files.

Every replica runs this, leading or not. They agree on one bundle through the Secret that it is stored in: whoever
writes it first has made it for all. `certmaking` says when a bundle has to be replaced.
"""

import asyncio
import base64
import binascii
import logging
import ssl
from collections.abc import Mapping
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
"""The definitions whose objects are converted by a webhook."""
ENTRIES: Final = ("ca.crt", "ca.key", "tls.crt", "tls.key")
"""The entries of the Secret, in the order of a bundle's fields."""
ATTEMPTS: Final = 5
SETTLED_SECONDS: Final = 60
FIRST_SECONDS: Final = 1
FILES_SECONDS: Final = 5


class Certificates(Protocol):
    """Where a server gets its certificate from."""

    ready: asyncio.Event
    """Whether there is one."""
    trouble: str
    """What stands in the way; empty while all is well."""

    async def run(self) -> None:
        """Keep the certificate up to date, for ever."""


class Names(Frozen):
    """What the objects are called that the certificates are about."""

    namespace: str
    service: str = WEBHOOK_SERVICE
    secret: str = WEBHOOK_SECRET
    also: tuple[str, ...] = ()
    """Other names and addresses that the webhooks are reached by."""

    @property
    def served(self) -> tuple[str, ...]:
        """The names that the certificate is for."""
        host = f"{self.service}.{self.namespace}.svc"
        return (host, f"{host}.cluster.local", *self.also)

    def configuration(self, stage: str) -> str:
        """The name of the webhook configuration, `mutating` or `validating`, beside this service."""
        return f"{self.service.removesuffix('-webhook-service')}-{stage}-webhook-configuration"


class ServiceReference(Wire):
    """The Service that a webhook is reached by."""

    namespace: str = ""
    name: str = ""


class ClientConfig(Wire):
    """How a webhook is reached and trusted."""

    service: ServiceReference | None = None
    ca_bundle: str = ""


class Webhook(Wire):
    """One webhook of a configuration."""

    name: str
    client_config: ClientConfig = ClientConfig()


class WebhookConfiguration(Wire):
    """A webhook configuration, as far as trust goes."""

    webhooks: list[Webhook] | None = None


class ConversionWebhook(Wire):
    """The webhook that converts objects."""

    client_config: ClientConfig | None = None


class Conversion(Wire):
    """How objects are converted."""

    strategy: str = ""
    webhook: ConversionWebhook | None = None


class DefinitionSpec(Wire):
    """What a definition says of conversion."""

    conversion: Conversion | None = None


class Definition(Wire):
    """A CustomResourceDefinition, as far as trust goes."""

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
    """Certificates that we make ourselves, and have the API server trust."""

    def __init__(self, kube: Kube, clock: Clock, context: ssl.SSLContext, names: Names) -> None:
        self.kube = kube
        self.clock = clock
        self.context = context
        self.names = names
        self.ready = asyncio.Event()
        self.trouble = "the certificate is not made yet"
        self.used: Bundle | None = None
        self.told: dict[str, str] = {}
        """What was last said of each object in which the bundle belongs, so that it is said once."""

    async def run(self) -> None:
        """Keep certificate and trust up to date until cancelled."""
        failures = 0
        while True:
            settled = await self.once()
            failures = 0 if settled else failures + 1
            delay = SETTLED_SECONDS if settled else min(FIRST_SECONDS << min(failures - 1, 6), SETTLED_SECONDS)
            await self.clock.sleep(delay * MICROS)

    async def once(self) -> bool:
        """Bring everything up to date; whether nothing is left to do."""
        try:
            bundle = await self.agreed()
            self.show(bundle)
            injected = await self.inject(base64.b64encode(bundle.authority).decode())
        except (KubeError, TlsError) as error:
            if self.trouble != str(error):
                LOG.error("the webhooks' certificate is not up to date: %s; trying again", error)
            self.trouble = str(error)
            return False
        except Exception:
            LOG.exception("the webhooks' certificate is not up to date; trying again")
            self.trouble = "a mistake of ours, which the log tells"
            return False
        self.trouble = ""
        self.ready.set()
        return injected

    def show(self, bundle: Bundle) -> None:
        """Serve with this bundle from now on."""
        if bundle == self.used:
            return
        use(self.context, bundle.certificate, bundle.key)
        self.used = bundle
        LOG.info("serving with the certificate in Secret %s/%s", self.names.namespace, self.names.secret)

    async def agreed(self) -> Bundle:
        """The bundle that all replicas use: the stored one, or a new one that is stored first."""
        # What makes certificates takes a tenth of a second to import and many megabytes, and not everybody makes any.
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
                continue  # Another replica was faster: its bundle is ours too.
            LOG.info("a new certificate is in Secret %s/%s", self.names.namespace, self.names.secret)
            return wanted
        raise TlsError(f"Secret {self.names.namespace}/{self.names.secret} keeps changing; see who else writes it")

    async def stored(self) -> Tree | None:
        """The Secret, if there is one."""
        try:
            return TREE.decode(await self.kube.get(SECRETS, self.names.secret, self.names.namespace))
        except NotFoundError:
            return None

    async def store(self, stored: Tree | None, bundle: Bundle) -> None:
        """Write the bundle to the Secret, unless somebody has written to it since it was read."""
        values = (bundle.authority, bundle.authority_key, bundle.certificate, bundle.key)
        written: Tree = {key: base64.b64encode(value).decode() for key, value in zip(ENTRIES, values, strict=True)}
        if stored is None:
            metadata: Tree = {"name": self.names.secret, "namespace": self.names.namespace}
            made: Tree = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": written}
            await self.kube.create(SECRETS, msgspec.json.encode(made), self.names.namespace)
            return
        data = stored.get("data")
        # The version that was read is in the metadata, and makes this a conflict if it is no longer the present one.
        changed: Tree = {**stored, "data": {**(data if isinstance(data, dict) else {}), **written}}
        await self.kube.replace(SECRETS, self.names.secret, msgspec.json.encode(changed), self.names.namespace)

    async def inject(self, authority: str) -> bool:
        """Have the API server trust the authority; whether it does wherever it should."""
        told = await asyncio.gather(
            self.told_of(MUTATING_WEBHOOKS, self.names.configuration("mutating"), authority),
            self.told_of(VALIDATING_WEBHOOKS, self.names.configuration("validating"), authority),
            *(self.told_of(CRDS, name, authority) for name in CONVERTED),
        )
        return all(told)

    async def told_of(self, resource: Resource, name: str, authority: str) -> bool:
        """Have one object trust the authority; whether it does, or need not. What is missing now may come."""
        where = f"{resource.kind} {name}"
        try:
            raw = await self.kube.get(resource, name)
            ours = ServiceReference(self.names.namespace, self.names.service)
            steps = (definition_steps if resource is CRDS else configuration_steps)(raw, authority, ours)
            if steps:
                await self.change(resource, name, raw, steps)
                LOG.info("%s trusts our certificate now", where)
        except NotFoundError:
            self.say(where, "does not exist, so nothing is asked of our webhooks by it", logging.INFO)
            return False
        except (KubeError, msgspec.DecodeError) as error:
            self.say(where, f"cannot be told to trust our certificate: {error}; trying again", logging.ERROR)
            return False
        self.told.pop(where, None)
        return True

    async def change(self, resource: Resource, name: str, raw: bytes, steps: list[PatchOperation]) -> None:
        """Carry out the steps on an object as it was read. Where Kueue's roles are in force, we may only replace it."""
        try:
            await self.kube.patch(resource, name, msgspec.json.encode(steps), how=Patch.JSON)
        except DeniedError:
            await self.kube.replace(resource, name, msgspec.json.encode(stepped(TREE.decode(raw), steps)))

    def say(self, where: str, what: str, level: int) -> None:
        """Log something about an object, once."""
        if self.told.get(where) != what:
            LOG.log(level, "%s %s", where, what)
        self.told[where] = what


def stepped(tree: Tree, steps: list[PatchOperation]) -> Tree:
    """The object after the steps of a patch; the version that it was read with guards what `test` would."""
    for step in steps:
        if step.op == "add":
            *way, last = step.path.split("/")[1:]
            inner: Any = tree
            for part in way:
                inner = inner[int(part)] if isinstance(inner, list) else inner[part]
            inner[last] = step.value
    return tree


def configuration_steps(raw: bytes, authority: str, ours: ServiceReference) -> list[PatchOperation]:
    """The patch by which a webhook configuration trusts the authority, wherever it does not lead to somebody else."""
    steps: list[PatchOperation] = []
    for index, webhook in enumerate(WEBHOOK_CONFIGURATION.decode(raw).webhooks or ()):
        if trusts(webhook.client_config, authority, ours):
            continue
        # The list may have changed since it was read.
        steps.append(PatchOperation("test", f"/webhooks/{index}/name", webhook.name))
        steps.append(PatchOperation("add", f"/webhooks/{index}/clientConfig/caBundle", authority))
    return steps


def definition_steps(raw: bytes, authority: str, ours: ServiceReference) -> list[PatchOperation]:
    """The patch by which a definition whose objects our webhook converts trusts the authority."""
    conversion = DEFINITION.decode(raw).spec.conversion
    if conversion is None or conversion.strategy != "Webhook" or conversion.webhook is None:
        return []
    client = conversion.webhook.client_config
    if client is None or trusts(client, authority, ours):
        return []
    return [PatchOperation("add", "/spec/conversion/webhook/clientConfig/caBundle", authority)]


def trusts(client: ClientConfig, authority: str, ours: ServiceReference) -> bool:
    """Whether a webhook trusts the authority already, or has no need to since it is somebody else's."""
    return client.ca_bundle == authority or client.service not in (None, ours)


def bundle_in(secret: Mapping[str, Json]) -> Bundle | None:
    """The bundle in a Secret; nothing where an entry is missing or cannot be read."""
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
    """A certificate that somebody else keeps up to date, as `tls.crt` and `tls.key` in a folder."""

    def __init__(self, folder: Path, clock: Clock, context: ssl.SSLContext) -> None:
        self.folder = folder
        self.clock = clock
        self.context = context
        self.ready = asyncio.Event()
        self.trouble = "the certificate is not read yet"
        self.used: tuple[bytes, bytes] | None = None

    async def run(self) -> None:
        """Read the files, and again whenever they change, until cancelled."""
        while True:
            self.once()
            delay = FILES_SECONDS if self.ready.is_set() else FIRST_SECONDS
            await self.clock.sleep(delay * MICROS)

    def once(self) -> None:
        """Serve with what is in the files now; while they make no sense, with what was there before."""
        try:
            found = ((self.folder / "tls.crt").read_bytes(), (self.folder / "tls.key").read_bytes())
            if found != self.used:
                use(self.context, *found)
                self.used = found
                LOG.info("serving with the certificate in %s", self.folder)
        except (OSError, TlsError) as error:
            says = f"webhook.certDir: {error}; put a certificate in tls.crt and its key in tls.key"
            if self.trouble != says:
                LOG.error("%s", says)
            self.trouble = says
            return
        self.trouble = ""
        self.ready.set()
