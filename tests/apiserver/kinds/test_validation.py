"""The parts that validation modules share."""

import msgspec
import pytest

from pykueue.api.core import LabelSelector
from pykueue.apiserver.kinds.validation import ErrorWithoutValue, selector_of


def test_the_message_of_an_error_can_leave_the_value_out() -> None:
    error = ErrorWithoutValue("spec.selector", "Invalid", msgspec.Raw(b'"x"'), "does not match")
    assert str(error) == "spec.selector: Invalid value: does not match"


@pytest.mark.parametrize(
    ("tree", "selector"),
    [
        pytest.param(None, None, id="none"),
        pytest.param("app=x", None, id="no selector"),
        pytest.param({"matchLabels": {"a": 1}}, None, id="a label that is a number"),
        pytest.param({}, LabelSelector(), id="everything"),
        pytest.param({"matchLabels": {"a": "b"}}, LabelSelector(match_labels={"a": "b"}), id="one label"),
    ],
)
def test_a_selector_is_read_where_it_makes_sense(tree: object, selector: LabelSelector | None) -> None:
    assert selector_of(tree) == selector
