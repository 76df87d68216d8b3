"""Does the auditor read quantities, selectors and times as Kubernetes does, by code of its own?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.api.core import LabelSelector, LabelSelectorRequirement, matches
from pykueue.audit.quantities import amount, amount_text, number
from pykueue.audit.selectors import selects
from pykueue.audit.times import parse_instant
from pykueue.base import units

SUFFIXES = ("", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-3", "e+2")
QUANTITIES = st.builds(
    "{}{}{}".format,
    st.sampled_from(("", "+", "-")),
    st.from_regex(r"\A([0-9]{1,12}(\.[0-9]{0,9})?|\.[0-9]{1,9})\Z"),
    st.sampled_from(SUFFIXES),
)
LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"))
REQUIREMENTS = st.builds(
    LabelSelectorRequirement,
    st.sampled_from("abc"),
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Near")),
    st.lists(st.sampled_from("xyz")).map(tuple),
)
SELECTORS = st.none() | st.builds(LabelSelector, LABELS, st.lists(REQUIREMENTS, max_size=3).map(tuple))


@given(text=QUANTITIES, resource=st.sampled_from(("cpu", "memory", "example.com/gpu")))
def test_both_parsers_agree(text: str, resource: str) -> None:
    theirs = units.amount_of(resource, units.parse_quantity(text))
    assert amount(resource, text) == max(-units.UNLIMITED, theirs)


@pytest.mark.parametrize("text", ["1e100", "1e-100", "-1e999", "0e999", "1E+65"])
@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_both_parsers_agree_on_exponents_out_of_range(text: str, resource: str) -> None:
    theirs = units.amount_of(resource, units.parse_quantity(text))
    assert amount(resource, text) == max(-units.UNLIMITED, theirs)


@pytest.mark.parametrize("text", ["", ".", "1.2.3", "1x", "1 Gi", "Gi", "1e", "1e3k", "--1", "1" * 65, "1_0"])
def test_what_is_not_a_quantity_counts_as_nothing(text: str) -> None:
    assert number(text) is None
    assert amount("cpu", text) == 0
    with pytest.raises(units.QuantityError):
        units.parse_quantity(text)


@pytest.mark.parametrize(
    ("resource", "counted", "text"),
    [
        ("cpu", 5000, "5"),
        ("cpu", 1500, "1500m"),
        ("memory", 3 * 2**30, "3Gi"),
        ("memory", 1000, "1000"),
        ("memory", 0, "0"),
        ("example.com/gpu", 1024, "1024"),
    ],
)
def test_an_amount_is_written_as_a_quantity(resource: str, counted: int, text: str) -> None:
    assert amount_text(resource, counted) == text


@given(selector=SELECTORS, labels=LABELS)
def test_both_select_the_same_labels(selector: LabelSelector | None, labels: dict[str, str]) -> None:
    assert selects(selector, labels) == matches(selector, labels)


@pytest.mark.parametrize("text", ["2027-01-15T08:00:00Z", "2027-01-15T08:00:00.123456Z", "2027-01-15T09:00:00+01:00"])
def test_both_read_the_same_times(text: str) -> None:
    assert parse_instant(text) == units.parse_instant(text)
    assert parse_instant(text.removesuffix("Z")) == units.parse_instant(text)
