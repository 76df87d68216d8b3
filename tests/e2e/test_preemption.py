"""Who has to leave for whom, and how does one come back? (KEP-83)"""

from tests.e2e.job import Job
from tests.e2e.team import Queue, Team
from tests.facts import covers
from tests.plane.client import condition

WITHIN = {"withinClusterQueue": "LowerPriority"}
RECLAIM = {"reclaimWithinCohort": "Any"}


def preempted_for(preemptor: Job, why: str, queue: Queue, victims_queue: Queue, cohort: str = "") -> str:
    """What a victim is told."""
    uid = preemptor.workload()["metadata"]["uid"]
    root = f"/{cohort}" if cohort else ""
    return (
        f"Preempted to accommodate a workload (UID: {uid}, JobUID: {preemptor.uid}) due to {why}; "
        f"preemptor path: {root}/{queue.cluster_queue}; preemptee path: {root}/{victims_queue.cluster_queue}"
    )


@covers("KEP83-3", "KEP83-31", "KEP83-33", "KEP83-26", "L40", "L26", "L127")
def test_a_job_of_higher_priority_displaces_a_running_one_which_comes_back(team: Team) -> None:
    low, high = team.priority("low", 1), team.priority("high", 10)
    queue = team.queue(cpu=2, preemption=WITHIN)
    victim = queue.job("victim", pods=2, priority=low)
    victim.runs()
    urgent = queue.job("urgent", pods=2, priority=high)
    message = preempted_for(urgent, "prioritization in the ClusterQueue", queue, queue)
    tree = victim.is_evicted("Preempted", message)
    assert condition(tree, "Preempted")["reason"] == "InClusterQueue"
    assert condition(tree, "Preempted")["message"] == message
    urgent.runs()
    victim.event("Stopped", message)
    told = f"preempted for Job urgent (Workload {urgent.workload_name}), which goes before it in {queue.cluster_queue}"
    assert victim.event("PreemptedFor", told)["reportingController"] == "pykueue"
    victim.workload_event("EvictedDueToPreempted", message)
    priorities = (
        "preemptor effective priority: 10 (base: 10, boost: 0); preemptee effective priority: 1 (base: 1, boost: 0)"
    )
    victim.workload_event("Preempted", f"{message}; {priorities}")
    victim_key, victim_uid = f"{team.namespace}/{victim.workload_name}", tree["metadata"]["uid"]
    urgent.workload_event(
        "PreemptedWorkload",
        f"Preempted workload {victim_key} (UID: {victim_uid}) in ClusterQueue {queue.cluster_queue}; {priorities}",
    )
    victim.shows("Requeued", True, "Preempted", message)
    victim.waits("WaitingForQuota")
    urgent.ends()
    urgent.finishes()
    tree = victim.runs()
    assert condition(tree, "Evicted")["message"] == f"Previously: {message}"
    assert condition(tree, "Preempted")["status"] == "False"
    observed = [condition(tree, kind).get("observedGeneration") for kind in ("Evicted", "Preempted")]
    assert observed == [tree["metadata"]["generation"]] * 2
    victim.ends()
    victim.finishes()


def test_the_preemptions_for_one_job_are_one_event_with_a_series(team: Team) -> None:
    low, high = team.priority("low", 1), team.priority("high", 10)
    queue = team.queue(cpu=4, preemption=WITHIN)
    victims = [queue.job(f"victim-{number}", priority=low) for number in range(4)]
    for victim in victims:
        victim.runs()
    urgent = queue.job("urgent", cpu=4, priority=high)
    urgent.runs()

    def counts() -> list[int]:
        found = team.events(urgent.workload_name, "PreemptedWorkload")
        return [(tree.get("series") or {}).get("count", 1) for tree in found]

    # As client-go's recorder does, the count is written at the first repetition and brought up to date later.
    assert team.client.soon(lambda: len(counts()) == 1 and counts()[0] > 1), counts()
    for victim in victims:
        victim.workload_event("Preempted")


@covers("KEP83-1", "KEP83-2", "KEP83-32", "KEP83-8")
def test_story_1_a_queue_takes_back_what_others_borrowed(team: Team) -> None:
    cohort = team.own("all")
    lender = team.queue("lender", cpu=2, cohortName=cohort, preemption=RECLAIM | WITHIN)
    borrower = team.queue("borrower", cpu=2, cohortName=cohort)
    own, borrowed = borrower.job("own", cpu=2), borrower.job("borrowed", cpu=2)
    own.runs()
    borrowed.runs()
    back = lender.job("back", cpu=2)
    back.runs()
    running = [job for job in (own, borrowed) if not condition(job.workload(), "Evicted")]
    assert len(running) == 1
    (victim,) = {own, borrowed} - set(running)
    victim.is_evicted("Preempted", preempted_for(back, "reclamation within the cohort", lender, borrower, cohort))
    assert condition(victim.workload(), "Preempted")["reason"] == "InCohortReclamation"
    told = f"preempted for Job back (Workload {back.workload_name}), which took back what {lender.cluster_queue} owns"
    victim.event("PreemptedFor", told)
    running[0].stays(0.5)


