"""The cluster state and settings that admission reads besides the object."""

from collections.abc import Iterable
from typing import Protocol

from pykueue.api.fields import FieldError
from pykueue.api.rules.rule import GATES, Context
from pykueue.base.struct import Frozen


class TemplateCheck(Protocol):
    """Validates the pod templates of Workloads, which their CustomResourceDefinition leaves open."""

    def errors(self, template: object, path: str) -> Iterable[FieldError]:
        """Why the template at this path cannot be decoded, or is incomplete."""

    def unknown(self, template: object, path: str) -> Iterable[str]:
        """Paths of fields that pods do not have."""


class AdmitWorld(Frozen):
    """The cluster and the Configuration for one incoming object."""

    gates: Context = Context(GATES)
    default_queue: bool = False
    """Whether the object's namespace has a LocalQueue `default` that is not stopped, for jobs that name none."""
    default_class: bool = False
    """Whether there is a WorkloadPriorityClass `default` for jobs that name none."""
    selected: bool = True
    """Whether managedJobsNamespaceSelector selects the object's namespace."""
    queueless: bool = False
    """Whether jobs that name no queue are suspended too: manageJobsWithoutQueueName."""
    managed_kinds: frozenset[str] = frozenset({"batch/Job"})
    """The kinds of job that are queued, as `group/Kind`."""
    managed_ancestor: bool = False
    """Whether the object belongs, directly or indirectly, to a queued object."""
    creation_order: bool = False
    """Whether a workload evicted for its pods keeps its position in the queue.

    That is waitForPodsReady with `requeuingStrategy.timestamp: Creation`.
    """
    fair_sharing: bool = False
    """Whether the Configuration has `fairSharing`, so that weights have an effect."""
    past_use: bool = False
    """Whether it has `admissionFairSharing`."""
    templates: TemplateCheck | None = None
    """Validates pod templates of Workloads; None if they are not validated."""
