"""What cohorts and queues use, as rows and bars."""

from typing import Any

import pytest

from pykueue.cli.formats import csv_lines, table_lines
from pykueue.cli.queues.examples import cluster_queue
from pykueue.cli.queues.usage import COLUMNS, CSV, Usage, bar, columns, document, local_rows, object_names, usage


def queue(name: str, cohort: str, nominal: str, used: str = "0", borrowed: str = "0", pending: int = 0) -> Any:
    tree: Any = cluster_queue(name, {"cpu": nominal}, cohort, "default")
    resources = [{"name": "cpu", "total": used, "borrowed": borrowed}]
    tree["status"] = {
        "flavorsReservation": [{"name": "default", "resources": resources}],
        "reservingWorkloads": 1 if used != "0" else 0,
        "pendingWorkloads": pending,
    }
    return tree


def cohort(name: str, parent: str = "", quota: str = "") -> Any:
    spec: dict[str, Any] = {"parentName": parent} if parent else {}
    if quota:
        made: Any = cluster_queue("x", {"cpu": quota}, "", "default")
        spec["resourceGroups"] = made["spec"]["resourceGroups"]
    return {"metadata": {"name": name}, "spec": spec}


def test_a_cohort_sums_its_queues_and_says_how_much_is_lent() -> None:
    rows = usage([queue("b", "lab", "4", "1"), queue("a", "lab", "2", "3", "1", 5), queue("c", "", "1")], [])
    assert [(one.kind, one.name, one.nominal, one.used, one.borrowed, one.lent) for one in rows] == [
        ("cohort", "lab", 6000, 4000, 0, 1000),
        ("queue", "a", 2000, 3000, 1000, None),
        ("queue", "b", 4000, 1000, 0, None),
        ("queue", "c", 1000, 0, 0, None),
    ]
    assert (rows[0].running, rows[0].pending) == (2, 5)


def test_cohorts_within_cohorts_are_indented_and_counted_once() -> None:
    rows = usage(
        [queue("a", "left", "2", "2"), queue("b", "right", "3", "1")],
        [cohort("all", quota="10"), cohort("left", "all"), cohort("right", "all", "1")],
    )
    assert [(one.name, one.depth, one.nominal, one.used) for one in rows] == [
        ("all", 0, 16000, 3000),
        ("left", 1, 2000, 2000),
        ("a", 2, 2000, 2000),
        ("right", 1, 4000, 1000),
        ("b", 2, 3000, 1000),
    ]


