"""Admission of objects: the one function behind every admission webhook and the embedded API server.

`admit` runs twice per object, as in an API server: first to set defaults, then to validate the result. The rules of our
own kinds are in `api/rules`, those of Jobs in `jobs/admit_batch.py`. Objects of other kinds are admitted unchanged.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, Literal, TypeAlias

from pykueue.api.convert import to_v1beta2
from pykueue.api.core import Json
from pykueue.api.fields import FieldError, aggregate
from pykueue.api.kinds import KINDS
from pykueue.api.names import GROUP, Label
from pykueue.api.rules import table
from pykueue.api.trees import Tree, mapping, mappings, member, text
from pykueue.base.struct import Frozen
from pykueue.jobs import admit_batch
from pykueue.jobs.admit_topology import Mistake
from pykueue.jobs.admit_world import AdmitWorld

Stage: TypeAlias = Literal["mutate", "validate"]
Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
Strictness: TypeAlias = Literal["", "Ignore", "Warn", "Strict"]

JUDGED: Final = frozenset({"ClusterQueue", "Cohort", "ResourceFlavor", "Workload"})
"""Our kinds that Kueue's webhooks validate; for the others the schema is enough."""
STRICT_BY_CREATION: Final = (
    "spec.queueingStrategy: with StrictFIFO and requeuingStrategy.timestamp Creation, a workload whose pods never "
    "become ready comes back to the head and holds up all others; use BestEffortFIFO or timestamp Eviction"
)
STRICT: Final = "strict decoding error: "
UNSELECTED: Final = (
    f"{admit_batch.AT_QUEUE}: managedJobsNamespaceSelector does not select this namespace, so the Job is not queued "
    "and starts by itself"
)


class Review(Frozen):
    """One object to be admitted."""

    stage: Stage
    operation: Operation
    group: str
    kind: str
    new: Tree
    """The object; empty on deletion."""
    old: Tree | None = None
    """The previous object; `None` on creation."""
    subresource: str = ""
    validation: Strictness = ""
    """How unknown fields are treated: the `fieldValidation` of the request."""


class Verdict(Frozen):
    """The result: refused with a message, or admitted, unchanged or as `tree`."""

    message: str = ""
    """Why it is refused; empty if it is not."""
    warnings: tuple[str, ...] = ()
    tree: Tree | None = None
    """The changed object; `None` if it is unchanged."""

    @property
    def allowed(self) -> bool:
        """Whether the object is admitted."""
        return not self.message


def admit(review: Review, world: AdmitWorld) -> Verdict:
    """Admit or refuse an object that is created or changed; deletions are always admitted."""
    if review.operation not in ("CREATE", "UPDATE"):
        return Verdict()
    if review.stage == "mutate":
        return completed(review, world)
    return judged(review, world)


def completed(review: Review, world: AdmitWorld) -> Verdict:
    """The object with defaults; an existing object is not defaulted."""
    if review.operation != "CREATE":
        return Verdict()
    tree = review.new
    if (review.group, review.kind) == ("batch", "Job"):
        tree = admit_batch.default(tree, world)
    elif review.group == GROUP and review.kind in JUDGED:
        tree = table.default(review.kind, tree, world.gates.gates)
    return Verdict() if tree == review.new else Verdict(tree=tree)


def judged(review: Review, world: AdmitWorld) -> Verdict:
    """Validate the object, and warn its author."""
    new, old = review.new, review.old if review.operation == "UPDATE" else None
    if old is not None and leaves(new, old):
        return Verdict()
    if (review.group, review.kind) == ("batch", "Job"):
        found: tuple[Mistake, ...] = tuple(admit_batch.errors(new, old, world))
        warnings = tuple(job_warnings(new, old, world))
    elif review.group == GROUP and review.kind in JUDGED:
        new, old = as_stored(new), None if old is None else as_stored(old)
        templates = [*changed_templates(review.kind, new, old)]
        found = (*new_mistakes(review.kind, new, old, world), *template_mistakes(templates, world))
        unknown = [*unknown_fields(templates, world)] if review.validation == "Strict" else []
        if not found and unknown:
            return Verdict(message=STRICT + ", ".join(unknown))
        warnings = tuple(queue_warnings(review.kind, new, old, world))
    else:
        return Verdict()
    # The author of a rejected object has to correct it first.
    return Verdict(message=aggregate(found)) if found else Verdict(warnings=warnings)


