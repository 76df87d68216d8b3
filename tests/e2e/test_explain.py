"""Who learns why a job waits, and whose names? On one machine, and on a cluster through its API server."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, Protocol

import msgspec
import pytest

from pykueue.apiserver.wire.messages import request
from pykueue.testing.kueue import Kueue
from tests.builders import cluster_queue, job, local_queue, pod_spec
from tests.e2e.aggregation import NAMESPACES, people, questioned
from tests.e2e.backend import on_plane
from tests.plane.client import Client
from tests.plane.plane import Plane
from tests.plane.programs import ManagerProcess

# The stories share a system of their own, so one worker takes them all.
pytestmark = pytest.mark.xdist_group("explain")

GROUP = "query.pykueue.io"
ROOT = f"/apis/{GROUP}/v1alpha1"
FLAVOR = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "default"}}
JOBS = (("runs", "blue", "3"), ("first", "blue", "4"), ("waits", "red", "2"))
"""Name, namespace and cpu of each Job, in the order in which they are submitted; the queue has 4 cpu."""


def submitted(name: str, namespace: str, cpu: str) -> dict[str, Any]:
    return job(name, "main", namespace, template={"spec": pod_spec(cpu)}, suspend=True)


class Lab(Protocol):
    """A system with the Jobs above, an administrator, and a user of the namespace red."""

    def ask(self, who: str, path: str) -> tuple[bool, Any]:
        """Whether a question is answered, and the answer or the refusal."""

    def workload(self, name: str, namespace: str) -> str:
        """The name of the Workload of a Job."""


class OnMachine:
    """The embedded system."""

    def __init__(self) -> None:
        self.kueue = Kueue()
        users = self.kueue.embedded.front.access.users
        self.tokens = {"admin": self.kueue.embedded.token, "user": users.add("ann", namespace="red")}
        for name in NAMESPACES:
            self.kueue.namespace(name)
        self.kueue.apply(FLAVOR, cluster_queue(cpu="4"), *(local_queue("main", name) for name in NAMESPACES))
        for one in JOBS:
            self.kueue.client.apply(submitted(*one))
            self.kueue.settle()

    def ask(self, who: str, path: str) -> tuple[bool, Any]:
        headers = {"authorization": f"Bearer {self.tokens[who]}"}
        embedded = self.kueue.embedded
        answer = embedded.call(embedded.front.answer(request("GET", f"{ROOT}/{path}/explanations", b"", headers)))
        assert isinstance(answer.body, bytes)
        return answer.code == 200, msgspec.json.decode(answer.body)

    def workload(self, name: str, namespace: str) -> str:
        found: str = self.kueue.workload(name, namespace)["metadata"]["name"]
        return found


class OnCluster:
    """A plane with a manager, behind its API server."""

    def __init__(self, plane: Plane, manager: ManagerProcess) -> None:
        self.plane = plane
        self.manager = manager
        self.users = people(plane)
        plane.apply_all([FLAVOR, cluster_queue(cpu="4")])
        plane.apply_all([local_queue("main", name) for name in NAMESPACES])
        for name, namespace, cpu in JOBS:
            plane.client.create(submitted(name, namespace, cpu))
            assert Client.soon(partial(self.is_known, name, namespace))
            # Workloads of the same second are ordered by their UIDs.
            time.sleep(1)

    def is_known(self, name: str, namespace: str) -> bool:
        return self.ask("admin", f"namespaces/{namespace}/workloads/{self.workload(name, namespace)}")[0]

    def ask(self, who: str, path: str) -> tuple[bool, Any]:
        asked = (f"--kubeconfig={self.users[who]}", "get", "--raw", f"{ROOT}/{path}/explanations")
        text = self.plane.kubectl(*asked, check=False)
        return (True, json.loads(text)) if text.startswith("{") else (False, {"message": text})

    def workload(self, name: str, namespace: str) -> str:
        label = "-o=jsonpath={.items[?(@.metadata.ownerReferences[0].name=='" + name + "')].metadata.name}"
        return self.plane.kubectl("-n", namespace, "get", "workloads.kueue.x-k8s.io", label).strip() or "none"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    if not on_plane():
        made = OnMachine()
        yield made
        made.kueue.close()
        return
    with questioned() as (plane, manager):
        yield OnCluster(plane, manager)


def sentences(tree: Any) -> Iterator[str]:
    yield tree["text"]
    for one in tree.get("children", ()):
        yield from sentences(one)


def path(lab: Lab, name: str, namespace: str) -> str:
    return f"namespaces/{namespace}/workloads/{lab.workload(name, namespace)}"


def test_an_administrator_learns_everything(lab: Lab) -> None:
    ok, answer = lab.ask("admin", path(lab, "waits", "red"))
    assert ok, answer
    assert (answer["kind"], answer["state"], answer["reason"]) == ("WorkloadExplanation", "Pending", "WaitingForQuota")
    assert answer["place"]["ahead"] == {"count": 1, "named": ["Job blue/first"]}
    (row,) = answer["podSets"][0]["flavors"]
    assert (row["asked"], row["nominal"], row["used"], row["free"], row["missing"]) == ("2", "4", "3", "1", "1")
    assert "place in line: 2 of 2; ahead: Job blue/first" in [*sentences(answer["tree"])]
    ok, queue = lab.ask("admin", "clusterqueues/main")
    assert ok, queue
    assert [one["name"] for one in queue["holders"]] == ["Job blue/runs"]


def test_a_user_gets_counts_and_no_names(lab: Lab) -> None:
    mine = path(lab, "waits", "red")
    # On a cluster the roles of users are put together by a controller.
    assert Client.soon(lambda: lab.ask("user", mine)[0]), lab.ask("user", mine)
    _, answer = lab.ask("user", mine)
    assert answer["place"]["ahead"] == {"count": 1, "otherNamespaces": 1}
    assert "place in line: 2 of 2; ahead: 1 of other namespaces" in [*sentences(answer["tree"])]
    ok, queue = lab.ask("user", "namespaces/red/localqueues/main")
    assert ok, queue
    assert (queue["holding"], queue["holdersOfOtherNamespaces"], "holders" in queue) == (1, 1, False)
    for said in (answer, queue):
        assert "blue" not in json.dumps(said)


def test_a_user_may_not_ask_about_others(lab: Lab) -> None:
    ok, refusal = lab.ask("user", path(lab, "first", "blue"))
    assert not ok
    assert "forbidden" in refusal["message"].lower()


@pytest.mark.parametrize(
    "what", ["namespaces/red/workloads/none", "namespaces/red/localqueues/none", "clusterqueues/none"]
)
def test_what_does_not_exist_is_not_found(lab: Lab, what: str) -> None:
    ok, refusal = lab.ask("admin", what)
    assert not ok
    assert '"none" not found' in refusal["message"]


def test_pykueue_explain_on_a_cluster(lab: Lab) -> None:
    if not isinstance(lab, OnCluster):
        pytest.skip("on one machine tests/cli/commands/test_explain.py asks a server")
    for who, ahead in (("admin", "Job blue/first"), ("user", "1 of other namespaces")):
        done = subprocess.run(
            [sys.executable, "-m", "pykueue", "explain", "waits", "-n", "red", "--kubeconfig", lab.users[who]],
            check=True,
            capture_output=True,
            text=True,
        )
        assert f"place in line: 2 of 2; ahead: {ahead}" in done.stdout, done.stderr


def test_pykueue_eta_on_a_cluster(lab: Lab) -> None:
    if not isinstance(lab, OnCluster):
        pytest.skip("on one machine tests/cli/commands/test_eta.py asks a server")
    for who in ("admin", "user"):
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pykueue",
                "eta",
                "waits",
                "-n",
                "red",
                "--kubeconfig",
                lab.users[who],
                "-o",
                "json",
            ],
            check=True,
            capture_output=True,
            text=True,
        )
        (found,) = json.loads(done.stdout)["items"]
        status = found["status"]
        assert (status["state"], status["ahead"], status["aheadWithoutLimit"]) == ("Pending", 2, 2), status
        assert status["runs"] == 40
        # Nothing limits the run times of the jobs ahead, so the range is wide, but they end.
        assert status["runsThatStart"] == 40
        assert status["earliest"] < status["latest"]
        assert "blue" not in done.stdout
