"""The inventory of a server. What this user may not read, or the server does not serve, is left out and named."""

import contextlib
from collections.abc import Iterator, Sequence
from email.utils import parsedate_to_datetime
from typing import Final

import msgspec

from pykueue.api.checks import AdmissionCheck
from pykueue.api.codec import DecodeError, decode_as
from pykueue.api.config.types import DEFAULT_NAMESPACE, LEADER_LEASE
from pykueue.api.core import KubeObject, Namespace, Tree
from pykueue.api.install.deployment import CONFIG, CONFIG_FILE
from pykueue.api.install.install import ACCOUNT
from pykueue.api.install.rbac import MUTATING, VALIDATING
from pykueue.api.kinds import KINDS
from pykueue.api.kueue import ClusterQueue
from pykueue.api.names import GROUP, SERVER_VERSION, WorkloadCondition
from pykueue.api.pods import TemplateError
from pykueue.api.priorityclass import read_priority_class
from pykueue.api.rules import table as rules
from pykueue.api.rules.rule import GATES
from pykueue.api.schema import defaults
from pykueue.api.trees import Tree as AnyTree
from pykueue.api.trees import items, mapping, mappings, member, text, whole
from pykueue.api.visibility import PENDING_WORKLOADS, VISIBILITY_GROUP, VISIBILITY_VERSIONS, PendingWorkloadsSummary
from pykueue.base.clock import Clock
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Instant, parse_instant
from pykueue.bridge import inbound
from pykueue.bridge.options import unqueued_kinds
from pykueue.bridge.sentences import condition, pending_text, shrinkable
from pykueue.cli.doctor.facts import by_kind, with_engine, with_ids
from pykueue.cli.doctor.inventory import (
    NOT_HERE,
    NOT_SERVED,
    Installation,
    Inventory,
    Manager,
    ReadConfiguration,
    Wait,
    every,
)
from pykueue.cli.doctor.manifests import configuration, unqueued_owners
from pykueue.cli.objects import each, everything
from pykueue.cli.queues.plans import capacity
from pykueue.cli.serverstate import UNAUTHORIZED
from pykueue.engine.decisions import Why
from pykueue.engine.record import parsing
from pykueue.kube.client.http import Call, HttpKube, parts
from pykueue.kube.port import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    CONFIG_MAPS,
    CRDS,
    LEASES,
    LOCAL_QUEUES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    VALIDATING_WEBHOOKS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    DeniedError,
    KubeError,
    NotFoundError,
    Resource,
)
from pykueue.sim.manifests import Document, Mistake, Object, View
from pykueue.sim.trace import named_namespace

DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment", True)
CLUSTER_KINDS: Final = (
    CLUSTER_QUEUES,
    COHORTS,
    RESOURCE_FLAVORS,
    ADMISSION_CHECKS,
    WORKLOAD_PRIORITY_CLASSES,
    PRIORITY_CLASSES,
    NAMESPACES,
)
"""Cluster-scoped kinds that are decoded."""
OWN_SUFFIX: Final = f"+{SERVER_VERSION.partition('+')[2]}"
"""The end of the version of our own API server."""
HOOKS: Final = "WebhookConfiguration"


class Reading:
    """Lists objects, and remembers what could not be read."""

    def __init__(self, kube: HttpKube, namespace: str) -> None:
        self.kube = kube
        self.namespace = namespace
        self.unread: dict[str, str] = {}
        self.narrowed: list[str] = []
        """Kinds of which only those of one namespace could be read."""

    async def all(self, resource: Resource, kind: str = "") -> list[Tree]:
        """All objects of a kind, or those of this user's namespace if the others are not readable."""
        kind = kind or resource.kind
        try:
            return await everything(self.kube, resource)
        except DeniedError as error:
            if error.code == UNAUTHORIZED:
                raise
            if resource.namespaced:
                with contextlib.suppress(DeniedError):
                    found = await everything(self.kube, resource, self.namespace)
                    self.narrowed.append(kind)
                    self.unread[every(kind)] = f"you may not list {resource} of all namespaces"
                    return found
            self.unread[kind] = f"you may not list {resource}"
        except NotFoundError:
            self.unread[kind] = f"{NOT_SERVED} {resource}"
        return []

    async def one(self, resource: Resource, name: str, namespace: str = "", kind: str = "") -> Tree | None:
        """One object; None if it does not exist or may not be read."""
        try:
            found: Tree = msgspec.json.decode(await self.kube.get(resource, name, namespace))
        except NotFoundError:
            return None
        except DeniedError as error:
            if error.code == UNAUTHORIZED:
                raise
            self.unread[kind or resource.kind] = f"you may not read {resource}"
            return None
        return found


class Greeting(Frozen):
    """What a server says about itself."""

    local: bool
    """Whether it is that of `pykueue up`, which has no Deployment, definitions or webhooks."""
    here: Instant
    """The date here when it answered."""
    there: Instant | None
    """Its own date then."""


