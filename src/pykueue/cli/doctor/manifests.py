"""The inventory of manifests in files."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from pykueue.api.checks import AdmissionCheck
from pykueue.api.config.file import default_configuration
from pykueue.api.config.unbuilt import read_built
from pykueue.api.core import Namespace, Tree, controller_of
from pykueue.api.install.deployment import CONFIG_FILE
from pykueue.api.jsontext import read_tree
from pykueue.api.kinds import KINDS
from pykueue.api.kueue import ClusterQueue
from pykueue.api.names import GROUP, Label
from pykueue.api.pods import Job
from pykueue.api.priorityclass import PriorityClass
from pykueue.api.trees import mappings, text
from pykueue.api.workload import Workload
from pykueue.bridge.options import unqueued_kinds
from pykueue.bridge.sentences import condition
from pykueue.cli.doctor.facts import by_kind, open_things, with_engine, with_ids
from pykueue.cli.doctor.inventory import NOT_HERE, SOME_WORKLOAD, Inventory, ReadConfiguration, Wait
from pykueue.cli.doctor.probe import engine_of, wait_of
from pykueue.engine import model
from pykueue.engine.record.partial import shrinkable_pod_sets
from pykueue.jobs.manifest import AT_POD_CLASS
from pykueue.jobs.workload import class_label
from pykueue.sim.manifests import PLAIN, SIMULATED, Document, Mistake, Object, documents, is_configuration, objects
from pykueue.sim.trace import Reader, Setting, Trace

REFERENCED: Final = ("ClusterQueue", "LocalQueue", "ResourceFlavor", "AdmissionCheck")
"""Kinds whose absence from all files says that they are elsewhere, rather than that they do not exist."""
SERVERS: Final = ("Node", "CustomResourceDefinition", "WebhookConfiguration", "Status", "Date", "Position")
"""What only a server has."""


def from_files(texts: Iterable[tuple[str, bytes]], unreadable: list[Mistake]) -> Inventory:
    """The inventory of these files; what cannot be read is added to `unreadable`."""
    read: list[Document] = []
    for file, raw in texts:
        found, errors = documents(file, raw)
        read += found
        unreadable += errors
    ours, configurations, others = sorted_out(read, unreadable)
    loaded = next((one.loaded for one in configurations if one.loaded is not None), None) or default_configuration()
    gates = loaded.gates.values
    judged, mistakes = objects(distinct(ours), gates)
    reader = Reader(loaded, Setting())
    trace = simulated(reader, judged, mistakes)
    named = frozenset((str(one.tree.get("kind")), key_of(one.tree)) for one in ours)
    unread = dict.fromkeys(SERVERS, NOT_HERE)
    unread |= {
        kind: f"the manifests contain no {kind}" for kind in REFERENCED if not any(known == kind for known, _ in named)
    }
    if not any(isinstance(one.view, Job | Workload) for one in judged):
        unread[SOME_WORKLOAD] = "the manifests contain no Job or Workload"
    # What nothing refers to need not be there.
    if not any(queue.checks for queue in trace.things if isinstance(queue, model.ClusterQueue)):
        unread.pop("AdmissionCheck", None)
    inventory = Inventory(
        live=False,
        objects=by_kind(judged),
        named=named,
        mistakes=with_ids(dict.fromkeys(mistakes), {one.where: one.tree for one in ours}, gates),
        others=others,
        unread=unread,
        namespaces={one.name: reader.namespaces[one.name] for one in judged if isinstance(one.view, Namespace)},
        inactive_checks=inactive_checks(judged, trace),
        waits=tuple(waits(trace, named)),
        priorities=frozenset(one.workload.priority for one in trace.arrivals),
        classes=frozenset(filter(None, map(class_of, judged))),
        configurations=configurations,
    )
    return with_engine(inventory, trace.things, trace.options)


def sorted_out(
    read: Iterable[Document], unreadable: list[Mistake]
) -> tuple[list[Document], tuple[ReadConfiguration, ...], tuple[tuple[str, str], ...]]:
    """The objects to examine, the Configurations, and the jobs of kinds that are not queued here."""
    ours: list[Document] = []
    configurations: list[ReadConfiguration] = []
    others: list[tuple[str, str]] = []
    unqueued = unqueued_kinds(())
    for one in read:
        kind, version = one.tree.get("kind"), one.tree.get("apiVersion")
        data = text(one.tree, "data", CONFIG_FILE)
        if is_configuration(one):
            configurations.append(configuration(one.where, msgspec.json.encode(one.tree)))
        elif kind == "ConfigMap" and data:
            configurations.append(configuration(f"{one.where}, {CONFIG_FILE}", data.encode()))
        elif not isinstance(kind, str) or not isinstance(version, str):
            unreadable.append(
                Mistake(one.where, "is not a Kubernetes object: apiVersion or kind is missing", one.called)
            )
        elif kind in SIMULATED or kind in PLAIN or (version.startswith(f"{GROUP}/") and kind not in KINDS):
            ours.append(one)
        elif text(one.tree, "metadata", "labels", Label.QUEUE) and unqueued.get(kind) == version.rpartition("/")[0]:
            others.append((kind, key_of(one.tree)))
        if kind == "Workload":
            others += unqueued_owners(one.tree, unqueued)
    return ours, tuple(configurations), tuple(others)


def unqueued_owners(workload: Tree, unqueued: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Kind and name of the owners of a Workload whose kind is in `unqueued`, which has the group of each."""
    for _, owner in mappings(workload, "metadata", "ownerReferences"):
        kind = text(owner, "kind")
        if unqueued.get(kind) == text(owner, "apiVersion").rpartition("/")[0]:
            yield kind, f"{text(workload, 'metadata', 'namespace')}/{text(owner, 'name')}"


