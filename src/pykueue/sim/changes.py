"""Changes that are only thought of, as facts for the engine: objects, assignments, deletions and drained queues."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from pykueue.api.core import Tree
from pykueue.api.previews import IN_NAMESPACES, PreviewSpec, split_target
from pykueue.api.trees import text
from pykueue.base.struct import Frozen
from pykueue.bridge.previews import Question
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Fact, Gone, Kind, Seen
from pykueue.engine.model import ClusterQueue, LocalQueue
from pykueue.engine.record.tally import uses_check, uses_flavor
from pykueue.sim.assignments import AssignmentError, Key, assigned, key_of, targeted, unknown_name
from pykueue.sim.manifests import NAMESPACED, Document, Mistake, Object, objects
from pykueue.sim.refusal import RefusedError
from pykueue.sim.trace import Reader, Setting, in_line, limits_of

OF_A_USER: Final = frozenset({"Job", "Workload"})
"""The kinds that a preview of one namespace may add."""
ONLY_NEW: Final = {
    "WorkloadPriorityClass": "priorities of workloads that exist stay as they are",
    "PriorityClass": "priorities of workloads that exist stay as they are",
    "LimitRange": "requests of workloads that exist stay as they are",
    "RuntimeClass": "requests of workloads that exist stay as they are",
    "ProvisioningRequestConfig": "requests for capacity are not previewed",
}
"""Kinds of which a preview considers only what they mean to new jobs, each with what it leaves out."""
FACT_KINDS: Final[Mapping[str, Kind]] = {
    "ClusterQueue": "ClusterQueue",
    "LocalQueue": "LocalQueue",
    "Cohort": "Cohort",
    "ResourceFlavor": "Flavor",
    "AdmissionCheck": "Check",
    "Workload": "Workload",
}
SHOWN_MAX: Final = 50
"""The most mistakes that one refusal lists."""


class Changes(Frozen):
    """Facts that hold with the changes."""

    facts: tuple[Fact, ...] = ()
    names: Mapping[str, str] = {}
    """The new workloads, each with the user's name for it: that of its job."""
    deleted: frozenset[str] = frozenset()
    """Workloads that would be deleted."""
    notes: tuple[str, ...] = ()
    limits: Mapping[str, int] = {}
    """How many seconds new jobs may run, by UID, where that is not in their workloads."""


def read_changes(asked: Question, engine: Engine) -> Changes:
    """The changes as facts; raises `RefusedError` with everything that is wrong with them."""
    gates, spec = asked.loaded.gates.values, asked.spec
    mistakes: list[Mistake] = []
    # What exists has been validated, by the server that has it or before.
    known, _ = objects([Document("", 0, one) for one in asked.objects], gates)
    existing = {(one.kind, one.key): one for one in known}
    found = {key_of(one): one for one in (document(*each, asked.namespace) for each in enumerate(spec.objects, 1))}
    if asked.namespace:
        # Nothing else is said of other changes: which queues and workloads exist is not for everyone.
        refuse(foreign(spec, found.values(), asked.namespace))
    if len(found) < len(spec.objects):
        mistakes.append(Mistake("objects", "one of them is given twice; keep one"))
    mistakes += existing_jobs(found, asked, engine)
    found |= edits(spec, found, existing, engine, mistakes)
    judged, errors = objects(found.values(), gates)
    mistakes += errors
    changed = {(one.kind, one.key) for one in judged}
    reader = Reader(asked.loaded, Setting(start=asked.now))
    reader.take([one for key, one in existing.items() if key not in changed and one.kind not in OF_A_USER], [])
    reader.things.clear()
    reader.notes.clear()
    reader.take(judged, mistakes)
    gone = deletions(spec.delete, asked.jobs, engine, mistakes)
    refuse(mistakes)
    arrivals = in_line(reader.arrivals, asked.now)
    spaces = [reader.namespaces[one.name] for one in judged if one.kind == "Namespace"]
    seen = tuple(map(Seen, (*spaces, *reader.things, *(one.workload for one in arrivals))))
    # A job that replaces a deleted one may have a Workload of the same name.
    earlier = tuple(one for one in gone.facts if isinstance(one, Gone) and one.kind == "Workload")
    return Changes(
        (*earlier, *seen, *(one for one in gone.facts if one not in earlier)),
        {one.workload.key: one.name for one in arrivals},
        gone.deleted,
        (*left_out(judged), *reader.notes, *gone.notes),
        limits_of(arrivals),
    )


