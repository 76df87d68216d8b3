"""Who sees the line on a cluster, through the API server's own certificate and nobody else's?"""

import json
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import cluster_queue, job, local_queue, pod_spec
from tests.e2e.aggregation import NAMESPACES, people, questioned
from tests.e2e.backend import only_on_plane
from tests.plane.client import Client
from tests.plane.plane import FRONT_PROXY, Plane
from tests.plane.programs import ManagerProcess

only_on_plane("an APIService and its front proxy are a real API server's")

# The tests share a plane of their own, so one worker takes them all.
pytestmark = pytest.mark.xdist_group("visibility")

GROUP = "visibility.kueue.x-k8s.io"
ROOT = f"/apis/{GROUP}"
FLAVOR = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "default"}}
NAMES = ("a", "b", "c", "d")
WHOLE = "v1beta2/clusterqueues/main/pendingworkloads"
LINE = [("red", "c", 0, 0), ("blue", "a", 1, 0), ("red", "b", 2, 1), ("blue", "d", 3, 1)]
"""Namespace and Job of each Workload, with its positions; c has a higher priority."""


class Cluster:
    """A plane with a manager, four jobs that wait, and a user of the namespace red."""

    def __init__(self, plane: Plane, manager: ManagerProcess) -> None:
        self.plane = plane
        self.manager = manager
        self.users = people(plane)

    def raw(self, who: str, path: str) -> str:
        """What `kubectl get --raw` prints, errors included."""
        return self.plane.kubectl(f"--kubeconfig={self.users[who]}", "get", "--raw", f"{ROOT}/{path}", check=False)

    def line(self, who: str, path: str) -> list[tuple[str, str, int, int]]:
        text = self.raw(who, path)
        assert text.startswith("{"), text
        return [
            (
                one["metadata"]["namespace"],
                one["metadata"]["ownerReferences"][0]["name"],
                one["positionInClusterQueue"],
                one["positionInLocalQueue"],
            )
            for one in json.loads(text)["items"]
        ]

    def direct(self, path: str, certificate: str = "", **headers: str) -> tuple[int, str]:
        """The answer to a call past the API server, with a certificate of the plane's folder; 0 for none at all."""
        context = ssl._create_unverified_context()
        if certificate:
            file = self.plane.folder / certificate
            context.load_cert_chain(f"{file}.crt", f"{file}.key")
        url = f"https://127.0.0.1:{self.manager.ports['visibility']}{path}"
        asked = urllib.request.Request(url, headers={key.replace("_", "-"): value for key, value in headers.items()})
        try:
            with urllib.request.urlopen(asked, timeout=10, context=context) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with questioned() as (plane, manager):
        made = Cluster(plane, manager)
        high = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "value": 5}
        plane.apply_all([FLAVOR, cluster_queue(cpu="0"), {**high, "metadata": {"name": "high"}}])
        plane.apply_all([local_queue("main", name) for name in NAMESPACES])
        for count, (name, namespace) in enumerate(zip(NAMES, ("blue", "red", "red", "blue"), strict=True), 1):
            tree = job(name, "main", namespace, template={"spec": pod_spec("1")}, suspend=True)
            if name == "c":
                tree["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "high"
            plane.client.create(tree)
            assert Client.soon(lambda: len(made.line("admin", WHOLE)) == count)  # noqa: B023
            # Workloads of the same second are ordered by their UIDs.
            time.sleep(1)
        yield made


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_an_administrator_sees_the_whole_line_in_pages(cluster: Cluster, version: str) -> None:
    path = f"{version}/clusterqueues/main/pendingworkloads"
    assert cluster.line("admin", path) == LINE
    assert cluster.line("admin", f"{path}?offset=1&limit=2") == LINE[1:3]
    tree = json.loads(cluster.raw("admin", path))
    assert (tree["kind"], tree["apiVersion"]) == ("PendingWorkloadsSummary", f"{GROUP}/{version}")
    assert [one["priority"] for one in tree["items"]] == [5, 0, 0, 0]


def test_a_user_sees_the_own_local_queue_and_no_cluster_queue(cluster: Cluster) -> None:
    mine = "v1beta2/namespaces/red/localqueues/main/pendingworkloads"
    # The roles of users are put together by a controller.
    assert Client.soon(lambda: cluster.raw("user", mine).startswith("{")), cluster.raw("user", mine)
    assert cluster.line("user", mine) == [LINE[0], LINE[2]]
    assert cluster.line("user", f"{mine}?offset=1") == [LINE[2]]
    for other in ("clusterqueues/main", "namespaces/blue/localqueues/main"):
        assert "Forbidden" in cluster.raw("user", f"v1beta2/{other}/pendingworkloads")


def test_what_is_not_there_is_not_found_in_kueues_words(cluster: Cluster) -> None:
    assert f'clusterqueue.{GROUP} "no" not found' in cluster.raw("admin", "v1beta2/clusterqueues/no/pendingworkloads")
    wrong = cluster.raw("admin", "v1beta2/clusterqueues/main/pendingworkloads?limit=x")
    assert 'strconv.ParseInt: parsing "x": invalid syntax' in wrong


def test_discovery_is_whole_so_that_kubectl_and_namespaces_work(cluster: Cluster) -> None:
    kubectl = cluster.plane.kubectl
    assert GROUP in kubectl("api-versions")
    assert "clusterqueues" in kubectl("api-resources", "--api-group=kueue.x-k8s.io")
    assert kubectl("get", "clusterqueues", "-o", "name").strip() == "clusterqueue.kueue.x-k8s.io/main"
    cluster.plane.namespace("short")
    kubectl("delete", "namespace", "short", "--timeout=60s")


def test_nobody_is_believed_without_the_front_proxys_certificate(cluster: Cluster, tmp_path: Path) -> None:
    path = f"{ROOT}/v1beta2/clusterqueues/main/pendingworkloads"
    names = {"X_Remote_User": "admin", "X_Remote_Group": "system:masters"}
    code, text = cluster.direct(path, **names)
    assert (code, json.loads(text)["reason"]) == (401, "Unauthorized")
    token = {"Authorization": f"Bearer {cluster.plane.client.headers['Authorization'].split()[1]}"}
    assert cluster.direct(path, **token)[0] == 401
    # Signed by another authority: TLS itself fails.
    assert cluster.direct(path, "apiserver", **names)[0] == 0
    assert cluster.direct(path, f"{FRONT_PROXY}-client", **names)[0] == 200
    assert cluster.direct(path, f"{FRONT_PROXY}-client")[0] == 401, "a certificate alone names no user"
    nobody = {"X_Remote_User": "nobody"}
    assert cluster.direct(path, f"{FRONT_PROXY}-client", **nobody)[0] == 403
    assert cluster.direct("/healthz")[0] == 200


def test_pykueue_jobs_shows_the_place_in_line(cluster: Cluster) -> None:
    mine = "v1beta2/namespaces/red/localqueues/main/pendingworkloads"
    assert Client.soon(lambda: cluster.raw("user", mine).startswith("{")), cluster.raw("user", mine)
    for who in ("admin", "user"):
        done = subprocess.run(
            [sys.executable, "-m", "pykueue", "jobs", "-n", "red", "-o", "json", "--kubeconfig", cluster.users[who]],
            check=True,
            capture_output=True,
            text=True,
        )
        rows = json.loads(done.stdout)["items"]
        assert {row["name"]: row.get("place") for row in rows} == {"c": 1, "b": 3}, done.stderr
