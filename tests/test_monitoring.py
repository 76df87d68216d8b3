"""Do the alerts and the dashboard ask for metrics and labels that there are, and does docs/metrics.md list them?"""

import json
import re
from typing import Any

import pytest
import yaml

from pykueue.controllers.metrics import families, process, selfmetrics, watchdog
from pykueue.controllers.metrics.families import Family, Kind
from tests.metricsdocs import LEFT_OUT, page
from tests.promql import Used, used
from tests.storyfile import ROOT

FOLDER = ROOT / "deploy/monitoring"
TARGET = {"instance", "job"}
"""Labels that Prometheus adds to every series."""
PARTS = {"_bucket": {"le"}, "_sum": set(), "_count": set()}
"""The series of a histogram, with the labels that they have in addition."""

Tree = dict[str, Any]


def exposed() -> dict[str, set[str]]:
    """The labels of each name under which we expose something."""
    known: dict[str, set[str]] = {name: set() for name, *_ in process.readings(process.PROC)}
    ours: tuple[Family, ...] = (*families.ALL, *selfmetrics.ALL, watchdog.DELAY, watchdog.LONGEST)
    for family in ours:
        if family.kind is Kind.HISTOGRAM:
            known |= {family.name + part: {*family.labels, *more} for part, more in PARTS.items()}
        else:
            known[family.name] = {*family.labels}
    return known


EXPOSED = exposed()
RULES: list[Tree] = [
    rule for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
DASHBOARD: Tree = json.loads((FOLDER / "dashboard.json").read_text())
QUERIES = {
    **{rule["alert"]: rule["expr"] for rule in RULES},
    **{
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", ())
    },
    **{one["name"]: one["query"]["query"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query"},
}


def unknown(expression: str) -> list[str]:
    """The names in an expression that we do not expose."""
    found: Used = used(expression)
    wrong = [name for name, _ in found.selectors if name not in EXPOSED]
    for name, labels in found.selectors:
        wrong += [f"{name}: {label}" for label in labels if label not in EXPOSED.get(name, set()) | TARGET]
    everything = {label for name, _ in found.selectors for label in EXPOSED.get(name, set())} | TARGET
    return wrong + [label for label in found.grouping if label not in everything]


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_asks_for_what_there_is(name: str) -> None:
    expression = QUERIES[name]
    assert used(expression).selectors, "it asks for something"
    assert unknown(expression) == []
    for opening, closing in ("()", "{}", "[]"):
        assert expression.count(opening) == expression.count(closing)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param('sum by (a, b) (rate(x_total{c=~"y{}|z",d!="e"}[5m])) > 0.5', (["x_total"], ["a", "b"]), id="sum"),
        pytest.param("x > 6 * 3600 and on (a) y_sum or vector(0)", (["x", "y_sum"], ["a"]), id="operators"),
        pytest.param("label_values(x, a)", (["x"], []), id="values of a label"),
        pytest.param("sum(x == bool 0)", (["x"], []), id="bool"),
    ],
)
def test_names_in_expressions_are_found(expression: str, expected: tuple[list[str], list[str]]) -> None:
    found = used(expression)
    assert ([name for name, _ in found.selectors], found.grouping) == expected


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        pytest.param("sum(pykueue_leadin)", ["pykueue_leadin"], id="a metric"),
        pytest.param('pykueue_line_length{queue="a"}', ["pykueue_line_length: queue"], id="a label"),
        pytest.param("sum by (queue) (pykueue_line_length)", ["queue"], id="a label to sum by"),
        pytest.param("kueue_admission_wait_time_seconds", ["kueue_admission_wait_time_seconds"], id="a bare histogram"),
    ],
)
def test_what_there_is_not_is_noticed(expression: str, wrong: list[str]) -> None:
    assert unknown(expression) == wrong


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert re.fullmatch(r"\d+[mh]", rule["for"])
        assert rule["annotations"].keys() == {"summary", "description"}
        labels = re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values()))
        kept = {label for name, _ in used(rule["expr"]).selectors for label in EXPOSED[name]} | TARGET
        assert set(labels) <= kept, rule["alert"]


def test_the_dashboard_is_in_order() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_the_page_names_every_alert_and_every_family() -> None:
    text = (ROOT / "docs/metrics.md").read_text()
    assert text == page(text), "write it again: make metrics-docs"
    for rule in RULES:
        assert f"| `{rule['alert']}` | {rule['labels']['severity']} |" in text
    for family in (*families.ALL, *selfmetrics.ALL):
        assert f"| `{family.name}` |" in text
    assert {name for name in LEFT_OUT if name in EXPOSED} == set()
    assert {name for name in LEFT_OUT if f"| `{name}` |" not in text} == set()
