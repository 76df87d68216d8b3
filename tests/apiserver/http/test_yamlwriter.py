"""Is an answer in YAML, written in pieces, the same as one that is written at once?"""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pykueue.apiserver.http import yamlwriter
from pykueue.apiserver.http.yamlwriter import DUMPER, YamlWriter

TEXTS = st.text(max_size=90) | st.sampled_from(
    [
        "",
        "yes",
        "1:30",
        "0x1f",
        "2026-01-01",
        "~",
        "null",
        "a: b\nc",
        "- x",
        "word " * 40,
        "\u2028é",
        "<<",
        "1e3",
        " x ",
    ]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5), max_leaves=30
)


def in_steps(tree: Any) -> tuple[bytes, int]:
    """The text of a tree, and in how many steps it was written."""
    writer = YamlWriter()
    text, steps = b"", 0
    for _ in writer.steps(tree):
        text += writer.taken()
        steps += 1
    writer.end()
    return text + writer.taken(), steps


def at_once(tree: Any) -> bytes:
    text: bytes = yaml.dump(
        tree, Dumper=DUMPER, sort_keys=True, allow_unicode=True, default_flow_style=False, encoding="utf-8"
    )
    return text


@given(TREES)
def test_it_is_the_same_as_at_once(tree: Any) -> None:
    assert in_steps(tree)[0] == at_once(unshared(tree))


def unshared(tree: Any) -> Any:
    """A copy in which no part is there twice: `yaml.dump` would write an anchor, and what is decoded has none."""
    match tree:
        case dict():
            return {key: unshared(value) for key, value in tree.items()}
        case list():
            return [unshared(value) for value in tree]
        case _:
            return tree


def test_a_long_one_is_written_in_many_steps() -> None:
    tree = {"items": [{"name": f"n{number}", "value": number} for number in range(2_000)]}
    text, steps = in_steps(tree)
    assert text == at_once(tree)
    assert steps > 2_000 * 6 // yamlwriter.STEP


def test_the_keys_of_a_large_mapping_are_sorted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yamlwriter, "SORTED", 10)
    tree = {f"k{(number * 37) % 1000}": {"b": 1, "a": [None]} for number in range(1000)}
    text, steps = in_steps(tree)
    assert text == at_once(tree)
    assert steps > 1000 // 10, "each part is a step"


def test_a_deep_one_needs_no_recursion() -> None:
    tree: Any = "x"
    for _ in range(3_000):
        tree = [tree]
    text, _ = in_steps(tree)
    assert text.count(b"- ") == 3_000