async def greet(reading: Reading, clock: Clock) -> Greeting:
    """Ask a server for its version and its date."""
    before = clock.now()
    said, body = "", b"{}"
    with contextlib.suppress(DeniedError):
        stream = await reading.kube.open(Call("GET", "/version", "get /version", repeatable=True))
        said = stream.header("Date")
        body = b"".join([part async for part in parts(stream)])
        stream.close()
    after = clock.now()
    there: Instant | None = None
    try:
        there = Instant(int(parsedate_to_datetime(said).timestamp()) * MICROS)
    except (ValueError, TypeError, OverflowError):
        reading.unread["Date"] = "the server does not send its date"
    # The server answered at some time in between: a slow connection is no difference of clocks.
    here = after if there is None else Instant(min(max(there, before), after))
    version = ""
    with contextlib.suppress(msgspec.DecodeError):
        version = text(msgspec.json.decode(body), "gitVersion")
    return Greeting(version.endswith(OWN_SUFFIX), here, there)


async def from_server(kube: HttpKube, clock: Clock, *, namespace: str) -> tuple[Inventory, list[str]]:
    """The inventory of a server, and the kinds of which only this namespace was readable."""
    reading = Reading(kube, namespace)
    greeting = await greet(reading, clock)
    server = kube.connection.server
    judged: list[Object] = []
    mistakes: list[Mistake] = []
    named: set[tuple[str, str]] = set()
    for resource in (*CLUSTER_KINDS, LOCAL_QUEUES):
        for tree in await reading.all(resource):
            one = decoded(resource, tree, server, mistakes)
            named.add((resource.kind, key_of(tree)))
            judged += [] if one is None else [one]
    workloads = Workloads()
    await workloads.read(reading)
    if greeting.local:
        reading.unread |= dict.fromkeys(("CustomResourceDefinition", HOOKS), NOT_HERE)
    inventory = Inventory(
        live=True,
        objects=by_kind(judged),
        named=frozenset(named),
        mistakes=with_ids(mistakes, {one.document.where: one.tree for one in judged}, GATES),
        namespaces={
            one.name: named_namespace(inbound.namespace(one.view)) for one in judged if isinstance(one.view, Namespace)
        },
        inactive_checks=dict(inactive_checks(judged)),
        waits=tuple(workloads.waits),
        pending={
            one.name: one.view.status.pending_workloads or 0 for one in judged if isinstance(one.view, ClusterQueue)
        },
        priorities=frozenset(workloads.priorities),
        classes=frozenset(workloads.classes),
        others=tuple(sorted(workloads.others)),
        manager=Manager.PYKUEUE if greeting.local else await managed_by(reading),
        configurations=() if greeting.local else await configured(reading),
        installation=await installed(reading, greeting, judged),
        # The calls above add to it.
        unread=reading.unread,
    )
    things = [thing for one in judged if isinstance(one.view, KubeObject) and (thing := inbound.thing(one.view))]
    return with_engine(inventory, things, None), reading.narrowed


def key_of(tree: Tree) -> str:
    """The name of an object, with its namespace if it has one."""
    namespace, name = text(tree, "metadata", "namespace"), text(tree, "metadata", "name")
    return f"{namespace}/{name}" if namespace else name


def decoded(resource: Resource, tree: Tree, server: str, mistakes: list[Mistake]) -> Object | None:
    """A stored object; None if it cannot be decoded. What the rules of the API refuse in it is a mistake."""
    kind = resource.kind
    document = Document(f"{server} {resource} {key_of(tree)}", 1, tree)
    view: View
    try:
        if kind == "PriorityClass":
            view = read_priority_class(tree)
        else:
            known = KINDS[kind].view
            whole_tree = defaults(known, tree)
            view = decode_as(known, whole_tree)
            if resource.group == GROUP:
                errors = rules.check(kind, whole_tree, surface="webhook")
                mistakes += (Mistake(document.where, str(error), document.called) for error in errors)
    except (DecodeError, TemplateError) as error:
        mistakes.append(Mistake(document.where, str(error), document.called))
        return None
    return Object(document, kind, text(tree, "metadata", "namespace"), text(tree, "metadata", "name"), tree, view)


def inactive_checks(judged: Sequence[Object]) -> Iterator[tuple[str, str]]:
    """AdmissionChecks that their controllers do not call active, and why."""
    for one in judged:
        if not isinstance(one.view, AdmissionCheck):
            continue
        said = condition(one.tree, "Active")
        if text(said, "status") != "True":
            name = one.view.spec.controller_name
            yield one.name, text(said, "message") or f"its controller {name} has not reported; it may not be running"


class Workloads:
    """What checks need of Workloads; one at a time, since there can be very many."""

    def __init__(self) -> None:
        self.waits: list[Wait] = []
        self.priorities: set[int] = set()
        self.classes: set[str] = set()
        self.unqueued = unqueued_kinds(())
        self.others: set[tuple[str, str]] = set()
        """Kind and name of jobs whose kind is not queued here."""

    async def read(self, reading: Reading) -> None:
        """Read all Workloads, or those of this user's namespace."""
        try:
            async for tree in each(reading.kube, WORKLOADS):
                self.take(tree)
        except (DeniedError, NotFoundError):
            for tree in await reading.all(WORKLOADS):
                self.take(tree)

    def take(self, tree: Tree) -> None:
        """Take what is needed of one Workload."""
        self.priorities.add(whole(tree, "spec", "priority") or 0)
        if text(tree, "spec", "priorityClassRef", "kind") == "WorkloadPriorityClass":
            self.classes.add(text(tree, "spec", "priorityClassRef", "name"))
        self.others.update(unqueued_owners(tree, self.unqueued))
        told = condition(tree, WorkloadCondition.QUOTA_RESERVED)
        done = text(condition(tree, WorkloadCondition.FINISHED), "status") == "True"
        if done or text(told, "status") == "True" or member(tree, "spec", "active") is False:
            return
        self.waits.append(wait_in(tree, told))


