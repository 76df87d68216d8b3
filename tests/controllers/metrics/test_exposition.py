"""Does Prometheus read what we write, whatever the labels say? The parser of its own library is the judge."""

import math
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.samples import Sample

from pykueue.controllers.metrics.exposition import STEP_PARTS, Text, head, number, pairs, start
from pykueue.controllers.metrics.families import Family, Kind
from pykueue.controllers.metrics.series import Owner, Owners, Starts
from tests.prometheus import samples

COUNTS = Family("looks_total", Kind.COUNTER, "Looks.", ("queue", "result", "role"))
GAUGES = Family("waiting", Kind.GAUGE, "Who waits.", ("queue", "result", "role"))
SECONDS = Family("took_seconds", Kind.HISTOGRAM, "Time.", ("queue", "result", "role"), (0.5, 1, 20480))
ODD = st.text('\\"\n\r,={} \u2028n') | st.text(st.characters(exclude_categories=["Cs"]))


def written(steps: Iterator[None]) -> None:
    for _ in steps:
        pass


def text_of(lines: list[str]) -> bytes:
    text = Text()
    text.lines += lines
    return b"".join(text.whole())


@given(ODD, ODD)
def test_whatever_a_label_says_it_is_read_as_it_was_meant(queue: str, result: str) -> None:
    owners, starts = Owners(("leader",)), Starts(("leader",))
    owners.of((queue,)).count(COUNTS, (result,))
    for seconds in (0.5, 0.75, 30000, -1):
        owners.of((queue,)).observe(SECONDS, (result,), seconds)
    lines: list[str] = []
    written(owners.write(COUNTS, lines))
    written(owners.write(SECONDS, lines))
    written(starts.write(GAUGES, [((queue, result), 1.5)], lines))
    labels = {"queue": queue, "result": result, "role": "leader"}
    assert samples(text_of(lines).decode()) == [
        Sample("looks_total", labels, 1),
        Sample("took_seconds_bucket", {**labels, "le": "0.5"}, 2),
        Sample("took_seconds_bucket", {**labels, "le": "1"}, 3),
        Sample("took_seconds_bucket", {**labels, "le": "20480"}, 3),
        Sample("took_seconds_bucket", {**labels, "le": "+Inf"}, 4),
        Sample("took_seconds_sum", labels, 30001.25),
        Sample("took_seconds_count", labels, 4),
        Sample("waiting", labels, 1.5),
    ]


@given(st.floats() | st.integers())
def test_a_number_is_read_as_it_was_meant(value: float) -> None:
    if abs(value) > 2**1023:
        value = math.copysign(math.inf, value)
    read = float(number(value))
    assert read == value or (math.isnan(read) and math.isnan(value)) or read == float(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(3, "3", id="whole"),
        pytest.param(3.0, "3", id="whole, by division"),
        pytest.param(True, "1", id="yes"),
        pytest.param(0.005, "0.005", id="small"),
        pytest.param(64 * 2.0**30, "68719476736", id="memory"),
        pytest.param(1e300, "1e+300", id="huge"),
        pytest.param(math.inf, "+Inf", id="without limit"),
        pytest.param(-math.inf, "-Inf", id="below everything"),
        pytest.param(math.nan, "NaN", id="no number"),
    ],
)
def test_numbers_are_spelled_as_go_spells_them(value: float, text: str) -> None:
    assert number(value) == text


def test_a_family_begins_with_what_it_is_on_one_line_each() -> None:
    assert head("x", "gauge", 'a "b"\nc\\d') == '# HELP x a "b"\\nc\\\\d\n# TYPE x gauge'


def test_a_series_without_labels_has_no_braces() -> None:
    owner = Owner()
    bare = Family("took_seconds", Kind.HISTOGRAM, "Time.", (), (1,))
    owner.observe(bare, (), 2)
    lines = [start("up", pairs((), ())) + "1"]
    written(owner.write(bare, lines))
    assert text_of(lines).decode().splitlines() == [
        "up 1",
        'took_seconds_bucket{le="1"} 0',
        'took_seconds_bucket{le="+Inf"} 1',
        "took_seconds_sum 2",
        "took_seconds_count 1",
    ]


def test_a_histogram_shows_what_was_observed_after_the_last_page() -> None:
    owner = Owner()
    bare = Family("took_seconds", Kind.HISTOGRAM, "Time.", (), (1,))
    for seconds in (2, 0.5):
        owner.observe(bare, (), seconds)
        lines: list[str] = []
        written(owner.write(bare, lines))
    assert text_of(lines).decode().splitlines() == [
        'took_seconds_bucket{le="1"} 1',
        'took_seconds_bucket{le="+Inf"} 2',
        "took_seconds_sum 2.5",
        "took_seconds_count 2",
    ]


def test_what_is_no_unicode_does_not_cost_the_rest() -> None:
    assert text_of(["a\ud800", "b"]) == b"a?\nb\n"


def test_a_long_text_is_encoded_in_pieces() -> None:
    text = Text()
    lines = [f"x{number} 1" for number in range(STEP_PARTS + 3)]
    pauses = 0
    for line in lines:
        text.lines.append(line)
        pauses += text.encode_many()
    assert pauses == 1
    assert b"".join(text.whole()) == "\n".join((*lines, "")).encode()


def test_gauges_that_are_gone_are_not_remembered() -> None:
    starts = Starts(("leader",))
    lines: list[str] = []
    written(starts.write(GAUGES, [(("a", "x"), 1), (("b", "x"), 2)], lines))
    written(starts.write(GAUGES, [(("b", "x"), 3)], lines))
    assert lines[2:] == ['waiting{queue="b",result="x",role="leader"} 3']
    assert list(starts.known[GAUGES.name]) == [("b", "x")]
