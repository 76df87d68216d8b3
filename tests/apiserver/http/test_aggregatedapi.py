"""Does the visibility API of one machine show the line, to those who may see it, in Kueue's words?"""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from pykueue.apiserver.auth.access import Access
from pykueue.apiserver.http.front import Front
from pykueue.apiserver.wire.messages import request
from pykueue.testing.kueue import Kueue
from tests.builders import cluster_queue, job, local_queue, pod_spec

GROUP = "visibility.kueue.x-k8s.io"
ROOT = f"/apis/{GROUP}"
FLAVOR = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "default"}}


class Lab:
    """Two users with a namespace and a queue each, in one ClusterQueue of one cpu."""

    def __init__(self, gates: dict[str, bool] | None = None) -> None:
        self.kueue = Kueue(gates=gates)
        embedded = self.kueue.embedded
        users = embedded.front.access.users
        self.tokens = {"admin": embedded.token}
        for name in ("ann", "bob"):
            self.kueue.namespace(name)
            self.tokens[name] = users.add(name, namespace=name)
        self.kueue.apply(FLAVOR, cluster_queue(cpu="1"), *(local_queue("main", name) for name in ("ann", "bob")))
        self.front = Front(embedded.local.registry, Access(users), embedded.clock, aggregated=embedded.local.aggregated)

    def ask(self, who: str, target: str, verb: str = "GET", body: Any = None) -> tuple[int, Any]:
        headers = {"authorization": f"Bearer {self.tokens[who]}", "content-type": "application/json"}
        data = b"" if body is None else msgspec.json.encode(body)
        answer = self.kueue.embedded.call(self.front.answer(request(verb, target, data, headers)))
        self.kueue.settle()
        assert isinstance(answer.body, bytes)
        return answer.code, msgspec.json.decode(answer.body) if answer.body.startswith(b"{") else answer.body

    def submit(self, who: str, *names: str) -> None:
        for name in names:
            tree = job(name, "main", template={"spec": pod_spec("1")})
            assert self.ask(who, f"/apis/batch/v1/namespaces/{who}/jobs", "POST", tree)[0] == 201

    def line(self, who: str, target: str) -> list[tuple[str, str, int, int]]:
        code, tree = self.ask(who, f"{ROOT}/v1beta2/{target}")
        assert code == 200, tree
        return [
            (
                one["metadata"]["namespace"],
                one["metadata"]["ownerReferences"][0]["name"],
                one["positionInClusterQueue"],
                one["positionInLocalQueue"],
            )
            for one in tree["items"]
        ]


@pytest.fixture
def lab() -> Iterator[Lab]:
    made = Lab()
    yield made
    made.kueue.close()


def test_both_lists_have_the_order_of_the_engine_and_page(lab: Lab) -> None:
    lab.submit("ann", "runs", "a")
    lab.submit("bob", "b")
    lab.submit("ann", "c")
    in_queue = [("ann", "a", 0, 0), ("bob", "b", 1, 0), ("ann", "c", 2, 1)]
    assert lab.line("admin", "clusterqueues/main/pendingworkloads") == in_queue
    assert lab.line("admin", "clusterqueues/main/pendingworkloads?offset=1&limit=1") == in_queue[1:2]
    assert lab.line("admin", "clusterqueues/main/pendingworkloads?offset=-4&limit=2") == in_queue[:2]
    assert lab.line("admin", "clusterqueues/main/pendingworkloads?limit=0") == in_queue, "0 is the default"
    assert lab.line("admin", "clusterqueues/main/pendingworkloads?limit=-1") == []
    hers = [in_queue[0], in_queue[2]]
    assert lab.line("ann", "namespaces/ann/localqueues/main/pendingworkloads") == hers
    assert lab.line("ann", "namespaces/ann/localqueues/main/pendingworkloads?offset=1") == hers[1:]
    assert lab.line("bob", "namespaces/bob/localqueues/main/pendingworkloads") == in_queue[1:2]


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_a_row_has_what_kueue_tells(lab: Lab, version: str) -> None:
    lab.submit("ann", "runs", "a")
    code, tree = lab.ask("admin", f"{ROOT}/{version}/clusterqueues/main/pendingworkloads")
    assert code == 200
    (row,) = tree.pop("items")
    assert tree == {"kind": "PendingWorkloadsSummary", "apiVersion": f"{GROUP}/{version}", "metadata": {}}
    metadata = row.pop("metadata")
    assert row == {"priority": 0, "localQueueName": "main", "positionInClusterQueue": 0, "positionInLocalQueue": 0}
    (owner,) = metadata.pop("ownerReferences")
    assert set(owner) == {"apiVersion", "kind", "name", "uid"}
    assert set(metadata) == {"name", "namespace", "creationTimestamp"}
    workload = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/ann/workloads/{metadata['name']}"
    stored = lab.ask("admin", workload)[1]["metadata"]
    assert metadata["creationTimestamp"] == stored["creationTimestamp"]
    assert owner.items() <= stored["ownerReferences"][0].items()