def wait_in(tree: Tree, told: AnyTree) -> Wait:
    """Why a Workload waits, by its condition."""
    message, fewer = text(told, "message"), shrinkable(tree)
    why: Why | None = parsing.unassigned(message)
    namespace = text(tree, "metadata", "namespace")
    owners = [one for _, one in mappings(tree, "metadata", "ownerReferences") if member(one, "controller") is True]
    job = f"{text(owners[0], 'kind')} {namespace}/{text(owners[0], 'name')}" if owners else f"Workload {key_of(tree)}"
    return Wait(
        job,
        f"{namespace}/{text(tree, 'spec', 'queueName')}",
        text(told, "reason"),
        why,
        pending_text(told, fewer),
        instant(text(told, "lastTransitionTime") or text(tree, "metadata", "creationTimestamp")),
        fewer,
    )


def instant(timestamp: str) -> Instant | None:
    """The instant of a timestamp; None if it is none."""
    try:
        return parse_instant(timestamp)
    except (ValueError, OverflowError):
        return None


async def managed_by(reading: Reading) -> Manager:
    """Which program manages the queues, by the Deployment of the manager."""
    found = await reading.one(DEPLOYMENTS, ACCOUNT, DEFAULT_NAMESPACE)
    if found is None:
        return Manager.UNKNOWN
    containers = [one for _, one in mappings(found, "spec", "template", "spec", "containers")]
    ours = any(str(word).rpartition("/")[2] == "pykueue" for one in containers for word in items(one, "command"))
    return Manager.PYKUEUE if ours else Manager.OTHER


async def configured(reading: Reading) -> tuple[ReadConfiguration, ...]:
    """The Configuration of the manager, if this user may read it."""
    found = await reading.one(CONFIG_MAPS, CONFIG, DEFAULT_NAMESPACE)
    said = "" if found is None else text(found, "data", CONFIG_FILE)
    return (configuration(f"ConfigMap {DEFAULT_NAMESPACE}/{CONFIG}", said.encode()),) if said else ()


async def installed(reading: Reading, greeting: Greeting, judged: Sequence[Object]) -> Installation:
    """What only a server has."""
    nodes = [*await reading.all(NODES)]
    definitions: list[Tree] = []
    hooks: list[Tree] = []
    lease: Tree | None = None
    if not greeting.local:
        definitions = [one for one in await reading.all(CRDS) if text(one, "spec", "group") == GROUP]
        for resource, name in ((MUTATING_WEBHOOKS, MUTATING), (VALIDATING_WEBHOOKS, VALIDATING)):
            found = await reading.one(resource, name, kind=HOOKS)
            hooks += [] if found is None else [found]
        lease = await reading.one(LEASES, LEADER_LEASE, DEFAULT_NAMESPACE)
    if "ClusterQueue" in reading.unread and lease is None:
        reading.unread["Status"] = reading.unread["ClusterQueue"]
    return Installation(
        tuple({key: str(value) for key, value in mapping(one, "metadata", "labels").items()} for one in nodes),
        capacity(nodes) if greeting.local else {},
        tuple(definitions),
        tuple(hooks),
        lease,
        greeting.here,
        greeting.there,
        await heads(reading, judged),
    )


async def heads(reading: Reading, judged: Sequence[Object]) -> dict[str, Wait]:
    """The first pending workload of each StrictFIFO ClusterQueue that has several, by the visibility API."""
    found: dict[str, Wait] = {}
    root = f"/apis/{VISIBILITY_GROUP}/{VISIBILITY_VERSIONS[0]}/clusterqueues"
    for one in judged:
        if not isinstance(one.view, ClusterQueue) or one.view.spec.queueing_strategy != "StrictFIFO":
            continue
        if (one.view.status.pending_workloads or 0) < 2:
            continue
        path = f"{root}/{one.name}/{PENDING_WORKLOADS}?limit=1"
        try:
            body = await reading.kube.call(Call("GET", path, f"get {PENDING_WORKLOADS}"))
            rows = msgspec.json.decode(body, type=PendingWorkloadsSummary).items
            if not rows:
                continue
            head = rows[0].metadata
            tree = await reading.one(WORKLOADS, head.name or "", head.namespace or "")
        except (KubeError, msgspec.DecodeError) as error:
            reading.unread["Position"] = f"the visibility API does not show the first workload: {error}"
            return found
        if tree is not None:
            found[one.name] = wait_in(tree, condition(tree, WorkloadCondition.QUOTA_RESERVED))
    return found
