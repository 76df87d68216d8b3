"""Does a Pod with a queue label that nobody queues get an Event, and only such a Pod?"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pykueue.app.embedded import PARTS
from pykueue.controllers.barepods import NOTE, read_pod
from pykueue.kube.port import EVENTS, NAMESPACES, PODS, Patch
from pykueue.testing.embedded import Embedded, loaded

QUEUE = "kueue.x-k8s.io/queue-name"
PATH = "/apis/events.k8s.io/v1/namespaces/{}/events"


class Cluster:
    """The manager of a cluster, on an API that takes every Pod."""

    def __init__(self) -> None:
        self.system = Embedded()
        self.api = self.system.local.kube
        self.start()

    def start(self) -> None:
        """Start the manager, in place of the one that runs."""
        self.system.call(self.system.local.restart(loaded(None, None), PARTS | {"pods"}))
        self.system.advance(1)

    def pod(self, name: str, namespace: str = "default", **metadata: Any) -> dict[str, Any]:
        spec = {"containers": [{"name": "main", "image": "none"}], "nodeSelector": {"no": "where"}}
        tree = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}
        made = self.system.call(self.api.create(PODS, json.dumps(tree).encode(), namespace))
        self.system.advance(1)
        found: dict[str, Any] = json.loads(made)
        return found

    def warned(self, namespace: str = "default") -> list[tuple[str, str, int]]:
        """The Pods that a Warning is about, with its note, and how often it was said."""
        found: list[tuple[str, str, int]] = []

        async def pages() -> None:
            async for page in self.api.pages(EVENTS, namespace):
                for one in json.loads(page)["items"]:
                    if one["reason"] == "Unsupported":
                        count = one.get("series", {}).get("count", 1)
                        found.append((one["regarding"]["name"], one["note"], count))

        self.system.call(pages())
        return sorted(found)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.system.close()


def test_a_pod_with_a_queue_label_is_reported_once(cluster: Cluster) -> None:
    cluster.pod("bare", labels={QUEUE: "main"})
    patch = json.dumps({"metadata": {"labels": {"more": "1"}}}).encode()
    cluster.system.call(cluster.api.patch(PODS, "bare", patch, "default", how=Patch.MERGE))
    cluster.system.advance(2)
    assert cluster.warned() == [("bare", NOTE, 1)]


def test_a_pod_of_a_group_is_reported(cluster: Cluster) -> None:
    cluster.pod("one", labels={QUEUE: "main", "kueue.x-k8s.io/pod-group-name": "g"})
    assert [name for name, _, _ in cluster.warned()] == ["one"]


def test_pods_that_are_there_already_are_reported(cluster: Cluster) -> None:
    cluster.system.call(cluster.system.local.restart(loaded(None, None), PARTS))
    cluster.pod("bare", labels={QUEUE: "main"})
    assert cluster.warned() == []
    cluster.start()
    assert [name for name, _, _ in cluster.warned()] == ["bare"]


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({}, id="without a queue"),
        pytest.param({"labels": {QUEUE: ""}}, id="an empty queue"),
        pytest.param(
            {
                "labels": {QUEUE: "main"},
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "u", "controller": True}
                ],
            },
            id="with a controller",
        ),
    ],
)
def test_other_pods_are_not_reported(cluster: Cluster, metadata: dict[str, Any]) -> None:
    cluster.pod("other", **metadata)
    assert cluster.warned() == []


def test_an_owner_that_is_no_controller_does_not_count(cluster: Cluster) -> None:
    owners = [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]
    cluster.pod("bare", labels={QUEUE: "main"}, ownerReferences=owners)
    assert [name for name, _, _ in cluster.warned()] == ["bare"]


def test_a_namespace_that_is_not_managed_is_left_alone(cluster: Cluster) -> None:
    assert json.loads(cluster.system.call(cluster.api.get(NAMESPACES, "kube-system")))
    cluster.pod("bare", "kube-system", labels={QUEUE: "main"})
    assert cluster.warned("kube-system") == []


def test_only_what_is_needed_of_a_pod_is_kept() -> None:
    tree = {
        "metadata": {"name": "p", "namespace": "n", "labels": {QUEUE: "q", "a": "b"}, "annotations": {"c": "d"}},
        "spec": {"containers": []},
        "status": {"phase": "Running"},
    }
    found = read_pod(json.dumps(tree).encode())
    assert (found.metadata.labels, found.metadata.annotations, found.status.phase) == ({QUEUE: "q"}, {}, "Running")
