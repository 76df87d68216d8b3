"""Are the templates of the Helm chart current? tests/e2e/test_chart.py renders and installs them."""

import re
import tomllib

import pytest
import yaml

from tests import chart
from tests.chart import CHART, Hunk, conditional, escaped, files, hunks, negated
from tests.storyfile import ROOT

VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


def test_the_templates_are_current() -> None:
    written = {name: (CHART / name).read_text() for name in files()}
    assert written == files(), "write them again: make chart"
    others = {"_helpers.tpl", "guards.yaml"}
    assert {file.name for file in (CHART / "templates").iterdir()} == {name.name for name in files()} | others


def test_no_mark_is_left() -> None:
    assert [name for name, text in files().items() if re.search(r"mark-|\b6100\d\b", text)] == []


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    described = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert described["version"] == described["appVersion"] == project["version"] == chart.version()


def test_every_value_is_explained_and_used() -> None:
    guide = (CHART / "README.md").read_text()
    used = "".join(file.read_text() for file in (CHART / "templates").iterdir())
    names = [
        f"{name}.{inner}" if isinstance(value, dict) and name in ("image", "crds") else name
        for name, value in VALUES.items()
        for inner in (value if isinstance(value, dict) and name in ("image", "crds") else [""])
    ]
    assert [name for name in names if f"| `{name}` |" not in guide] == []
    assert [name for name in names if f".Values.{name}" not in used] == []


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
