"""The Jobs behind the Workloads of an answer."""

from collections.abc import Callable

from pykueue.api.core import controller_of
from pykueue.api.workload import Workload
from pykueue.controllers.cluster import Cluster
from pykueue.controllers.jobsummaries import other_of
from pykueue.jobs.batch import JobView
from pykueue.jobs.dependencies import Other


def job_of(cluster: Cluster, seen: Workload) -> JobView | None:
    """The Job of a Workload; None if it has none, or if that is not known here."""
    owner = controller_of(seen.metadata)
    job = None if owner is None else cluster.jobs.get(f"{seen.metadata.namespace}/{owner.name}")
    return None if owner is None or job is None or job.metadata.uid != owner.uid else job


def finder(cluster: Cluster, namespace: str | None) -> Callable[[str], Other | None]:
    """Finds the Jobs of a namespace by name, as those see them that wait for them."""

    def find(name: str) -> Other | None:
        found = cluster.jobs.get(f"{namespace}/{name}")
        return None if found is None else other_of(found)

    return find
