"""What does the server do to each kind of object when it is created or changed, and what does it refuse?"""

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final

from pykueue.api.core import Tree
from pykueue.api.fields import FieldError, invalid
from pykueue.api.kinds import KINDS
from pykueue.api.names import Finalizer
from pykueue.api.rules.table import check_schema, schema_rules
from pykueue.api.trees import items, text, whole
from pykueue.apiserver.kinds import crds, validation_jobs, validation_jobstatus, validation_pods, validation_rest
from pykueue.apiserver.kinds.jobdefaults import INT32_MAX, default_job, labelled, with_selector, without_zeros
from pykueue.apiserver.kinds.metadata import (
    STANDARD,
    change_errors,
    create_errors,
    finalizers,
    meta,
    path_errors,
    update_errors,
    with_meta,
)
from pykueue.apiserver.kinds.nulltimes import TIMES, event_times
from pykueue.apiserver.kinds.poddefaults import as_tree, default_pod, default_template, each, rounded
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.kinds.validation import BLOCKING, Unchecked, Unshown
from pykueue.apiserver.schema.schemas import Schema, defaulted, errors, iter_errors, pruned
from pykueue.apiserver.wire.statuserrors import ERRORS_MAX

NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
COUNTED: Final = frozenset(
    {
        "pods",
        "jobs.batch",
        "podtemplates",
        "priorityclasses.scheduling.k8s.io",
        "customresourcedefinitions.apiextensions.k8s.io",
    }
)
"""Built-in kinds that count the changes of their spec."""
CONDITIONAL: Final = frozenset(
    {
        "leases.coordination.k8s.io",
        "runtimeclasses.node.k8s.io",
        "customresourcedefinitions.apiextensions.k8s.io",
    }
)
"""Built-in kinds that are only replaced by someone who says which version is replaced."""
MADE_BY_UPDATE: Final = frozenset({"events", "limitranges", "leases.coordination.k8s.io"})
"""Kinds that a replacement creates where they are missing."""


def unconditional(served: Served) -> bool:
    """Whether an object can be replaced whatever its version is."""
    return not served.custom and served.storage not in CONDITIONAL


def complete(served: Served, tree: Tree, *, applied: bool = False) -> Tree:
    """The object with what the server drops dropped and what it fills in filled in; in the version that is served.

    What an apply makes of a custom kind has no unknown fields, and keeps what became null.
    """
    schema, original = served.schema, tree
    if schema is not None:
        tree = defaulted(schema, tree if applied and served.custom else pruned(schema, tree))
        if served.storage == crds.STORAGE:
            tree = crds.restored(tree, original)
    for changes in (DEFAULTS, TIMES):
        change = changes.get(served.storage)
        if change is not None:
            tree = change(tree)
    told = meta(original).get("managedFields")
    if told in ([], [{}]):
        # To forget who manages what is a wish like any other.
        tree = with_meta(tree, managedFields=told)
    return tree


def complete_status(served: Served, tree: Tree) -> Tree:
    """An object of a built-in kind of which the status alone is new, with what the server makes of that."""
    if served.storage == "jobs.batch":
        tree = without_zeros(tree)
    change = TIMES.get(served.storage)
    return tree if change is None else change(tree)


def default_namespace(tree: Tree) -> Tree:
    """A namespace with its name as a label."""
    name = text(tree, "metadata", "name")
    if not name:
        return tree
    return with_meta(tree, labels={**as_tree(meta(tree).get("labels")), NAMESPACE_LABEL: name})


def default_secret(tree: Tree) -> Tree:
    """A Secret with its texts as data."""
    made = {**tree, "type": tree.get("type") or "Opaque"}
    texts = made.pop("stringData", None)
    if isinstance(texts, dict) and texts:
        coded: Tree = {
            name: b64encode(value.encode()).decode() for name, value in texts.items() if isinstance(value, str)
        }
        made["data"] = {**as_tree(made.get("data")), **coded}
    return made


def default_limit_range(tree: Tree) -> Tree:
    """A LimitRange with defaults that follow from its bounds."""

    def change(limit: Tree) -> Tree:
        made = {name: rounded(value) if isinstance(value, dict) else value for name, value in limit.items()}
        if made.get("type") != "Container":
            return made
        default = as_tree(made.get("max")) | as_tree(made.get("default"))
        request = as_tree(made.get("min")) | default | as_tree(made.get("defaultRequest"))
        return made | ({"default": default} if default else {}) | ({"defaultRequest": request} if request else {})

    spec = as_tree(tree.get("spec"))
    return {**tree, "spec": {**spec, "limits": each(spec.get("limits"), change)}}


