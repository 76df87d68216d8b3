"""Which manifests does another configuration replace?"""

import pytest

from pykueue.engine.model import ClusterQueue, Cohort, Flavor
from pykueue.sim.trace import Invalid, Trace, read_trace
from tests.sim.builders import FLAVOR, job, queue

COHORT = "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\nmetadata: {name: lab}\n"
FIRST = FLAVOR + queue("red") + queue("blue") + COHORT + job("a", queue="red")


def read(other: str) -> Trace:
    return read_trace([("first.yaml", FIRST.encode())], other=[("other.yaml", other.encode())])


def names(trace: Trace, kind: type[ClusterQueue] | type[Cohort] | type[Flavor]) -> list[str]:
    return [one.name for one in trace.things if isinstance(one, kind)]


def test_queues_and_cohorts_are_replaced_together_and_the_rest_stays() -> None:
    found = read(queue("red", cpu=9))
    assert names(found, ClusterQueue) == ["red"]
    assert names(found, Cohort) == [], "one that is left over would still lend its quota"
    assert names(found, Flavor) == ["default"]
    assert [one.name for one in found.arrivals] == ["default/a"]


def test_another_flavor_replaces_flavors_alone() -> None:
    found = read(FLAVOR + "---\n" + FLAVOR.replace("default", "fast"))
    assert names(found, Flavor) == ["default", "fast"]
    assert names(found, ClusterQueue) == ["red", "blue"]


def test_without_another_one_nothing_changes() -> None:
    alone = [("first.yaml", FIRST.encode())]
    assert read_trace(alone, other=[]) == read_trace(alone)
    with pytest.raises(Invalid, match=r"other.yaml: holds no object"):
        read("")


def test_jobs_are_those_of_the_first() -> None:
    with pytest.raises(Invalid, match=r"other.yaml: document 1: Job b: the jobs of both simulations are the same"):
        read(job("b", queue="red"))