def test_a_user_sees_only_the_own_local_queue(lab: Lab) -> None:
    code, tree = lab.ask("ann", f"{ROOT}/v1beta2/clusterqueues/main/pendingworkloads")
    assert code == 403
    assert tree["message"] == (
        f'clusterqueues.{GROUP} "main" is forbidden: User "ann" cannot get resource "clusterqueues/pendingworkloads" '
        f'in API group "{GROUP}" at the cluster scope'
    )
    assert lab.ask("ann", f"{ROOT}/v1beta2/namespaces/bob/localqueues/main/pendingworkloads")[0] == 403


@pytest.mark.parametrize(
    ("target", "code", "says"),
    [
        ("clusterqueues/no/pendingworkloads", 404, f'clusterqueue.{GROUP} "no" not found'),
        ("namespaces/ann/localqueues/no/pendingworkloads", 404, f'localqueue.{GROUP} "no" not found'),
        ("clusterqueues/main", 404, "the server could not find the requested resource"),
        ("localqueues/main/pendingworkloads", 404, "the server could not find the requested resource"),
        ("clusterqueues/main/pendingworkloads?limit=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("clusterqueues/main/pendingworkloads?offset=", 400, 'strconv.ParseInt: parsing "": invalid syntax'),
        (
            "clusterqueues/main/pendingworkloads?limit=9223372036854775808",
            400,
            'strconv.ParseInt: parsing "9223372036854775808": value out of range',
        ),
    ],
)
def test_a_wrong_call_is_refused_in_kubernetes_words(lab: Lab, target: str, code: int, says: str) -> None:
    found, tree = lab.ask("admin", f"{ROOT}/v1beta2/{target}")
    assert (found, tree["message"]) == (code, says)


def test_writes_and_watches_are_refused(lab: Lab) -> None:
    target = f"{ROOT}/v1beta2/clusterqueues/main/pendingworkloads"
    assert lab.ask("admin", target, "POST", {})[0] == 405
    assert lab.ask("admin", target, "DELETE")[0] == 405


def test_discovery_tells_of_it(lab: Lab) -> None:
    names = [one["name"] for one in lab.ask("ann", "/apis")[1]["groups"]]
    assert names.index("kueue.x-k8s.io") < names.index(GROUP), "kubectl takes `clusterqueues` from the first"
    code, tree = lab.ask("ann", ROOT)
    assert (code, tree["preferredVersion"]["version"]) == (200, "v1beta2")
    code, tree = lab.ask("ann", f"{ROOT}/v1beta1")
    assert code == 200
    assert [(one["name"], one["singularName"], one["namespaced"], one["verbs"]) for one in tree["resources"]] == [
        ("clusterqueues", "clusterqueue", False, []),
        ("clusterqueues/pendingworkloads", "", False, ["get"]),
        ("localqueues", "localqueue", True, []),
        ("localqueues/pendingworkloads", "", True, ["get"]),
    ]
    assert {one["kind"] for one in tree["resources"]} == {"PendingWorkloadsSummary"}
    assert lab.ask("ann", f"/openapi/v3/apis/{GROUP}/v1beta2")[0] == 200


def test_without_its_gate_it_is_not_there() -> None:
    lab = Lab({"VisibilityOnDemand": False})
    assert lab.ask("admin", ROOT)[0] == 404
    assert lab.ask("admin", f"{ROOT}/v1beta2/clusterqueues/main/pendingworkloads")[0] == 404
    lab.kueue.close()
