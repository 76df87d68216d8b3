"""Do the pages with the table of what works agree with each other, and with the code?"""

import gzip
import re
from pathlib import Path

import pytest

from pykueue.api.config.gatetable import OURS
from pykueue.api.config.types import FRAMEWORKS
from pykueue.api.config.unbuilt import UNBUILT
from pykueue.api.kueue import ClusterQueue, Cohort, ResourceFlavor
from pykueue.api.workload import Workload
from pykueue.cli.main import COMMANDS
from pykueue.engine.engine import Engine
from tests.parity.test_parity import DIFFERENT

ROOT = Path(__file__).resolve().parent.parent
BEGINNING = ("docs/install.md", "docs/differences.md")
"""Pages that begin with the table."""
PAGES = ("README.md", *BEGINNING)
TABLE = re.compile(r"<!-- begin: what works\..*?-->\n(.*?)<!-- end: what works\. -->", re.DOTALL)
SHARED = ("#13375", "#13616", "#13774", "#14863", "#14874", "#14916", "#15237", "#15304", "#16167")
"""Changes of Kueue 0.20 after which it does as we do."""


def table(page: str) -> str:
    (found,) = TABLE.findall((ROOT / page).read_text())
    assert isinstance(found, str)
    return found


@pytest.mark.parametrize("page", BEGINNING)
def test_a_page_begins_with_the_table(page: str) -> None:
    text = (ROOT / page).read_text()
    before = text[: text.index("<!-- begin: what works.")]
    assert before.startswith("# ")
    assert [mark for mark in ("\n## ", "```", "\n| ") if mark in before] == []


def test_the_readme_shows_its_two_commands_and_then_begins_with_the_table() -> None:
    text = (ROOT / "README.md").read_text()
    assert text.index("$ make demo") < text.index("$ make test") < text.index("<!-- begin: what works.")
    assert text[text.index("\n## ") :].startswith("\n## What works\n\n<!-- begin: what works.")


def test_the_table_is_the_same_on_every_page() -> None:
    assert len({table(page) for page in PAGES}) == 1


def test_the_table_names_every_kind_of_job() -> None:
    kinds = {name.partition(".")[0] for name in FRAMEWORKS.values()}
    assert {kind for kind in kinds if not re.search(rf"\b{kind}\b", table("README.md"))} == set()


def test_the_table_names_every_section_that_is_not_built() -> None:
    sections = {path.removeprefix("resources.") for path in UNBUILT} - {"integrations.frameworks"}
    found = table("README.md").lower()
    assert {section for section in sections if section.lower() not in found} == set()


def test_the_table_names_the_gates_that_only_we_have() -> None:
    assert {gate.name for gate in OURS if f"`{gate.name}`" not in table("README.md")} == set()


def test_every_row_has_all_columns() -> None:
    assert {row.count("|") for row in table("README.md").splitlines()} == {5}


def test_differences_that_kueue_0_20_shares_are_marked() -> None:
    text = (ROOT / "docs/differences.md").read_text()
    assert sorted(re.findall(r"\| Until 0\.19 \((#\d+)\): ", text)) == list(SHARED)


def test_the_overview_picture_names_what_there_is() -> None:
    words = re.findall(r"<text[^>]*>([^<]*)</text>", (ROOT / "docs/images/overview.svg").read_text())
    boxes = {word.removeprefix("pykueue ") for word in words if word.startswith("pykueue ")}
    assert boxes == {"simulate", "up", "manager"}
    assert boxes <= set(COMMANDS), "a box names a command that does not exist"
    assert {"bridge"} <= set(words)
    kinds = {kind for word in words for kind in re.findall(r"\b[A-Z][a-zA-Z]*\b", word) if kind not in ("I", "O")}
    known = {one.__name__ for one in (Cohort, ClusterQueue, ResourceFlavor, Workload)} | {"Job", "Kubernetes"}
    assert kinds <= known
    calls = {call for word in words for call in re.findall(r"(\w+)\(", word)}
    assert {call for call in calls - {"engine"} if not callable(getattr(Engine, call, None))} == set()
    promises = ("to come", "soon", "planned", "later", "todo")
    assert [word for word in words if any(one in word.lower() for one in promises)] == []


def test_the_number_of_equal_recordings_is_what_the_test_of_them_finds() -> None:
    total = 0
    for name in DIFFERENT:
        with gzip.open(ROOT / "tests/parity" / name) as lines:
            total += sum(1 for _ in lines)
    different = sum(map(len, DIFFERENT.values()))
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"the same decisions as Kueue in {total - different} of {total} recorded runs" in readme
    assert different == 2
    assert f"Two recordings of {total} differ" in (ROOT / "docs/differences.md").read_text()
