"""Are the columns, cells and filters of a list those of kueuectl? The tables are those of kueuectl's own tests."""

from typing import Any

import pytest

from pykueue.api.trees import Tree
from pykueue.base.units import MICROS, Instant, format_instant
from pykueue.cli.formats import table_lines
from pykueue.cli.kueuectl.listing import (
    LISTED,
    POD_SELECTORS,
    Row,
    Wanted,
    job_type,
    nothing_found,
    pod_selector,
    table_cells,
)

HOUR = 3600 * MICROS
NOW = Instant(1_800_000_000 * MICROS)


def ago(hours: float) -> str:
    return format_instant(Instant(int(NOW - hours * HOUR)))


def workload(name: str, age: float, **given: Any) -> Row:
    """A Workload in the n-th of everything, with conditions that became true some hours ago."""
    number = name[-1]
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": ago(hours)}
        for kind, hours in given.get("conditions", {}).items()
    ]
    admission = {"admission": {"clusterQueue": f"cq{number}"}} if given.get("admitted", True) else {}
    tree = {
        "metadata": {
            "name": name,
            "namespace": f"ns{number}",
            "creationTimestamp": ago(age),
            "labels": given.get("labels", {}),
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": f"j{number}", "uid": f"u{number}"}],
        },
        "spec": {"queueName": f"lq{number}"},
        "status": {"conditions": conditions, **admission},
    }
    return Row(tree, NOW, given.get("queue", ""), given.get("types", ()), given.get("position", ""))


def shown(kind: str, *rows: Row, namespaces: bool = False) -> list[list[str]]:
    return [line.split() for line in table_lines(rows, LISTED[kind].shown(namespaces=namespaces))]


def as_in(golden: str) -> list[list[str]]:
    return [line.split() for line in golden.strip().splitlines()]


def test_workloads() -> None:
    assert shown(
        "workload",
        workload("wl1", 1),
        workload("wl2", 2, conditions={"QuotaReserved": 1.5, "Admitted": 1}),
        workload("wl4", 3, conditions={"QuotaReserved": 2.5, "Admitted": 2, "Finished": 1}),
        workload("wl5", 1, conditions={"QuotaReserved": 1}),
        workload("wl6", 1, admitted=False, queue="cq6", types=("job.batch",), position="3"),
    ) == as_in(
        """
NAME   JOB TYPE   JOB NAME   LOCALQUEUE   CLUSTERQUEUE   STATUS     POSITION IN QUEUE   EXEC TIME   AGE
wl1               j1         lq1          cq1            PENDING                                    60m
wl2               j2         lq2          cq2            ADMITTED                       60m         120m
wl4               j4         lq4          cq4            FINISHED                       60m         3h
wl5               j5         lq5          cq5            QUOTARESERVED                              60m
wl6    job.batch  j6         lq6          cq6            PENDING    3                               60m
"""
    )


def test_workloads_of_all_namespaces() -> None:
    assert shown("workload", workload("wl1", 1), namespaces=True) == as_in(
        """
NAMESPACE   NAME   JOB TYPE   JOB NAME   LOCALQUEUE   CLUSTERQUEUE   STATUS    POSITION IN QUEUE   EXEC TIME   AGE
ns1         wl1               j1         lq1          cq1            PENDING                                   60m
"""
    )


def named(name: str, **more: Any) -> Row:
    return Row({"metadata": {"name": name, "creationTimestamp": ago(1)}, **more}, NOW)


ACTIVE = [{"type": "Active", "status": "True"}]