def existing_jobs(found: Mapping[Key, Document], asked: Question, engine: Engine) -> Iterable[Mistake]:
    """New Jobs and Workloads whose names others have that stay."""
    targets = [split_target(one) or ("", "") for one in asked.spec.delete]
    deleted = {(kind, name if "/" in name else f"default/{name}") for kind, name in targets}
    for (kind, name), one in found.items():
        exists = name in asked.jobs if kind == "Job" else kind == "Workload" and engine.item(name) is not None
        if exists and (kind, name) not in deleted:
            advice = f"use another name, or delete it first: --delete {kind.lower()}/{name}"
            yield Mistake(one.where, f"already exists; {advice}", one.called)


def refuse(mistakes: Iterable[Mistake]) -> None:
    """Raise `RefusedError` if there is something wrong."""
    lines = list(dict.fromkeys(map(str, mistakes)))
    if lines:
        rest = len(lines) - SHOWN_MAX
        raise RefusedError("\n".join(lines[:SHOWN_MAX]) + (f"\nand {rest} more" if rest > 0 else ""))


def document(number: int, tree: Tree, namespace: str) -> Document:
    """An object of the changes. If only one namespace may change, it is of that one, and holds no quota yet."""
    metadata = tree.get("metadata")
    if namespace and tree.get("kind") in NAMESPACED and isinstance(metadata, dict):
        tree = {key: value for key, value in tree.items() if key != "status"}
        tree["metadata"] = {**metadata, "namespace": metadata.get("namespace") or namespace}
    return Document(f"object {number}", 0, tree)


def foreign(spec: PreviewSpec, found: Iterable[Document], namespace: str) -> Iterable[Mistake]:
    """What is not a new job of the namespace."""
    elsewhere = "only a preview of the cluster (clusterpreviews) may have it"
    for one in found:
        kind, there = text(one.tree, "kind"), text(one.tree, "metadata", "namespace")
        # A Workload could have any priority, and so find out those of others.
        if kind != "Job":
            yield Mistake(one.where, f"is not a Job; {elsewhere}", one.called)
        elif there != namespace:
            yield Mistake(one.where, f"is of another namespace than {namespace}; {elsewhere}", one.called)
    for field in ("set", "delete", "drain"):
        if getattr(spec, field):
            yield Mistake(f"--{field}", f"changes what others use; {elsewhere}")


def edits(
    spec: PreviewSpec,
    found: Mapping[Key, Document],
    existing: Mapping[Key, Object],
    engine: Engine,
    mistakes: list[Mistake],
) -> dict[Key, Document]:
    """The objects in which a field is set, as they are then."""
    trees: dict[Key, Tree] = {key: one.tree for key, one in existing.items()}
    trees |= {key: one.tree for key, one in found.items()}
    known: dict[Key, Tree] = {("ClusterQueue", one.name): {} for one in engine.queues()}
    known |= {("LocalQueue", key): {} for keys in engine.local_queues_by_queue().values() for key in keys}
    known |= {("Cohort", name): {} for name in engine.cohorts()} | trees
    edited: dict[Key, Document] = {}
    wanted = [(f"--set {one}", one) for one in spec.set]
    for one in spec.drain:
        target = split_target(one)
        if target is None or target[0] not in ("ClusterQueue", "LocalQueue"):
            mistakes.append(Mistake(f"--drain {one}", "write clusterqueue/NAME or localqueue/NAMESPACE/NAME"))
        else:
            wanted.append((f"--drain {one}", f"{one}.stopPolicy=HoldAndDrain"))
    for where, assignment in wanted:
        try:
            key, path, value = targeted(assignment, known)
            if not (tree := trees.get(key)):
                raise AssignmentError(f"{key[0]} {key[1]} has no object of its own; preview it with -f")
            trees[key] = assigned(key[0], tree, path, value)
        except AssignmentError as error:
            mistakes.append(Mistake(where, str(error)))
        else:
            edited[key] = Document(where, 0, trees[key])
    return edited


