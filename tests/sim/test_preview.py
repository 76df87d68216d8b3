"""Does a preview say what a change would do, and nothing else?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pykueue.api.previews import Effect
from pykueue.bridge.runtimes import Learned
from pykueue.engine.record.checkpoint import checkpoint
from pykueue.sim.changes import Changes
from pykueue.sim.forward import RunTimeKnowledge
from pykueue.sim.preview import answered, preview
from pykueue.sim.refusal import RefusedError
from tests.sim.builders import configuration, job, priority, queue, workload
from tests.sim.previewed import NOW, State, spec_of


def test_a_job_that_fits_starts_and_says_on_which_flavor() -> None:
    state = State(queue(cpu=4), job("a")).decided()
    found = state.ask(job("new", 2))
    assert state.told(found) == ["new Starts default"]
    assert found.affected[0].reason == "takes 2 cpu of flavor default in ClusterQueue main"
    [main] = found.queues
    assert (main.running_before, main.running, main.pending_before, main.pending) == (1, 2, 0, 0)
    assert [(one.used_before, one.used) for one in main.quotas] == [("1", "3")]


def test_a_job_that_does_not_fit_waits_at_its_place() -> None:
    state = State(queue(cpu=1), job("a"), job("b"), job("c")).decided()
    assert state.told(state.ask(job("new"))) == ["new Waits ->3"]


def test_a_job_that_is_too_large_never_starts() -> None:
    found = State(queue(cpu=1)).ask(job("new", 2))
    assert [one.effect for one in found.affected] == [Effect.NEVER]
    assert found.affected[0].reason == "can never start: asks for 2 cpu, this queue can have 1 at most"


def test_victims_are_named_with_their_preemptor() -> None:
    within = queue(cpu=2, preemption="{withinClusterQueue: LowerPriority}")
    state = State(within, priority("high", 9), job("a"), job("b"), job("c")).decided()
    found = state.ask(job("new", 2, klass="high"))
    assert state.told(found) == ["a Evicted ->1 for new", "b Evicted ->2 for new", "new Starts default", "c Moves 1>3"]
    assert found.affected[0].reason == "goes before it in the same ClusterQueue and needs its room"


def test_quotas_beyond_the_machine_are_noted() -> None:
    state = State(queue(cpu=1), job("first"), job("second")).decided()
    asked = state.question(spec_of((), {"set": "clusterqueue/main.cpu=2"}))
    saved = checkpoint(state.engine)
    assert answered(asked, saved).notes == (), "a cluster may get more nodes"
    assert answered(replace(asked, machine={"cpu": 2000}), saved).notes == ()
    assert answered(replace(asked, machine={"cpu": 1000}), saved).notes == (
        "all queues together would own 2 cpu, but the machine has 1: jobs may get quota and still wait for the machine",
    )
    asked = state.question(spec_of((), {"set": "clusterqueue/main.cpu=1"}))
    assert answered(replace(asked, machine={"cpu": 500}), saved).notes == (), "the change is not the cause"


def test_more_quota_starts_who_waits_and_less_evicts_nobody() -> None:
    state = State(queue(cpu=1), job("a"), job("b"), job("c")).decided()
    found = state.ask(set="clusterqueue/main.cpu=2")
    assert state.told(found) == ["b Starts 1>- default", "c Moves 2>1"]
    assert [(one.nominal_before, one.nominal) for one in found.queues[0].quotas] == [("1", "2")]
    # As in Kueue, a quota that is lowered below its usage keeps what runs.
    assert state.told(state.ask(set="clusterqueue/main.cpu=0")) == ["b NeverStarts 1>1", "c NeverStarts 2>2"]


def test_a_drained_queue_evicts_its_work_and_blocks_the_rest() -> None:
    state = State(queue(cpu=1), job("a"), job("b")).decided()
    found = state.ask(drain="clusterqueue/main")
    assert state.told(found) == ["a Evicted", "b Blocked 1>-"]
    assert "HoldAndDrain" in found.affected[0].reason


def test_a_deleted_queue_keeps_what_runs_until_it_ends() -> None:
    state = State(queue(cpu=1), job("a"), job("b")).decided()
    assert state.told(state.ask(delete="clusterqueue/main")) == ["b Blocked 1>-"]
    assert state.told(state.ask(delete="job/default/a")) == ["a Deleted", "b Starts 1>- default"]


def test_a_queue_that_leaves_its_cohort_takes_its_quota_along() -> None:
    cohort = {"cohortName": "team", "preemption": "{reclaimWithinCohort: Any}"}
    state = State(queue("one", 2, **cohort), queue("two", 0, **cohort), job("a", 2, queue="two"), job("b", 2, "two"))
    found = state.decided().ask(set="clusterqueue/one.cohortName=")
    # Both keep what they have, and nothing is left to borrow for the other.
    assert state.told(found) == ["b NeverStarts 1>1"]


FAIR = "fairSharing: {preemptionStrategies: [LessThanOrEqualToFinalShare, LessThanInitialShare]}\n"


def test_a_larger_weight_preempts_by_share() -> None:
    cohort = {"cohortName": "team", "preemption": "{reclaimWithinCohort: Any}"}
    queues = (queue("pool", 4, cohortName="team"), queue("one", 0, **cohort), queue("two", 0, **cohort))
    jobs = [job(f"{name}{number}", 1, name) for number in range(4) for name in ("one", "two")]
    state = State(configuration(FAIR), *queues, *jobs).decided()
    assert state.told(state.ask(set="clusterqueue/one.fairSharing.weight=1")) == []
    found = state.ask(set="clusterqueue/two.fairSharing.weight=3")
    started = [one for one in state.told(found) if "Starts" in one]
    evicted = [one for one in found.affected if one.effect is Effect.EVICTED]
    assert (len(started), len(evicted)) == (1, 1)
    assert evicted[0].reason == "belongs to a ClusterQueue whose share of the borrowed quota is smaller"


def test_settings_of_flavors_limits_and_cohorts() -> None:
    cohort = {"cohortName": "team"}
    state = State(queue("one", 2, **cohort), queue("two", 0, **cohort), job("a", 2, queue="two"))
    assert state.told(state.ask(set="clusterqueue/two.cpu.borrowingLimit=1")) == ["a NeverStarts ->1"]
    found = state.ask(set="clusterqueue/one.flavor/default.cpu.lendingLimit=1")
    assert state.told(found) == ["a NeverStarts ->1"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"set": "nonsense"}, "there is no value; write it as in clusterqueue/main.cpu=64"),
        ({"set": "pod/x.cpu=1"}, "begin with a kind and a name"),
        ({"set": "clusterqueue/main=1"}, "name a field after a dot, as in clusterqueue/main.cpu=64"),
        ({"set": "clusterqueue/mian.cpu=1"}, "there is no ClusterQueue mian; did you mean main?"),
        ({"set": "clusterqueue/main.cpus=1"}, "there is no cpus in it; did you mean cpu?"),
        ({"set": "clusterqueue/main.zzzzzzzzz=1"}, "it has cpu, flavor/default.cpu"),
        (
            {"set": "clusterqueue/main.cpu=lots"},
            "--set clusterqueue/main.cpu=lots: nominalQuota: 'lots' is not a quantity; write a number with",
        ),
        (
            {"set": "queue/default/isle.cpu=8"},
            "there is no LocalQueue default/isle; did you mean clusterqueue/isle.cpu=8?",
        ),
        ({"set": "queue/main.cpu=8"}, "a LocalQueue has no cpu; quotas are of its ClusterQueue: clusterqueue/main.cpu"),
        ({"set": "clusterqueue/main.stopPolicy=Sometimes"}, "spec.stopPolicy"),
        ({"set": "clusterqueue/main.cpu.borrowingLimit=1"}, "borrowingLimit"),
        ({"delete": "clusterqueue/no"}, "there is no ClusterQueue no"),
        ({"delete": "sandwich"}, "write a kind and a name"),
        ({"drain": "job/default/a"}, "write clusterqueue/NAME"),
    ],
)
def test_nonsense_is_refused_with_what_to_write(given: dict[str, str], words: str) -> None:
    without_local_queue = queue("isle").rpartition("---\n")[0]
    with pytest.raises(RefusedError) as caught:
        State(queue(), without_local_queue).ask(**given)
    assert words in str(caught.value)


def test_a_job_whose_name_exists_is_refused_unless_the_other_is_deleted() -> None:
    state = State(queue(cpu=1), job("a"), job("b")).decided()
    with pytest.raises(
        RefusedError, match="already exists; use another name, or delete it first: --delete job/default/a"
    ):
        state.ask(job("a", 1))
    found = state.ask(job("a", 1), delete="job/default/a")
    assert state.told(found)[0] != "a Deleted"


def test_a_misspelt_queue_of_a_new_job_gets_a_suggestion() -> None:
    [found] = State(queue()).ask(job("new", queue="mian")).affected
    assert found.reason.endswith("; did you mean main?")


def test_jobs_are_not_listed_that_only_get_a_hopeless_one_before_them() -> None:
    jobs = (priority("high", 9), job("a"), job("b"))
    state = State(queue(cpu=1), *jobs).decided()
    assert state.told(state.ask(job("new", 9, klass="high"))) == ["new NeverStarts ->1"]
    strict = State(queue(cpu=1, queueingStrategy="StrictFIFO"), *jobs).decided()
    assert strict.told(strict.ask(job("new", 9, klass="high"))) == ["new NeverStarts ->1", "b Moves 1>2"]


def test_a_preview_of_a_namespace_is_about_its_new_jobs() -> None:
    state = State(queue(cpu=1), job("a")).decided()
    assert state.told(state.ask(job("new"), namespace="default")) == ["new Waits ->1"]
    # A Workload could have any priority, and say that it holds quota.
    with pytest.raises(RefusedError, match="is not a Job"):
        state.ask(workload(""), namespace="default")


@pytest.mark.parametrize(
    ("manifest", "given"),
    [
        pytest.param(queue("mian"), {}, id="a queue"),
        pytest.param(job("new").replace("name: new", "name: new, namespace: other"), {}, id="another namespace"),
        pytest.param("", {"set": "clusterqueue/mian.cpu=1"}, id="set"),
        pytest.param("", {"delete": "workload/other/w"}, id="delete"),
        pytest.param("", {"drain": "clusterqueue/mian"}, id="drain"),
    ],
)
def test_a_preview_of_a_namespace_says_nothing_about_what_others_use(manifest: str, given: dict[str, str]) -> None:
    with pytest.raises(RefusedError) as caught:
        State(queue()).ask(*filter(None, [manifest]), namespace="default", **given)
    text = str(caught.value)
    assert "clusterpreviews" in text
    assert "did you mean" not in text
    assert "there is no" not in text


@given(st.lists(st.integers(0, 5), max_size=12), st.integers(0, 8), st.booleans())
def test_without_changes_nothing_differs(sizes: list[int], cpu: int, decided: bool) -> None:
    within = queue(cpu=cpu, preemption="{withinClusterQueue: LowerPriority}")
    jobs = [job(f"j{index}", size, klass="high" if size % 2 else "") for index, size in enumerate(sizes)]
    state = State(within, priority("high", 9), *jobs)
    if decided:
        state.decided()
    for knowledge in (None, RunTimeKnowledge(Learned(), {})):
        found = preview(checkpoint(state.engine), Changes(), NOW, knowledge)
        assert (found.affected, found.queues, found.more) == ((), (), {})
