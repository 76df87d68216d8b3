"""Is the Workload of a job known by the right name, queue and limit?"""

import pytest

from pykueue.api.core import ObjectMeta
from pykueue.jobs.workload import prebuilt_name, run_seconds, workload_name


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


KEY = "kueue.x-k8s.io/prebuilt-workload-name"


@pytest.mark.parametrize(
    ("label", "annotation", "gate", "found"),
    [
        pytest.param("a", "b", True, "b", id="the annotation first"),
        pytest.param("a", "", True, "a", id="else the label"),
        pytest.param("a", "b", False, "a", id="the label alone when the gate is off"),
        pytest.param("", "b", False, "", id="no annotation when the gate is off"),
        pytest.param("", "b" * 64, False, "b" * 64, id="unless no label can hold the name"),
    ],
)
def test_a_job_names_its_workload_by(label: str, annotation: str, gate: bool, found: str) -> None:
    metadata = ObjectMeta(labels={KEY: label}, annotations={KEY: annotation})
    assert prebuilt_name(metadata, annotations=gate) == found