class Deletions(Frozen):
    """Objects that no longer exist with the changes."""

    facts: tuple[Fact, ...] = ()
    deleted: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def deletions(targets: Sequence[str], jobs: Mapping[str, str], engine: Engine, mistakes: list[Mistake]) -> Deletions:
    """The facts of deletions. Queues that are in use are terminating until nothing holds their quota."""
    facts: list[Fact] = []
    said: list[str] = []
    deleted: set[str] = set()
    for one in targets:
        target = split_target(one)
        if target is None:
            mistakes.append(Mistake(f"--delete {one}", "write a kind and a name, as in clusterqueue/main"))
            continue
        kind, name = target
        if kind in IN_NAMESPACES and "/" not in name:
            name = f"default/{name}"
        if kind == "Job":
            kind, name = "Workload", jobs.get(name, name)
        if wrong := missing(kind, name, one, engine):
            mistakes.append(Mistake(f"--delete {one}", wrong))
        elif kind == "ClusterQueue" and (queue := engine.queue(name)) is not None:
            facts.append(Seen(replace(queue, terminating=True)))
        elif kind == "LocalQueue" and (local := engine.local_queue(name)) is not None:
            facts.append(Seen(replace(local, terminating=True)))
        elif kind == "ResourceFlavor" and uses_flavor(engine, name):
            said.append(f"ResourceFlavor {name} stays as long as a ClusterQueue uses it")
        elif kind == "AdmissionCheck" and uses_check(engine, name):
            said.append(f"AdmissionCheck {name} stays as long as a ClusterQueue uses it")
        else:
            facts.append(Gone(FACT_KINDS[kind], name))
            deleted |= {name} if kind == "Workload" else set()
    return Deletions(tuple(facts), frozenset(deleted), tuple(said))


def missing(kind: str, name: str, target: str, engine: Engine) -> str:
    """Why an object cannot be deleted: it does not exist; empty if it may exist."""
    match kind:
        case "ClusterQueue":
            known = [one.name for one in engine.queues()]
        case "LocalQueue":
            known = [key for keys in engine.local_queues_by_queue().values() for key in keys]
        case "Cohort":
            known = [*engine.cohorts()]
        case "Workload":
            known = [] if engine.item(name) is None else [name]
            if name not in known:
                return f"there is no pending or running {target.partition('/')[0]} {name}"
        case _:
            return ""
    return "" if name in known else unknown_name(kind, name, known)


def left_out(judged: Sequence[Object]) -> Iterable[str]:
    """What the changes would mean that a preview does not consider."""
    for kind, words in ONLY_NEW.items():
        if any(one.kind == kind for one in judged):
            yield f"{kind}: {words}"


def terminating(facts: Iterable[Fact]) -> list[tuple[Kind, str]]:
    """The queues that are gone once nothing holds their quota."""
    found: list[tuple[Kind, str]] = []
    for fact in facts:
        if isinstance(fact, Seen) and isinstance(fact.thing, ClusterQueue) and fact.thing.terminating:
            found.append(("ClusterQueue", fact.thing.name))
        elif isinstance(fact, Seen) and isinstance(fact.thing, LocalQueue) and fact.thing.terminating:
            found.append(("LocalQueue", fact.thing.key))
    return found