def default_priority_class(tree: Tree) -> Tree:
    """A PriorityClass with its way to preempt."""
    return {**tree, "preemptionPolicy": tree.get("preemptionPolicy") or "PreemptLowerPriority"}


def default_node(tree: Tree) -> Tree:
    """A Node of which all can be used that is there."""
    status = {**as_tree(tree.get("status"))}
    for name in ("capacity", "allocatable"):
        if isinstance(status.get(name), dict):
            status[name] = rounded(as_tree(status[name]))
    if "capacity" in status and "allocatable" not in status:
        status["allocatable"] = status["capacity"]
    return {**tree, "status": status} if status else tree


def default_pod_template(tree: Tree) -> Tree:
    """A PodTemplate with everything filled in."""
    return {**tree, "template": default_template(as_tree(tree.get("template")))}


DEFAULTS: Final[Mapping[str, Callable[[Tree], Tree]]] = {
    "pods": default_pod,
    "jobs.batch": default_job,
    "podtemplates": default_pod_template,
    "namespaces": default_namespace,
    "secrets": default_secret,
    "limitranges": default_limit_range,
    "priorityclasses.scheduling.k8s.io": default_priority_class,
    "nodes": default_node,
    "customresourcedefinitions.apiextensions.k8s.io": crds.default,
}


def prepare_create(served: Served, tree: Tree, now: str) -> Tree:
    """A new object as the server makes it: what its creator may not set is set anew."""
    if served.custom:
        tree = with_meta(tree, generation=1)
        return {name: value for name, value in tree.items() if name != "status" or not served.has_status}
    if served.storage in COUNTED:
        tree = with_meta(tree, generation=1)
    change = CREATED.get(served.storage)
    return tree if change is None else change(tree, now)


