"""Documents that repeat each other are read as if each were parsed."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pykueue.api import yamlrepeats
from pykueue.api.yamlrepeats import MARK, repeated_trees
from pykueue.api.yamltext import Limits, yaml_trees

LIMITS = Limits(8, 200, 50, 500, "too many values")
DOCUMENT = (
    "---\nkind: Job\nmetadata:\n  name: {0}\n  labels: {{queue: main}}\nspec:\n- cpu: {0}\n  quoted: '{1}'\n- {1}\n"
)

WORDS = st.sampled_from(["a", "job-1", "1", "1.5", "0x1F", "010", "null", "yes", "1e3", "y", "2026-01-01", "a" * 300])
LINES = st.sampled_from(
    [
        "---", "--- # begins", "--- a: {w}", "---x", "...", "%YAML 1.1", "", "# user: {w}", "a: {w}", "b: '{w}'",
        'c: "{w}"', "a: {w} # why", "d:", "  e: {w}", "  f: {w}", "- {w}", "  - {w}", "  - g: {w}", "- - {w}",
        "h: |", "  text: {w}", "i: &x {w}", "j: *x", "k: &y", "<<: *y", "l: [{w},", "m: {w}]", "n: {{", "}}",
        "? {w}", ": {w}", "o: !!str {w}", "p: 'a: {w}'", "  {w}", "q: {w}\r", "r: \x07", "s: \xe9", "t: \U0001f600",
        "u: 'open", f"v: {MARK}0x", "w: '''{w}'", 'x: "\\x41: {w}"', "- - - - - - - - - - {w}", "y: {w}'",
    ]
)  # fmt: skip
TEXTS = st.lists(st.tuples(LINES, WORDS), max_size=25).map(
    lambda lines: "".join(f"{line.format(w=word)}\n" for line, word in lines)
)


def both(text: str) -> None:
    assert list(repeated_trees(text, LIMITS)) == list(yaml_trees(text, LIMITS))


@given(TEXTS)
@example("---\na: 1\n---\na: 2\n---\na: 3\na: 4\n---\na: 5\n")
@example("---\na: 1\n---\na: 2\n---\na: [\n---\na: 5\n")
def test_any_text_is_read_as_by_the_parser(text: str) -> None:
    both(text)


@given(st.lists(st.tuples(LINES, WORDS), max_size=8), st.lists(WORDS, min_size=2, max_size=6))
def test_any_document_that_is_repeated_is_read_as_by_the_parser(lines: list[tuple[str, str]], words: list[str]) -> None:
    both("".join(f"---\n{line.format(w=word)}\n" for word in words for line, _ in lines[:1]))
    both("".join("---\n" + "".join(f"{line.format(w=word)}\n" for line, _ in lines) for word in words))


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param("a: 1\na: 2\n", id="a duplicate key"),
        pytest.param("a: !!set {}\n", id="a tag"),
        pytest.param("a: [\n", id="an open list"),
        pytest.param("a: 'x\n", id="an open text"),
        pytest.param("a: b: c\n", id="a mapping in a line"),
        pytest.param("a:\tb\n\t- c\n", id="a tab"),
        pytest.param("a: *nothing\n", id="an unknown alias"),
        pytest.param("a: [[[[[[[[[[1]]]]]]]]]]\n", id="too deep"),
        pytest.param(f"a: [{'1, ' * 300}]\n", id="too many"),
        pytest.param("a: \x00\n", id="a character that YAML does not have"),
    ],
)
@pytest.mark.parametrize("before", [0, 1, 5])
def test_a_mistake_in_the_middle_has_its_document_and_line(odd: str, before: int) -> None:
    text = "".join(DOCUMENT.format(f"a-{n}", n) for n in range(before)) + f"---\n{odd}" + DOCUMENT.format("z", 1) * 3
    both(text)
    assert any(tree.mistakes for _, tree in repeated_trees(text, LIMITS))


def test_repeated_documents_are_parsed_twice_and_share_what_is_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(DOCUMENT.format(n % 2, f"b-{n}") + "meta:\n  x: y\n" for n in range(50))
    parsed: list[str] = []

    def counted(text: str, limits: Limits, number: int = 0) -> object:
        parsed.append(text)
        return yaml_trees(text, limits, number)

    monkeypatch.setattr(yamlrepeats, "yaml_trees", counted)
    values = [tree.value for _, tree in repeated_trees(text, LIMITS)]
    # The empty text before the first document, the first document, and the template.
    assert len(parsed) == 3
    assert re.search(MARK, parsed[2])
    first, last = values[1], values[-1]
    assert isinstance(first, dict)
    assert isinstance(last, dict)
    assert first["metadata"] is last["metadata"]
    assert first["spec"] is not last["spec"]
