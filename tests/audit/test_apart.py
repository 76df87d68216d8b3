"""Is the auditor a program of its own? It may share the wire types with the manager, and nothing else."""

import ast
from pathlib import Path

import pytest

import pykueue.audit

FOLDER = Path(next(iter(pykueue.audit.__path__)))
OURS = ("pykueue.base", "pykueue.api", "pykueue.audit")
OUTSIDE = {
    "asyncio",
    "aiohttp",
    "ssl",
    "socket",
    "signal",
    "os",
    "time",
    "random",
    "threading",
    "subprocess",
    "logging",
}
MAY_REACH_OUT = "follow"


def imported(module: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("module", sorted(FOLDER.glob("*.py")), ids=lambda module: str(module.stem))
def test_a_module_of_the_auditor_shares_only_the_wire_types(module: Path) -> None:
    names = imported(module)
    assert not [name for name in names if name.startswith("pykueue") and not name.startswith(OURS)]
    if module.stem != MAY_REACH_OUT:
        assert not {name.partition(".")[0] for name in names} & OUTSIDE
