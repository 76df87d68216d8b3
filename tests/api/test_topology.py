"""Do assignments survive packing, and are they packed small?"""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.api.names import HOSTNAME_LABEL
from pykueue.api.topology import (
    DOMAINS_MAX,
    AssignmentError,
    Domain,
    level_values,
    pack,
    unpack,
)
from pykueue.api.workload import IndividualValues, LevelValues, PodCounts, TopologyAssignment, TopologySlice


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(["a"], LevelValues(universal="a"), id="one"),
        pytest.param(["a", "a"], LevelValues(universal="a"), id="all the same"),
        pytest.param(
            ["node-1-x", "node-2-x"],
            LevelValues(individual=IndividualValues(("1", "2"), "node-", "-x")),
            id="beginning and end in common",
        ),
        pytest.param(["a", "b"], LevelValues(individual=IndividualValues(("a", "b"))), id="nothing in common"),
        pytest.param(
            ["aa", "aaa"], LevelValues(individual=IndividualValues(("", "a"), None, "aa")), id="the end wins an overlap"
        ),
    ],
)
def test_level_values(names: list[str], expected: LevelValues) -> None:
    assert level_values(names) == expected


NAMES = st.text("ab-", min_size=1, max_size=6)
DOMAINS = st.lists(st.builds(Domain, st.tuples(NAMES, NAMES), st.integers(1, 3)), max_size=12)


@given(DOMAINS, st.booleans(), st.sampled_from([HOSTNAME_LABEL, "rack"]))
def test_what_is_packed_is_unpacked(domains: list[Domain], by_prefix: bool, lowest: str) -> None:
    packed = pack(["block", lowest], domains, by_hostname_prefix=by_prefix)
    assert unpack(packed) == tuple(domains)
    assert len(msgspec.json.encode(packed)) <= len(msgspec.json.encode(pack(["block", lowest], domains)))


def test_hostname_prefixes_make_slices_where_that_is_shorter() -> None:
    hosts = [f"{pool}-{n}" for pool in ("very-long-name-of-one-pool", "another-long-name-of-a-pool") for n in range(20)]
    domains = [Domain((host,), 1) for host in hosts]
    assert len(pack([HOSTNAME_LABEL], domains).slices) == 1
    assert len(pack([HOSTNAME_LABEL], domains, by_hostname_prefix=True).slices) == 2
    assert len(pack(["rack"], domains, by_hostname_prefix=True).slices) == 1


def test_a_domain_must_name_every_level() -> None:
    with pytest.raises(AssignmentError, match="2 levels"):
        pack(["a", "b"], [Domain(("x",), 1)])


def piece(count: int = 1, counts: PodCounts = PodCounts(1), *names: LevelValues) -> TopologyAssignment:  # noqa: B008
    return TopologyAssignment(("l",), (TopologySlice(count, counts, names or (LevelValues("x"),)),))


@pytest.mark.parametrize(
    "assignment",
    [
        pytest.param(piece(0), id="no domains"),
        pytest.param(piece(DOMAINS_MAX + 1), id="more domains than memory"),
        pytest.param(piece(2, PodCounts(individual=(1,))), id="too few counts"),
        pytest.param(piece(1, PodCounts()), id="no counts"),
        pytest.param(piece(1, PodCounts(1), LevelValues()), id="no names"),
        pytest.param(piece(2, PodCounts(1), LevelValues(individual=IndividualValues(("a",)))), id="too few names"),
        pytest.param(piece(1, PodCounts(1), LevelValues("x"), LevelValues("y")), id="too many levels"),
    ],
)
def test_contradictions_are_refused(assignment: TopologyAssignment) -> None:
    with pytest.raises(AssignmentError):
        unpack(assignment)
