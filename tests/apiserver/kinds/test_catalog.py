"""Tests of which kinds are served."""

from pykueue.api.core import Tree
from pykueue.apiserver.kinds.builtins import BUILTINS
from pykueue.apiserver.kinds.catalog import Catalog
from pykueue.apiserver.schema.schemas import builtin


def test_every_built_in_kind_has_a_schema() -> None:
    missing = [
        one.resource.kind
        for one in BUILTINS
        if one.kept and builtin(one.resource.api_version, one.resource.kind) is None
    ]
    assert missing == []


def test_kueues_kinds_are_served_in_both_versions_and_kept_in_one() -> None:
    catalog = Catalog()
    older = catalog.find("kueue.x-k8s.io", "v1beta1", "clusterqueues")
    newer = catalog.find("kueue.x-k8s.io", "v1beta2", "clusterqueues")
    assert older is not None
    assert newer is not None
    assert older.storage == newer.storage == "clusterqueues.kueue.x-k8s.io"
    assert (older.is_stored, newer.is_stored) == (False, True)
    assert older.warning == "This version is deprecated. Use v1beta2 instead."
    assert newer.warning == ""
    assert [column.name for column in newer.columns][:2] == ["Cohort", "Strategy"]
    assert newer.has_status


def test_kinds_are_kept_once() -> None:
    stored = [one.storage for one in Catalog().stored()]
    assert len(stored) == len(set(stored))
    assert {"events", "pods", "jobs.batch", "workloads.kueue.x-k8s.io"} <= set(stored)
    assert "tokenreviews.authentication.k8s.io" not in stored


def test_changes_are_counted() -> None:
    catalog = Catalog()
    before = catalog.stamp
    version: Tree = {"name": "v1", "served": True, "storage": True}
    catalog.install(
        {
            "metadata": {"name": "things.x.io"},
            "spec": {
                "group": "x.io",
                "scope": "Cluster",
                "names": {"kind": "Thing", "plural": "things"},
                "versions": [version, {"name": "v2", "served": False, "storage": False}],
            },
        }
    )
    assert catalog.stamp > before
    served = catalog.find("x.io", "v1", "things")
    assert served is not None
    assert served.resource.namespaced is False
    assert catalog.find("x.io", "v2", "things") is None
    catalog.forget("things.x.io")
    assert catalog.find("x.io", "v1", "things") is None
