"""Is the auditor a program of its own? It may share the wire types with the manager, and nothing else."""

import ast
import importlib
import inspect
from collections.abc import Iterator
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
DECODES = {("pykueue.api.codec", "decode_as")}
"""The functions of the product that the auditor calls: it reads JSON as the wire structs."""
MODULES = sorted(FOLDER.rglob("*.py"))


def imported(module: Path) -> Iterator[tuple[str, str]]:
    """Each module that is imported, with the name taken from it."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.stem))
def test_a_module_of_the_auditor_shares_only_the_wire_types(module: Path) -> None:
    names = {name for name, _ in imported(module)}
    assert not [name for name in names if name.startswith("pykueue") and not name.startswith(OURS)]
    if module.stem != MAY_REACH_OUT:
        assert not {name.partition(".")[0] for name in names} & OUTSIDE


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.stem))
def test_a_module_of_the_auditor_calls_no_function_of_the_product(module: Path) -> None:
    shared = {one for one in imported(module) if one[0].startswith(("pykueue.api", "pykueue.base"))} - DECODES
    functions = [one for one in shared if inspect.isfunction(getattr(importlib.import_module(one[0]), one[1]))]
    assert functions == []
