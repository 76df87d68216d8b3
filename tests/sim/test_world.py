"""Does virtual time tell the right story?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pykueue.api.durations import Micros
from pykueue.base.units import Instant
from pykueue.engine.record.checkpoint import checkpoint
from pykueue.sim.world import End, MomentKind, World
from tests.sim.builders import check, configuration, job, priority, queue, simulated, story

WAITING = "waitForPodsReady: {timeout: 2m, requeuingStrategy: {backoffBaseSeconds: 60%s}}\n"


def test_a_job_starts_runs_and_finishes() -> None:
    past = simulated(queue(), job("a", ready_seconds=5, run_seconds=30, arrival="10s"))
    assert story(past) == ["10 a arrives", "10 a starts", "15 a runs", "45 a finishes"]
    assert past.ended is End.REST
    assert past.end == past.trace.start + 45_000_000


def test_the_next_starts_the_instant_there_is_room() -> None:
    past = simulated(queue(cpu=1), job("a", run_seconds=30), job("b", run_seconds=30, arrival="1s"))
    assert "30 b starts" in story(past)


def test_jobs_of_one_instant_stand_in_line_as_in_the_file() -> None:
    names = ["zeta", "alpha", "mid"]
    past = simulated(queue(cpu=1), *(job(name, run_seconds=10) for name in names))
    starts = [line.split()[1] for line in story(past) if line.endswith("starts")]
    assert starts == names


def test_a_preempted_job_stops_first_and_starts_over() -> None:
    past = simulated(
        queue(cpu=1, preemption="{withinClusterQueue: LowerPriority}"),
        priority("high", 9),
        job("low", run_seconds=100, stop_seconds=20),
        job("high", klass="high", run_seconds=10, arrival="50s"),
    )
    told = [line for line in story(past) if not line.endswith("waits")]
    assert told == [
        "0 low arrives",
        "0 low starts",
        "0 low runs",
        "50 high arrives",
        "50 low preempted",
        "70 low releases",
        "70 high starts",
        "70 high runs",
        "80 high finishes",
        "80 low starts",
        "80 low runs",
        "180 low finishes",
    ]


def test_a_world_goes_on_from_the_state_of_another() -> None:
    files = (queue(cpu=1), job("a", run_seconds=60), job("b", run_seconds=30), job("c", arrival="100s"))
    whole = simulated(*files)
    first = World(whole.trace)
    first.run(Instant(whole.trace.start + 20_000_000))
    begun = replace(
        whole.trace,
        start=first.now,
        begin=checkpoint(first.engine),
        arrivals=tuple(
            replace(one, done=Micros(20_000_000) if one.name.endswith("/a") else Micros(0))
            for one in whole.trace.arrivals
        ),
    )
    rest = World(begun).run()
    after = [(one.at, one.workload, one.what) for one in whole.moments if one.at > first.now]
    assert [(one.at, one.workload, one.what) for one in rest.moments] == after


def test_ends_on_a_grid_are_right_on_average() -> None:
    trace = simulated(queue(cpu=1), *(job(f"j{n}", run_seconds=7) for n in range(40))).trace
    world = World(trace)
    world.grain = Micros(20_000_000)
    past = world.run()
    assert all((one.at - trace.start) % 20_000_000 == 0 for one in past.moments if one.what is MomentKind.FINISHES)
    assert past.end - trace.start == pytest.approx(40 * 7_000_000, abs=20_000_000)


def test_it_ends_when_the_awaited_job_starts() -> None:
    trace = simulated(queue(cpu=1), job("a", run_seconds=60), job("b"), job("c")).trace
    world = World(trace)
    world.awaited = trace.arrivals[1].workload.key
    past = world.run()
    assert (past.ended, past.end - trace.start) == (End.STARTED, 60_000_000)


def test_with_a_checkpoint_it_goes_on_where_it_was() -> None:
    past = simulated(
        queue(cpu=1, preemption="{withinClusterQueue: LowerPriority}"),
        priority("high", 9),
        job("low", run_seconds=100, checkpoint="true"),
        job("high", klass="high", run_seconds=10, arrival="50s"),
    )
    assert story(past)[-1] == "110 low finishes"


def test_pods_that_are_never_ready_give_way_and_come_back_until_the_limit() -> None:
    past = simulated(configuration(WAITING % ", backoffLimitCount: 1"), queue(cpu=1), job("a", ready_seconds="never"))
    told = [line for line in story(past) if not line.endswith(("waits", "releases"))]
    assert told == [
        "0 a arrives",
        "0 a starts",
        "120 a evicted",
        "180 a requeues",
        "180 a starts",
        "300 a deactivated",
        "300 a evicted",
    ]
    assert past.ended is End.REST


def test_what_only_repeats_itself_ends_after_a_few_tries() -> None:
    past = simulated(configuration(WAITING % ""), queue(), job("a", ready_seconds="never"))
    assert past.ended is End.REPEATS
    assert [line.split()[2] for line in story(past)].count("starts") == 3


def test_until_goes_on_with_it() -> None:
    past = simulated(configuration(WAITING % ""), queue(), job("a", ready_seconds="never"), until=36_000)
    assert past.ended is End.UNTIL
    assert past.end == past.trace.start + 36_000_000_000
    assert [line.split()[2] for line in story(past)].count("starts") > 5


def test_what_comes_later_than_until_does_not_come() -> None:
    past = simulated(queue(), job("a", run_seconds=5), job("b", arrival="1h"), until=60)
    assert story(past)[-1] == "5 a finishes"
    assert past.ended is End.UNTIL


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param("ready", ["0 a reserves", "0 a starts", "0 a runs", "10 a finishes"], id="ready at once"),
        pytest.param("pending", ["0 a reserves"], id="for ever pending"),
        pytest.param(
            "retry",
            ["0 a reserves", "0 a evicted", "0 a releases", "60 a requeues", "60 a reserves", "60 a starts"],
            id="one more try",
        ),
        pytest.param("rejected", ["0 a reserves", "0 a deactivated", "0 a evicted", "0 a releases"], id="rejected"),
    ],
)
def test_an_admission_check_answers(answer: str, told: list[str]) -> None:
    demands = "{admissionChecks: [{name: c}]}"
    past = simulated(check("c", answer), queue(admissionChecksStrategy=demands), job("a", run_seconds=10))
    assert story(past)[1 : len(told) + 1] == told


def test_admission_waits_for_pods_when_told_to() -> None:
    past = simulated(
        configuration("waitForPodsReady: {timeout: 10m, blockAdmission: true}\n"),
        queue(),
        job("slow", ready_seconds=100, run_seconds=10),
        job("next", run_seconds=10, arrival="5s"),
    )
    assert "100 next starts" in story(past)


def test_a_job_ends_at_its_maximum_execution_time() -> None:
    limited = job("a", run_seconds=1000).replace("labels: {", "labels: {kueue.x-k8s.io/max-exec-time-seconds: '30', ")
    assert "30 a deactivated" in story(simulated(queue(), limited))


def test_a_workload_that_holds_quota_already_goes_on() -> None:
    held = """---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: held, annotations: {pykueue.io/run-seconds: "40"}}
