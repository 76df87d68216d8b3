"""Does the fixture give a test what docs/testing.md says? And the three examples: they are tests themselves."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from pykueue.api.trees import text
from pykueue.kube.port import CLUSTER_QUEUES, EVENTS, JOBS, WORKLOADS
from pykueue.testing.kueue import ApiError, Kueue, trees_of
from pykueue.testing.plugin import settings

pytest_plugins = ("pytester",)

ROOT = Path(__file__).resolve().parent.parent.parent
QUEUES = ROOT / "examples/testing/queues.yaml"
QUIETLY = ("-q", "-p", "no:cacheprovider", "-p", "no:asyncio")
"""How a test runs pytest in a project of its own; pytest-asyncio would ask that project for settings."""


def test_pods_finish_and_fail_at_will(kueue: Kueue) -> None:
    kueue.apply(QUEUES)
    kueue.job("good", queue="red")
    kueue.job("bad", queue="red", backoffLimit=0)
    kueue.finish("good")
    kueue.fail("bad", exit_code=3)
    assert kueue.finished() == {"good", "bad"}
    (pod,) = kueue.pods("bad")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


def test_who_waits_says_why(kueue: Kueue) -> None:
    kueue.apply(QUEUES)
    kueue.job("huge", queue="red", cpu=9)
    assert kueue.running() == set()
    assert kueue.waiting() == {"huge": kueue.why("huge")}
    assert "insufficient quota for cpu in flavor default" in kueue.why("huge")


def test_four_equal_jobs_and_room_for_one_all_three_that_wait_say_why(kueue: Kueue) -> None:
    kueue.apply(QUEUES)
    for name in ("first", "second", "third", "fourth"):
        kueue.job(name, queue="red", cpu=8)
    assert len(kueue.running()) == 1
    more = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 8 more needed"
    assert list(kueue.waiting().values()) == [more] * 3


def test_a_get_of_one_workload_has_the_reason_before_it_is_written(kueue: Kueue) -> None:
    kueue.apply(QUEUES)
    kueue.job("runs", queue="red", cpu=8)
    kueue.job("judged", queue="red", cpu=8)
    tree = kueue.client.get(JOBS, "judged", "default")
    for name in ("second", "third"):
        metadata = {"name": name, "labels": tree["metadata"]["labels"]}
        spec = {"template": {"spec": tree["spec"]["template"]["spec"]}}
        kueue.client.create(
            JOBS, {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}, "default"
        )
    for name in ("second", "third"):
        listed = kueue.workload(name)
        assert "QuotaReserved" not in str(listed.get("status"))
        seen = kueue.client.get(WORKLOADS, listed["metadata"]["name"], "default")
        (told,) = [one for one in seen["status"]["conditions"] if one["type"] == "QuotaReserved"]
        assert (told["status"], told["reason"]) == ("False", "WaitingForQuota")
        assert "8 more needed" in told["message"]
        assert seen["metadata"]["resourceVersion"] == listed["metadata"]["resourceVersion"]
        assert "8 more needed" in kueue.why(name)
    kueue.settle()
    assert "8 more needed" in str(kueue.workload("third")["status"])


def test_what_can_never_start_says_so_and_a_preemption_says_for_whom(kueue: Kueue) -> None:
    kueue.apply(QUEUES)
    kueue.job("huge", queue="red", cpu=9)
    assert kueue.why("huge").startswith("can never start: asks for 9 cpu, this queue can have 8 at most (couldn't ")
    kueue.job("borrower", queue="red", cpu=6, script={"stop-for": "1h"})
    kueue.job("owner", queue="blue", cpu=4)
    workload = kueue.workload("owner")["metadata"]["name"]
    told = f"preempted for Job owner (Workload {workload}), which took back what blue owns"
    notes = {text(one, "reason"): text(one, "note") for one in kueue.client.list(EVENTS, "default")}
    assert notes["PreemptedFor"] == told
    assert notes["CanNeverStart"] == "can never start: asks for 9 cpu, this queue can have 8 at most"


def test_a_job_that_may_start_with_fewer_pods_can_never_start_only_if_the_fewest_do_not_fit(kueue: Kueue) -> None:
    kueue.apply(QUEUES)
    kueue.job("full", queue="red", cpu=8, script={"run-for": "1h"})
    for name, least in (("some", "2"), ("none", "9")):
        kueue.apply(
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "labels": {"kueue.x-k8s.io/queue-name": "red"},
                    "annotations": {"kueue.x-k8s.io/job-min-parallelism": least},
                },
                "spec": {
                    "parallelism": 12,
                    "completions": 12,
                    "template": {
                        "spec": {
                            "restartPolicy": "Never",
                            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}],
                        }
                    },
                },
            }
        )
    notes = [
        text(one, "note") for one in kueue.client.list(EVENTS, "default") if text(one, "reason") == "CanNeverStart"
    ]
    assert notes == ["can never start: even with the fewest pods it asks for 9 cpu, this queue can have 8 at most"]
    assert kueue.why("none").startswith(notes[0])
    assert kueue.why("some").startswith("couldn't assign flavors to pod set main: insufficient quota for cpu")


def test_who_comes_into_no_queue_says_why(kueue: Kueue) -> None:
    kueue.apply(QUEUES)
    kueue.job("lost", queue="red", priority="nonesuch")
    assert kueue.waiting() == {"lost": 'WorkloadPriorityClass "nonesuch" not found'}


def test_a_script_that_cannot_be_read_is_refused(kueue: Kueue) -> None:
    kueue.apply(QUEUES)
    with pytest.raises(ValueError, match="Job default/a: run-for: 'bar' is not a duration"):
        kueue.job("a", queue="red", run_for="bar")
    with pytest.raises(ValueError, match="Job default/a: unknown script key 'run_for'"):
        kueue.job("a", queue="red", script={"run_for": "3s"})
    kueue.job("a", queue="red")
    with pytest.raises(ValueError, match="now: unknown value 'over'"):
        kueue.tell("a", "default", {"now": "over"})


@pytest.mark.parametrize(
    ("keyword", "says"),
    [
        pytest.param("memry", "Job default/a: unknown keyword 'memry'; did you mean memory?", id="an option"),
        pytest.param("backoffLimits", "unknown keyword 'backoffLimits'; did you mean backoffLimit?", id="a field"),
        pytest.param("xyzzy", "unknown keyword 'xyzzy'; it is neither an option nor a field", id="neither"),
    ],
)
def test_a_misspelt_keyword_is_an_error_with_the_nearest_name(kueue: Kueue, keyword: str, says: str) -> None:
    given: dict[str, Any] = {keyword: 1}
    with pytest.raises(TypeError) as caught:
        kueue.job("a", queue="red", **given)
    assert says in str(caught.value)


def test_the_clock_does_not_go_back(kueue: Kueue) -> None:
    with pytest.raises(ValueError, match="advance: '-5m' is negative; the clock only goes forward"):
        kueue.advance("-5m")


@pytest.mark.parametrize("number", [-5, 90, 1.5])
def test_a_number_is_no_duration(kueue: Kueue, number: Any) -> None:
    with pytest.raises(ValueError, match=f"advance: {number} has no unit; write it as in '90s', '10m' or '1h30m'"):
        kueue.advance(number)


def test_a_misspelt_queue_is_named(kueue: Kueue) -> None:
    given: dict[str, Any] = {"quue": "red"}
    with pytest.raises(TypeError, match=r"Job default/a: unknown keyword 'quue'; did you mean queue\?"):
        kueue.job("a", **given)
    with pytest.raises(TypeError, match="Job default/a: the keyword 'queue' is missing; name its LocalQueue"):
        kueue.job("a")


def test_time_passes_when_it_is_told_to(kueue: Kueue) -> None:
    kueue.apply(QUEUES)
    kueue.job("short", queue="red", run_for="10m")
    before = kueue.now
    kueue.advance("9m")
    assert kueue.now - before == 9 * 60 * 1_000_000
    assert kueue.running() == {"short"}
    kueue.advance("1m10s")
    assert kueue.finished() == {"short"}


@pytest.mark.kueue(config={"manageJobsWithoutQueueName": True}, gates={"PartialAdmission": False})
def test_the_marker_gives_configuration_and_gates(kueue: Kueue) -> None:
    settings = kueue.embedded.local.controllers.cluster.settings
    assert settings.loaded.configuration.manage_jobs_without_queue_name
    assert not settings.gates["PartialAdmission"]


def test_what_is_refused_raises_with_the_message(kueue: Kueue) -> None:
    with pytest.raises(ApiError, match="not found") as caught:
        kueue.client.get(CLUSTER_QUEUES, "nowhere")
    assert (caught.value.code, caught.value.reason) == (404, "NotFound")
    with pytest.raises(ApiError, match="no kind"):
        kueue.apply({"apiVersion": "v1", "kind": "Sandwich", "metadata": {"name": "s"}})


def test_a_job_that_does_not_run_cannot_finish(kueue: Kueue) -> None:
    kueue.apply(QUEUES)
    kueue.job("huge", queue="red", cpu=9)
    with pytest.raises(AssertionError, match="Job default/huge has no running pods: can never start: asks for 9 cpu"):
        kueue.finish("huge")


def test_other_namespaces_have_jobs_too(kueue: Kueue) -> None:
    kueue.apply(QUEUES)
    kueue.namespace("other", team="x")
    kueue.apply(
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: {name: red, namespace: other}\n"
        "spec: {clusterQueue: red}\n"
    )
    kueue.job("away", queue="red", namespace="other")
    assert (kueue.running(), kueue.running("other")) == (set(), {"away"})
    kueue.delete("away", "other")
    assert kueue.client.list(JOBS, "other") == []


def test_manifests_come_in_many_forms(tmp_path: Path) -> None:
    one = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}
    text = "kind: A\n---\n---\nkind: List\nitems: [{kind: B}, {kind: C}]\n"
    (tmp_path / "x.yaml").write_text(text)
    assert [tree["kind"] for tree in trees_of(text)] == ["A", "B", "C"]
    assert [tree["kind"] for tree in trees_of(tmp_path / "x.yaml")] == ["A", "B", "C"]
    assert [tree["kind"] for tree in trees_of(str(tmp_path))] == ["A", "B", "C"]
    assert list(trees_of(one)) == [one]
    assert list(trees_of('{"kind": "A"}')) == [{"kind": "A"}]
    with pytest.raises(FileNotFoundError, match=r"^nowhere\.yaml: no such file or directory in .*; YAML text must"):
        list(trees_of("nowhere.yaml"))
    for wrong in ("- a\n", "a\n\n"):
        with pytest.raises(AssertionError, match="is not an object"):
            list(trees_of(wrong))
    (tmp_path / "x.yaml").unlink()
    with pytest.raises(AssertionError, match="contains no manifests"):
        list(trees_of(tmp_path))


def test_the_plugin_brings_the_fixture_to_any_project(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(kueue):\n    assert kueue.waiting() == {}\n")
    pytester.runpytest_inprocess(*QUIETLY, "--strict-markers").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("mark", "says"),
    [
        pytest.param(pytest.mark.kueue(confg={}), "unknown keyword 'confg'; did you mean config?", id="misspelt"),
        pytest.param(pytest.mark.kueue(xyzzy=1), "unknown keyword 'xyzzy'; use config or gates", id="nothing is close"),
        pytest.param(pytest.mark.kueue({}), "settings are keywords", id="no keyword"),
    ],
)
def test_what_the_marker_does_not_know_is_an_error(mark: pytest.MarkDecorator, says: str) -> None:
    with pytest.raises(TypeError) as caught:
        settings(mark.mark)
    assert says in str(caught.value)


def test_manifests_are_found_beside_the_test_too(pytester: pytest.Pytester) -> None:
    folder = pytester.mkpydir("below")
    (folder / "queues.yaml").write_text(QUEUES.read_text())
    (folder / "test_it.py").write_text(
        "def test_beside(kueue):\n    kueue.apply('queues.yaml')\n    kueue.job('a', queue='red')\n"
        "def test_missing(kueue):\n    kueue.apply('none.yaml')\n"
    )
    found = pytester.runpytest_inprocess(*QUIETLY)
    found.assert_outcomes(passed=1, failed=1)
    found.stdout.fnmatch_lines([f"*FileNotFoundError: none.yaml: no such file or directory in *{folder}; YAML text*"])


def test_the_extra_brings_pytest() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert [one for one in extras["testing"] if one.startswith("pytest")]