@pytest.mark.parametrize(
    ("kind", "rows", "golden"),
    [
        pytest.param(
            "clusterqueue",
            [
                named("cq1", spec={"cohortName": "cohort1"}, status={"pendingWorkloads": 1, "conditions": ACTIVE}),
                named("cq2", status={"admittedWorkloads": 2}),
            ],
            """
NAME   COHORT    PENDING WORKLOADS   ADMITTED WORKLOADS   ACTIVE   AGE
cq1    cohort1   1                   0                    true     60m
cq2              0                   2                    false    60m
""",
            id="cluster queues",
        ),
        pytest.param(
            "localqueue",
            [named("lq1", spec={"clusterQueue": "cq1"}, status={"pendingWorkloads": 1, "admittedWorkloads": 2})],
            """
NAME   CLUSTERQUEUE   PENDING WORKLOADS   ADMITTED WORKLOADS   AGE
lq1    cq1            1                   2                    60m
""",
            id="local queues",
        ),
        pytest.param(
            "resourceflavor",
            [named("rf1", spec={"nodeLabels": {"key2": "value", "key1": "value"}})],
            """
NAME   NODE LABELS              AGE
rf1    key1=value, key2=value   60m
""",
            id="flavors, with sorted labels",
        ),
        pytest.param(
            "topology",
            [named("t", spec={"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "host"}]})],
            "NAME LEVELS AGE\nt rack, host 60m",
            id="topologies",
        ),
        pytest.param(
            "cohort", [named("co", spec={"parentName": "root"})], "NAME PARENT AGE\nco root 60m", id="cohorts"
        ),
        pytest.param(
            "admissioncheck",
            [named("ac", spec={"controllerName": "c"}, status={"conditions": ACTIVE})],
            "NAME CONTROLLER ACTIVE AGE\nac c true 60m",
            id="checks",
        ),
        pytest.param("workloadpriorityclass", [named("p", value=-5)], "NAME VALUE AGE\np -5 60m", id="priorities"),
    ],
)
def test_tables(kind: str, rows: list[Row], golden: str) -> None:
    assert shown(kind, *rows) == as_in(golden)


def test_an_object_without_anything_has_a_row() -> None:
    for kind in LISTED:
        assert shown(kind, Row({}, NOW))[1][-1] == "<unknown>"


PENDING = workload("wl1", 1, admitted=False, queue="cq1")
ADMITTED = workload("wl2", 2, conditions={"QuotaReserved": 1, "Admitted": 1})


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        pytest.param(Wanted(), "12", id="all"),
        pytest.param(Wanted(cluster_queue="cq1"), "1", id="a pending one by its cluster queue"),
        pytest.param(Wanted(cluster_queue="cq2"), "2", id="an admitted one by its cluster queue"),
        pytest.param(Wanted(local_queue="lq2"), "2", id="a local queue"),
        pytest.param(Wanted(statuses=frozenset({"pending"})), "1", id="a status"),
        pytest.param(Wanted(statuses=frozenset({"admitted", "all"})), "12", id="every status"),
        pytest.param(Wanted(owner="u1"), "1", id="the owner"),
        pytest.param(Wanted(owner="labelled"), "", id="another owner"),
    ],
)
def test_filters(wanted: Wanted, kept: str) -> None:
    names = [row.tree["metadata"]["name"][-1] for row in (PENDING, ADMITTED) if wanted(row)]  # type: ignore[index]  # an object
    assert "".join(names) == kept


def test_a_workload_is_its_jobs_by_the_label_too() -> None:
    assert Wanted(owner="u9")(workload("wl1", 1, labels={"kueue.x-k8s.io/job-uid": "u9"}))


def test_a_local_queue_is_kept_by_its_cluster_queue() -> None:
    queue = named("lq", spec={"clusterQueue": "cq"})
    assert [Wanted(cluster_queue=name)(queue) for name in ("cq", "other")] == [True, False]


def test_long_job_types_are_cut_as_in_kueuectl() -> None:
    assert job_type("job") == "job"
    assert job_type("averyveryverylongkind") == "averyveryverylongkin..."


@pytest.mark.parametrize(
    ("kind", "tree", "selector"),
    [
        ("job.batch", {"metadata": {"name": "a"}}, "batch.kubernetes.io/job-name=a"),
        ("pod", {"metadata": {"labels": {"kueue.x-k8s.io/pod-group-name": "g"}}}, "kueue.x-k8s.io/pod-group-name=g"),
        ("pod", {}, None),
        ("rayjob.ray.io", {"status": {"rayClusterName": "c"}}, "ray.io/cluster=c"),
        ("rayjob.ray.io", {}, None),
        (
            "pytorchjob.kubeflow.org",
            {"metadata": {"name": "a"}},
            "training.kubeflow.org/job-name=a,training.kubeflow.org/operator-name=pytorchjob-controller",
        ),
        ("cronjob.batch", {}, None),
    ],
)
def test_pods_of_a_job(kind: str, tree: Tree, selector: str | None) -> None:
    assert pod_selector(kind, tree) == selector
    assert (kind in POD_SELECTORS) is (kind != "cronjob.batch")


def test_what_is_said_if_nothing_is_found() -> None:
    assert nothing_found("default") == "No resources found in default namespace."
    assert nothing_found("") == "No resources found"


def test_a_table_of_the_server_has_more_columns_if_it_is_wide() -> None:
    table = {
        "columnDefinitions": [{"name": "Name", "priority": 0}, {"name": "IP", "priority": 1}],
        "rows": [{"cells": ["a", None]}],
    }
    assert table_cells(table, wide=False) == (["NAME"], [["a"]])
    assert table_cells(table, wide=True) == (["NAME", "IP"], [["a", "None"]])
