"""Are the templates of the Helm chart current? tests/e2e/test_chart.py renders and installs them."""

import contextlib
import re
import tomllib
from collections.abc import Collection, Iterator
from typing import Any

import pytest
import yaml

from pykueue.api.core import Tree
from pykueue.api.durations import DurationError, parse_duration
from tests import chart
from tests.chart import CHART, MARKS, Hunk, conditional, escaped, files, hunks, negated
from tests.chartvalues import VALUES_OF_KUEUE, closed, configuration, duration_schema, schema, values
from tests.configdocs import key_rows
from tests.storyfile import ROOT

VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


def test_the_templates_are_current() -> None:
    written = {name: (CHART / name).read_text() for name in files()}
    assert written == files(), "write them again: make chart"
    others = {"_helpers.tpl", "guards.yaml"}
    generated = {name.name for name in files() if name.parent.name == "templates"}
    assert {file.name for file in (CHART / "templates").iterdir()} == generated | others


def test_no_mark_is_left() -> None:
    marks = "|".join(MARKS)
    assert [name for name, text in files().items() if re.search(rf"mark-|\b({marks})\b", text)] == []


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    described = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert described["version"] == described["appVersion"] == project["version"] == chart.version()


def leaves(schema: Any, above: str = "") -> Iterator[str]:
    """The paths of the properties of a schema, down to objects with further keys, or without known ones."""
    if schema.get("additionalProperties") is not False:
        yield above
        return
    for name, inner in schema["properties"].items():
        yield from leaves(inner, f"{above}.{name}" if above else name)


def paths(tree: Any, known: Collection[str], above: str = "") -> Iterator[str]:
    """The paths in a tree, down to these or to what is no object."""
    if above in known or not isinstance(tree, dict):
        yield above
        return
    for name, inner in tree.items():
        yield from paths(inner, known, f"{above}.{name}" if above else name)


def own_values() -> list[str]:
    """The paths of the values of the chart; the Configuration is one of them."""
    made = {name: {} if name == "configuration" else schema for name, schema in values().items()}
    return list(leaves(closed(made)))


def test_every_value_is_explained_and_used() -> None:
    guide = (CHART / "README.md").read_text()
    used = "".join(file.read_text() for file in (CHART / "templates").iterdir())
    assert [name for name in own_values() if f"| `{name}` |" not in guide] == []
    assert [name for name in own_values() if f".Values.{name}" not in used] == []


def test_the_schema_has_the_values_and_no_others() -> None:
    assert sorted(paths(VALUES, own_values())) == sorted(own_values())
    assert schema()["additionalProperties"] is False


def test_the_schema_has_every_key_of_the_configuration() -> None:
    documented = {key.path for key, _ in key_rows() if "[" not in key.path and key.type != "section"}
    known = {path for path in leaves(configuration()) if path not in ("apiVersion", "kind")}
    # The page does not look into label selectors.
    known = {re.sub(r"[Ss]elector\.match\w+$", lambda found: found[0].partition(".")[0], path) for path in known}
    assert known == documented


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        ("waitForPodsReady.blockAdmission", {"type": "boolean"}),
        ("clientConnection.burst", {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1}),
        ("resources.quotaCheckStrategy", {"enum": ["BlockUndeclared", "IgnoreUndeclared"]}),
        ("integrations.frameworks", {"type": "array", "items": {"type": "string"}}),
        ("featureGates", {"type": "object", "additionalProperties": {"type": "boolean"}}),
        ("internalCertManagement.webhookServiceName", {"type": ["string", "null"]}),
    ],
)
def test_the_schema_of_a_key_is_its_type(path: str, schema: Tree) -> None:
    found: Any = configuration()
    for name in path.split("."):
        found = found["properties"][name]
    assert found == schema


@pytest.mark.parametrize(
    ("text", "valid"), [("5m", True), ("1h30m", True), ("0", True), ("-1.5s", True), ("5", False), ("5 minutes", False)]
)
def test_the_schema_of_durations_accepts_what_the_manager_reads(text: str, valid: bool) -> None:
    assert bool(re.search(str(duration_schema()["pattern"]), text)) == valid
    with contextlib.nullcontext() if valid else pytest.raises(DurationError):
        parse_duration(text)


def test_values_of_kueues_chart_are_explained_and_are_none_of_ours() -> None:
    guide = (CHART / "README.md").read_text()
    assert [key for key, advice in VALUES_OF_KUEUE.items() if f"| `{key}` | {advice} |" not in guide] == []
    assert not VALUES_OF_KUEUE.keys() & VALUES.keys()


def test_what_differs_becomes_a_condition() -> None:
    base = "a\nb\nc\nd\n"
    made = conditional(base, [("one", "a\nc\nd\n"), ("two", "a\nb\nc\nx\n"), ("three", base + "e\n")])
    lines = ["a", "{{- if not (one) }}", "b", "{{- end }}", "c", "{{- if two }}", "x", "{{- else }}", "d", "{{- end }}"]
    assert made.splitlines() == [*lines, "{{- if three }}", "e", "{{- end }}"]


def test_equal_changes_share_a_condition() -> None:
    assert hunks(["a", "b"], [("one", "a"), ("two", "a")]) == [Hunk(1, 2, "or (one) (two)", ())]


def test_two_conditions_do_not_change_the_same_lines() -> None:
    with pytest.raises(AssertionError, match="one and two change the same lines"):
        hunks(["a", "b"], [("one", "a\nx"), ("two", "a\ny")])


def test_conditions_are_negated_once() -> None:
    assert negated("not (a)") == "a"
    assert negated("a") == "not (a)"


def test_braces_of_objects_are_no_expressions() -> None:
    assert escaped("a {{ b }}") == 'a {{ "{{" }} b }}'