def create_pod(tree: Tree, now: str) -> Tree:
    """A new pod: it waits."""
    status: Tree = {"phase": "Pending", "qosClass": validation_pods.quality(tree)}
    if items(tree, "spec", "schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": now,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    return {**tree, "status": status}


def create_job(tree: Tree, now: str) -> Tree:
    """A new Job: nothing has happened yet, and its pods will be told from others."""
    labels = meta(as_tree(as_tree(tree.get("spec")).get("template"))).get("labels")
    made = {**with_selector(tree), "status": {}}
    if labels and meta(tree).get("labels") == labels:
        # It has its template's labels, and so has those too that the template is given now.
        return labelled(with_meta(made, labels=None))
    return made


def create_namespace(tree: Tree, now: str) -> Tree:
    """A new namespace: it is active, and is emptied before it goes."""
    spec = as_tree(tree.get("spec"))
    held = [*items(spec, "finalizers")]
    if Finalizer.KUBERNETES not in held:
        held.append(Finalizer.KUBERNETES)
    return default_namespace({**tree, "spec": {**spec, "finalizers": held}, "status": {"phase": "Active"}})  # type: ignore[dict-item]  # decoded JSON is Json


def finish(served: Served, tree: Tree) -> Tree:
    """An object as it is stored, when all have judged it."""
    if served.storage == "jobs.batch":
        return labelled(tree)
    if served.storage == "limitranges" and not items(tree, "spec", "limits"):
        return {**tree, "spec": {**as_tree(tree.get("spec")), "limits": None}}
    return event_times(tree) if served.storage == "events" else tree


CREATED: Final[Mapping[str, Callable[[Tree, str], Tree]]] = {
    "pods": create_pod,
    "jobs.batch": create_job,
    "namespaces": create_namespace,
    "customresourcedefinitions.apiextensions.k8s.io": crds.created,
}


def prepare_update(served: Served, new: Tree, old: Tree, subresource: str) -> Tree:
    """A changed object with what this way of changing it cannot change as it was."""
    if subresource == "status":
        new = only_status(served, new, old)
    elif subresource == "finalize":
        new = {**old, "metadata": meta(new), "spec": as_tree(new.get("spec"))}
    elif served.has_status and subresource != "binding":
        new = taken(new, old, "status")
    if served.storage == "namespaces" and subresource == "":
        spec = {**as_tree(new.get("spec"))}
        spec["finalizers"] = as_tree(old.get("spec")).get("finalizers")
        new = default_namespace({**new, "spec": {name: value for name, value in spec.items() if value is not None}})
    said, before = meta(new), meta(old)
    generation = whole(before, "generation")
    if not subresource and counts(served) and changed(served, new, old):
        generation = (generation or 0) + 1
    kept: Tree = {"generation": generation, "creationTimestamp": before.get("creationTimestamp")}
    kept["uid"] = said.get("uid") or before.get("uid")
    if before.get("deletionTimestamp"):
        kept["deletionTimestamp"] = before["deletionTimestamp"]
    elif subresource == "status" and served.storage == "pods":
        kept["deletionTimestamp"] = None
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        if name in said and not said[name]:
            kept[name] = None
    if said.get("deletionGracePeriodSeconds") is None:
        kept["deletionGracePeriodSeconds"] = before.get("deletionGracePeriodSeconds")
    return with_meta(new, **kept)


def only_status(served: Served, new: Tree, old: Tree) -> Tree:
    """An object of which nothing but the status has changed, as far as its kind is strict about that."""
    if served.custom:
        metadata = {**meta(old)}
        managed = meta(new).get("managedFields")
        metadata.pop("managedFields", None)
        if managed is not None:
            metadata["managedFields"] = managed
        made = {**old, "metadata": metadata}
        made.pop("status", None)
        return made | ({"status": new["status"]} if "status" in new else {})
    new = taken(new, old, "spec")
    if served.storage == "pods":
        status = as_tree(new.get("status"))
        if not status.get("qosClass") and "qosClass" in as_tree(old.get("status")):
            new = {**new, "status": {**status, "qosClass": as_tree(old.get("status"))["qosClass"]}}
        new = with_meta(new, ownerReferences=meta(old).get("ownerReferences"))
    return new


def taken(new: Tree, old: Tree, name: str) -> Tree:
    """The new object with a part of the old one."""
    if new.get(name) is old.get(name):
        return new
    if name in old:
        return {**new, name: old[name]}
    return {key: value for key, value in new.items() if key != name}


def counts(served: Served) -> bool:
    """Whether changes of the spec are counted."""
    return served.custom or served.storage in COUNTED


def changed(served: Served, new: Tree, old: Tree) -> bool:
    """Whether anything has changed that counts."""
    if not served.custom:
        return any(new.get(name) != old.get(name) for name in ("spec", "template"))
    return any(new.get(name) != old.get(name) for name in {*new, *old} if name != "metadata")


def errors_of_new(served: Served, tree: Tree, shown: Tree) -> list[FieldError]:
    """What is wrong with a new object; `shown` is the same in the version that its creator wrote."""
    found = [*islice(create_errors(served, tree), ERRORS_MAX)]
    if served.custom:
        found += [*islice(custom_errors(served, shown, None, "", found), ERRORS_MAX)]
    judge = NEW.get(served.storage)
    if served.storage == "events" and not served.is_stored:
        judge = validation_rest.new_event_errors
    if judge is not None:
        found += islice(judge(tree), ERRORS_MAX)
    return (found or [*path_errors(tree)])[:ERRORS_MAX]


def errors_of_changed(
    served: Served, new: Tree, old: Tree, shown: Tree, before: Tree, subresource: str
) -> list[FieldError]:
    """What is wrong with a changed object, as far as it is told.

    `shown` and `before` are the same in the version of the request.
    """
    return [*islice(all_errors_of_changed(served, new, old, shown, before, subresource), ERRORS_MAX)]


def all_errors_of_changed(
    served: Served, new: Tree, old: Tree, shown: Tree, before: Tree, subresource: str
) -> Iterable[FieldError]:
    """Everything that is wrong with a changed object, at most `ERRORS_MAX` mistakes from each judge."""
    # The server looks at metadata more than once, and counts what it finds each time.
    found = [*islice(update_errors(served, new, old), ERRORS_MAX)]
    again = [*islice(change_errors(meta(new), meta(old)), ERRORS_MAX)] if found else []
    if served.custom:
        found += again
        return chain(found, custom_errors(served, shown, before, subresource, found))
    if subresource:
        judge = STATUS.get(served.storage) if subresource == "status" else None
        return chain(found, again, judge(new, old) if judge is not None else ())
    whole_again = create_errors(served, new) if found or finalizers(new) else ()
    judge = CHANGED.get(served.storage)
    judged = judge(new, old) if judge is not None else ()
    if served.storage == "jobs.batch":
        return chain(found, whole_again, judged, again)
    return chain(found, again, judged, whole_again)


def custom_errors(
    served: Served, new: Tree, old: Tree | None, subresource: str, others: Sequence[FieldError]
) -> Iterator[FieldError]:
    """What the schema of a custom kind, and the rules in it, find wrong; `others` are mistakes in its metadata."""
    schema = served.schema
    found: list[FieldError] = []
    if schema is not None:
        wrong = iter_errors(schema, new)
        if old is not None:
            # What was wrong before, and stays as it was, does not keep anyone from changing the rest.
            wrong = new_errors(wrong, schema, old)
        if subresource == "status":
            wrong = (within_status(error) for error in wrong if error.path.startswith("status"))
        found += islice(wrong, ERRORS_MAX)
    found += replica_errors(served, new)
    yield from found
    kind, version = served.resource.kind, served.resource.version
    if kind not in KINDS or KINDS[kind].group != served.resource.group:
        return
    if any(error.code in BLOCKING for error in (*others, *found)) and schema_rules(kind, version):
        yield Unchecked
        return
    for error in check_schema(kind, new, old, version=version):
        if error.code == "Invalid" and error.value in ("object", "array"):
            # A server shows no value where all that could be shown is that it is one.
            yield Unshown(error.path or "<nil>", error.code, None, error.detail)
        else:
            yield error


def new_errors(wrong: Iterator[FieldError], schema: Schema, old: Tree) -> Iterator[FieldError]:
    """Those mistakes that an older version of the object did not have."""
    known: set[str] | None = None
    for error in wrong:
        known = set(map(str, errors(schema, old))) if known is None else known
        if str(error) not in known:
            yield error


def within_status(error: FieldError) -> FieldError:
    """A mistake as it is told when nothing but the status was looked at."""
    inner = error.path.removeprefix("status").removeprefix(".")
    detail = error.detail.replace(f"{error.path} in body", f"{inner} in body")
    return FieldError(error.path, error.code, error.value, detail)


def replica_errors(served: Served, tree: Tree) -> Iterator[FieldError]:
    """What is wrong with the numbers of replicas of a custom kind."""
    for path in (served.scale.spec, served.scale.status) if served.scale else ():
        count = whole(tree, *path.removeprefix(".").split("."))
        if count is not None and count < 0:
            yield invalid(path, count, "should be a non-negative integer")
        elif count is not None and count > INT32_MAX:
            yield invalid(path, count, f"should be less than or equal to {INT32_MAX}")


NEW: Final[Mapping[str, Callable[[Tree], Iterator[FieldError]]]] = {
    "pods": validation_pods.create_errors,
    "jobs.batch": validation_jobs.create_errors,
    **validation_rest.NEW,
    "customresourcedefinitions.apiextensions.k8s.io": crds.errors,
}
CHANGED: Final[Mapping[str, Callable[[Tree, Tree], Iterator[FieldError]]]] = {
    "pods": validation_pods.update_errors,
    "jobs.batch": validation_jobs.update_errors,
    **validation_rest.CHANGED,
    "customresourcedefinitions.apiextensions.k8s.io": crds.change_errors,
}
STATUS: Final[Mapping[str, Callable[[Tree, Tree], Iterator[FieldError]]]] = {
    "jobs.batch": validation_jobstatus.job_status_errors,
}
WARNINGS: Final[Mapping[str, Callable[[Tree], Iterator[str]]]] = {
    "pods": validation_pods.warnings,
    "jobs.batch": validation_jobs.warnings,
    "customresourcedefinitions.apiextensions.k8s.io": crds.warnings,
}


def warnings_of(served: Served, tree: Tree, old: Tree | None) -> Iterator[str]:
    """What the author of an object should know."""
    warn = WARNINGS.get(served.storage)
    if warn is not None and old is None:
        yield from warn(tree)
    if served.custom:
        added = {str(one) for one in items(tree, "metadata", "finalizers")}
        known = {str(one) for one in items(old or {}, "metadata", "finalizers")}
        for name in sorted(added - known):
            if "/" not in name and name not in STANDARD:
                qualified = " including a path (/)" if "." in name else ""
                yield (
                    f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name{qualified} to avoid '
                    "accidental conflicts with other finalizer writers"
                )
