"""Is a type of object known by every name that kueuectl and kubectl have for it?"""

import pytest

from pykueue.api.kinds import KINDS
from pykueue.cli.kueuectl.typenames import ALIASES, close, full_name, listed


@pytest.mark.parametrize(
    ("typed", "full"),
    [("cq", "clusterqueue"), ("LocalQueues", "localqueue"), ("kueueworkloads", "workload"), ("job", "job")],
)
def test_any_name_of_a_type_is_understood(typed: str, full: str) -> None:
    assert full_name(typed) == full


def test_short_names_and_plurals_are_those_of_the_api() -> None:
    for full, others in ALIASES.items():
        kind = next((one for one in KINDS.values() if one.kind.lower() == full), None)
        if kind is not None:
            assert kind.plural in others
            assert others[0] in kind.short_names


def test_a_misspelt_name_is_close_to_the_right_one() -> None:
    assert close("clusterquue", ALIASES) == "clusterqueue"
    assert close("xyzzy", ALIASES) == ""


def test_names_end_a_sentence() -> None:
    assert (listed(["a"]), listed(["a", "b", "c"])) == ("a", "a, b or c")
