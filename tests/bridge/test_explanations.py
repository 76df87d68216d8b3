"""Does an answer name only the workloads that its reader may see, and count the others?"""

import msgspec
import pytest

from pykueue.api.explanations import (
    Names,
    PastUseExplanation,
    PastUseStanding,
    QueueExplanation,
    ShareExplanation,
    ShareStanding,
    SparedCandidates,
    WorkloadExplanation,
)
from pykueue.base.units import MICROS
from pykueue.bridge.explanations import (
    local_queues_in,
    named_local_queues,
    named_queue,
    named_workload,
    queue_explanation,
    workload_explanation,
    workloads_in,
)
from pykueue.engine.decisions import PodsNotReady, Wait, WaitReason
from pykueue.engine.facts import Seen
from pykueue.engine.model import (
    AdmissionFairSharing,
    Cohort,
    LocalQueue,
    Namespace,
    Options,
    PodsReadyOptions,
    ShareStrategy,
    Workload,
)
from tests.engine.record.explained import System, queue


def other(system: System, name: str, cpu: int, into: str = "far/main") -> None:
    """A workload of another namespace."""
    made = system.submit(f"far/{name}", "main", cpu)
    system.engine.observe(Seen(msgspec.structs.replace(made, local_queue=into), 5))
    system.settle()


def secretive(key: str) -> str:
    """The names that a user of the namespace lab may see."""
    return key.removeprefix("lab/") if key.startswith("lab/") else ""


@pytest.fixture
def system() -> System:
    """Workloads of the namespaces lab and far in one queue; `waits` of lab is behind both kinds."""
    made = System(Cohort("all"), queue("main", 4, cohort="all"), queue("other", 4, cohort="all"))
    made.see(Namespace("far"), LocalQueue("far/main", "main"))
    other(made, "runs", 7)
    other(made, "first", 6)
    made.submit("second", "main", 5)
    made.submit("waits", "main", 3)
    return made


def told(system: System, name: str) -> WorkloadExplanation:
    return workload_explanation(named_workload(system.why(name), secretive))


def test_who_is_ahead_is_counted_if_it_may_not_be_named(system: System) -> None:
    answer = told(system, "waits")
    assert answer.place is not None
    assert answer.place.ahead == Names(2, ("second",), 1)
    assert "ahead: second and 1 of other namespaces" in answer.tree.children[1].text
    assert b"far/" not in msgspec.json.encode(answer)


def test_whom_it_waits_for_is_counted(system: System) -> None:
    system.engine.observe(Seen(msgspec.structs.replace(workload(system, "far/runs"), max_run=600), 9))
    system.settle()
    answer = told(system, "waits")
    assert answer.remedies[0].kind == "AwaitEnd"
    assert "when 1 of other namespaces will have ended" in answer.remedies[0].text
    assert answer.remedies[0].time


def workload(system: System, key: str) -> Workload:
    found = system.engine.workload(key)
    assert found is not None
    return found


def test_the_preemptor_of_another_namespace_is_not_named() -> None:
    system = System(Cohort("all"), queue("main", 4, cohort="all"), queue("other", 4, cohort="all"))
    system.see(Namespace("far"), LocalQueue("far/other", "other"))
    system.submit("victim", "main", 8)
    other(system, "owner", 4, "far/other")
    system.stop("victim")
    answer = told(system, "victim")
    assert answer.eviction is not None
    assert answer.eviction.preemptor == "a workload of another namespace"
    text = msgspec.json.encode(answer).decode()
    assert "far/" not in text
    assert "preempted for a workload of another namespace, which took back what other owns" in text
    assert "far/owner" in msgspec.json.encode(workload_explanation(system.why("victim"))).decode()
    assert [one.kind for one in answer.decisions][:2] == ["Admit", "Evict"]


def test_those_spared_in_another_namespace_are_counted() -> None:
    system = System(Cohort("all"), queue("main", 4, cohort="all"), queue("other", 4, cohort="all"))
    system.see(Namespace("far"), LocalQueue("far/main", "main"))
    other(system, "old", 2)
    system.submit("mine", "main", 2)
    system.submit("victim", "main", 4)
    system.submit("owner", "other", 4)
    assert "far/old" in [*workloads_in(system.why("victim"))]
    assert "far/old" in [*workloads_in(system.why("owner"))]
    answer = told(system, "victim")
    assert answer.eviction is not None
    assert answer.eviction.other_candidates == 2
    assert answer.eviction.spared == (SparedCandidates("AdmittedEarlier", Names(2, ("mine",), 1)),)
    assert answer.eviction.flavors == (
        "owner chose flavor default for pod set main: needs 4 more cpu in flavor default",
    )
    assert answer.decisions[-1].text.endswith("; spared: mine and 1 of other namespaces")
    preemption = told(system, "owner").preemption
    assert preemption is not None
    assert (preemption.victims, preemption.spared) == (Names(1, ("victim",)), answer.eviction.spared)
    assert b"far/" not in msgspec.json.encode([answer, preemption])
    assert "mine and 1 of other namespaces come later" in msgspec.json.encode(answer).decode()


def test_what_a_preemptor_of_another_namespace_lacks_is_not_told() -> None:
    system = System(Cohort("all"), queue("main", 4, cohort="all"), queue("other", 4, cohort="all"))
    system.see(Namespace("far"), LocalQueue("far/other", "other"))
    system.submit("victim", "main", 8)
    other(system, "owner", 4, "far/other")
    assert system.why("victim").eviction is not None
    found = told(system, "victim").eviction
    assert found is not None
    assert (found.flavors, found.other_candidates, found.victims) == ((), 0, 1)


