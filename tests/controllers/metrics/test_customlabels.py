"""Do metrics get the labels that the Configuration asks for, and do their series end when a value changes?"""

import pytest

from pykueue.api.config.file import Loaded, read_configuration
from pykueue.api.config.types import CustomLabel
from pykueue.api.core import ObjectMeta
from pykueue.controllers.cluster import settings
from pykueue.controllers.jobs import rules_of
from pykueue.controllers.metrics.customlabels import UNTRACKED, CustomLabels, value
from pykueue.kube.port import CLUSTER_QUEUES, COHORTS, JOBS, LOCAL_QUEUES, WORKLOADS
from tests.controllers.running import TEAM, Running, running
from tests.prometheus import Page

CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
metrics:
  customLabels:
  - {name: team}
  - {name: cost, sourceAnnotationKey: example.com/cost}
  - {name: user, sourceKind: LocalQueue, sourceLabelKey: example.com/user, trackedValues: [ann, bob]}
  - {name: site, sourceKind: Cohort}
  - {name: size, sourceKind: Workload, trackedValues: [big, small]}
  - {name: model, sourceKind: Workload, sourceAnnotationKey: example.com/model, trackedValues: [m1]}
"""
ROLE = 'replica_role="leader"'
TEAM_RED = 'custom_team="red",custom_cost="17"'
NO_MODEL = f'custom_model="{UNTRACKED}"'


def configured() -> Loaded:
    return read_configuration(CONFIGURATION, feature_gates="CustomMetricLabels=true")


def page(manager: Running) -> Page:
    return Page(manager.metrics.page().decode())


def with_labels(manager: Running) -> None:
    manager.queues("main", cpu="2", cohort="all")
    red = {"labels": {"team": "red"}, "annotations": {"example.com/cost": "17"}}
    manager.store.put(CLUSTER_QUEUES, "main", metadata=red)
    manager.store.put(LOCAL_QUEUES, "main", TEAM, metadata={"labels": {"example.com/user": "ann"}})
    manager.store.put(COHORTS, "all", spec={}, metadata={"labels": {"site": "here"}})
    urgent = {"priority": 5}
    odd = {"labels": {"size": "odd"}, "annotations": {"example.com/model": "m1"}}
    manager.workload("first", "main", metadata={"labels": {"size": "big"}}, spec=urgent)
    manager.workload("second", "main", metadata=odd, spec=urgent)
    manager.workload("waits", "main", metadata={"labels": {"size": "small"}})


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        pytest.param(CustomLabel("a"), "1", id="the label of its own name"),
        pytest.param(CustomLabel("x", source_label_key="b"), "2", id="another label"),
        pytest.param(CustomLabel("a", source_annotation_key="c"), "3", id="an annotation"),
        pytest.param(CustomLabel("absent"), "", id="a label that is not there"),
        pytest.param(CustomLabel("a", tracked_values=("1", "9")), "1", id="a tracked value"),
        pytest.param(CustomLabel("a", tracked_values=("9",)), UNTRACKED, id="another value"),
        pytest.param(CustomLabel("absent", tracked_values=("9",)), UNTRACKED, id="no value among tracked ones"),
    ],
)
def test_a_value_is_found(label: CustomLabel, expected: str) -> None:
    assert value(label, ObjectMeta(labels={"a": "1", "b": "2"}, annotations={"c": "3"})) == expected


def test_without_labels_nothing_is_looked_up() -> None:
    none = CustomLabels(())
    assert (none.of_queue("a"), none.of_local_queue("a/b"), none.of_cohort("c"), none.of_workload("a/w")) == ((),) * 4


async def test_metrics_have_the_labels_of_what_they_are_about() -> None:
    manager = Running(configured())
    with_labels(manager)
    async with running(manager):
        await manager.clock.advance(2)
        found = page(manager)
        of_queue = f'cluster_queue="main",{TEAM_RED},{ROLE}'
        assert found[f"kueue_reserving_active_workloads{{{of_queue}}}"] == 2
        assert found[f'kueue_admitted_workloads_total{{{of_queue},priority_class=""}}'] == 2
        assert found[f'kueue_admission_wait_time_seconds_count{{{of_queue},priority_class=""}}'] == 2
        assert found[f'pykueue_line_length{{{of_queue},strategy="BestEffortFIFO"}}'] == 1
        of_local = f'name="main",namespace="team",custom_user="ann",{ROLE}'
        assert found[f"kueue_local_queue_reserving_active_workloads{{{of_local}}}"] == 2
        of_cohort = f'cohort="all",custom_site="here",{ROLE}'
        assert found[f"kueue_cohort_subtree_admitted_active_workloads{{{of_cohort}}}"] == 2
        assert found[f'kueue_cohort_subtree_admitted_workloads_total{{{of_cohort},priority_class=""}}'] == 2
        assert found[f'kueue_admission_attempts_total{{result="success",{ROLE}}}'] >= 1
        big = f'custom_size="big",{NO_MODEL}'
        odd = f'custom_size="{UNTRACKED}",custom_model="m1"'
        small = f'custom_size="small",{NO_MODEL}'
        assert found[f"kueue_admitted_active_workloads{{{of_queue},{big}}}"] == 1
        assert found[f"kueue_admitted_active_workloads{{{of_queue},{odd}}}"] == 1
        assert found[f"kueue_local_queue_admitted_active_workloads{{{of_local},{odd}}}"] == 1
        assert found[f'kueue_local_queue_admitted_workloads_total{{{of_local},{big},priority_class=""}}'] == 1
        wait = "kueue_local_queue_admission_wait_time_seconds_count"
        assert found[f'{wait}{{{of_local},{odd},priority_class=""}}'] == 1
        assert found[f'kueue_pending_workloads{{{of_queue},{small},status="inadmissible"}}'] == 1
        none = f'custom_size="{UNTRACKED}",{NO_MODEL}'
        assert found[f'kueue_pending_workloads{{{of_queue},{none},status="active"}}'] == 0


async def test_series_begin_again_when_a_value_changes() -> None:
    manager = Running(configured())
    with_labels(manager)
    async with running(manager):
        await manager.clock.advance(2)
        manager.store.put(CLUSTER_QUEUES, "main", metadata={"labels": {"team": "blue"}})
        manager.store.put(LOCAL_QUEUES, "main", TEAM, metadata={"labels": {"example.com/user": "carl"}})
        manager.store.put(COHORTS, "all", metadata={"labels": {"site": "there"}})
        await manager.clock.advance(2)
        whole = manager.metrics.page().decode()
        for gone in ('custom_team="red"', 'custom_user="ann"', 'custom_site="here"'):
            assert gone not in whole
        blue = f'cluster_queue="main",custom_team="blue",custom_cost="17",{ROLE}'
        assert Page(whole)[f"kueue_reserving_active_workloads{{{blue}}}"] == 2
        assert f'custom_user="{UNTRACKED}"' in whole
        manager.change_condition("first", "Finished", "True", "Succeeded")
        await manager.clock.advance(2)
        assert page(manager)[f'kueue_finished_workloads_total{{{blue},priority_class=""}}'] == 1


async def test_the_latency_of_creation_has_the_labels_of_the_local_queue() -> None:
    manager = Running(configured())
    with_labels(manager)
    async with running(manager):
        job = manager.store.put(JOBS, "j", TEAM, spec={"template": {}})
        await manager.clock.advance(2)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": job["metadata"]["uid"]}
        manager.workload("w", "main", metadata={"ownerReferences": [{**owner, "controller": True}]})
        await manager.clock.advance(1)
        name = f'kueue_workload_creation_latency_seconds_sum{{job_kind="Job",custom_user="ann",{ROLE}}}'
        assert page(manager)[name] == 2


async def test_without_the_gate_there_are_no_custom_labels() -> None:
    manager = Running(read_configuration(CONFIGURATION))
    with_labels(manager)
    async with running(manager):
        await manager.clock.advance(2)
        assert "custom_" not in manager.metrics.page().decode()


def test_workloads_get_the_labels_from_their_jobs() -> None:
    rules = rules_of(settings(configured()))
    assert (rules.labels_to_copy, rules.annotations_to_copy) == (("size",), ("example.com/model",))
    rules = rules_of(settings(read_configuration(CONFIGURATION)))
    assert (rules.labels_to_copy, rules.annotations_to_copy) == ((), ())


async def test_a_workload_that_is_gone_is_counted_nowhere() -> None:
    manager = Running(configured())
    with_labels(manager)
    async with running(manager):
        await manager.clock.advance(2)
        manager.store.remove(WORKLOADS, "waits", TEAM)
        await manager.clock.advance(2)
        assert not any("kueue_pending_workloads" in name and 'custom_size="small"' in name for name in page(manager))
