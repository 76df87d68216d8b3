"""Are the options of the visibility API read as Kueue reads them?"""

import pytest

from pykueue.api.visibility import PendingWorkloadOptions, number_in, options_in


@pytest.mark.parametrize(
    ("query", "offset", "limit"),
    [
        pytest.param({}, 0, 1000, id="defaults"),
        pytest.param({"limit": ["0"]}, 0, 1000, id="a limit of nothing is the default"),
        pytest.param({"limit": ["-3"], "offset": ["-3"]}, 0, 0, id="below nothing"),
        pytest.param({"limit": ["100001"]}, 0, 100_000, id="more than allowed"),
        pytest.param({"limit": ["5", "x"], "offset": ["+7"]}, 7, 5, id="the first value counts"),
    ],
)
def test_options_are_clamped(query: dict[str, list[str]], offset: int, limit: int) -> None:
    assert options_in(query) == PendingWorkloadOptions(offset, limit)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("", 'strconv.ParseInt: parsing "": invalid syntax'),
        ("1e3", 'strconv.ParseInt: parsing "1e3": invalid syntax'),
        ("9" * 19, f'strconv.ParseInt: parsing "{"9" * 19}": value out of range'),
        ("9" * 5000, f'strconv.ParseInt: parsing "{"9" * 40}": value out of range'),
    ],
)
def test_what_is_no_number_is_an_error(given: str, says: str) -> None:
    with pytest.raises(ValueError, match=r"^strconv") as caught:
        number_in({"limit": [given]}, "limit")
    assert str(caught.value) == says
