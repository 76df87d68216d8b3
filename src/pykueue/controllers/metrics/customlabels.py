"""Labels and annotations of objects as labels of their metrics: `metrics.customLabels` of the Configuration."""

from collections.abc import Iterable
from typing import Final, Protocol

from pykueue.api.config.types import CustomLabel
from pykueue.api.core import ObjectMeta
from pykueue.api.kueue import ClusterQueue, Cohort, LocalQueue
from pykueue.api.workload import Workload
from pykueue.controllers.metrics.families import Family, Source, with_labels
from pykueue.controllers.metrics.series import Labels
from pykueue.kube.informer import Informer

PREFIX: Final = "custom_"
UNTRACKED: Final = "kueue.x-k8s.io/_UNTRACKED_VALUE_"
"""Stands for every value that is not among a label's tracked values."""


class Objects(Protocol):
    """Where the objects are found."""

    workloads: Informer[Workload]
    cluster_queues: Informer[ClusterQueue]
    local_queues: Informer[LocalQueue]
    cohorts: Informer[Cohort]


class CustomLabels:
    """The custom labels of each kind of object, and their values."""

    def __init__(self, labels: Iterable[CustomLabel]) -> None:
        self.by_kind: dict[str, tuple[CustomLabel, ...]] = {}
        for label in labels:
            self.by_kind[label.source_kind] = (*self.by_kind.get(label.source_kind, ()), label)
        self.objects: Objects | None = None

    def names(self, kind: Source | None) -> Labels:
        """The names of the labels of a kind."""
        return tuple(PREFIX + label.name for label in self.by_kind.get(kind or "", ()))

    def family(self, family: Family) -> Family:
        """A family with the labels of its objects."""
        by_workload = self.names("Workload") if family.by_workload else ()
        return with_labels(family, (*by_workload, *self.names(family.source)))

    def values(self, kind: Source, metadata: ObjectMeta | None) -> Labels:
        """The values of the labels of an object; empty ones if it is unknown."""
        return tuple("" if metadata is None else value(label, metadata) for label in self.by_kind.get(kind, ()))

    def of_queue(self, name: str) -> Labels:
        """The values of a ClusterQueue."""
        if "ClusterQueue" not in self.by_kind or self.objects is None:
            return ()
        found = self.objects.cluster_queues.get(name)
        return self.values("ClusterQueue", None if found is None else found.metadata)

    def of_local_queue(self, key: str) -> Labels:
        """The values of a LocalQueue."""
        if "LocalQueue" not in self.by_kind or self.objects is None:
            return ()
        found = self.objects.local_queues.get(key)
        return self.values("LocalQueue", None if found is None else found.metadata)

    def of_cohort(self, name: str) -> Labels:
        """The values of a cohort; empty ones if it has no object."""
        if "Cohort" not in self.by_kind or self.objects is None:
            return ()
        found = self.objects.cohorts.get(name)
        return self.values("Cohort", None if found is None else found.metadata)

    def of_workload(self, key: str) -> Labels:
        """The values of a Workload; those of one without labels if it is unknown."""
        if "Workload" not in self.by_kind or self.objects is None:
            return ()
        found = self.objects.workloads.get(key)
        return self.values("Workload", ObjectMeta() if found is None else found.metadata)


def value(label: CustomLabel, metadata: ObjectMeta) -> str:
    """The value of a label for an object; `UNTRACKED` if it is not among the tracked values."""
    if label.source_annotation_key:
        found = metadata.annotations.get(label.source_annotation_key, "")
    else:
        found = metadata.labels.get(label.source_label_key or label.name, "")
    return found if not label.tracked_values or found in label.tracked_values else UNTRACKED


def copied_keys(labels: Iterable[CustomLabel]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The keys of labels and of annotations that a Workload gets from its job for these labels."""
    mine = [label for label in labels if label.source_kind == "Workload"]
    return (
        tuple(label.source_label_key or label.name for label in mine if not label.source_annotation_key),
        tuple(label.source_annotation_key for label in mine if label.source_annotation_key),
    )