def configuration(where: str, source: bytes) -> ReadConfiguration:
    """A Configuration as our manager would read it."""
    loaded, wrong = read_built(source, tolerate_unknown_gates=True)
    tree = read_tree(source).value
    return ReadConfiguration(where, loaded, tuple(map(str, wrong)), tree if isinstance(tree, dict) else {})


def distinct(ours: Iterable[Document]) -> list[Document]:
    """The objects, without those that repeat another word by word: applying them twice changes nothing."""
    found: dict[bytes, Document] = {}
    for one in ours:
        key = msgspec.json.encode(one.tree, order="deterministic")
        # Each object with a generated name is another one.
        found.setdefault(key if text(one.tree, "metadata", "name") else key + one.where.encode(), one)
    return list(found.values())


def key_of(tree: Tree) -> str:
    """The name of an object, with its namespace if it has one by its kind."""
    name = text(tree, "metadata", "name") or text(tree, "metadata", "generateName")
    kind = tree.get("kind")
    known = KINDS.get(kind) if isinstance(kind, str) else None
    if known is not None and known.scope == "Cluster":
        return name
    return f"{text(tree, 'metadata', 'namespace') or 'default'}/{name}"


def simulated(reader: Reader, judged: list[Object], mistakes: list[Mistake]) -> Trace:
    """The manifests as facts. Objects that are named and may be elsewhere are taken to exist."""
    kinds = {one.kind for one in judged}
    if "WorkloadPriorityClass" not in kinds:
        reader.classes.update((name, 0) for name in map(class_of, judged) if name)
    if "PriorityClass" not in kinds:
        for one in judged:
            if isinstance(one.view, Job) and (name := text(one.tree, *AT_POD_CLASS.split("."))):
                reader.pod_classes.setdefault(name, PriorityClass())
    queues = [one.view for one in judged if isinstance(one.view, ClusterQueue)]
    if "ResourceFlavor" not in kinds:
        names = {flavor.name for queue in queues for group in queue.spec.resource_groups for flavor in group.flavors}
        reader.things += (model.Flavor(name) for name in sorted(names))
    if "AdmissionCheck" not in kinds:
        rules = [queue.spec.admission_checks_strategy for queue in queues]
        names = {rule.name for strategy in rules if strategy is not None for rule in strategy.admission_checks}
        reader.things += (model.Check(name, True) for name in sorted(names))
    reader.take(judged, mistakes)
    return reader.trace()


def class_of(one: Object) -> str:
    """The WorkloadPriorityClass that a job or Workload names; empty if none."""
    if isinstance(one.view, Job):
        return class_label(one.view.metadata)
    if isinstance(one.view, Workload):
        reference = one.view.spec.priority_class_ref
        return reference.name or "" if reference is not None and reference.kind == "WorkloadPriorityClass" else ""
    return ""


def inactive_checks(judged: Iterable[Object], trace: Trace) -> dict[str, str]:
    """The AdmissionChecks that our manager could not perform, and why.

    Of the checks of other controllers, files do not tell.
    """
    known = {one.name: one.active for one in trace.things if isinstance(one, model.Check)}
    prefix = "AdmissionCheck {} is not active: "
    found: dict[str, str] = {}
    for one in judged:
        if isinstance(one.view, AdmissionCheck) and not known.get(one.name, True):
            lead = prefix.format(one.name)
            said = [note.removeprefix(lead) for note in trace.notes if note.startswith(lead)]
            found[one.name] = said[0] if said else text(condition(one.tree, "Active"), "message")
    return found


def waits(trace: Trace, named: frozenset[tuple[str, str]]) -> Iterator[Wait]:
    """Why the jobs would wait, each alone in a cluster whose queues are all open.

    A Workload beside its Job is left out.
    """
    engine = engine_of(open_things(trace.things), trace.options)
    known: dict[tuple[object, ...], Wait] = {}
    for arrival in trace.arrivals:
        one = arrival.workload
        owner = controller_of(arrival.view.metadata)
        of_named = owner is not None and (owner.kind, f"{one.namespace}/{owner.name}") in named
        if one.admission is not None or one.finished or not one.active or of_named:
            continue
        what = f"{'Job' if arrival.of_job else 'Workload'} {arrival.name}"
        shape = (one.local_queue, one.pod_sets, one.problem, one.unbuilt)
        if shape not in known:
            fresh = model.Workload(one.key, one.uid, one.local_queue, one.created, one.pod_sets, problem=one.problem)
            found = wait_of(engine, fresh)
            reason, why = found if found is not None else ("", None)
            known[shape] = Wait(what, one.local_queue, str(reason), why, shrinkable=shrinkable_pod_sets(one))
        yield replace(known[shape], object=what)
