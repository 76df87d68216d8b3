"""Does `tests.moduletests` notice a module without tests? On small trees of its own."""

from pathlib import Path

import pytest

from tests.moduletests import Cover, broken, covers, report

ENGINE = "src/pykueue/engine"
NAMED = {"engine/c.py": ("tests/scenarios", "every story")}
FILES = {
    f"{ENGINE}/__init__.py": "",
    f"{ENGINE}/a.py": "",
    f"{ENGINE}/b.py": "",
    f"{ENGINE}/c.py": "",
    "tests/engine/test_a.py": "import pykueue.engine.a\n",
    "tests/engine/test_z.py": "from pykueue.engine.b import B\n",
    "tests/api/test_y.py": "def test() -> None:\n    from pykueue.engine import b\n",
    "tests/support.py": "from pykueue.engine import c\n",
    "tests/scenarios/a.yaml": "",
}


def planted(root: Path, files: dict[str, str]) -> Path:
    for name, text in (FILES | files).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_each_module_has_what_covers_it(tmp_path: Path) -> None:
    assert covers(planted(tmp_path, {}), NAMED) == [
        Cover(f"{ENGINE}/a.py", own="tests/engine/test_a.py", importers=("tests/engine/test_a.py",)),
        Cover(f"{ENGINE}/b.py", importers=("tests/engine/test_z.py", "tests/api/test_y.py")),
        Cover(f"{ENGINE}/c.py", named="tests/scenarios (every story)"),
    ]


def test_the_modules_without_a_test_file_are_listed(tmp_path: Path) -> None:
    assert list(report(covers(planted(tmp_path, {}), NAMED))) == [
        "modules with a test file of their own: 1 of 3",
        "modules that other tests cover: 1",
        f"  {ENGINE}/c.py: tests/scenarios (every story)",
        "modules that other tests import: 1",
        f"  {ENGINE}/b.py: tests/engine/test_z.py, tests/api/test_y.py",
    ]


def test_a_tree_with_tests_for_all_has_nothing_broken(tmp_path: Path) -> None:
    root = planted(tmp_path, {})
    assert list(broken(root, covers(root, NAMED), NAMED)) == []


@pytest.mark.parametrize(
    ("files", "named", "says"),
    [
        pytest.param(
            {f"{ENGINE}/d.py": ""}, NAMED, f"{ENGINE}/d.py: has no tests; write tests/engine/test_d.py", id="no tests"
        ),
        pytest.param({}, NAMED | {"engine/e.py": ("tests", "")}, f"{ENGINE}/e.py is no module", id="no module"),
        pytest.param({"tests/engine/test_c.py": ""}, NAMED, "has a test file of its own", id="an entry too many"),
        pytest.param({}, {"engine/c.py": ("tests/gone.py", "")}, "tests/gone.py, which is to cover", id="no file"),
    ],
)
def test_what_is_broken_is_told(
    files: dict[str, str], named: dict[str, tuple[str, str]], says: str, tmp_path: Path
) -> None:
    root = planted(tmp_path, files)
    (line,) = broken(root, covers(root, named), named)
    assert says in line
