"""Is it counted right, and told in words that help?"""

import pytest
from msgspec.structs import replace

from pykueue.sim.report import Report, report, spread
from pykueue.sim.world import MomentKind
from tests.sim.builders import check, configuration, job, priority, queue, reported, simulated

PREEMPTS = "{withinClusterQueue: LowerPriority}"


def row(found: Report, name: str) -> tuple[int, int, int, int, int, int]:
    (one,) = (one for one in found.queues if one.queue == name)
    return one.workloads, one.admissions, one.finished, one.preempts, one.preempted, one.evicted


def waiting(*manifests: str, until: int | None = None) -> tuple[str, str, tuple[str, ...]]:
    (one,) = reported(*manifests, until=until).waiting
    return one.state, one.why, one.helps


@pytest.mark.parametrize(
    ("values", "mean", "p50", "p95", "longest"),
    [
        pytest.param([7], 7, 7, 7, 7, id="one"),
        pytest.param(list(range(1, 101)), 50, 50, 95, 100, id="a hundred"),
        pytest.param([0, 10], 5, 0, 10, 10, id="two"),
    ],
)
def test_waits_are_summed_up(values: list[int], mean: int, p50: int, p95: int, longest: int) -> None:
    found = spread(values)
    assert found is not None
    assert (found.mean, found.p50, found.p95, found.longest) == (mean, p50, p95, longest)
    assert found.p50 <= found.p90 <= found.p95 <= found.p99 <= found.longest


def test_no_wait_has_no_mean() -> None:
    assert spread([]) is None


def test_queues_are_counted_on_both_sides_of_a_preemption() -> None:
    reclaim = "{reclaimWithinCohort: Any}"
    found = reported(
        queue("left", 2, cohortName="both", preemption=reclaim),
        queue("right", 2, cohortName="both", preemption=reclaim),
        job("a", 4, "left", run_seconds=100),
        job("b", 2, "right", run_seconds=10, arrival="50s"),
    )
    assert row(found, "left") == (1, 2, 1, 0, 1, 0)
    assert row(found, "right") == (1, 1, 1, 1, 0, 0)
    (line,) = (line for line in found.lines if line.what is MomentKind.PREEMPTED)
    assert line.why.startswith("default/b takes back quota")
    assert (line.reason, line.name) == ("InCohortReclamation", "default/a")


def test_the_wait_is_from_arrival_to_the_first_start() -> None:
    found = reported(queue(cpu=1), job("a", run_seconds=30), job("b", run_seconds=10, arrival="10s"))
    (one,) = found.queues
    assert one.wait is not None
    assert (one.wait.mean, one.wait.longest) == (10_000_000, 20_000_000)


def test_all_waiting_is_counted_after_preemptions_too() -> None:
    found = reported(
        queue(cpu=1, preemption=PREEMPTS),
        priority("high", 9),
        job("low", run_seconds=30, stop_seconds=5),
        job("high", klass="high", run_seconds=10, arrival="20s"),
        job("never", 2, arrival="30s"),
    )
    (one,) = found.queues
    assert one.wait is not None
    assert one.wait.longest == 5_000_000
    # The low one from 20 to 35, the high one from 20 to 25, and from 30 to the end at 65 the one that never fits.
    assert one.waited == (15 + 5 + 35) * 1_000_000


