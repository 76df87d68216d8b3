"""Text becomes a plain tree, strictly and within bounds."""

import gc
import json
import weakref

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from pykueue.api.jsontext import read_tree
from pykueue.api.yamlscalars import plain_value
from pykueue.api.yamltext import (
    BODY,
    DEPTH_MAX,
    NODES_MAX,
    TEXT_MAX,
    Builder,
    Misread,
    Tree,
    events,
    yaml_tree,
)

BOMB = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcde", "bcdef", strict=True)
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("", None, id="nothing"),
        pytest.param("a: {b: [1, -2, 2.5, 1e3]}", {"a": {"b": [1, -2, 2.5, 1000.0]}}, id="numbers"),
        pytest.param("[0x10, 010, 0o10, 0b11, -0x10]", [16, 8, 8, 3, -16], id="other bases"),
        pytest.param("[yes, off, True, ~, null, ]", [True, False, True, None, None], id="words"),
        pytest.param("[2020-01-01, 1:30, .inf, .nan, 08]", ["2020-01-01", "1:30", ".inf", ".nan", 8.0], id="no dates"),
        pytest.param("['1', \"true\", !!str 1, !!int 1, ! 1]", ["1", "true", "1", 1, "1"], id="quotes and tags"),
        pytest.param("a: |\n  x\n  y\n", {"a": "x\ny\n"}, id="a block"),
        pytest.param("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}, id="an anchor"),
        pytest.param("a: &x b\n*x : c", {"a": "b", "b": "c"}, id="an alias as key"),
        pytest.param(
            "a: &x {b: 1, c: 2}\nd: {<<: *x, b: 3}", {"a": {"b": 1, "c": 2}, "d": {"b": 3, "c": 2}}, id="a merge"
        ),
        pytest.param(
            "a: &x {b: 1}\ne: &y {b: 2, c: 2}\nd: {<<: [*x, *y]}",
            {"a": {"b": 1}, "e": {"b": 2, "c": 2}, "d": {"b": 1, "c": 2}},
            id="the first of two merges wins",
        ),
        pytest.param("{'<<': 1}", {"<<": 1}, id="a quoted merge key is a key"),
        pytest.param(
            '{\n\t"a": "\\ud83d\\ude00"}', {"a": "\N{GRINNING FACE}"}, id="JSON with tabs and pairs of escapes"
        ),
        pytest.param("{a: 1}", {"a": 1}, id="what only looks like JSON"),
        pytest.param(b"\xef\xbb\xbfa: 1", {"a": 1}, id="a byte order mark"),
        pytest.param(f"a: {'9' * 50}", {"a": "9" * 50}, id="a number too long to be one"),
    ],
)
def test_a_text_becomes_a_tree(text: str | bytes, value: object) -> None:
    assert read_tree(text) == Tree(value)  # type: ignore[arg-type]  # The table holds trees of every shape.


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        pytest.param("a: {b: 1,\n b: 2}", "a.b: duplicate key on line 2; it is on line 1 already", id="a key twice"),
        pytest.param('{"a": [{"b": 1, "b": 2}]}', "a[0].b: duplicate key; keep one", id="a key twice in JSON"),
        pytest.param('{"a b": 1, "a b": 2}', "[a b]: duplicate key; keep one", id="a key that is no word"),
        pytest.param(
            "a: 1\n---\nb: 1", "line 2: a second document begins here; keep one document in the file", id="two"
        ),
        pytest.param("? [a]\n: 1", "line 1: a key must be plain text, not a list or a mapping", id="a list as key"),
        pytest.param("a: &x [b]\n*x : c", "line 2: a key must be plain text", id="an alias of a list as key"),
        pytest.param("a: &x [*x]", "a[0]: line 1: *x stands for nothing that is complete by then", id="a knot"),
        pytest.param("a: {<<: 1}", "a[<<]: line 1: << takes a mapping, or a list of mappings", id="a merge of 1"),
        pytest.param(
            "a: !!binary eA==", "a: line 1: tag tag:yaml.org,2002:binary is not understood; remove it", id="tag"
        ),
        pytest.param("a: [", "line 2, column 1: not YAML: did not find expected node content", id="open"),
        pytest.param("a: '\\", "line 1, column 6: not YAML: found unexpected end of stream", id="an open quote"),
        pytest.param(
            '"\\UFFFFFFFF"',
            "line 1, column 4: not YAML: found invalid Unicode character escape code",
            id="no character",
        ),
        pytest.param(b"a: \xff", "byte 3 is not UTF-8; is it the right file?", id="bytes of something else"),
        pytest.param("x" * (TEXT_MAX + 1), "the text is longer than 256 KiB; is it the right file?", id="too long"),
        pytest.param(BOMB, f"e[0]: line 5: more than {NODES_MAX} values; a configuration needs far fewer", id="a bomb"),
    ],
)
def test_a_mistake_says_where(text: str | bytes, mistake: str) -> None:
    assert list(map(str, read_tree(text).mistakes)) == [mistake]


