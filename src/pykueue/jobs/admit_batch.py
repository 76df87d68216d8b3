"""Defaulting and validation of batch/v1 Jobs, with Kueue's messages.

The rules are Kueue's, in its order; `admit` calls them. A Job that was invalid before, such as one created while no
webhook answered, can still be changed: only new mistakes are refused.
"""

from collections.abc import Iterator
from typing import Final

from pykueue.api.config.gates import FALSE, TRUE
from pykueue.api.fields import IMMUTABLE, FieldError, forbidden, invalid
from pykueue.api.labels import LABEL_BYTES_MAX, dns_subdomain, size_bytes
from pykueue.api.names import DEFAULT_PRIORITY_CLASS, DEFAULT_QUEUE, Annotation, Label
from pykueue.api.rules.workload_spec import (
    PARTIAL_OR_ELASTIC,
    annotation,
    gates_not_added_late,
    gates_not_empty,
    gates_once,
    gates_only_removed,
    gates_well_formed,
)
from pykueue.api.trees import Tree, mapping, mappings, member, text, whole
from pykueue.jobs.admit_topology import Mistake, size_errors, template_errors
from pykueue.jobs.admit_world import AdmitWorld
from pykueue.jobs.batch import WHOLE_NUMBER, follows, pods_at_once, whole_number
from pykueue.jobs.dependencies import needs_of
from pykueue.jobs.workload import prebuilt_of

AT_QUEUE: Final = f"metadata.labels[{Label.QUEUE}]"
AT_CLASS: Final = f"metadata.labels[{Label.PRIORITY_CLASS}]"
AT_LIMIT: Final = f"metadata.labels[{Label.MAX_EXEC_TIME_SECONDS}]"
AT_PREBUILT_LABEL: Final = f"metadata.labels[{Label.PREBUILT_WORKLOAD}]"
AT_PREBUILT: Final = f"metadata.annotations[{Annotation.PREBUILT_WORKLOAD}]"
AT_MINIMUM: Final = f"metadata.annotations[{Annotation.JOB_MIN_PARALLELISM}]"
AT_EQUAL: Final = f"metadata.annotations[{Annotation.JOB_COMPLETIONS_EQUAL_PARALLELISM}]"
AT_ELASTIC: Final = f"metadata.annotations[{Annotation.ELASTIC_JOB}]"
AT_TEMPLATE: Final = "spec.template.metadata"

NOT_POSITIVE: Final = "should be greater than 0"
SECONDS_MAX: Final = 2**31 - 1
TOO_LATE: Final = f"should be at most {SECONDS_MAX}"
NOT_INDEXED: Final = "should not be enabled for NonIndexed jobs"
UNEQUAL: Final = (
    f"should be equal to parallelism when {Annotation.JOB_COMPLETIONS_EQUAL_PARALLELISM} annotation is true"
)
QUEUE_NEEDED: Final = "queue-name must not be empty in namespace with default queue"
CLASS_ADDED: Final = "WorkloadPriorityClass cannot be added to a non-suspended workload"
CLASS_REMOVED: Final = "WorkloadPriorityClass cannot be removed from a workload"
PARALLELISM_FIXED: Final = "cannot change when partial admission is enabled and the job is not suspended"
EQUAL_FIXED: Final = f"{IMMUTABLE} while the job is not suspended"


def label(tree: object, key: str) -> str:
    """The value of a label; empty if absent."""
    return text(tree, "metadata", "labels", key)


def labelled(tree: Tree, key: str, value: str) -> Tree:
    """The object with this label."""
    metadata = mapping(tree, "metadata")
    return {**tree, "metadata": {**metadata, "labels": {**mapping(metadata, "labels"), key: value}}}


def controller(tree: object) -> Tree | None:
    """The reference to the object that controls this one."""
    owners = mappings(tree, "metadata", "ownerReferences")
    return next((owner for _, owner in owners if owner.get("controller") is True), None)


