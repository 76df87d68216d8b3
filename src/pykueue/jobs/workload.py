"""A job's Workload: its name, queue, priority and limit, from the job's labels and annotations."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha1
from typing import Final

from pykueue.api.convert import V1BETA2
from pykueue.api.core import Json, ObjectMeta, Tree
from pykueue.api.labels import LABEL_BYTES_MAX, label_value, size_bytes
from pykueue.api.names import GROUP, Annotation, Finalizer, Label
from pykueue.api.priorityclass import GROUP as SCHEDULING_GROUP
from pykueue.api.priorityclass import SYSTEM
from pykueue.base.struct import Frozen

NAME_MAX: Final = 253
SHORT_NAME_MAX: Final = 63
HASH_LENGTH: Final = 5
SECONDS_DIGITS_MAX: Final = 10
PROVISIONING_PREFIX: Final = "provreq.kueue.x-k8s.io/"
"""The prefix of a job's annotations that become parameters of its ProvisioningRequest."""
WORKLOAD_CLASS: Final = "WorkloadPriorityClass"
POD_CLASS: Final = "PriorityClass"


class Priority(Frozen):
    """A priority, and the class that it comes from; the name is empty if from none."""

    value: int = 0
    group: str = ""
    kind: str = ""
    name: str = ""

    def reference(self) -> Tree | None:
        """The class as a Workload refers to it."""
        return {"group": self.group, "kind": self.kind, "name": self.name} if self.name else None


class MissingClass(Frozen):
    """A class that is named but does not exist."""

    kind: str
    name: str


class Classes(Frozen):
    """The existing priority classes."""

    workload: Mapping[str, int] = {}
    """The value of each WorkloadPriorityClass."""
    pods: Mapping[str, int] = {}
    """The value of each PriorityClass, besides the system classes."""
    default: str = ""
    """The PriorityClass for pods that name none."""


def workload_name(*, kind: str, group: str, name: str, uid: str, short: bool = False) -> str:
    """The name of a job's Workload: the kind, the job's name, and a hash that makes it unique."""
    digest = sha1(f"{kind}\n{group}\n{name}\n{uid}".encode(), usedforsecurity=False).hexdigest()[:HASH_LENGTH]
    longest = (SHORT_NAME_MAX if short else NAME_MAX) - HASH_LENGTH - 1
    return f"{f'{kind.lower()}-{name}'[:longest]}-{digest}"


def queue_label(metadata: ObjectMeta) -> str:
    """The LocalQueue that a job names; empty if none."""
    return metadata.labels.get(Label.QUEUE, "")


def class_label(metadata: ObjectMeta) -> str:
    """The WorkloadPriorityClass that a job names; empty if none."""
    return metadata.labels.get(Label.PRIORITY_CLASS, "")


def prebuilt_name(metadata: ObjectMeta, *, annotations: bool) -> str:
    """The prebuilt Workload of a job; empty if none."""
    named = metadata.annotations.get(Annotation.PREBUILT_WORKLOAD, "")
    older = metadata.labels.get(Label.PREBUILT_WORKLOAD, "")
    return prebuilt_of(named, older, annotations=annotations)


def prebuilt_of(named: str, older: str, *, annotations: bool) -> str:
    """The prebuilt Workload's name, from the annotation or the label.

    With the gate WorkloadIdentifierAnnotations the annotation takes precedence; a name that no label can hold always
    does.
    """
    if annotations:
        return named or older
    return older or (named if size_bytes(named) > LABEL_BYTES_MAX else "")


def gates_annotation(metadata: ObjectMeta) -> str:
    """The admission gates in a job's annotation."""
    return metadata.annotations.get(Annotation.ADMISSION_GATED_BY, "")


def run_seconds(text: str | None) -> int | None:
    """A job's maximum execution time in seconds, from the text of its label; None if absent or malformed."""
    if text is not None and text.isascii() and text.isdigit() and len(text) <= SECONDS_DIGITS_MAX:
        found = int(text)
        return found if 0 < found < 2**31 else None
    return None


def run_limit(metadata: ObjectMeta) -> int | None:
    """A job's maximum execution time in seconds."""
    return run_seconds(metadata.labels.get(Label.MAX_EXEC_TIME_SECONDS))


def priority_of(workload_class: str, pod_class: str, classes: Classes) -> Priority | MissingClass:
    """A job's priority: from its own class, else from the class of its pods, else from the default for pods."""
    if workload_class:
        value = classes.workload.get(workload_class)
        if value is None:
            return MissingClass(WORKLOAD_CLASS, workload_class)
        return Priority(value, GROUP, WORKLOAD_CLASS, workload_class)
    name = pod_class or classes.default
    if not name:
        return Priority()
    value = classes.pods.get(name, SYSTEM.get(name))
    return MissingClass(POD_CLASS, name) if value is None else Priority(value, SCHEDULING_GROUP, POD_CLASS, name)


def pod_class_of(pod_sets: Iterable[Tree]) -> str:
    """The PriorityClass of the first pod set that names one."""
    for pod_set in pod_sets:
        template = pod_set.get("template")
        spec = template.get("spec") if isinstance(template, dict) else None
        name = spec.get("priorityClassName") if isinstance(spec, dict) else None
        if isinstance(name, str) and name:
            return name
    return ""


def carried_annotations(metadata: ObjectMeta, *, gated: bool) -> Tree:
    """The annotations of a job that its Workload gets too."""
    found: Tree = {key: text for key, text in metadata.annotations.items() if key.startswith(PROVISIONING_PREFIX)}
    if gated and gates_annotation(metadata):
        found[Annotation.ADMISSION_GATED_BY] = gates_annotation(metadata)
    return found


def uid_label(uid: str) -> Tree:
    """The label that links a Workload to a job's UID, if the UID is a valid label value."""
    return {} if not uid or label_value(uid) else {Label.JOB_UID: uid}


def owner_reference(*, api_version: str, kind: str, metadata: ObjectMeta) -> Tree:
    """The owner reference to a job."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": metadata.name or "",
        "uid": metadata.uid or "",
        "controller": True,
        "blockOwnerDeletion": True,
    }


def spec_tree(pod_sets: Sequence[Tree], queue: str, priority: Priority, limit: int | None) -> Tree:
    """The spec of a Workload."""
    listed: list[Json] = list(pod_sets)
    spec: Tree = {"podSets": listed, "priority": priority.value}
    if queue:
        spec["queueName"] = queue
    reference = priority.reference()
    if reference is not None:
        spec["priorityClassRef"] = reference
    if limit is not None:
        spec["maximumExecutionTimeSeconds"] = limit
    return spec


def workload_object(name: str, namespace: str, labels: Tree, annotations: Tree, owner: Tree, spec: Tree) -> Tree:
    """A new Workload."""
    metadata: Tree = {
        "name": name,
        "namespace": namespace,
        "labels": labels,
        "finalizers": [Finalizer.RESOURCE_IN_USE.value],
        "ownerReferences": [owner],
    }
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": V1BETA2, "kind": "Workload", "metadata": metadata, "spec": spec}