def limited(tree: Any, limit: str) -> Any:
    """An object that lends at most this much cpu."""
    tree["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["lendingLimit"] = limit
    return tree


def test_a_cohort_shows_what_it_borrows_from_its_parent() -> None:
    rows = usage(
        [queue("a", "a-dept", "0", "600m", "600m"), queue("b", "b-dept", "2", "1")],
        [cohort("all", quota="3600m"), cohort("a-dept", "all"), cohort("b-dept", "all")],
    )
    found = {one.name: one for one in rows if one.kind == "cohort"}
    assert {name: (one.cohort, one.borrowed) for name, one in found.items()} == {
        "all": ("", 0),
        "a-dept": ("all", 600),
        "b-dept": ("all", 0),
    }
    assert bar(found["a-dept"]) == "+" * 20
    assert [line.split()[6] for line in table_lines(rows, COLUMNS)] == ["BORROWED", "-", "600m", "600m", "0", "0"]
    assert [line.split(",")[7] for line in csv_lines(rows, CSV, no_headers=True)] == ["", "0.6", "0.6", "0", "0"]
    items: Any = document(rows)["items"]
    assert [(one["cohort"], one["borrowed"]) for one in items[:2]] == [("", "0"), ("all", "600m")]


@pytest.mark.parametrize(
    ("own", "inner", "expected"),
    [
        pytest.param(queue("own", "dept", "10", "2"), cohort("dept", "all"), 0, id="another queue lends all"),
        pytest.param(
            limited(queue("own", "dept", "10", "2"), "0"), cohort("dept", "all"), 5000, id="another queue lends nothing"
        ),
        pytest.param(
            limited(queue("own", "dept", "10", "9"), "3"), cohort("dept", "all"), 4000, id="and uses what it lends"
        ),
        pytest.param(queue("own", "dept", "0"), cohort("dept", "all", "3"), 2000, id="the Cohort has quota of its own"),
        pytest.param(
            queue("own", "dept", "0"), limited(cohort("dept", "all", "3"), "1"), 2000, id="of which it lends a part"
        ),
    ],
)
def test_what_a_member_does_not_lend_is_not_available_to_the_others(own: Any, inner: Any, expected: int) -> None:
    rows = usage([own, queue("busy", "dept", "0", "5", "5")], [cohort("all", quota="20"), inner])
    assert {one.borrowed for one in rows if one.name == "dept"} == {expected}


def test_a_cohort_within_a_cohort_lends_at_most_its_limit_to_it() -> None:
    rows = usage(
        [queue("busy", "mid", "0", "5", "5")],
        [cohort("all", quota="20"), cohort("mid", "all"), limited(cohort("leaf", "mid", "10"), "2")],
    )
    assert [one.borrowed for one in rows if one.name in ("mid", "leaf")] == [3000, 0]


def test_cohorts_in_a_circle_are_shown_once() -> None:
    rows = usage([queue("a", "x", "1"), queue("b", "y", "1")], [cohort("x", "y"), cohort("y", "x")])
    assert sorted(one.name for one in rows) == ["a", "b", "x", "y"]


@pytest.mark.parametrize(
    ("nominal", "used", "borrowed", "drawn"),
    [
        (4000, 0, 0, "." * 20),
        (4000, 2000, 0, "#" * 10 + "." * 10),
        (4000, 4000, 0, "#" * 20),
        (4000, 1, 0, "#" + "." * 19),
        (2000, 4000, 2000, "#" * 10 + "+" * 10),
        (0, 4000, 4000, "+" * 20),
        (0, 0, 0, "." * 20),
    ],
)
def test_a_bar_tells_own_borrowed_and_idle_without_colour(nominal: int, used: int, borrowed: int, drawn: str) -> None:
    assert bar(Usage("queue", "a", "", "f", "cpu", nominal, used, borrowed, None, 0, 0)) == drawn


def test_a_table_and_a_document() -> None:
    rows = usage([queue("a", "lab", "2", "2500m", "500m")], [])
    assert [line.split() for line in table_lines(rows, COLUMNS)[1:]] == [
        ["lab", "default", "cpu", "#" * 20, "2500m", "2", "-", "500m", "1", "0"],
        ["a", "default", "cpu", "#" * 16 + "+" * 4, "2500m", "2", "500m", "-", "1", "0"],
    ]
    items: Any = document(rows)["items"]
    row = items[1]
    assert (row["used"], row["nominal"], row["borrowed"], row["lent"]) == ("2500m", "2", "500m", None)


def test_programs_get_numbers_and_names() -> None:
    both = queue("a", "lab", "2", "2500m", "500m")
    more = {"name": "memory", "nominalQuota": "4Gi"}
    both["spec"]["resourceGroups"][0]["flavors"][0]["resources"].append(more)
    rows = usage([both], [])
    assert csv_lines(rows, CSV, no_headers=True) == [
        "cohort,lab,,default,cpu,2.5,2,,0.5,1,0",
        "cohort,lab,,default,memory,0,4294967296,,0,1,0",
        "clusterqueue,a,lab,default,cpu,2.5,2,0.5,,1,0",
        "clusterqueue,a,lab,default,memory,0,4294967296,0,,1,0",
    ]
    assert object_names(rows) == ["cohort.kueue.x-k8s.io/lab", "clusterqueue.kueue.x-k8s.io/a"]


def test_local_queues_are_shown_without_quota() -> None:
    door = {
        "metadata": {"name": "a"},
        "status": {
            "flavorsReservation": [{"name": "default", "resources": [{"name": "cpu", "total": "1"}]}],
            "pendingWorkloads": 2,
        },
    }
    rows = local_rows([door, {"metadata": {"name": "new"}}])
    assert [(one.name, one.resource, one.nominal, one.used, one.pending) for one in rows] == [
        ("a", "cpu", None, 1000, 2),
        ("new", "-", None, 0, 0),
    ]


def shared(tree: Any, share: int, weight: str | None = None) -> Any:
    """An object with a share in its status."""
    tree.setdefault("status", {})["fairSharing"] = {"weightedShare": share}
    if weight is not None:
        tree["spec"]["fairSharing"] = {"weight": weight}
    return tree


def test_under_fair_sharing_shares_and_weights_are_shown() -> None:
    queues = [shared(queue("a", "lab", "2", "3", "1"), 143), shared(queue("b", "lab", "2"), 2**63 - 1, "0")]
    rows = usage(queues, [shared(cohort("lab", "all"), 72, "2"), cohort("all")])
    shown = [line.split()[-2:] for line in table_lines(rows, columns(rows))]
    assert shown == [["SHARE", "WEIGHT"], ["-", "1"], ["0.072", "2"], ["0.143", "1"], ["infinite", "0"]]
    assert list(csv_lines(rows, columns(rows, csv=True), no_headers=False))[3].endswith(",143,1")
    items: Any = document(rows)["items"]
    assert (items[2]["weightedShare"], items[2]["weight"]) == (143, "1")
    assert "weightedShare" not in items[0]


def test_without_fair_sharing_there_are_no_columns_for_shares() -> None:
    rows = usage([queue("a", "lab", "2")], [])
    assert columns(rows) == COLUMNS
    assert columns(rows, csv=True) == CSV
