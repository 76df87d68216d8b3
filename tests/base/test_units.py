"""Are quantities and instants read and written exactly as Kubernetes does?"""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.base.units import (
    NANO,
    UNLIMITED,
    Family,
    Instant,
    Quantity,
    QuantityError,
    Seconds,
    after,
    amount_of,
    amount_text,
    canonical,
    format_instant,
    parse_instant,
    parse_quantity,
    quantity_of,
)

FAMILIES: tuple[Family, ...] = ("DecimalSI", "BinarySI", "DecimalExponent")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("0", "0", id="zero"),
        pytest.param("0Gi", "0", id="zero of a binary suffix"),
        pytest.param("-0", "0", id="minus zero"),
        pytest.param("+5", "5", id="a plus sign goes"),
        pytest.param("1000", "1k", id="thousands"),
        pytest.param("1500", "1500", id="no fraction of a thousand"),
        pytest.param("1.5", "1500m", id="a fraction in thousandths"),
        pytest.param("1.50", "1500m", id="a final zero goes"),
        pytest.param("1000m", "1", id="whole again"),
        pytest.param(".5", "500m", id="no digit before the point"),
        pytest.param("5.", "5", id="no digit after the point"),
        pytest.param("100n", "100n", id="billionths"),
        pytest.param("1000u", "1m", id="millionths that make a thousandth"),
        pytest.param("1Gi", "1Gi", id="binary"),
        pytest.param("1024Mi", "1Gi", id="the largest binary suffix"),
        pytest.param("1.5Gi", "1536Mi", id="a binary fraction"),
        pytest.param("0.5Ki", "512", id="less than the smallest binary suffix"),
        pytest.param("1Ei", "1Ei", id="the largest binary"),
        pytest.param("1E", "1E", id="E alone is a suffix"),
        pytest.param("1e3", "1e3", id="an exponent stays one"),
        pytest.param("1E3", "1e3", id="a capital exponent"),
        pytest.param("12e2", "1200", id="an exponent of zero is not written"),
        pytest.param("1e-3", "1e-3", id="a negative exponent"),
        pytest.param("-2500m", "-2500m", id="negative"),
        pytest.param("-1Gi", "-1Gi", id="negative binary"),
    ],
)
def test_canonical(text: str, expected: str) -> None:
    assert canonical(parse_quantity(text)) == expected
    assert str(parse_quantity(text)) == expected


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        pytest.param("0.1n", 1, id="up to a billionth"),
        pytest.param("1.0000000001", NANO + 1, id="up past one"),
        pytest.param("-0.1n", -1, id="away from zero"),
        pytest.param("1e-64", 1, id="a small exponent"),
        pytest.param("1e-400", 1, id="an exponent below all others"),
        pytest.param("0e-400", 0, id="nothing, whatever its exponent"),
        pytest.param("1e400", UNLIMITED * NANO, id="an exponent above all others"),
        pytest.param("-1e99999", -UNLIMITED * NANO, id="a negative one"),
        pytest.param("100Ei", UNLIMITED * NANO, id="no more than the largest"),
        pytest.param("9223372036854775807", UNLIMITED * NANO, id="the largest"),
        pytest.param("-1e64", -UNLIMITED * NANO, id="no less than minus the largest"),
    ],
)
def test_rounding_and_caps(text: str, nanos: int) -> None:
    assert parse_quantity(text).nanos == nanos


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param(" 1", id="a space"),
        pytest.param("1\n", id="a final newline"),
        pytest.param("1K", id="a capital k"),
        pytest.param("1ki", id="a small ki"),
        pytest.param("1 Gi", id="a space before the suffix"),
        pytest.param("1,5", id="a comma"),
        pytest.param(".", id="no digit"),
        pytest.param("--1", id="two signs"),
        pytest.param("1e", id="no exponent"),
        pytest.param("1e1.5", id="half an exponent"),
        pytest.param("٣", id="a digit of another script"),
        pytest.param("0x10", id="hexadecimal"),
        pytest.param("1" * 65, id="one digit too many"),
    ],
)
def test_no_quantity(text: str) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("resource", "text", "amount"),
    [
        pytest.param("cpu", "1", 1000, id="cpu in thousandths"),
        pytest.param("cpu", "100u", 1, id="cpu rounded up"),
        pytest.param("cpu", "-100u", 0, id="negative cpu rounded up"),
        pytest.param("memory", "1Ki", 1024, id="memory in bytes"),
        pytest.param("memory", "1m", 1, id="a fraction of a byte rounded up"),
        pytest.param("example.com/gpu", "2", 2, id="devices"),
        pytest.param("cpu", "9223372036854775807", UNLIMITED, id="too large for thousandths"),
        pytest.param("cpu", "-9223372036854775807", -UNLIMITED - 1, id="too small for thousandths"),
    ],
)
def test_amount_of(resource: str, text: str, amount: int) -> None:
    assert amount_of(resource, parse_quantity(text)) == amount


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        pytest.param("cpu", 1500, "1500m", id="part of a cpu"),
        pytest.param("cpu", 2000, "2", id="whole cpus"),
        pytest.param("memory", 2**30, "1Gi", id="memory in binary"),
        pytest.param("memory", 10**9, "1000000000", id="memory that is no multiple of 1024"),
        pytest.param("hugepages-2Mi", 2**21, "2Mi", id="huge pages in binary"),
        pytest.param("ephemeral-storage", 2**20, "1Mi", id="disk in binary"),
        pytest.param("example.com/gpu", 1000, "1k", id="devices in decimal"),
    ],
)
def test_amount_text(resource: str, amount: int, text: str) -> None:
    assert amount_text(resource, amount) == text


@given(st.integers(-UNLIMITED * NANO, UNLIMITED * NANO), st.sampled_from(FAMILIES))
def test_canonical_keeps_the_amount(nanos: int, family: Family) -> None:
    assert parse_quantity(canonical(Quantity(nanos, family))).nanos == nanos


@given(st.integers(-UNLIMITED * NANO, UNLIMITED * NANO), st.sampled_from(FAMILIES))
def test_canonical_is_a_fixed_point(nanos: int, family: Family) -> None:
    text = canonical(Quantity(nanos, family))
    assert canonical(parse_quantity(text)) == text


@given(st.sampled_from(["cpu", "memory", "example.com/gpu"]), st.integers(0, 2**53))
def test_amounts_survive_as_quantities(resource: str, amount: int) -> None:
    assert amount_of(resource, quantity_of(resource, amount)) == amount


@given(st.text(st.sampled_from("0123456789.+-eEKMGTPimunk"), max_size=12))
def test_any_text_is_a_quantity_or_an_error(text: str) -> None:
    with suppress(QuantityError):
        assert parse_quantity(canonical(parse_quantity(text))).nanos == parse_quantity(text).nanos


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("1970-01-01T00:00:00Z", 0, id="the epoch"),
        pytest.param("1970-01-01T00:00:01.5Z", 1_500_000, id="half a second"),
        pytest.param("1970-01-01T01:00:00+01:00", 0, id="another zone"),
    ],
)
def test_parse_instant(text: str, expected: int) -> None:
    assert parse_instant(text) == expected


def test_an_instant_needs_a_zone() -> None:
    with pytest.raises(ValueError, match="time zone"):
        parse_instant("2026-01-31T12:00:00")


@given(st.integers(0, 2**37))
def test_instants_survive_as_text(seconds: int) -> None:
    instant = after(Instant(0), Seconds(seconds))
    assert parse_instant(format_instant(instant)) == instant
