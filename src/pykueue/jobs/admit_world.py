"""What may admission know of the cluster? All that decides on an object besides the object itself."""

from pykueue.api.rules.rule import GATES, Context
from pykueue.base.struct import Frozen


class AdmitWorld(Frozen):
    """The cluster and the Configuration, as one incoming object finds them."""

    gates: Context = Context(GATES)
    default_queue: bool = False
    """Whether the object's namespace has a LocalQueue `default` for jobs that name none. A stopped one does not
    count."""
    default_class: bool = False
    """Whether there is a WorkloadPriorityClass `default` for jobs that name none."""
    selected: bool = True
    """Whether managedJobsNamespaceSelector selects the object's namespace."""
    queueless: bool = False
    """Whether jobs that name no queue are held back too: manageJobsWithoutQueueName."""
    managed_kinds: frozenset[str] = frozenset({"batch/Job"})
    """The kinds of job that are queued, as `group/Kind`."""
    managed_ancestor: bool = False
    """Whether the object belongs, at some remove, to one that is queued itself."""
    creation_order: bool = False
    """Whether a workload that was evicted for its pods goes back to its old place in line: waitForPodsReady with
    `requeuingStrategy.timestamp: Creation`."""