@pytest.mark.parametrize("opening", [pytest.param("[", id="lists"), pytest.param('{"a":', id="JSON mappings")])
def test_depth_is_bounded(opening: str) -> None:
    (mistake,) = read_tree(opening * 20_000).mistakes
    assert mistake.detail.endswith(f"nested deeper than {DEPTH_MAX} levels")
    closing = "]" if opening == "[" else "}"
    (mistake,) = read_tree(opening * 100 + "1" + closing * 100).mistakes
    assert mistake.detail.endswith(f"nested deeper than {DEPTH_MAX} levels")


def test_a_binary_file_is_one_readable_line() -> None:
    (mistake,) = read_tree("\x00\x01").mistakes
    assert mistake == Misread("", mistake.detail)
    assert mistake.detail.startswith("not YAML: unacceptable character #x0000")
    assert "\n" not in mistake.detail


TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(TREES)
def test_json_is_read_as_python_reads_it(tree: object) -> None:
    assert read_tree(json.dumps({"a": tree})).value == {"a": tree}


@given(TREES)
def test_yaml_is_read_as_it_was_written(tree: object) -> None:
    # In quotes and with tags, for PyYAML writes 0E0 bare, which it takes for a text and we for a number.
    read = read_tree(yaml.safe_dump({"a": tree}, default_style='"'))
    assert (read.value, read.mistakes) == ({"a": tree}, ())


@given(st.text(max_size=60) | st.binary(max_size=60) | st.text(alphabet="{}[]:,-?&*!|>'\"%@ \nab<", max_size=60))
@example("? ")
@example("%YAML 1.1\n---\n&a")
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    assert isinstance(read_tree(text), Tree)


@given(st.text(alphabet="0123456789+-.eExob_", max_size=10))
def test_a_word_is_a_plain_value(word: str) -> None:
    assert isinstance(plain_value(word), str | int | float | None)


def read_body(text: str) -> Tree:
    return yaml_tree(text, BODY)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("[1:30, 190:20:30, -1:1]", ["1:30", "190:20:30", "-1:1"], id="base 60 is a text, as to kubectl"),
        pytest.param("[1_000, 0x1_0, 1_0.5]", [1000, 16, 10.5], id="digits in groups"),
        pytest.param(
            "{0x10: a, yes: b, 1.50: c, '010': d}", {"16": "a", "true": "b", "1.50": "c", "010": "d"}, id="keys"
        ),
        pytest.param(f"[{2**64 - 1}, {2**64}]", [2**64 - 1, float(2**64)], id="what 64 bits do not hold is a float"),
        pytest.param("{a: 1, a: 2}", {"a": 2}, id="the last of two keys counts"),
        pytest.param("a: !mine x", {"a": "x"}, id="a tag of one's own"),
    ],
)
def test_a_body_is_read_as_kube_apiserver_reads_it(text: str, value: object) -> None:
    assert read_body(text) == Tree(value)  # type: ignore[arg-type]  # The table holds trees of every shape.


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("[" * 3_000_000, "nested deeper than 1000 levels", id="brackets"),
        pytest.param("{a: " * 700_000, "nested deeper than 1000 levels", id="braces"),
        pytest.param("- " * 1_000_000, "nested deeper than 1000 levels", id="block sequences"),
        pytest.param("? " * 1_000_000, "a key must be plain text", id="keys in keys"),
        pytest.param("a: &a x\nb: [" + "*a," * 400_001 + "]", "excessive aliasing", id="many aliases"),
        pytest.param(f"a: &a {'x' * 1_000_000}\nb: [*a, *a, *a, *a]", "excessive aliasing", id="long texts"),
        pytest.param("%TAG !a! b\n" * 270_000 + "--- a", "more than 50 directives", id="directives"),
    ],
)
def test_a_body_with_too_much_in_it_is_refused(text: str, told: str) -> None:
    (mistake,) = read_body(text).mistakes
    assert told in mistake.detail


def test_a_body_of_a_million_scalars_is_read() -> None:
    read = read_body("[" + "1," * 1_000_000 + "1]")
    assert (read.value, read.mistakes) == ([1] * 1_000_001, ())


def test_mistakes_are_counted_to_a_hundred() -> None:
    assert len(read_tree("a: 1\n" * 1000).mistakes) == 100


def test_a_text_that_was_read_does_not_stay_in_memory() -> None:
    builder = Builder(BODY)
    for event in events("a: [1, 2]"):
        builder.take(event)
    known = weakref.ref(builder)
    gc.disable()
    try:
        del builder
        assert known() is None
    finally:
        gc.enable()
