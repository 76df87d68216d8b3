"""Is the Workload of a job known by the right name, queue and limit?"""

import pytest

from pykueue.jobs.workload import run_seconds, workload_name


@pytest.mark.parametrize(
    ("name", "uid", "short", "found"),
    [
        pytest.param("name", "uid", False, "job-name-ef3a1", id="short"),
        pytest.param("n" * 253, "uid", False, "job-" + "n" * 243 + "-", id="long"),
        pytest.param("n" * 253, "uid", True, "job-" + "n" * 53 + "-", id="long, with the gate for short names"),
    ],
)
def test_the_name_is_kind_name_and_hash(name: str, uid: str, short: bool, found: str) -> None:
    made = workload_name(kind="Job", group="batch", name=name, uid=uid, short=short)
    assert made.startswith(found)
    assert len(made) == (len(found) if found.endswith("1") else 63 if short else 253)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(None, None), ("5", 5), ("0", None), ("-5", None), ("5s", None), ("2147483648", None), ("9" * 40, None)],
)
def test_the_run_time_is_limited_by_a_whole_number_of_seconds(text: str | None, seconds: int | None) -> None:
    assert run_seconds(text) == seconds
