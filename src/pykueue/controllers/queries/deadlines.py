"""How long Jobs may run, for questions about run times."""

from collections.abc import Generator, Mapping
from typing import Final

from pykueue.controllers.cluster import Cluster

STEP: Final = 1_000
"""Jobs that one step of reading looks at."""


def deadlines(cluster: Cluster) -> Generator[None, None, Mapping[str, int]]:
    """The `activeDeadlineSeconds` of the Jobs that declare it, by UID; in steps."""
    jobs = list(cluster.jobs.objects.values())
    found: dict[str, int] = {}
    for start in range(0, len(jobs), STEP):
        yield
        for job in jobs[start : start + STEP]:
            seconds = job.spec.active_deadline_seconds
            if seconds is not None and job.metadata.uid:
                found[job.metadata.uid] = seconds
    return found
