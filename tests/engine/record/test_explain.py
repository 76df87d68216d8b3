"""Can people act on what we say? Every decision and every reason has a sentence, and most say what would help."""

from typing import get_args

import pytest

from pykueue.base.units import Instant
from pykueue.engine.decisions import (
    Admit,
    AfterEviction,
    Bypassed,
    Deactivate,
    DeactivationCause,
    Decision,
    DeferredFit,
    Evict,
    EvictionReason,
    FailedChecks,
    FlavorMissing,
    GatedBy,
    GatesCleared,
    Inactive,
    Invalid,
    Mismatch,
    NamespaceMismatch,
    NamespaceMissing,
    NoLongerFits,
    NotNominated,
    Obstacle,
    OverCapacity,
    Overlap,
    PodSetObstacles,
    PodsNotReady,
    PreemptionReason,
    Queued,
    QueueInactive,
    QueueMissing,
    Requeue,
    RequeueReason,
    Reserve,
    Short,
    Unassigned,
    Uncovered,
    Unreserve,
    Untolerated,
    Wait,
    WaitReason,
    Why,
)
from pykueue.engine.model import Admission, Assignment, PodSet, Workload
from pykueue.engine.record.explain import (
    because,
    explain,
    headline,
    in_short,
    never,
    obstacle,
    preempted_for,
    rank,
    reason,
    what_helps,
)
from pykueue.engine.record.partial import PodCounts

NOW = Instant(0)
KEY = "default/w"
ADMISSION = Admission(
    "main", (Assignment("main", (("cpu", "a"), ("memory", "a")), (("memory", 1024), ("cpu", 4000)), 2),)
)