def test_who_loses_a_reservation_before_its_start_has_waited_all_along() -> None:
    found = reported(
        check("c", "retry"),
        queue("free", 1, cohortName="both"),
        queue("checked", 0, cohortName="both", admissionChecksStrategy="{admissionChecks: [{name: c}]}"),
        job("a", 1, "free", run_seconds=10),
        job("b", 1, "checked", run_seconds=10),
    )
    assert [(one.queue, one.waited // 1_000_000) for one in found.queues] == [("checked", 70), ("free", 0)]


def test_who_is_deactivated_does_not_wait() -> None:
    demands = "{admissionChecks: [{name: c}]}"
    found = reported(
        check("c", "rejected"), queue("q", admissionChecksStrategy=demands), queue(), job("a", 1, "q"), job("b")
    )
    assert [(one.queue, one.waited) for one in found.queues] == [("main", 0), ("q", 0)]


def test_use_is_the_share_of_nominal_over_the_whole_time() -> None:
    found = reported(queue(cpu=4), job("a", 2, run_seconds=50), job("b", 4, run_seconds=50))
    (use,) = found.use
    assert (use.nominal, use.tenths_of_percent, use.peak) == (4000, 750, 4000)


def test_use_without_nominal_quota_has_no_share() -> None:
    found = reported(queue(cpu=0), job("a", run_seconds=5))
    assert found.use[0].tenths_of_percent is None


def test_quota_is_used_until_the_pods_are_gone() -> None:
    found = reported(
        queue(cpu=1, preemption=PREEMPTS),
        priority("high", 9),
        job("low", run_seconds=10, stop_seconds=30, arrival="0s"),
        job("high", klass="high", run_seconds=10, arrival="5s"),
    )
    assert found.use[0].tenths_of_percent == 1000


@pytest.mark.parametrize(
    ("manifests", "state", "why", "helps"),
    [
        pytest.param(
            [queue(cpu=2), job("a", 3)],
            "waits",
            "asks 3 cpu, and flavor default can never",
            "ask for at most 2",
            id="big",
        ),
        pytest.param(
            [job("a", queue="gone")], "waits", "there is no LocalQueue gone", "create LocalQueue gone", id="queue"
        ),
        pytest.param(
            [queue(stopPolicy="Hold"), job("a")], "waits", "takes nothing now: is stopped", "put right", id="stopped"
        ),
        pytest.param(
            [check("c", "pending"), queue(admissionChecksStrategy="{admissionChecks: [{name: c}]}"), job("a")],
            "reserves",
            "AdmissionCheck c is not ready",
            "see what c waits for",
            id="pending check",
        ),
        pytest.param(
            [check("c", "rejected"), queue(admissionChecksStrategy="{admissionChecks: [{name: c}]}"), job("a")],
            "deactivated",
            "an AdmissionCheck rejected it",
            "set spec.active to true",
            id="rejected",
        ),
        pytest.param(
            [queue(cpu="9").replace("name: default, res", "name: ghost, res"), job("a")],
            "waits",
            "references missing ResourceFlavor(s): ghost",
            "put right",
            id="missing flavor",
        ),
        pytest.param(
            [queue(), job("a", 2).replace("{cpu: 2}", "{cpu: 2}, limits: {cpu: 1}")],
            "waits",
            "spec.template.spec.containers[0]: Invalid value",
            "correct the pod template",
            id="above its own limit",
        ),
        pytest.param(
            [queue(cohortName="x"), job("a")]
            + [
                "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\n"
                f"metadata: {{name: {name}}}\nspec: {{parentName: {parent}}}\n"
                for name, parent in ("xy", "yx")
            ],
            "waits",
            "its cohorts form a cycle",
            "put right",
            id="cohort cycle",
        ),
        pytest.param(
            [queue(), job("a", 1, ready_seconds="never")], "starts", "its pods are not all", "", id="not ready"
        ),
        pytest.param([queue(), job("a", 1, run_seconds=9999)], "runs", "it needs more time", "", id="still running"),
    ],
)
def test_who_is_left_is_told_why_and_what_helps(manifests: list[str], state: str, why: str, helps: str) -> None:
    found_state, found_why, found_helps = waiting(*manifests, until=60)
    assert found_state == state
    assert why in found_why
    assert helps in ", or ".join(found_helps)
    assert bool(found_helps) is bool(helps)


def test_equal_workloads_share_their_verdict() -> None:
    found = reported(queue(cpu=1), *(job(f"j{index}", 2) for index in range(3)))
    assert {one.why for one in found.waiting} == {"asks 2 cpu, and flavor default can never give its queue more than 1"}


def cohort(name: str, spec: str) -> str:
    return f"---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\nmetadata: {{name: {name}}}\nspec: {spec}\n"


def test_who_is_left_does_not_have_the_reason_for_which_an_equal_one_waited_before_it_started() -> None:
    quota = "{resourceGroups: [{coveredResources: [cpu], flavors: [{name: default, resources: [{name: cpu, %s}]}]}]}"
    fair = "fairSharing: {preemptionStrategies: [LessThanOrEqualToFinalShare, LessThanInitialShare]}\n"
    arrivals = {"c": (12, "0s"), "b": (8, "10m"), "a1": (8, "20m"), "a2": (8, "20m")}
    places = {"a1": ("dept", 3), "a2": ("dept", 1), "b": ("root", 2), "c": ("root", 1)}
    found = reported(
        configuration(fair),
        cohort("root", quota % "nominalQuota: 12"),
        cohort("dept", "{parentName: root, fairSharing: {weight: 3}}"),
        *(
            queue(
                name, 0, cohortName=above, fairSharing=f"{{weight: {weight}}}", preemption="{reclaimWithinCohort: Any}"
            )
            for name, (above, weight) in places.items()
        ),
        *(
            job(f"{name}-{index}", 1, name, run_seconds=36_000, arrival=at)
            for name, (count, at) in arrivals.items()
            for index in range(count)
        ),
        until=1_800,
    )
    left = [one.why for one in found.waiting if one.state == "waits"]
    assert (len(left), {why.rpartition("; ")[2] for why in left}) == (24, {"preemption would not help"})


def test_a_backoff_says_until_when() -> None:
    waits = configuration("waitForPodsReady: {timeout: 1m}\n")
    assert (
        "waits for its backoff until 2026-01-01T00:02:00Z"
        in waiting(waits, queue(), job("a", ready_seconds="never"), until=90)[1]
    )


def test_what_is_one_thing_to_a_reader_is_marked() -> None:
    found = reported(queue(), job("a", run_seconds=5))
    assert [(line.what.value, line.beside) for line in found.lines] == [
        ("arrives", False),
        ("starts", False),
        ("runs", True),
        ("finishes", False),
    ]


def test_without_events_all_tables_are_the_same() -> None:
    past = simulated(queue(cpu=1), job("a"), job("b"), until=90)
    whole = report(past)
    assert whole.lines
    assert report(past, events=False) == replace(whole, lines=())