def group_kind(reference: Tree) -> str:
    """The kind that a reference names, as `group/Kind`."""
    group, slash, _ = text(reference, "apiVersion").rpartition("/")
    return f"{group}{slash}{text(reference, 'kind')}"


def suspended(tree: object) -> bool:
    """Whether a Job is suspended; one that is still being stopped is not."""
    return member(tree, "spec", "suspend") is True and annotation(tree, Annotation.STOPPING) != "true"


def most_pods(tree: object) -> int:
    """The most pods of a Job that run at the same time."""
    return pods_at_once(whole(tree, "spec", "parallelism"), whole(tree, "spec", "completions"))


def count(tree: object, field: str) -> int:
    """A count in a Job's spec; 1 if absent."""
    found = whole(tree, "spec", field)
    return 1 if found is None else found


def elastic(tree: object, world: AdmitWorld) -> bool:
    """Whether a Job may be resized while it runs."""
    asked = annotation(tree, Annotation.ELASTIC_JOB) == "true"
    return asked and world.gates.on("ElasticJobsViaWorkloadSlices")


def default(tree: Tree, world: AdmitWorld) -> Tree:
    """A new Job with defaults: in the default queue, of the default class, and suspended until admitted.

    Kueue suspends every Job that names a queue. We leave alone those in namespaces that managedJobsNamespaceSelector
    does not select, since nothing would ever start them.
    """
    owner = controller(tree)
    alone = owner is None or group_kind(owner) not in world.managed_kinds
    if world.default_queue and world.selected and alone and not label(tree, Label.QUEUE):
        tree = labelled(tree, Label.QUEUE, DEFAULT_QUEUE)
    defaulting = world.gates.on("WorkloadPriorityClassDefaulting")
    if defaulting and world.default_class and alone and not label(tree, Label.PRIORITY_CLASS):
        tree = labelled(tree, Label.PRIORITY_CLASS, DEFAULT_PRIORITY_CLASS)
    if held_back(tree, world) and not suspended(tree):
        tree = {**tree, "spec": {**mapping(tree, "spec"), "suspend": True}}
    return tree


def held_back(tree: Tree, world: AdmitWorld) -> bool:
    """Whether a new Job must wait for admission."""
    leaving = text(tree, "metadata", "deletionTimestamp") != ""
    if leaving and world.gates.on("SkipAncestorCheckForDeletedWorkloads"):
        return False
    if world.managed_ancestor or not world.selected:
        return False
    return world.queueless or label(tree, Label.QUEUE) != ""


def errors(new: Tree, old: Tree | None, world: AdmitWorld) -> Iterator[Mistake]:
    """What is wrong with a Job, or with its change."""
    if old is None:
        yield from mistakes(new, world)
        return
    already = frozenset(map(str, mistakes(old, world)))
    yield from (one for one in lasting(new, world) if str(one) not in already)
    if changed(new, old, Annotation.JOB_MIN_PARALLELISM):
        yield from minimum_errors(new, world)
    yield from (one for one in equality_errors(new) if str(one) not in already)
    yield from change_errors(new, old, world)
    yield from parallelism_change_errors(new, old)
    yield from (one for one in topology_errors(new, world) if str(one) not in already)


def mistakes(tree: Tree, world: AdmitWorld) -> Iterator[Mistake]:
    """What is wrong with a Job regardless of changes."""
    yield from lasting(tree, world)
    yield from minimum_errors(tree, world)
    yield from equality_errors(tree)
    yield from topology_errors(tree, world)


def lasting(tree: Tree, world: AdmitWorld) -> Iterator[FieldError]:
    """What is wrong with the labels and annotations that all kinds of job share."""
    yield from name_errors(AT_QUEUE, member(tree, "metadata", "labels", Label.QUEUE))
    yield from prebuilt_errors(tree, world)
    yield from limit_errors(tree)
    if world.gates.on("AdmissionGatedBy"):
        for rule in (gates_not_empty, gates_once, gates_well_formed):
            yield from rule(tree, None, world.gates)
    given = mapping(tree, "metadata", "annotations")
    if (needs := needs_of({key: one for key, one in given.items() if isinstance(one, str)})) and needs.problem:
        yield forbidden("metadata.annotations", needs.problem)


