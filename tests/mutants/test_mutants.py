"""Does the auditor tell a broken manager from a sound one? A few mutants are tried here, all by `make mutants`."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from pykueue.audit import auditor
from tests.mutants.__main__ import main, tried
from tests.mutants.chance import Chance
from tests.mutants.faults import ORIGINALS
from tests.mutants.table import FAIR_MUTANTS, MUTANTS

DOCUMENT = Path(__file__).parents[2] / "docs" / "faults.md"
RULE = re.compile(r'^[A-Z]+: Final = "([a-z]+)"$', re.MULTILINE)
"""A constant that names a rule."""
ALL = {**MUTANTS, **FAIR_MUTANTS}
ROW = re.compile(r"^\| `([a-z-]+)` \| (.+?) \| (.+?) \|$", re.MULTILINE)


def section(title: str) -> str:
    """The text of one section of the document."""
    return DOCUMENT.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_nothing_is_found_in_the_fixed_load_without_a_fault() -> None:
    assert tried("").rules == []


@pytest.mark.parametrize("name", ["needless", "pushing"])
def test_a_mutant_is_found_and_mended(name: str) -> None:
    assert MUTANTS[name].rule in tried(name).rules
    assert ORIGINALS == []


def test_nothing_is_found_in_a_random_load() -> None:
    assert Chance(3).play(30) == []


def test_nothing_is_found_in_the_fair_load_without_a_fault() -> None:
    assert tried("", fair=True).rules == []


@pytest.mark.parametrize("name", ["shallow", "rich-first"])
def test_a_mutant_of_fair_sharing_is_found_and_mended(name: str) -> None:
    assert FAIR_MUTANTS[name].rule in tried(name).rules
    assert ORIGINALS == []


def test_nothing_is_found_in_a_random_load_under_fair_sharing() -> None:
    assert Chance(3, fair=True).play(30) == []


def test_a_mutant_that_survives_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MUTANTS, "cheap", MUTANTS["cheap"]._replace(rule="order", breaks=lambda: None))
    monkeypatch.setattr("tests.mutants.load.SECONDS", 1)
    found = CliRunner().invoke(main, ["cheap"])
    assert found.exit_code == 1
    assert "SURVIVED" in found.output
    assert "1 mutants, 1 survived" in found.output


def test_the_document_lists_every_mutant_with_its_rule() -> None:
    listed = {name: (says, rule) for name, says, rule in ROW.findall(section("Would the auditor notice?"))}
    assert listed == {name: (mutant.says, f"`{mutant.rule}`") for name, mutant in ALL.items()}


def test_the_document_lists_every_rule_and_mutants_break_them() -> None:
    modules = (file.read_text() for file in Path(auditor.__file__).parent.rglob("*.py"))
    rules = {name for text in modules for name in RULE.findall(text)}
    described = set(re.findall(r"^\| `([a-z]+)` \|", section("The auditor"), re.MULTILINE))
    assert described == rules
    # The manager cannot run work again, and one that starts Jobs too early is found by their pods as well.
    assert rules - {mutant.rule for mutant in ALL.values()} == {"rerun", "start"}