def asks(cpu: int) -> Workload:
    return Workload(KEY, "u", "default/q", NOW, (PodSet("main", 2, (("cpu", cpu // 2),)),))


def lacking(*obstacles: Obstacle, victims: int = 0, inadequate: bool = False) -> Unassigned:
    return Unassigned((PodSetObstacles("main", obstacles),), victims, inadequate)


WHYS: tuple[tuple[Why, str, str], ...] = (
    (
        lacking(Short("a", "cpu", 2000)),
        "needs 2 more cpu in flavor a",
        "it can start when work using 2 cpu of flavor a",
    ),
    (QueueMissing("LocalQueue", "q"), "there is no LocalQueue q", "create LocalQueue q"),
    (
        QueueInactive("ClusterQueue", "c", why="is stopped"),
        "takes nothing now: is stopped",
        "what stops ClusterQueue c",
    ),
    (NamespaceMissing("n"), "there is no namespace n", "create namespace n"),
    (NamespaceMismatch("c"), "does not serve its namespace", "spec.namespaceSelector of ClusterQueue c"),
    (Invalid("bad cpu"), "can never run as it is: bad cpu", "correct the pod template"),
    (GatedBy("x.io/y"), "held back by x.io/y", "admission-gated-by"),
    (GatesCleared(), "it is queued", ""),
    (Inactive(), "deactivated", "set spec.active to true"),
    (FailedChecks(), "AdmissionCheck", "Pending again"),
    (Queued(), "it is queued", ""),
    (Bypassed(), "with the same requests was tried and did not fit", ""),
    (Overlap(), "leaving for another", "when that work has left"),
    (DeferredFit(), "once the work that others have preempted has left", "when that work has left"),
    (NoLongerFits(), "took the room", "tried again"),
    (PodsNotReady("default/slow"), "all pods of default/slow", "why pods of default/slow"),
    (AfterEviction("Preempted to fit"), "evicted (preempted to fit)", ""),
)


@pytest.mark.parametrize(("why", "says", "helps"), [pytest.param(*row, id=type(row[0]).__name__) for row in WHYS])
def test_every_reason_has_a_sentence_and_says_what_helps(why: Why, says: str, helps: str) -> None:
    assert says in reason(why)
    assert helps in ", or ".join(what_helps(why))
    assert bool(what_helps(why)) is bool(helps)


def test_the_table_knows_every_reason() -> None:
    assert {type(why) for why, _, _ in WHYS} == set(get_args(Why))


@pytest.mark.parametrize(
    ("what", "says"),
    [
        pytest.param(Short("a", "cpu", 500), "needs 500m more cpu in flavor a", id="short"),
        pytest.param(OverCapacity("a", "cpu", 1000, 3000, 2000), "asks 4 cpu, and flavor a can never", id="too large"),
        pytest.param(Untolerated("a", "k", "v", "NoSchedule"), "taint k=v:NoSchedule of flavor a", id="taint"),
        pytest.param(Mismatch("a"), "nodes that flavor a does not have", id="node selector"),
        pytest.param(FlavorMissing("a"), "flavor a does not exist", id="no flavor"),
        pytest.param(Uncovered("gpu"), "gpu, which its ClusterQueue does not cover", id="not covered"),
        pytest.param(NotNominated("a", "cpu"), "was not the choice for cpu", id="not nominated"),
    ],
)
def test_every_obstacle_has_a_sentence(what: Obstacle, says: str) -> None:
    assert says in obstacle(what)


@pytest.mark.parametrize(
    ("reason", "obstacles", "says"),
    [
        pytest.param(
            "ExceedsMaxQuota",
            [OverCapacity("a", "cpu", 0, 9000, 4000)],
            "can never start: asks for 9 cpu, this queue can have 4 at most",
            id="too large",
        ),
        pytest.param(
            "ExceedsMaxQuota",
            [OverCapacity("a", "cpu", 1000, 8000, 4000), OverCapacity("b", "cpu", 1000, 8000, 6000)],
            "can never start: asks for 9 cpu, this queue can have 6 at most of one flavor",
            id="in every flavor",
        ),
        pytest.param(
            "ExceedsMaxQuota",
            [Short("a", "cpu", 1000), OverCapacity("b", "gpu", 0, 3, 2)],
            "can never start: asks for 3 gpu, this queue can have 2 at most",
            id="in another group of resources",
        ),
        pytest.param(
            "NoMatchingFlavor",
            [Mismatch("a"), Uncovered("gpu")],
            "can never start: selects nodes that flavor a does not have; "
            "asks for gpu, which its ClusterQueue does not cover",
            id="no flavor",
        ),
        pytest.param("Pending", [OverCapacity("a", "cpu", 0, 2000, 1000)], "asks for 2 cpu", id="coarse reasons"),
        pytest.param("WaitingForQuota", [Short("a", "cpu", 1), OverCapacity("b", "cpu", 0, 2, 1)], "", id="it can"),
    ],
)
def test_what_can_never_start_says_so(reason: str, obstacles: list[Obstacle], says: str) -> None:
    told = never(reason, lacking(*obstacles))
    assert says in told
    assert bool(told) is bool(says)
    assert never(reason, lacking(*obstacles, victims=1)) == ""


@pytest.mark.parametrize(
    ("least", "obstacles", "says", "short"),
    [
        pytest.param(
            1,
            [OverCapacity("a", "cpu", 0, 10000, 4000)],
            "",
            "waits for quota for at least 1 of its 10 pods",
            id="one pod would fit",
        ),
        pytest.param(
            5,
            [OverCapacity("a", "cpu", 0, 10000, 4000)],
            "can never start: even with the fewest pods it asks for 5 cpu, this queue can have 4 at most",
            None,
            id="five pods would not",
        ),
        pytest.param(
            1,
            [Uncovered("gpu")],
            "can never start: asks for gpu, which its ClusterQueue does not cover",
            None,
            id="any",
        ),
    ],
)
def test_what_may_start_with_fewer_pods_is_judged_by_the_fewest(
    least: int, obstacles: list[Obstacle], says: str, short: str | None
) -> None:
    fewer = {"main": PodCounts(least, 10)}
    assert never("ExceedsMaxQuota", lacking(*obstacles), fewer) == says
    assert short is None or in_short(lacking(*obstacles), fewer) == short


def test_a_pod_set_after_one_that_may_shrink_is_judged_by_a_lower_bound() -> None:
    over = lacking(OverCapacity("a", "cpu", 8000, 3000, 4000))
    assert never("ExceedsMaxQuota", over)
    assert never("ExceedsMaxQuota", over, {"workers": PodCounts(1, 8)}) == ""
    assert "asks for 5 cpu" in never("ExceedsMaxQuota", over, {"workers": PodCounts(2, 8)})


@pytest.mark.parametrize(
    ("clause", "says"),
    [
        pytest.param(PreemptionReason.IN_QUEUE, "goes before it in blue", id="in its queue"),
        pytest.param(PreemptionReason.RECLAIM, "took back what blue owns", id="taken back"),
        pytest.param(
            PreemptionReason.RECLAIM_WHILE_BORROWING,
            "has priority over it, and borrows its room for blue",
            id="borrowed",
        ),
    ],
)
def test_a_preemption_names_for_whom_it_was(clause: PreemptionReason, says: str) -> None:
    assert preempted_for("Job report", clause, "blue") == f"preempted for Job report, which {says}"


DECISIONS: tuple[tuple[Decision, str, str], ...] = (
    (Reserve(KEY, ADMISSION, 0, NOW), "holds quota", "takes 4 cpu and 1Ki memory of flavor a in ClusterQueue main"),
    (Admit(KEY, ADMISSION, 1, NOW), "starts", "borrowed from its cohort"),
    (Admit(KEY, ADMISSION, 0, NOW, reserved_before=True), "starts", "AdmissionChecks are ready"),
    (
        Evict(KEY, EvictionReason.PREEMPTED, "m", NOW, by="default/p", preemption=PreemptionReason.IN_QUEUE),
        "is preempted",
        "default/p goes before it in the same ClusterQueue",
    ),
    (
        Evict(KEY, EvictionReason.PREEMPTED, "m", NOW, by="default/p", preemption=PreemptionReason.RECLAIM),
        "is preempted",
        "default/p takes back quota of its own ClusterQueue that this one's ClusterQueue had borrowed",
    ),
    (
        Evict(KEY, EvictionReason.PREEMPTED, "m", NOW, preemption=PreemptionReason.RECLAIM_WHILE_BORROWING),
        "is preempted",
        "priority over this one, whose ClusterQueue borrows",
    ),
    (
        Evict(KEY, EvictionReason.PODS_READY_TIMEOUT, "m", NOW, requeue_count=2, requeue_at=Instant(60_000_000)),
        "is evicted",
        "(attempt 2); it is queued again at 1970-01-01T00:01:00Z",
    ),
    (Evict(KEY, EvictionReason.PODS_READY_TIMEOUT, "m", NOW, "WaitForRecovery"), "is evicted", "ready again in time"),
    (Evict(KEY, EvictionReason.ADMISSION_CHECK, "m", NOW), "is evicted", "another try; it is queued again at once"),
    (Evict(KEY, EvictionReason.QUEUE_STOPPED, "m", NOW), "is evicted", "ClusterQueue is stopped"),
    (Evict(KEY, EvictionReason.LOCAL_QUEUE_STOPPED, "m", NOW), "is evicted", "LocalQueue is stopped"),
    (Evict(KEY, EvictionReason.DEACTIVATED, "m", NOW), "is evicted", "set spec.active to true"),
    (Unreserve(KEY, WaitReason.PENDING, AfterEviction("m"), NOW, True), "gives quota back", "its pods are gone"),
    (Unreserve(KEY, WaitReason.SUSPENDED, QueueMissing("LocalQueue", "q"), NOW), "gives quota back", "no LocalQueue q"),
    (Requeue(KEY, RequeueReason.BACKOFF_FINISHED, NOW), "queues again", "keep away is over"),
    (Requeue(KEY, RequeueReason.REACTIVATED, NOW), "queues again", "activated again"),
    (Requeue(KEY, RequeueReason.QUEUE_RESTARTED, NOW), "queues again", "ClusterQueue runs again"),
    (Requeue(KEY, RequeueReason.LOCAL_QUEUE_RESTARTED, NOW), "queues again", "LocalQueue runs again"),
    (Deactivate(KEY, DeactivationCause.REQUEUE_LIMIT, "m", NOW), "is deactivated", "backoffLimitCount"),
    (Deactivate(KEY, DeactivationCause.MAX_RUN, "m", NOW), "is deactivated", "maximum execution time"),
    (Deactivate(KEY, DeactivationCause.ADMISSION_CHECK, "m", NOW), "is deactivated", "rejected"),
    (Deactivate(KEY, None, "", NOW), "is deactivated", "retry state is cleared"),
    (Wait(KEY, WaitReason.PENDING_EVALUATION, Queued(), NOW), "waits", "it is queued"),
)


@pytest.mark.parametrize(("decision", "what", "why"), DECISIONS)
def test_every_decision_has_a_headline_and_a_reason(decision: Decision, what: str, why: str) -> None:
    assert headline(decision) == what
    assert why in because(decision)
    assert explain(decision).startswith(f"{what}: ")


def test_the_table_knows_every_decision() -> None:
    assert {type(decision) for decision, _, _ in DECISIONS} == set(get_args(Decision))


def test_a_wait_says_what_is_missing_and_what_would_help() -> None:
    wait = Wait(KEY, WaitReason.WAITING_FOR_QUOTA, lacking(Short("default", "cpu", 2000)), NOW)
    assert explain(wait, asks(4000)) == (
        "waits: needs 2 more cpu in flavor default (asks 4; the queue may take 2 now); "
        "it can start when work using 2 cpu of flavor default finishes, or if it asks for less"
    )


def test_room_on_its_way_is_said_first() -> None:
    why = lacking(Short("a", "cpu", 1000), victims=2)
    assert reason(why, asks(4000)).startswith("room is on its way, 2 preempted workloads yet to leave")
    assert what_helps(why) == ("it can start when they have stopped",)


def test_that_preemption_is_no_help_is_said() -> None:
    assert reason(lacking(Short("a", "cpu", 1000), inadequate=True)).endswith("preemption would not help")


def test_the_nearest_obstacles_come_first_and_the_rest_is_counted() -> None:
    found: tuple[Obstacle, ...] = (
        Mismatch("m"),
        Short("far", "cpu", 9000),
        OverCapacity("o", "cpu", 0, 5000, 4000),
        Short("near", "cpu", 1000),
        FlavorMissing("f"),
    )
    text = reason(lacking(*found))
    assert text.index("flavor near") < text.index("flavor far") < text.index("flavor o")
    assert text.endswith(", and 2 more obstacles")
    assert max(found, key=rank) == FlavorMissing("f")


def test_each_short_resource_is_needed_but_any_flavor_will_do() -> None:
    why = lacking(Short("a", "cpu", 2000), Short("b", "cpu", 1000), Short("a", "memory", 1 << 30))
    (first, second) = what_helps(why)
    assert first == "it can start when work using 1 cpu of flavor b and 1Gi memory of flavor a finishes"
    assert second == "if it asks for less"


def test_several_pod_sets_are_named() -> None:
    parts = tuple(PodSetObstacles(name, (Short("a", "cpu", 1000),)) for name in ("driver", "workers"))
    assert reason(Unassigned(parts)) == (
        "pod set driver needs 1 more cpu in flavor a; pod set workers needs 1 more cpu in flavor a"
    )