def name_errors(path: str, name: object) -> Iterator[FieldError]:
    """What is wrong with the name of an object in a field, as one error."""
    wrong = dns_subdomain(name) if isinstance(name, str) else ()
    if wrong:
        yield invalid(path, name, ",".join(wrong))


def prebuilt_place(tree: Tree, world: AdmitWorld) -> str:
    """The path at which a Job names its prebuilt Workload."""
    named = annotation(tree, Annotation.PREBUILT_WORKLOAD)
    wanted = world.gates.on("WorkloadIdentifierAnnotations") or size_bytes(named) > LABEL_BYTES_MAX
    return AT_PREBUILT if named and wanted else AT_PREBUILT_LABEL


def prebuilt_name(tree: Tree, world: AdmitWorld) -> str:
    """The prebuilt Workload of a Job; empty if it names none."""
    named, older = annotation(tree, Annotation.PREBUILT_WORKLOAD), label(tree, Label.PREBUILT_WORKLOAD)
    return prebuilt_of(named, older, annotations=world.gates.on("WorkloadIdentifierAnnotations"))


def prebuilt_errors(tree: Tree, world: AdmitWorld) -> Iterator[FieldError]:
    """What is wrong with the name of a prebuilt Workload."""
    if prebuilt_place(tree, world) == AT_PREBUILT:
        yield from name_errors(AT_PREBUILT, annotation(tree, Annotation.PREBUILT_WORKLOAD))
    else:
        yield from name_errors(AT_PREBUILT_LABEL, member(tree, "metadata", "labels", Label.PREBUILT_WORKLOAD))


def limit_errors(tree: Tree) -> Iterator[FieldError]:
    """What is wrong with a Job's maximum execution time."""
    asked = member(tree, "metadata", "labels", Label.MAX_EXEC_TIME_SECONDS)
    if not isinstance(asked, str):
        return
    seconds = number_or_complaint(asked)
    if isinstance(seconds, str):
        yield invalid(AT_LIMIT, asked, seconds)
    elif seconds <= 0:
        yield invalid(AT_LIMIT, seconds, NOT_POSITIVE)
    elif seconds > SECONDS_MAX:
        # Kueue accepts it and then applies no limit, although the user asked for one.
        yield invalid(AT_LIMIT, seconds, TOO_LATE)


def minimum_errors(tree: Tree, world: AdmitWorld) -> Iterator[FieldError]:
    """What is wrong with the minimum number of pods of a Job."""
    asked = member(tree, "metadata", "annotations", Annotation.JOB_MIN_PARALLELISM)
    if not isinstance(asked, str):
        return
    least, most = number_or_complaint(asked), most_pods(tree) - 1
    if isinstance(least, str):
        yield invalid(AT_MINIMUM, asked, least)
    elif not 0 < least <= most:
        yield invalid(AT_MINIMUM, least, f"should be between 0 and {most}")
    if elastic(tree, world):
        yield invalid(AT_MINIMUM, asked, PARTIAL_OR_ELASTIC)


def equality_errors(tree: Tree) -> Iterator[Mistake]:
    """What is wrong with a Job that asks for completions equal to parallelism."""
    asked = member(tree, "metadata", "annotations", Annotation.JOB_COMPLETIONS_EQUAL_PARALLELISM)
    if not isinstance(asked, str) or asked in FALSE:
        return
    if asked not in TRUE:
        yield invalid(AT_EQUAL, asked, f"strconv.ParseBool: parsing {quoted(asked)}: invalid syntax")
        return
    if text(tree, "spec", "completionMode") != "Indexed":
        yield invalid(AT_EQUAL, asked, NOT_INDEXED)
    if count(tree, "parallelism") != count(tree, "completions"):
        completions = whole(tree, "spec", "completions")
        # Current servers show an absent value as a bare null, and so does Kueue.
        yield f"spec.completions: Invalid value: {'null' if completions is None else completions}: {UNEQUAL}"