def test_one_whose_pods_are_not_ready_is_not_named() -> None:
    options = Options(pods_ready=PodsReadyOptions(block_admission=True))
    system = System(queue("main", 4), options=options)
    system.see(Namespace("far"), LocalQueue("far/main", "main"))
    other(system, "slow", 1)
    system.submit("waits", "main", 1)
    assert isinstance(system.why("waits").why, PodsNotReady)
    assert "far/slow" in [*workloads_in(system.why("waits"))]
    text = msgspec.json.encode(told(system, "waits")).decode()
    assert "far/" not in text
    assert "until all pods of a workload of another namespace are ready" in text
    assert "find out why pods of a workload of another namespace are not ready" in text


def test_a_past_reason_is_not_named_either() -> None:
    system = System(queue("main", 4))
    system.submit("runs", "main", 1)
    wait = Wait("lab/runs", WaitReason.WAITING_FOR_PODS_READY, PodsNotReady("far/slow"), system.now)
    system.recent.note(system.engine, [wait])
    assert "far/slow" in [*workloads_in(system.why("runs"))]
    assert b"far/" not in msgspec.json.encode(told(system, "runs"))


def queue_answer(system: System) -> QueueExplanation:
    return queue_explanation(named_queue(system.queue("main"), secretive))


def test_holders_and_the_first_in_line_of_a_queue_are_counted(system: System) -> None:
    answer = queue_answer(system)
    assert (answer.holding, answer.holders, answer.holders_of_other_namespaces) == (1, (), 1)
    assert answer.pending == Names(3, ("second", "waits"), 1)
    assert b"far/" not in msgspec.json.encode(answer)
    assert [one.text for one in answer.tree.children[2].children] == ["1 of other namespaces"]


def test_amounts_are_quantities(system: System) -> None:
    answer = told(system, "waits")
    (row,) = answer.pod_sets[0].flavors
    assert (row.asked, row.nominal, row.used, row.free, row.missing) == ("3", "4", "7", "1", "2")
    assert (row.limited_by, row.obstacle) == ("Cohort all", "Short")
    (quota,) = queue_answer(system).quota
    assert (quota.borrowed, quota.most) == ("3", "8")


def test_shares_are_numbers_for_programs_and_sentences_for_people() -> None:
    fair = Options(fair_sharing=(ShareStrategy.FINAL, ShareStrategy.INITIAL))
    made = System(queue("main", 2, cohort="all"), queue("other", 2, cohort="all", weight=0.5), options=fair)
    for number in range(2):
        made.submit(f"m{number}", "main", 1)
        made.submit(f"o{number}", "other", 1)
    made.submit("first", "main", 1)
    made.submit("waits", "other", 1)
    answer = told(made, "waits")
    assert answer.share == ShareExplanation(ShareStanding("ClusterQueue", "other", 0, "0.5"), 500, ("main",))
    assert msgspec.json.decode(msgspec.json.encode(answer), type=WorkloadExplanation) == answer
    assert "share: ClusterQueue other has 0 (weight 0.5), and would have 0.5 with it" in str(answer.tree)
    about = queue_explanation(made.queue("other"))
    assert about.share == ShareStanding("ClusterQueue", "other", 0, "0.5")
    assert about.siblings == (ShareStanding("ClusterQueue", "main", 0, "1"),)
    assert told(made, "m0").share is None, "only pending workloads have one"


def test_past_use_is_told_without_the_local_queues_of_other_namespaces() -> None:
    used = Options(admission_fair_sharing=AdmissionFairSharing(half_life_micros=300 * MICROS))
    weightless = LocalQueue("lab/none", "main", weight=0.0)
    made = System(queue("main", 1, usage_based=True), weightless, LocalQueue("far/main", "main"), options=used)
    made.see(Namespace("far"))
    made.submit("runs", "main")
    other(made, "first", 1)
    made.submit("waits", "main")
    made.submit("last", "none")
    causes = made.why("waits")
    assert list(local_queues_in(causes)) == ["lab/main", "far/main"]
    answer = workload_explanation(named_local_queues(named_workload(causes, secretive), secretive))
    own = PastUseStanding("main", "0.502307823", "1", 1, "2027-01-15T08:00:01Z")
    assert answer.past_use == PastUseExplanation(own, 1, (), 1)
    assert answer.place is not None
    assert answer.place.turns
    assert b"far/" not in msgspec.json.encode(answer)
    assert msgspec.json.decode(msgspec.json.encode(answer), type=WorkloadExplanation) == answer
    assert "1 LocalQueue of another namespace goes first, with less past use" in str(answer.tree)
    about = queue_explanation(named_local_queues(made.queue("main"), secretive))
    last = PastUseStanding("none", "infinite", "0", 1, "2027-01-15T08:00:00Z")
    assert about.past_use == PastUseExplanation(None, 3, (own, last), 1)
    assert told(made, "runs").past_use is None, "only pending workloads have one"


def test_the_local_queue_that_was_asked_about_is_named_to_everybody() -> None:
    used = Options(admission_fair_sharing=AdmissionFairSharing(half_life_micros=300 * MICROS))
    made = System(queue("main", 1, usage_based=True), options=used)
    found = queue_explanation(named_local_queues(made.local_queue("main"), lambda key: ""))
    assert found.past_use == PastUseExplanation(PastUseStanding("main", "0", time="2027-01-15T08:00:00Z"))
