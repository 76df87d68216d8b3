"""Are fragments gathered under their version, by kind, and can that be repeated?"""

from pathlib import Path

import pytest

from tests.changelog import FOLDER, Fragment, assembled, fragments, main, points
from tests.storyfile import ROOT

ONE = Fragment(3, "fix", "A fix\nof two lines.\n\nAnother.\n")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.0"\n')
    for name, text in (("README.md", "x"), ("3.fix.md", ONE.text), ("4.feature.md", "New.\n"), ("10.fix.md", "Ten.\n")):
        (tmp_path / FOLDER / name).write_text(text)
    return tmp_path


def test_fragments_of_this_repository_have_known_kinds() -> None:
    assert [one.text for one in fragments(ROOT / FOLDER) if not one.text.strip()] == []


def test_a_version_has_its_fragments_by_kind_with_the_latest_issue_first(repository: Path) -> None:
    main(repository, release=False)
    text = (repository / "CHANGELOG.md").read_text()
    expected = "## 1.2.0\n\n### Features\n\n- New.\n\n### Fixes\n\n- Ten.\n- A fix\n  of two lines.\n- Another.\n"
    assert text[text.index("## ") :] == expected
    assert text.startswith("# Changelog\n")


def test_it_can_be_repeated(repository: Path) -> None:
    main(repository, release=False)
    once = (repository / "CHANGELOG.md").read_text()
    main(repository, release=False)
    assert (repository / "CHANGELOG.md").read_text() == once


def test_a_release_deletes_the_fragments_and_keeps_the_text(repository: Path) -> None:
    main(repository, release=True)
    once = (repository / "CHANGELOG.md").read_text()
    assert [file.name for file in (repository / FOLDER).iterdir()] == ["README.md"]
    main(repository, release=False)
    assert (repository / "CHANGELOG.md").read_text() == once


def test_a_new_version_comes_before_the_others() -> None:
    text = assembled(assembled("", "1.0.0", [ONE]), "1.1.0", [Fragment(9, "feature", "Nine.")])
    assert text.index("## 1.1.0") < text.index("Nine.") < text.index("## 1.0.0") < text.index("A fix")


def test_a_table_stays_a_table() -> None:
    assert list(points("Text:\n\n| a |\n| - |\n\n* one\n* two\n")) == ["- Text:", "\n| a |\n| - |\n", "- one", "- two"]


def test_a_file_of_another_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "3.fixes.md").write_text("x")
    with pytest.raises(ValueError, match=r"name it ISSUE\.KIND\.md"):
        fragments(tmp_path)