def topology_errors(tree: Tree, world: AdmitWorld) -> Iterator[Mistake]:
    """What is wrong with a Job's topology request."""
    if not world.gates.on("TopologyAwareScheduling"):
        return
    metadata = mapping(tree, "spec", "template", "metadata")
    found = tuple(template_errors(metadata, AT_TEMPLATE, world.gates))
    if found:
        yield from found
        return
    if elastic(tree, world):
        for key, mode in ((Annotation.REQUIRED_TOPOLOGY, "required"), (Annotation.PREFERRED_TOPOLOGY, "preferred")):
            if member(metadata, "annotations", key) is not None:
                path = f"{AT_TEMPLATE}.annotations.{key}"
                yield forbidden(path, f"{mode} topology is not supported with elastic jobs")
                return
    yield from size_errors(metadata, AT_TEMPLATE, most_pods(tree))


def changed(new: Tree, old: Tree, key: str) -> bool:
    """Whether an annotation has changed."""
    return annotation(new, key) != annotation(old, key)


def change_errors(new: Tree, old: Tree, world: AdmitWorld) -> Iterator[FieldError]:
    """Forbidden changes of the labels and annotations that all kinds of job share."""
    running = not suspended(new)
    queue, queue_before = label(new, Label.QUEUE), label(old, Label.QUEUE)
    if running and queue != queue_before:
        yield invalid(AT_QUEUE, queue, IMMUTABLE)
    if not queue and queue_before and world.default_queue:
        yield invalid(AT_QUEUE, "", QUEUE_NEEDED)
    prebuilt = prebuilt_name(new, world)
    if running and not elastic(old, world) and prebuilt != prebuilt_name(old, world):
        yield invalid(prebuilt_place(new, world), prebuilt, IMMUTABLE)
    limit = label(new, Label.MAX_EXEC_TIME_SECONDS)
    if (running or not suspended(old)) and limit != label(old, Label.MAX_EXEC_TIME_SECONDS):
        yield invalid(AT_LIMIT, limit, IMMUTABLE)
    name, name_before = label(new, Label.PRIORITY_CLASS), label(old, Label.PRIORITY_CLASS)
    if running and name and not name_before:
        yield invalid(AT_CLASS, name, CLASS_ADDED)
    if name_before and not name:
        yield invalid(AT_CLASS, name, CLASS_REMOVED)
    if elastic(new, world) != elastic(old, world):
        yield invalid(AT_ELASTIC, elastic(new, world), IMMUTABLE)
    if world.gates.on("AdmissionGatedBy"):
        for rule in (gates_not_added_late, gates_only_removed):
            yield from rule(new, old, world.gates)


def parallelism_change_errors(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Forbidden changes of the parallelism of a Job that is not suspended."""
    partial = member(old, "metadata", "annotations", Annotation.JOB_MIN_PARALLELISM) is not None
    started = member(old, "spec", "suspend") is not True
    if partial and started and count(new, "parallelism") != count(old, "parallelism"):
        yield forbidden("spec.parallelism", PARALLELISM_FIXED)
    if not suspended(old) and not suspended(new) and in_step(new) != in_step(old):
        yield forbidden(AT_EQUAL, EQUAL_FIXED)


def in_step(tree: Tree) -> bool:
    """Whether a Job asks for completions equal to parallelism."""
    key = Annotation.JOB_COMPLETIONS_EQUAL_PARALLELISM
    return follows({key: annotation(tree, key)})


def number_or_complaint(written: str) -> int | str:
    """The integer that Go parses from this text, or Go's error message."""
    if not WHOLE_NUMBER.fullmatch(written):
        return f"strconv.Atoi: parsing {quoted(written)}: invalid syntax"
    found = whole_number(written)
    return f"strconv.Atoi: parsing {quoted(written)}: value out of range" if found is None else found


def quoted(written: str) -> str:
    """The text as Go's messages quote it, unless it contains control characters."""
    shown = written.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{shown}"'
