"""How does `kubectl get` come to its columns? Tables of our kinds, of Kubernetes' own, and of definitions."""

import pytest

from pykueue.api.core import Json, Tree
from pykueue.apiserver.http.tables import cell, cells_of, heads_of, included, row, table_of
from pykueue.apiserver.kinds.catalog import Catalog
from pykueue.apiserver.kinds.served import PrinterColumn, Served
from pykueue.apiserver.wire.statuserrors import StatusError
from pykueue.base.units import MICROS, Instant

NOW = Instant(1_800_000_000 * MICROS)
CREATED = "2027-01-15T07:59:00Z"


def served(group: str, version: str, plural: str) -> Served:
    found = Catalog().find(group, version, plural)
    assert found is not None
    return found


WORKLOADS = served("kueue.x-k8s.io", "v1beta2", "workloads")
WORKLOAD: Tree = {
    "metadata": {"name": "w", "resourceVersion": "7", "creationTimestamp": CREATED},
    "spec": {"queueName": "main"},
    "status": {
        "admission": {"clusterQueue": "cq"},
        "conditions": [{"type": "QuotaReserved", "status": "True"}, {"type": "Admitted", "status": "True"}],
    },
}


def test_our_own_kinds_have_their_columns() -> None:
    assert [head.name for head, _ in heads_of(WORKLOADS)] == [
        "Name",
        "Queue",
        "Reserved in",
        "Admitted",
        "Finished",
        "Age",
    ]
    assert cells_of(WORKLOADS, WORKLOAD, NOW) == ["w", "main", "cq", "True", None, "60s"]


def test_a_table_is_whole() -> None:
    made = table_of(WORKLOADS, WORKLOAD, NOW)
    assert made["kind"] == "Table"
    assert made["apiVersion"] == "meta.k8s.io/v1"
    assert made["metadata"] == {"resourceVersion": "7"}
    assert made["columnDefinitions"] == [
        {"name": head.name, "type": head.type, "format": head.format, "description": about, "priority": head.priority}
        for head, about in heads_of(WORKLOADS)
    ]
    partial: Tree = {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": WORKLOAD["metadata"],
    }
    assert made["rows"] == [{"cells": cells_of(WORKLOADS, WORKLOAD, NOW), "object": partial}]


@pytest.mark.parametrize(
    ("include", "holds"),
    [pytest.param("None", None, id="nothing"), pytest.param("Object", WORKLOAD, id="the whole object")],
)
def test_a_row_carries_what_was_asked_for(include: str, holds: Json) -> None:
    rows = table_of(WORKLOADS, WORKLOAD, NOW, include=included(include))["rows"]
    assert isinstance(rows, list)
    assert [row["object"] for row in rows if isinstance(row, dict)] == [holds]


def test_something_else_cannot_be_included() -> None:
    assert included("") == "Metadata"
    with pytest.raises(StatusError, match='includeObject: Invalid value: "Half": must be'):
        included("Half")


def test_later_events_of_a_watch_need_no_heads() -> None:
    assert table_of(WORKLOADS, WORKLOAD, NOW, heads=False)["columnDefinitions"] is None


def test_a_pod_that_has_ended_is_marked() -> None:
    pods = served("", "v1", "pods")
    first, second = (
        row(pods, {"status": {"phase": phase}}, NOW, include="None", version="v1") for phase in ("Failed", "Running")
    )
    ended = {"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}
    assert first["conditions"] == [ended]
    assert "conditions" not in second


@pytest.mark.parametrize(
    ("type_", "value", "shown"),
    [
        ("string", "x", "x"),
        ("string", 5, "5"),
        ("string", True, "true"),
        ("string", None, "<nil>"),
        ("string", {"a": 1}, '{"a":1}'),
        ("integer", 5, 5),
        ("integer", 5.7, 5),
        ("integer", "5", None),
        ("integer", True, None),
        ("number", 1.5, 1.5),
        ("number", "x", None),
        ("boolean", False, False),
        ("boolean", "true", None),
        ("date", CREATED, "60s"),
        ("date", "soon", "<invalid>"),
        ("date", 5, None),
    ],
)
def test_a_cell_is_of_the_type_of_its_column(type_: str, value: Json, shown: Json) -> None:
    assert cell({"v": value}, PrinterColumn("V", type_, ".v"), NOW) == shown
    assert cell({}, PrinterColumn("V", type_, ".v"), NOW) is None


def test_a_definition_without_columns_shows_the_age() -> None:
    flavors = served("kueue.x-k8s.io", "v1beta2", "resourceflavors")
    assert flavors.columns == ()
    assert cells_of(flavors, WORKLOAD, NOW) == ["w", "60s"]
