"""What is to be read? Parameters of lists and watches that are right, and such as are out of range."""

import pytest

from pykueue.apiserver.http.queries import (
    Listing,
    exact_name,
    listing,
)
from pykueue.apiserver.wire.options import whole
from pykueue.apiserver.wire.statuserrors import StatusError


def test_a_list_is_read_from_its_parameters() -> None:
    query = {"labelSelector": ["a=b"], "limit": ["500"], "continue": ["x"], "resourceVersion": ["7"]}
    assert listing(query) == Listing(labels="a=b", limit=500, continue_="x", version="7")


def test_a_watch_is_read_from_its_parameters() -> None:
    query = {
        "watch": ["1"],
        "allowWatchBookmarks": ["true"],
        "sendInitialEvents": ["true"],
        "resourceVersionMatch": ["NotOlderThan"],
        "timeoutSeconds": ["30"],
    }
    assert listing(query) == Listing(match="NotOlderThan", watch=True, bookmarks=True, initial=True, timeout=30)


@pytest.mark.parametrize(
    ("query", "code", "says"),
    [
        pytest.param({"limit": "ten"}, 400, 'strconv.ParseInt: parsing "ten": invalid syntax', id="no number"),
        pytest.param({"limit": "٣"}, 400, "invalid syntax", id="a digit of another script"),
        pytest.param({"limit": "9" * 30}, 400, "value out of range", id="too large a number"),
        pytest.param({"limit": "9" * 9999}, 400, "value out of range", id="much too large a number"),
        pytest.param(
            {"resourceVersionMatch": "Exact"},
            422,
            'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
            id="a match without a version",
        ),
        pytest.param({"resourceVersionMatch": "Near", "resourceVersion": "1"}, 422, "Unsupported value", id="near"),
        pytest.param(
            {"sendInitialEvents": "true"}, 422, "sendInitialEvents is forbidden for list", id="initial events"
        ),
        pytest.param(
            {"watch": "1", "sendInitialEvents": "true"},
            422,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            id="initial events without a match",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(query: dict[str, str], code: int, says: str) -> None:
    with pytest.raises(StatusError) as refused:
        listing({name: [value] for name, value in query.items()})
    assert refused.value.code == code
    assert says in refused.value.message


def test_an_absent_number_is_none() -> None:
    assert whole({}, "limit") is None
    assert whole({"limit": ["-5"]}, "limit") == -5


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        pytest.param("metadata.name=x", "x", id="one name"),
        pytest.param("status.phase=Running,metadata.name==x", "x", id="among others"),
        pytest.param("metadata.name!=x", "", id="any but one"),
        pytest.param("spec.metadata.name=x", "", id="another field"),
        pytest.param(r"metadata.name=a\,b", "a,b", id="with a comma"),
        pytest.param(r"metadata.name=a\b", "", id="that cannot be read"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_a_list_of_one_name_is_known_by_it(selector: str, name: str) -> None:
    assert exact_name(selector) == name
