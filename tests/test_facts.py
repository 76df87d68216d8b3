"""Does `tests.facts` notice a fact without a story? On small trees of its own."""

from pathlib import Path

import pytest

from tests.facts import Fact, broken, claims, facts, report

PAGE = """\
- **S1** One. (Really.)
- **S2** Two. (differs: ours (new) is better)
- **KEP83-1** Three. (deferred: fair sharing)
- **QUO-1** Four.
"""
STORIES = "- name: all\n  covers: [S1, S2]\n- name: more\n  covers: [S1]\n"
CLAIMED = '@covers("QUO-1")\ndef test_it() -> None: ...\n'


def planted(root: Path, stories: str = STORIES, page: str = PAGE, test: str = CLAIMED) -> Path:
    for name, text in {"docs/spec/a.md": page, "tests/scenarios/a.yaml": stories, "tests/test_a.py": test}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_every_fact_is_read_with_its_state(tmp_path: Path) -> None:
    assert facts(planted(tmp_path)) == [
        Fact("S1", "a.md"),
        Fact("S2", "a.md", "differs", "ours (new) is better"),
        Fact("KEP83-1", "a.md", "deferred", "fair sharing"),
        Fact("QUO-1", "a.md"),
    ]


def test_three_lists_are_printed(tmp_path: Path) -> None:
    root = planted(tmp_path)
    assert list(report(facts(root), list(claims(root)))) == [
        "in scope, with a story: 2 of 2",
        "  S1 (x2) QUO-1",
        "deliberately different, with a story of ours: 1 of 1",
        "  S2",
        "deferred: 1",
        "  fair sharing: KEP83-1",
    ]


def test_a_complete_tree_has_nothing_broken(tmp_path: Path) -> None:
    root = planted(tmp_path)
    assert list(broken(facts(root), list(claims(root)))) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param({"test": ""}, "QUO-1 (a.md): no story; write one that shows it", id="no story"),
        pytest.param(
            {"stories": "- name: a\n  covers: [S1]\n"}, "S2 (a.md): no story; write one that shows ours", id="ours"
        ),
        pytest.param({"stories": STORIES + "- name: x\n  covers: [S9]\n"}, "covers S9, which is no fact", id="unknown"),
        pytest.param(
            {"stories": STORIES + "- name: x\n  covers: [KEP83-1]\n"},
            "covers KEP83-1, which is deferred (fair sharing)",
            id="deferred and yet told",
        ),
        pytest.param({"page": PAGE + "- **S1** Again.\n"}, "S1: is defined more than once", id="one id twice"),
    ],
)
def test_what_is_broken_is_told(change: dict[str, str], says: str, tmp_path: Path) -> None:
    root = planted(tmp_path, **change)
    wrong = list(broken(facts(root), list(claims(root))))
    assert len(wrong) == 1
    assert says in wrong[0]