def changed_templates(kind: str, new: Tree, old: Tree | None) -> Iterator[tuple[str, object]]:
    """The pod templates of a Workload that its previous state did not have, with their paths."""
    if kind != "Workload" or (old is not None and new.get("spec") == old.get("spec")):
        return
    before = [member(pod_set, "template") for _, pod_set in mappings(old, "spec", "podSets")]
    for i, pod_set in mappings(new, "spec", "podSets"):
        template = member(pod_set, "template")
        if template not in before:
            yield f"spec.podSets[{i}].template", template


def template_mistakes(templates: Iterable[tuple[str, object]], world: AdmitWorld) -> Iterator[FieldError]:
    """The mistakes of these pod templates: stored, they would keep Kueue from reading Workloads at all."""
    check = world.templates
    return chain.from_iterable(check.errors(one, path) for path, one in templates) if check else iter(())


def unknown_fields(templates: Iterable[tuple[str, object]], world: AdmitWorld) -> Iterator[str]:
    """The unknown fields of these pod templates, in the API server's words."""
    check = world.templates
    if check is not None:
        for path, template in templates:
            yield from (f'unknown field "{at}"' for at in check.unknown(template, path))


def leaves(new: Tree, old: Tree) -> bool:
    """Whether a deleted object only loses finalizers: mistakes in it must not prevent its removal."""
    return text(new, "metadata", "deletionTimestamp") != "" and all(
        new.get(part) == old.get(part) for part in ("spec", "status")
    )


def as_stored(tree: Tree) -> Tree:
    """The object in the version of the rules."""
    known = KINDS.get(text(tree, "kind"))
    if known is None or text(tree, "apiVersion") not in known.api_versions[1:]:
        return tree
    return to_v1beta2(dict(tree))  # type: ignore[arg-type]  # decoded JSON is Json


def new_mistakes(kind: str, new: Tree, old: Tree | None, world: AdmitWorld) -> tuple[FieldError, ...]:
    """The mistakes of one of our objects.

    If its spec has not changed, earlier mistakes are ignored, as when we write the status of a Workload that was
    created while no webhook answered.
    """
    gates = world.gates.gates
    found = table.check_webhook(kind, new, old, gates)
    if not found or old is None or new.get("spec") != old.get("spec"):
        return found
    already = frozenset(map(str, table.check_webhook(kind, old, None, gates)))
    return tuple(one for one in found if str(one) not in already)


def queue_warnings(kind: str, new: Tree, old: Tree | None, world: AdmitWorld) -> Iterator[str]:
    """Warnings about a queue that is valid but may surprise."""
    strict = text(new, "spec", "queueingStrategy") == "StrictFIFO"
    if kind == "ClusterQueue" and strict and world.creation_order:
        before = text(old, "spec", "queueingStrategy")
        if before != "StrictFIFO":
            yield STRICT_BY_CREATION


def job_warnings(new: Tree, old: Tree | None, world: AdmitWorld) -> Iterator[str]:
    """Warnings for the author of a Job."""
    if old is None and not world.selected and admit_batch.label(new, Label.QUEUE):
        yield UNSELECTED


def json_patch(old: Tree, new: Tree) -> list[Json]:
    """The RFC 6902 operations that turn one object into the other; lists are replaced whole."""
    return [*steps(old, new, "")]


def steps(old: Mapping[str, object], new: Mapping[str, object], at: str) -> Iterator[Json]:
    """The operations for the object at this pointer."""
    for key in old:
        if key not in new:
            yield {"op": "remove", "path": f"{at}/{escaped(key)}"}
    for key, value in new.items():
        path, before = f"{at}/{escaped(key)}", member(old, key)
        if key not in old:
            yield {"op": "add", "path": path, "value": value}  # type: ignore[dict-item]  # decoded JSON is Json
        elif isinstance(value, Mapping) and isinstance(before, Mapping):
            yield from steps(mapping(before), mapping(value), path)
        elif value != before:
            yield {"op": "replace", "path": path, "value": value}  # type: ignore[dict-item]  # decoded JSON is Json


def escaped(key: str) -> str:
    """A key as a step of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")
