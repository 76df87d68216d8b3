"""Tests of objects in other versions than the stored one."""

import json

from pykueue.api.core import Tree
from pykueue.apiserver.kinds.catalog import Catalog
from pykueue.apiserver.kinds.conversion import bare, body_served, ordered, to_served, to_stored
from pykueue.apiserver.kinds.served import Served


def served(group: str, version: str, plural: str) -> Served:
    found = Catalog().find(group, version, plural)
    assert found is not None
    return found


def test_an_event_is_stored_under_its_older_name() -> None:
    new = served("events.k8s.io", "v1", "events")
    tree: Tree = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "regarding": {"name": "p"}, "note": "n"}
    stored = to_stored(new, tree)
    assert stored == {"apiVersion": "v1", "kind": "Event", "involvedObject": {"name": "p"}, "message": "n"}
    assert to_served(new, stored) == tree


def test_an_object_of_the_stored_version_is_left_as_it_is() -> None:
    body = b'{"kind":"Pod","apiVersion":"v1","metadata":{}}'
    assert body_served(served("", "v1", "pods"), body) is body


def test_an_older_queue_is_converted() -> None:
    older = served("kueue.x-k8s.io", "v1beta1", "clusterqueues")
    stored = json.dumps({"kind": "ClusterQueue", "apiVersion": older.stored_version, "spec": {"cohortName": "a"}})
    shown = json.loads(body_served(older, stored.encode()))
    assert (shown["apiVersion"], shown["spec"]) == ("kueue.x-k8s.io/v1beta1", {"cohort": "a"})


def test_an_item_of_a_list_is_not_told_what_it_is() -> None:
    tree = ordered({"spec": {}, "metadata": {"name": "p"}, "apiVersion": "x", "kind": "y"}, "Pod", "v1")
    assert [*tree] == ["kind", "apiVersion", "metadata", "spec"]
    body = json.dumps(tree, separators=(",", ":")).encode()
    assert bare(served("", "v1", "pods"), body) == b'{"metadata":{"name":"p"},"spec":{}}'
    assert bare(served("kueue.x-k8s.io", "v1beta2", "workloads"), body) is body
