"""Can every attempt be told by its name, and does every name fit?"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.api.core import SUBDOMAIN
from pykueue.checks.requestnames import attempt_of, request_name, template_name

LONG = "w" * 200
NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?", fullmatch=True)


@pytest.mark.parametrize(
    ("workload", "check", "attempt", "name"),
    [
        pytest.param("job-train", "capacity", 1, "job-train-capacity-1", id="workload, check and attempt"),
        pytest.param("job-train", "capacity", 12, "job-train-capacity-12", id="an attempt of two digits"),
        pytest.param(LONG, "c" * 45, 1, f"{LONG}-{'c' * 45}-1", id="246 characters before the attempt are whole"),
        pytest.param(LONG, "c" * 46, 1, f"{LONG}-{'c' * 39}-c995f-1", id="one more, and a hash stands for the rest"),
        pytest.param(LONG, "c" * 46, 999_999, f"{LONG}-{'c' * 39}-c995f-999999", id="the attempt is never cut"),
        pytest.param("w" * 239, "." * 9, 1, f"{'w' * 239}-90984-1", id="no hash behind a dot or a dash"),
    ],
)
def test_a_request_is_called_after_workload_check_and_attempt(
    workload: str, check: str, attempt: int, name: str
) -> None:
    assert request_name(workload, check, attempt) == name


@pytest.mark.parametrize(
    ("request_", "attempt"),
    [
        pytest.param("job-train-capacity-1", 1, id="the first"),
        pytest.param("job-train-capacity-31", 31, id="a late one"),
        pytest.param("job-train-capacity-0", None, id="there is no attempt 0"),
        pytest.param("job-train-capacity-01", None, id="a number with a leading zero"),
        pytest.param("job-train-capacity-1000000", None, id="a number beyond all attempts"),
        pytest.param("job-train-capacity-\u0661", None, id="a digit of another script"),
        pytest.param("job-train-capacity-one", None, id="a word"),
        pytest.param("job-train-capacity-", None, id="no number"),
        pytest.param("job-train-capacity-2-1", None, id="of the check capacity-2"),
        pytest.param("job-train-speed-1", None, id="of another check"),
        pytest.param("job-trains-capacity-1", None, id="of another workload"),
    ],
)
def test_the_attempt_is_read_off_the_name(request_: str, attempt: int | None) -> None:
    assert attempt_of(request_, "job-train", "capacity") == attempt


@given(NAMES, NAMES, st.integers(1, 999_999), st.sampled_from(("main", "p" * 63)))
def test_however_long_its_parts_a_name_fits_and_tells_its_attempt(
    workload: str, check: str, attempt: int, pod_set: str
) -> None:
    name = request_name(workload, check, attempt)
    assert attempt_of(name, workload, check) == attempt
    assert len(name) <= 253
    assert len(template_name(name, pod_set)) <= 253


def test_names_that_were_cut_at_the_same_place_differ() -> None:
    first, second = (request_name(LONG, f"{'c' * 60}{end}", 1) for end in "ab")
    assert first[:240] == second[:240]
    assert first != second
    assert attempt_of(first, LONG, f"{'c' * 60}b") is None


@pytest.mark.parametrize(
    ("request_", "pod_set", "name"),
    [
        pytest.param("one-capacity-1", "main", "ppt-one-capacity-1-main", id="request and pod set"),
        pytest.param("r" * 238, "main", f"ppt-{'r' * 238}-main", id="247 characters are whole"),
        pytest.param("r" * 239, "main", f"ppt-{'r' * 239}-mai-6d38b", id="one more, and a hash stands for the rest"),
    ],
)
def test_a_template_is_called_after_its_request_and_pod_set(request_: str, pod_set: str, name: str) -> None:
    assert template_name(request_, pod_set) == name
    assert re.fullmatch(SUBDOMAIN, name)


def test_the_templates_of_two_pod_sets_of_a_long_request_differ() -> None:
    assert template_name("r" * 250, "head") != template_name("r" * 250, "tail")
