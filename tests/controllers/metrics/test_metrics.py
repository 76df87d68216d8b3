"""Do the metrics say what happened, under Kueue's names, and go with their queue or cohort?"""

import math
from collections.abc import Generator
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from pykueue.api.config.file import default_configuration, read_configuration
from pykueue.controllers.metrics import families
from pykueue.controllers.metrics.families import Kind
from pykueue.controllers.metrics.metrics import Metrics
from pykueue.controllers.metrics.series import Labels, Owner
from pykueue.engine.decisions import Overlap, WaitReason
from pykueue.engine.entries import Entry, Postponed, Replanned, Started, TreeCycle
from pykueue.engine.pending import Outcome
from pykueue.kube.port import ADMISSION_CHECKS, CLUSTER_QUEUES, COHORTS, JOBS, LOCAL_QUEUES, WORKLOADS
from tests.builders import condition
from tests.controllers.running import TEAM, Running, running
from tests.prometheus import Page

WITH_RESOURCES = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
leaderElection: {leaderElect: false}
metrics: {enableClusterQueueResources: true}
"""
FAIR = "fairSharing: {preemptionStrategies: [LessThanOrEqualToFinalShare]}\n"
WITH_SELECTOR = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
metrics: {localQueueMetrics: {enable: true, localQueueSelector: {matchLabels: {shown: "yes"}}}}
"""
WITHOUT_LOCAL = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
metrics: {localQueueMetrics: {enable: false}}
"""
MAIN = 'cluster_queue="main",replica_role="leader"'
HOSTILE = ' "\\" \\n \n\r\t\\ {a="b",le="1"} 7 # HELP é 🚀\u2028\\'
LABELS = 'cluster_queue="main",priority_class="",replica_role="leader"'


def page(manager: Running) -> Page:
    return Page(manager.metrics.page().decode())


async def test_the_life_of_a_workload_is_counted() -> None:
    manager = Running()
    manager.queues("main", cpu="1", cohort="all")
    async with running(manager):
        manager.workload("first", "main")
        await manager.clock.advance(3)
        manager.workload("second", "main")
        await manager.clock.advance(10)
        found = page(manager)
        assert found[f"kueue_quota_reserved_workloads_total{{{LABELS}}}"] == 1
        assert found[f"kueue_admitted_workloads_total{{{LABELS}}}"] == 1
        assert found['kueue_pending_workloads{cluster_queue="main",status="inadmissible",replica_role="leader"}'] == 1
        assert found['kueue_pending_workloads{cluster_queue="main",status="active",replica_role="leader"}'] == 0
        assert found[f"kueue_admitted_active_workloads{{{MAIN}}}"] == 1
        assert found[f"kueue_reserving_active_workloads{{{MAIN}}}"] == 1
        waiting = 'cluster_queue="main",reason="NoReservation",underlying_cause="WaitingForQuota"'
        assert found[f'kueue_unadmitted_workloads{{{waiting},replica_role="leader"}}'] == 1
        assert found['kueue_cohort_subtree_admitted_active_workloads{cohort="all",replica_role="leader"}'] == 1
        manager.change_condition("first", "PodsReady", "True", "Started")
        await manager.clock.advance(20)
        manager.change_condition("first", "Finished", "True", "Succeeded")
        await manager.clock.advance(5)
        found = page(manager)
        assert found[f"kueue_finished_workloads_total{{{LABELS}}}"] == 1
        assert found[f"kueue_finished_workloads{{{MAIN}}}"] == 1
        assert found[f"kueue_admitted_workloads_total{{{LABELS}}}"] == 2
        assert found[f"kueue_ready_wait_time_seconds_count{{{LABELS}}}"] == 1
        assert found[f"kueue_ready_wait_time_seconds_sum{{{LABELS}}}"] == pytest.approx(13, abs=1)
        assert found[f"kueue_admitted_until_ready_wait_time_seconds_sum{{{LABELS}}}"] == pytest.approx(13, abs=1)
        assert found[f"kueue_execution_time_seconds_sum{{{LABELS}}}"] == pytest.approx(33, abs=1)
        assert found[f"kueue_admission_wait_time_seconds_sum{{{LABELS}}}"] == pytest.approx(30, abs=1)
        bucket = 'cluster_queue="main",le="40",priority_class="",replica_role="leader"'
        assert found[f"kueue_admission_wait_time_seconds_bucket{{{bucket}}}"] == 2
        assert found[f"kueue_quota_reserved_wait_time_seconds_count{{{LABELS}}}"] == 2
        assert not any(name.startswith("kueue_admission_checks_wait_time_seconds_sum") for name in found)
        cohort = 'kueue_cohort_subtree_admitted_workloads_total{cohort="all",priority_class="",replica_role="leader"}'
        assert found[cohort] == 2
        local = 'name="main",namespace="team",priority_class="",replica_role="leader"'
        assert found[f"kueue_local_queue_admitted_workloads_total{{{local}}}"] == 2
        assert found[f"kueue_local_queue_finished_workloads_total{{{local}}}"] == 1
        wide = [name for name in found if 'le="20480"' in name and "admission_wait_time" in name]
        assert {name.partition("{")[0] for name in wide} == {"kueue_admission_wait_time_seconds_bucket"}
        assert found['kueue_admission_attempts_total{result="success",replica_role="leader"}'] >= 2


async def test_a_change_after_the_end_counts_for_nothing() -> None:
    manager = Running()
    manager.queues("main", cpu="1")
    async with running(manager):
        manager.workload("first", "main")
        await manager.clock.advance(3)
        manager.change_condition("first", "Finished", "True", "Succeeded")
        await manager.clock.advance(5)
        before = page(manager)
        manager.store.put(WORKLOADS, "first", "team", metadata={"finalizers": []})
        manager.change_condition("first", "PodsReady", "False", "WaitForStart")
        await manager.clock.advance(5)
        found = page(manager)
        for name in ("admitted_workloads_total", "quota_reserved_workloads_total", "finished_workloads_total"):
            assert found[f"kueue_{name}{{{LABELS}}}"] == before[f"kueue_{name}{{{LABELS}}}"] == 1
        assert found[f"kueue_finished_workloads{{{MAIN}}}"] == 1
        manager.store.remove(WORKLOADS, "first", "team")
        await manager.clock.advance(5)
        assert page(manager)[f"kueue_finished_workloads{{{MAIN}}}"] == 0


async def test_an_eviction_is_counted_with_its_reason_and_how_long_it_took() -> None:
    manager = Running()
    manager.queues("main", cpu="1")
    manager.workload("w", "main", spec={"priorityClassRef": REF, "priority": 1})
    async with running(manager):
        await manager.clock.advance(2)
        manager.change_condition("w", "PodsReady", "True", "Started")
        await manager.clock.advance(10)
        manager.store.put(WORKLOADS, "w", TEAM, spec={"active": False})
        await manager.clock.advance(4)
        manager.pump.stopped(f"{TEAM}/w")
        await manager.clock.advance(1)
        found = page(manager)
        why = 'cluster_queue="main",reason="Deactivated",underlying_cause=""'
        assert found[f'kueue_evicted_workloads_total{{{why},priority_class="high",replica_role="leader"}}'] == 1
        assert found[f'kueue_evicted_workloads_once_total{{{why},priority_class="high",replica_role="leader"}}'] == 1
        ready = f'kueue_pods_ready_to_evicted_time_seconds_sum{{{why},replica_role="leader"}}'
        assert found[ready] == pytest.approx(10, abs=1)
        took = 'kueue_workload_eviction_latency_seconds_sum{cluster_queue="main",reason="Deactivated"'
        assert found[f'{took},replica_role="leader"}}'] == pytest.approx(4, abs=1)
        local = 'name="main",namespace="team",reason="Deactivated",underlying_cause="",priority_class="high"'
        assert found[f'kueue_local_queue_evicted_workloads_total{{{local},replica_role="leader"}}'] == 1


REF = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}


async def test_waiting_for_checks_is_measured_from_the_reservation() -> None:
    manager = Running()
    manager.queues("main", admissionChecksStrategy={"admissionChecks": [{"name": "budget"}]})
    active = {"conditions": [condition("Active")]}
    manager.store.put(ADMISSION_CHECKS, "budget", spec={"controllerName": "x.y/z"}, status=active)
    manager.workload("w", "main")
    async with running(manager):
        await manager.clock.advance(30)
        unsatisfied = 'cluster_queue="main",reason="UnsatisfiedAdmissionChecks",underlying_cause=""'
        found = page(manager)
        assert found[f'kueue_unadmitted_workloads{{{unsatisfied},replica_role="leader"}}'] == 1
        assert f"kueue_admitted_workloads_total{{{LABELS}}}" not in found
        ready = {"name": "budget", "state": "Ready", "message": "", "lastTransitionTime": "2027-01-15T08:00:30Z"}
        manager.store.put(WORKLOADS, "w", TEAM, status={"admissionChecks": [ready]})
        await manager.clock.advance(1)
        found = page(manager)
        assert found[f"kueue_admission_checks_wait_time_seconds_sum{{{LABELS}}}"] == pytest.approx(30, abs=1)
        assert f'kueue_unadmitted_workloads{{{unsatisfied},replica_role="leader"}}' not in found


async def test_series_go_with_their_queue_and_their_cohort() -> None:
    manager = Running()
    manager.queues("main", "other", cohort="all")
    manager.store.put(COHORTS, "all", spec={})
    manager.workload("w", "main")
    manager.workload("o", "other")
    async with running(manager):
        await manager.clock.advance(2)
        before = page(manager)
        assert any('cluster_queue="main"' in name for name in before)
        assert any('cohort="all"' in name for name in before)
        for name in ("w", "o"):
            manager.change_condition(name, "Finished", "True", "Succeeded")
        manager.store.remove(CLUSTER_QUEUES, "main")
        manager.store.remove(LOCAL_QUEUES, "main", TEAM)
        await manager.clock.advance(3)
        after = page(manager)
        assert not any('"main"' in name for name in after)
        assert any('cluster_queue="other"' in name for name in after)
        manager.store.remove(COHORTS, "all")
        await manager.clock.advance(3)
        still = [name for name in page(manager) if 'cohort="all"' in name]
        assert any(name.startswith("kueue_cohort_subtree_admitted_active_workloads") for name in still)
        assert not any(name.startswith("kueue_cohort_info") for name in still)
        manager.store.put(CLUSTER_QUEUES, "other", spec={"cohortName": None})
        await manager.clock.advance(3)
        assert not any('"all"' in name for name in page(manager))


async def test_what_queues_own_and_use_is_shown_when_asked_for() -> None:
    manager = Running(read_configuration(WITH_RESOURCES))
    manager.queues("main", cpu="1500m", cohort="all")
    manager.workload("w", "main")
    manager.workload("waits", "main")
    async with running(manager):
        await manager.clock.advance(2)
        found = page(manager)
        place = 'cohort="all",cluster_queue="main",flavor="default",resource="cpu",replica_role="standalone"'
        assert found[f"kueue_cluster_queue_nominal_quota{{{place}}}"] == 1.5
        assert found[f"kueue_cluster_queue_resource_reservation{{{place}}}"] == 1
        assert found[f"kueue_cluster_queue_resource_usage{{{place}}}"] == 1
        assert found[f"kueue_cluster_queue_borrowing_limit{{{place}}}"] == float("inf")
        assert found[f"kueue_cluster_queue_lending_limit{{{place}}}"] == float("inf")
        asked = 'cluster_queue="main",resource="cpu",replica_role="standalone"'
        assert found[f"kueue_cluster_queue_resource_pending{{{asked}}}"] == 1
        subtree = 'cohort="all",flavor="default",resource="cpu",replica_role="standalone"'
        assert found[f"kueue_cohort_subtree_quota{{{subtree}}}"] == 1.5
        assert found[f"kueue_cohort_subtree_resource_reservations{{{subtree}}}"] == 1
        info = 'cluster_queue="main",parent_cohort="all",root_cohort="all",replica_role="standalone"'
        assert found[f"kueue_cluster_queue_info{{{info}}}"] == 1
        status = 'cluster_queue="main",status="active",replica_role="standalone"'
        assert found[f"kueue_cluster_queue_status{{{status}}}"] == 1
        usage = 'name="main",namespace="team",flavor="default",resource="cpu",replica_role="standalone"'
        assert found[f"kueue_local_queue_resource_usage{{{usage}}}"] == 1


async def test_shares_are_shown_under_fair_sharing() -> None:
    manager = Running(read_configuration(f"{WITH_RESOURCES}{FAIR}"))
    manager.queues("main", cpu="1", cohort="team")
    manager.queues("lender", cpu="6", cohort="all")
    manager.store.put(COHORTS, "team", spec={"parentName": "all"})
    manager.workload("w", "main", cpu="3")
    async with running(manager):
        await manager.clock.advance(2)
        found = page(manager)
        role = 'replica_role="standalone"'
        queue = f'kueue_cluster_queue_weighted_share{{cluster_queue="main",cohort="team",{role}}}'
        cohort = f'kueue_cohort_weighted_share{{cohort="team",{role}}}'
        assert found[queue] == found[cohort] == 2 * 1000.0 / 7
        assert found[f'kueue_cluster_queue_weighted_share{{cluster_queue="lender",cohort="all",{role}}}'] == 0
        assert not any('kueue_cohort_weighted_share{cohort="all"' in name for name in found), "it has no object"
        manager.store.put(CLUSTER_QUEUES, "main", spec={"fairSharing": {"weight": "0"}})
        manager.store.put(COHORTS, "team", spec={"fairSharing": {"weight": "0"}})
        await manager.clock.advance(2)
        found = page(manager)
        assert math.isnan(found[queue])
        assert found[cohort] == math.inf, "as Kueue shows it, against its own help"


@pytest.mark.parametrize(
    ("configuration", "shown"),
    [
        pytest.param(WITH_RESOURCES, [], id="fair sharing is off"),
        pytest.param(
            WITH_RESOURCES.replace("true", "false") + FAIR, ["kueue_cohort_weighted_share"], id="resources are off"
        ),
    ],
)
async def test_shares_are_left_out(configuration: str, shown: list[str]) -> None:
    manager = Running(read_configuration(configuration))
    manager.queues("main", cohort="team")
    manager.store.put(COHORTS, "team", spec={})
    async with running(manager):
        await manager.clock.advance(2)
        assert [name.partition("{")[0] for name in page(manager) if "_weighted_share{" in name] == shown


async def test_a_cohort_that_only_queues_name_has_no_info() -> None:
    manager = Running()
    manager.queues("main", cohort="root")
    manager.queues("other", cohort="loose")
    manager.store.put(COHORTS, "leaf", spec={"parentName": "root"})
    async with running(manager):
        await manager.clock.advance(2)
        found = page(manager)
        shown = sorted(name for name in found if name.startswith("kueue_cohort_info"))
        assert len(shown) == 2
        assert all(
            name.startswith(f'kueue_cohort_info{{cohort="{one}",')
            for name, one in zip(shown, ("leaf", "root"), strict=True)
        )
        assert not any(name.startswith("kueue_cohort_subtree_resource_reservations") for name in found)


async def test_a_queue_that_cannot_admit_has_only_inadmissible_workloads() -> None:
    manager = Running()
    manager.queues("main", stopPolicy="Hold")
    manager.workload("w", "main")
    async with running(manager):
        await manager.clock.advance(2)
        found = page(manager)
        assert found['kueue_pending_workloads{cluster_queue="main",status="active",replica_role="leader"}'] == 0
        assert found['kueue_pending_workloads{cluster_queue="main",status="inadmissible",replica_role="leader"}'] == 1
        shapes = 'cluster_queue="main",status="inadmissible",replica_role="leader"'
        assert found[f"kueue_pending_scheduling_hashes{{{shapes}}}"] == 1
        status = 'cluster_queue="main",status="pending",replica_role="leader"'
        assert found[f"kueue_cluster_queue_status{{{status}}}"] == 1
        local = 'name="main",namespace="team",active="False",replica_role="leader"'
        assert found[f"kueue_local_queue_status{{{local}}}"] == 1


async def test_a_follower_counts_nothing_and_a_new_leader_shows_what_is() -> None:
    manager = Running()
    manager.queues("main")
    manager.workload("w", "main")
    async with running(manager, leads=False):
        manager.change_condition("w", "Finished", "True", "Succeeded")
        await manager.clock.advance(2)
        assert not any("cluster_queue=" in name for name in page(manager))
        manager.lead()
        await manager.clock.advance(2)
        found = page(manager)
        assert found[f"kueue_finished_workloads{{{MAIN}}}"] == 1
        assert f"kueue_finished_workloads_total{{{LABELS}}}" not in found


async def test_the_latency_of_creation_is_measured_from_the_job() -> None:
    manager = Running()
    manager.queues("main")
    async with running(manager):
        job = manager.store.put(JOBS, "j", TEAM, spec={"template": {}})
        await manager.clock.advance(2)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": job["metadata"]["uid"]}
        manager.workload("w", "main", metadata={"ownerReferences": [{**owner, "controller": True}]})
        await manager.clock.advance(1)
        found = page(manager)
        name = 'kueue_workload_creation_latency_seconds_sum{job_kind="Job",replica_role="leader"}'
        assert found[name] == 2


@pytest.mark.parametrize(
    ("text", "gates", "absent"),
    [
        pytest.param(WITHOUT_LOCAL, "", "kueue_local_queue_", id="local queues switched off"),
        pytest.param(None, "LocalQueueMetrics=false", "kueue_local_queue_", id="local queues gated off"),
        pytest.param(
            None, "MetricForWorkloadCreationLatency=false", "kueue_workload_creation_latency", id="no latency"
        ),
        pytest.param(None, "MetricsForCohorts=false", "kueue_cohort_info{", id="no tree"),
        pytest.param(None, "SchedulingEquivalenceHashing=false", "kueue_pending_scheduling_hashes{", id="no hashes"),
        pytest.param(
            None,
            "UnadmittedWorkloadsObservability=false,UnadmittedWorkloadsExplicitStatus=false",
            "kueue_unadmitted_workloads{",
            id="no reasons",
        ),
        pytest.param(None, "", "kueue_cluster_queue_nominal_quota{", id="no resources unless asked for"),
    ],
)
async def test_a_switch_takes_families_away(text: str | None, gates: str, absent: str) -> None:
    loaded = default_configuration(feature_gates=gates) if text is None else read_configuration(text)
    manager = Running(loaded)
    manager.queues("main", cpu="1", cohort="all")
    for number in range(3):
        manager.workload(f"w{number}", "main")
    async with running(manager):
        await manager.clock.advance(2)
        whole = manager.metrics.page().decode()
        assert absent not in whole
        assert "kueue_pending_workloads{" in whole


async def test_only_the_local_queues_that_are_selected_have_metrics() -> None:
    manager = Running(read_configuration(WITH_SELECTOR))
    manager.queues("main", "other")
    manager.store.put(LOCAL_QUEUES, "main", TEAM, metadata={"labels": {"shown": "yes"}})
    manager.workload("w", "main")
    manager.workload("o", "other")
    async with running(manager):
        await manager.clock.advance(2)
        whole = manager.metrics.page().decode()
        assert "kueue_local_queue_admitted_workloads_total{" in whole
        assert 'name="main"' in whole
        assert 'name="other"' not in whole
        manager.store.put(LOCAL_QUEUES, "main", TEAM, metadata={"labels": None})
        await manager.clock.advance(1)
        assert 'name="main"' not in manager.metrics.page().decode()


async def test_what_others_tell_is_counted_for_queues_that_exist() -> None:
    manager = Running()
    manager.queues("main")
    async with running(manager):
        manager.metrics.preempted("main", "InClusterQueue")
        manager.metrics.preempted("gone", "InClusterQueue")
        manager.metrics.self_metrics.reconciled("job", "error", 0.2)
        manager.metrics.self_metrics.requested("200", "PATCH", "host:1")
        manager.metrics.self_metrics.controllers.append(manager.workloads.controller)
        found = page(manager)
        by = 'preempting_cluster_queue="main",reason="InClusterQueue",replica_role="leader"'
        assert found[f"kueue_preempted_workloads_total{{{by}}}"] == 1
        assert not any('"gone"' in name for name in found)
        assert found['controller_runtime_reconcile_errors_total{controller="job"}'] == 1
        assert found['controller_runtime_reconcile_time_seconds_bucket{controller="job",le="0.2"}'] == 1
        assert found['rest_client_requests_total{code="200",host="host:1",method="PATCH"}'] == 1
        assert found['workqueue_depth{controller="workload",name="workload"}'] == 0
        assert any(name.startswith("kueue_build_info{") for name in found)
        assert "process_resident_memory_bytes" in found


def test_every_family_is_there_from_the_start_and_named_as_dashboards_know_it() -> None:
    shown = list(text_string_to_metric_families(Metrics(default_configuration()).page().decode()))
    assert [one.documentation for one in shown[: len(families.ALL)]] == [family.help for family in families.ALL]
    for family in families.ALL:
        assert family.labels[-1] == "replica_role"
        assert (family.name.endswith("_total")) == (family.kind is Kind.COUNTER)
    assert len({family.name for family in families.ALL}) == len(families.ALL)


def test_a_whole_page_is_read_as_it_was_meant_whatever_its_labels_say(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = Metrics(default_configuration())
    gauges: dict[str, list[tuple[Labels, float]]] = {}
    meant = []
    for family in families.ALL:
        values = tuple(f"{label} {HOSTILE}" for label in family.labels[:-1])
        labels = dict(zip(family.labels, (*values, "leader"), strict=True))
        owners = metrics.owners(family)
        own = 0 if isinstance(owners, Owner) else 2 if owners is metrics.local_queues else 1
        owner = owners if isinstance(owners, Owner) else owners.of(values[:own])
        expected = Metric(family.name.removesuffix("_total"), family.help, family.kind.value)
        if family.kind is Kind.HISTOGRAM:
            owner.observe(family, values[own:], 3)
            for bound in (*family.buckets, math.inf):
                shown = "+Inf" if bound == math.inf else f"{bound:g}"
                expected.add_sample(f"{family.name}_bucket", {**labels, "le": shown}, int(bound >= 3))
            expected.add_sample(f"{family.name}_sum", labels, 3)
            expected.add_sample(f"{family.name}_count", labels, 1)
        else:
            # Counters and one of the gauges are counts of an owner; the other gauges are computed for each page.
            owner.put(family, values[own:], 7)
            gauges[family.name] = [(values, 7)]
            expected.add_sample(family.name, labels, 7)
        meant.append(expected)

    def read() -> Generator[None, None, dict[str, list[tuple[Labels, float]]]]:
        yield
        return gauges

    monkeypatch.setattr(metrics, "gauges", read)
    metrics.self_metrics.requested("200", HOSTILE, "host")
    found = list(text_string_to_metric_families(metrics.page().decode()))
    assert found[: len(meant)] == meant
    assert len({(one.name, one.type) for one in found}) == len(found), "the samples of a family are together"
    assert {one.type for one in found} == {kind.value for kind in Kind}, "every sample is under its TYPE"
    requests = next(one for one in found if one.name == "rest_client_requests")
    assert [one.labels for one in requests.samples] == [{"code": "200", "method": HOSTILE, "host": "host"}]


async def test_a_cycle_without_heads_is_none_and_one_with_rivals_is_counted() -> None:
    manager = Running()
    manager.queues("main", "other")
    async with running(manager):
        world = manager.pump.engine.world
        entries = []
        overlap = Postponed(Outcome.CONTENDED, WaitReason.WAITING_FOR_QUOTA, Overlap())
        for name, result, replanned in (
            ("main", overlap, None),
            ("main", overlap, Replanned.SKIPPED),
            ("other", Started(), None),
        ):
            manager.workload(name, name)
            await manager.clock.advance(0.1)
            queue = world.forest.queues[name]
            assert queue.tree is not None
            entry = Entry(world.items[f"{TEAM}/{name}"], queue, TreeCycle(queue.tree, world.forest))
            entry.result, entry.replanned = result, replanned
            entries.append(entry)
        attempts = 'kueue_admission_attempts_total{result="inadmissible",replica_role="leader"}'
        before = page(manager).get(attempts, 0)
        manager.metrics.cycle(False, 1.0, [])
        assert page(manager).get(attempts, 0) == before
        manager.metrics.cycle(False, 1.0, entries)
        found = page(manager)
        assert found[f"kueue_admission_cycle_preemption_skips{{{MAIN}}}"] == 2
        assert 'kueue_admission_cycle_preemption_skips{cluster_queue="other",replica_role="leader"}' not in found
        again = 'kueue_preemption_target_recomputations_total{cluster_queue="main",result="skipped"'
        assert found[f'{again},replica_role="leader"}}'] == 1
        assert found[attempts] == before + 1
        entries[0].result = entries[1].result = Started()
        manager.metrics.cycle(False, 1.0, entries)
        assert page(manager)[f"kueue_admission_cycle_preemption_skips{{{MAIN}}}"] == 0


@pytest.mark.parametrize(
    ("family", "bounds"),
    [
        pytest.param(families.ADMITTED_WAIT, (16, 1, 40960), id="admission waits"),
        pytest.param(families.LOCAL_ADMITTED_WAIT, (14, 1, 10240), id="admission waits of a local queue"),
        pytest.param(families.CREATION_SECONDS, (11, 0.01, 10.24), id="creation"),
        pytest.param(families.ATTEMPT_SECONDS, (11, 0.005, 10), id="attempts"),
    ],
)
def test_buckets_are_those_of_kueue(family: Any, bounds: tuple[float, ...]) -> None:
    assert (len(family.buckets), family.buckets[0], family.buckets[-1]) == bounds


async def test_past_use_is_shown_with_admission_fair_sharing() -> None:
    head = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
    manager = Running(read_configuration(f"{head}admissionFairSharing: {{usageHalfLifeTime: 5m}}\n"))
    manager.queues("main", "none", cpu="4", admissionScope={"admissionMode": "UsageBasedAdmissionFairSharing"})
    manager.store.put(LOCAL_QUEUES, "none", TEAM, spec={"clusterQueue": "none", "fairSharing": {"weight": "0"}})
    async with running(manager):
        manager.workload("w", "main", cpu="4")
        await manager.clock.advance(3)
        found = page(manager)
        labels = 'name="{0}",namespace="team",cluster_queue="{0}",replica_role="leader"'
        name = "kueue_local_queue_admission_fair_sharing_usage"
        assert found[f"{name}{{{labels.format('main')}}}"] == pytest.approx(2, rel=0.01)
        assert found[f"{name}{{{labels.format('none')}}}"] == math.inf
