"""Who answers for an explanation, about what, and in whose words?"""

import pytest

from pykueue.api.names import GROUP
from pykueue.controllers.cluster import Cluster
from pykueue.controllers.explanations import NAMESPACES_MAX, Explanations, readable
from pykueue.controllers.scheduling import Pump
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Leading, Synced
from pykueue.kube.aggregated import AggregatedCall, AggregatedError
from pykueue.testing.kueue import ApiError, Kueue
from tests.builders import cluster_queue, job, local_queue, pod_spec

ROOT = "/apis/query.pykueue.io/v1alpha1"
FLAVOR = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "default"}}


class Reader:
    """A caller who may list Workloads of some namespaces."""

    name = "ann"

    def __init__(self, *namespaces: str) -> None:
        self.namespaces = namespaces
        self.asked: list[str] = []

    async def may(self, verb: str, group: str, resource: str, namespace: str) -> bool:
        assert (verb, group, resource) == ("list", GROUP, "workloads")
        self.asked.append(namespace)
        return namespace in self.namespaces


async def test_one_who_may_list_everything_is_asked_once() -> None:
    reader = Reader("")
    assert await readable(reader, "mine", ("a", "b")) == {"a", "b"}
    assert reader.asked == [""]


async def test_rights_are_asked_by_namespace_and_never_without_need() -> None:
    reader = Reader("mine", "b")
    assert await readable(reader, "mine", ("a", "b", "mine")) == {"mine", "b"}
    assert await readable(Reader(), "mine", ()) == frozenset()


async def test_rights_are_asked_in_few_namespaces_the_own_first() -> None:
    reader = Reader("mine")
    many = tuple(f"n-{number}" for number in range(100))
    assert await readable(reader, "mine", (*many, "mine")) == {"mine"}
    assert len(reader.asked) == NAMESPACES_MAX + 1


class Follower:
    """What the handlers need of a Pump that does not lead."""

    def __init__(self) -> None:
        self.engine = Engine()
        self.engine.observe(Synced())
        self.engine.observe(Leading(False))


@pytest.mark.parametrize("handler", ["of_workload", "of_local_queue", "of_queue"])
async def test_a_follower_says_so(handler: str) -> None:
    def nothing() -> Cluster:
        raise AssertionError("nobody who may not answer reads the cluster")

    def pump() -> Pump:
        return Follower()  # type: ignore[return-value]  # only its engine is read

    call = AggregatedCall("v1alpha1", "workloads/explanations", "lab", "x", Reader())
    with pytest.raises(AggregatedError) as caught:
        await getattr(Explanations(nothing, pump), handler)(call)
    assert (caught.value.code, "does not lead" in caught.value.message) == (503, True)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("namespaces/default/workloads/none", 'workloads.kueue.x-k8s.io "none" not found'),
        ("namespaces/default/localqueues/none", 'localqueues.kueue.x-k8s.io "none" not found'),
        ("clusterqueues/none", 'clusterqueues.kueue.x-k8s.io "none" not found'),
    ],
)
def test_what_does_not_exist_is_not_found(kueue: Kueue, path: str, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        kueue.client.request("GET", f"{ROOT}/{path}/explanations")
    assert (caught.value.code, caught.value.message) == (404, message)


def test_workloads_are_named_by_their_jobs_and_a_finished_one_says_so(kueue: Kueue) -> None:
    kueue.apply(FLAVOR, cluster_queue(cpu="4"), local_queue())
    for name in ("runs", "waits"):
        kueue.job(name, queue="main", cpu=4)

    def ask(job: str) -> dict[str, object]:
        name = kueue.workload(job)["metadata"]["name"]
        found: dict[str, object] = kueue.client.request(
            "GET", f"{ROOT}/namespaces/default/workloads/{name}/explanations"
        )
        return found

    kueue.job("behind", queue="main", cpu=4)
    assert ask("behind")["place"] == {
        "position": 2,
        "total": 2,
        "ahead": {"count": 1, "named": ["Job waits"]},
        "aheadNotFitting": 1,
    }
    queue = kueue.client.request("GET", f"{ROOT}/clusterqueues/main/explanations")
    assert [one["name"] for one in queue["holders"]] == ["Job default/runs"]
    kueue.finish("runs")
    finished = ask("runs")
    assert finished["state"] == "Finished"
    assert [one["kind"] for one in finished["decisions"]] == ["Admit"]  # type: ignore[attr-defined]  # JSON


def test_the_deadline_of_a_job_says_how_long_to_wait(kueue: Kueue) -> None:
    kueue.apply(FLAVOR, cluster_queue(cpu="4"), local_queue())
    kueue.apply(job("runs", "main", template={"spec": pod_spec("4")}, activeDeadlineSeconds=600))
    kueue.job("waits", queue="main", cpu=4)
    name = kueue.workload("waits")["metadata"]["name"]
    found = kueue.client.request("GET", f"{ROOT}/namespaces/default/workloads/{name}/explanations")
    ways = [one["text"] for one in found["tree"]["children"][-1]["children"]]
    assert "when Job runs will have ended" in ways[0], ways