@covers("KEP83-4", "KEP83-5")
def test_a_queue_that_states_no_policy_displaces_nobody(team: Team) -> None:
    low, high = team.priority("low", 1), team.priority("high", 10)
    queue = team.queue(cpu=1)
    running = queue.job("running", priority=low)
    running.runs()
    queue.job("urgent", priority=high).waits("WaitingForQuota")
    running.stays(1)


@covers("KEP83-6")
def test_with_lower_priority_only_borrowers_of_lower_priority_leave(team: Team) -> None:
    low, high = team.priority("low", 1), team.priority("high", 10)
    cohort = team.own("all")
    lender = team.queue("lender", cpu=1, cohortName=cohort, preemption={"reclaimWithinCohort": "LowerPriority"})
    borrower = team.queue("borrower", cpu=0, cohortName=cohort)
    borrowed = borrower.job("borrowed", priority=high)
    borrowed.runs()
    waiting = lender.job("waiting", priority=low)
    waiting.waits("WaitingForQuota")
    borrowed.stays(1)
    waiting.label(priority_class=team.priority("highest", 100))
    waiting.runs()
    borrowed.is_evicted("Preempted")


@covers("KEP83-9")
def test_a_displaced_job_may_come_back_on_another_flavor(team: Team) -> None:
    low, high = team.priority("low", 1), team.priority("high", 10)
    one, two = team.flavor("one"), team.flavor("two")
    queue = team.queue(
        flavors={one: {"cpu": 1}, two: {"cpu": 1}},
        preemption=WITHIN,
        flavorFungibility={"whenCanPreempt": "MayStopSearch", "whenCanBorrow": "MayStopSearch"},
    )
    other = queue.job("other", priority=high)
    other.runs()
    victim = queue.job("victim", priority=low)
    tree = victim.runs()
    assert tree["status"]["admission"]["podSetAssignments"][0]["flavors"] == {"cpu": two}
    urgent = queue.job("urgent", priority=high)
    victim.is_evicted("Preempted")
    tree = urgent.runs()
    assert tree["status"]["admission"]["podSetAssignments"][0]["flavors"] == {"cpu": two}
    other.ends()
    tree = victim.runs()
    assert tree["status"]["admission"]["podSetAssignments"][0]["flavors"] == {"cpu": one}


@covers("L41", "KEP83-10", "KEP83-25")
def test_a_victim_keeps_its_quota_while_its_pods_are_ending(team: Team) -> None:
    low, high = team.priority("low", 1), team.priority("high", 10)
    queue = team.queue(cpu=1, preemption=WITHIN)
    victim = queue.job("victim", priority=low, stop="3s")
    victim.runs()
    with team.recorded() as versions:
        urgent = queue.job("urgent", priority=high)
        urgent.runs()
    # Kubernetes counts a pod that is ending as one that is gone, so the quota is kept for a moment only.
    kept = [tree for tree in versions[victim.workload_name] if condition(tree, "Evicted").get("status") == "True"]
    assert condition(kept[0], "QuotaReserved")["status"] == "True"
    assert condition(kept[-1], "QuotaReserved")["status"] == "False"


@covers("KEP83-23", "KEP83-24", "KEP83-27")
def test_no_more_leave_than_must(team: Team) -> None:
    low, high = team.priority("low", 1), team.priority("high", 10)
    queue = team.queue(cpu=3, preemption=WITHIN)
    jobs = [queue.job(f"low-{number}", priority=low) for number in range(3)]
    for job in jobs:
        job.runs()
    queue.job("urgent", cpu=2, priority=high).runs()
    evicted = [job for job in jobs if condition(job.workload(), "Evicted").get("status") == "True"]
    assert len(evicted) == 2
    (kept,) = [job for job in jobs if job not in evicted]
    kept.stays(0.5)


@covers("KEP83-28")
def test_a_long_run_makes_nobody_a_victim_of_an_equal(team: Team) -> None:
    queue = team.queue(cpu=1, preemption=WITHIN)
    running = queue.job("running")
    running.runs()
    queue.job("equal").waits("WaitingForQuota")
    running.stays(1)


@covers("KEP83-29")
def test_a_strict_head_that_waits_within_its_quota_keeps_its_room_from_borrowers(team: Team) -> None:
    cohort = team.own("all")
    strict = team.queue("strict", cpu=2, cohortName=cohort, queueingStrategy="StrictFIFO")
    other = team.queue("other", cpu=2, cohortName=cohort)
    first = other.job("first", cpu=3)
    first.runs()
    head = strict.job("head", cpu=2)
    head.waits("WaitingForQuota")
    borrower = other.job("borrower", cpu=1)
    borrower.waits("WaitingForQuota")
    first.ends()
    head.runs()
    borrower.runs()
