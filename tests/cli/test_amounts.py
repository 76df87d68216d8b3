"""Are amounts read as they are meant, and misspelt ones answered with the right spelling?"""

import pytest

from pykueue.api.durations import DurationError
from pykueue.base.units import NANO, QuantityError
from pykueue.cli.amounts import duration_of, memory_quantity


@pytest.mark.parametrize(
    ("text", "amount"),
    [("8Gi", 8 * 2**30), ("8G", 8 * 10**9), ("6Mi", 6 * 2**20), ("0", 0), ("1e9", 10**9), ("-1Gi", -(2**30))],
)
def test_memory(text: str, amount: int) -> None:
    assert memory_quantity(text).nanos == amount * NANO


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("8GB", "'8GB' is not a quantity; write 8Gi (powers of 1024) or 8G (powers of 1000)"),
        ("8 GiB", "'8 GiB' is not a quantity; write 8Gi (powers of 1024) or 8G (powers of 1000)"),
        ("1.5g", "'1.5g' is not a quantity; write 1.5Gi (powers of 1024) or 1.5G (powers of 1000)"),
        ("9000kb", "'9000kb' is not a quantity; write 9000Ki (powers of 1024) or 9000k (powers of 1000)"),
        ("900kb", "'900kb' is not a quantity; write it as in 8Gi, and use 6Mi or more"),
        ("much", "'much' is not a quantity; write a number with an optional suffix"),
        ("1", "'1' is less than 6Mi, too little for a process to start; use 6Mi or more: write 1Gi for GiB"),
        ("0.001", "'0.001' is less than 6Mi, too little for a process to start; use 6Mi or more"),
        ("512m", "'512m' is less than 6Mi, too little for a process to start; use 6Mi or more: write 512Mi for MiB"),
        ("5Mi", "'5Mi' is less than 6Mi, too little for a process to start; use 6Mi or more"),
    ],
)
def test_memory_that_is_misspelt(text: str, says: str) -> None:
    with pytest.raises(QuantityError) as error:
        memory_quantity(text)
    assert str(error.value).startswith(says)
    assert "1Mi" not in str(error.value)


def test_durations() -> None:
    assert duration_of("1h30m") == 5_400_000_000
    assert duration_of("0") == 0
    with pytest.raises(DurationError, match=r"'10' has no unit; write 10s, 10m or 10h"):
        duration_of("10")
    with pytest.raises(DurationError, match="'soon' is not a duration"):
        duration_of("soon")