spec:
  queueName: main
  podSets: [{name: main, count: 1, template: {spec: {containers: [{name: a, resources: {requests: {cpu: 1}}}]}}}]
status:
  admission:
    clusterQueue: main
    podSetAssignments: [{name: main, flavors: {cpu: default}, resourceUsage: {cpu: 1}, count: 1}]
  conditions:
  - {type: QuotaReserved, status: "True", reason: r, message: m, lastTransitionTime: "2025-12-31T00:00:00Z"}
  - {type: Admitted, status: "True", reason: r, message: m, lastTransitionTime: "2025-12-31T00:00:00Z"}
  - {type: PodsReady, status: "True", reason: Started, message: m, lastTransitionTime: "2025-12-31T00:00:00Z"}
"""
    told = story(simulated(queue(cpu=1), held, job("next", run_seconds=5)))
    assert "40 held finishes" in told
    assert "40 next starts" in told


@given(
    jobs=st.lists(
        st.tuples(
            st.integers(1, 5), st.sampled_from(["left", "right"]), st.sampled_from(["low", "high"]), st.integers(0, 90)
        ),
        max_size=8,
    ),
    stop=st.integers(0, 9),
)
def test_everything_that_fits_finishes_and_twice_is_the_same(jobs: list[tuple[int, str, str, int]], stop: int) -> None:
    policy = "{withinClusterQueue: LowerPriority, reclaimWithinCohort: Any}"
    manifests = [
        *(queue(name, 3, cohortName="both", preemption=policy) for name in ("left", "right")),
        priority("low", 1),
        priority("high", 2),
        *(
            job(f"j{index}", cpu, name, klass, arrival=f"{at}s", run_seconds=20, stop_seconds=stop)
            for index, (cpu, name, klass, at) in enumerate(jobs)
        ),
    ]
    past = simulated(*manifests)
    assert past.ended is End.REST
    assert all(level.finished for level in past.levels)
    assert len([moment for moment in past.moments if moment.what is MomentKind.FINISHES]) == len(jobs)
    assert simulated(*manifests).moments == past.moments


SHARING = "admissionFairSharing: {usageHalfLifeTime: 5m}\n"
BY_USAGE = "{admissionMode: UsageBasedAdmissionFairSharing}"
OTHER = (
    "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: {name: other}\nspec: {clusterQueue: main}\n"
)


def test_local_queues_take_turns_by_past_use_in_virtual_time() -> None:
    jobs = [job(f"main-{number}", run_seconds=600) for number in range(3)]
    jobs += [job(f"other-{number}", queue="other", run_seconds=600, arrival="1s") for number in range(3)]
    past = simulated(configuration(SHARING), queue(cpu=1, admissionScope=BY_USAGE), OTHER, *jobs)
    starts = [line.split()[1] for line in story(past) if line.endswith("starts")]
    assert starts == ["main-0", "other-0", "main-1", "other-1", "main-2", "other-2"]
    assert past.ended is End.REST


def test_a_head_that_never_fits_does_not_keep_virtual_time_going() -> None:
    strict = queue(cpu=1, admissionScope=BY_USAGE, queueingStrategy="StrictFIFO")
    past = simulated(configuration(SHARING), strict, OTHER, job("a", run_seconds=600), job("big", cpu=9, arrival="1s"))
    assert past.ended is End.REST
    assert "600 a finishes" in story(past)
