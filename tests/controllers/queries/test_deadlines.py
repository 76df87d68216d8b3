"""Are the limits of Jobs read in steps, and those without one left out?"""

from types import SimpleNamespace
from typing import cast

from pykueue.api.core import ObjectMeta
from pykueue.base.steps import at_once
from pykueue.controllers.cluster import Cluster
from pykueue.controllers.queries.deadlines import STEP, deadlines
from pykueue.jobs.batch import JobSpec, JobView


def job(number: int, seconds: int | None) -> JobView:
    return JobView(
        metadata=ObjectMeta(f"j{number}", "red", uid=str(number)), spec=JobSpec(active_deadline_seconds=seconds)
    )


def test_limits_are_read_in_steps() -> None:
    jobs = {f"red/j{number}": job(number, number or None) for number in range(STEP + 1)}
    cluster = cast(Cluster, SimpleNamespace(jobs=SimpleNamespace(objects=jobs)))
    assert len(list(deadlines(cluster))) == 2
    assert at_once(deadlines(cluster)) == {str(number): number for number in range(1, STEP + 1)}
