"""Are manifests read as they are meant, and odd ones refused in words?"""

import json
import re
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pykueue.api.durations import Micros
from pykueue.engine import model
from pykueue.engine.model import ShareStrategy
from pykueue.sim.plans import RunPlan
from pykueue.sim.report import report
from pykueue.sim.trace import START, Arrival, Invalid, Setting, Trace, read_trace
from pykueue.sim.world import World
from tests.sim.builders import FLAVOR, check, configuration, job, priority, queue, workload


def traced(*manifests: str, **setting: object) -> Trace:
    given_setting = msgspec.structs.replace(Setting(), **setting)
    return read_trace([("f.yaml", (FLAVOR + "".join(manifests)).encode())], given_setting)


def only_job(*manifests: str) -> Arrival:
    (found,) = traced(queue(), *manifests).arrivals
    return found


def mistakes(*manifests: str, **setting: object) -> list[str]:
    with pytest.raises(Invalid) as caught:
        traced(*manifests, **setting)
    return [str(one) for one in caught.value.mistakes]


def test_without_annotations_a_job_runs_a_minute_and_a_note_says_so() -> None:
    trace = traced(queue(), job("a"))
    assert trace.arrivals[0].plan == RunPlan()
    assert (trace.arrivals[0].at, trace.arrivals[0].name) == (START, "default/a")
    assert trace.notes == ("no pykueue.io/run-seconds on default/a; taken to run for 60 s",)


def test_annotations_are_the_plan() -> None:
    found = only_job(job("a", run_seconds="1.5", ready_seconds="2m", stop_seconds=3, checkpoint="true", arrival="1h"))
    assert found.plan == RunPlan(Micros(1_500_000), Micros(120_000_000), Micros(3_000_000), True)
    assert found.at == START + 3_600_000_000


def test_never_is_never() -> None:
    assert only_job(job("a", ready_seconds="never")).plan.ready is None


def test_an_arrival_may_be_an_instant() -> None:
    assert only_job(job("a", arrival="2026-01-01T00:00:09Z")).at == START + 9_000_000


@pytest.mark.parametrize(
    ("key", "text", "says"),
    [
        pytest.param("run_seconds", "-5", "write seconds, as in 90, or a duration, as in 1m30s", id="negative run"),
        pytest.param("run_seconds", "soon", "write seconds", id="no number"),
        pytest.param("run_seconds", "", "write seconds", id="empty"),
        pytest.param("run_seconds", "9" * 99, "write seconds", id="absurd"),
        pytest.param("ready_seconds", "sometimes", "or never", id="odd readiness"),
        pytest.param("stop_seconds", "1e9", "write seconds", id="an exponent"),
        pytest.param("checkpoint", "yes", 'write "true" or "false"', id="odd truth"),
        pytest.param("arrival", "tomorrow", "write the time after the start", id="no time"),
        pytest.param("arrival", "-1s", "is before the start", id="before the start"),
        pytest.param("arrival", "2025-12-31T00:00:00Z", "see --start", id="last year"),
        pytest.param("arrival", "2026-01-01T00:00:00", "write the time after", id="no time zone"),
    ],
)
def test_an_odd_annotation_is_a_mistake(key: str, text: str, says: str) -> None:
    (found,) = mistakes(queue(), job("a", **{key: text}))
    assert (
        f"f.yaml: document 4: Job a: metadata.annotations[pykueue.io/{key.replace('_', '-')}]: Invalid value" in found
    )
    assert says in found


@pytest.mark.parametrize(
    ("key", "near"),
    [("arival", "arrival"), ("run_second", "run-seconds"), ("Checkpoint", "checkpoint")],
)
def test_a_misspelt_annotation_is_a_mistake(key: str, near: str) -> None:
    written = job("a").replace("annotations: {", f'annotations: {{pykueue.io/{key}: "1"')
    said = f"metadata.annotations[pykueue.io/{key}]: unknown annotation; did you mean pykueue.io/{near}?"
    assert mistakes(queue(), written) == [f"f.yaml: document 4: Job a: {said}"]


@pytest.mark.parametrize("key", ["command", "created-by", "umask", "asked-for", "hold"])
def test_annotations_that_the_server_sets_are_ignored(key: str) -> None:
    assert not any(key in note for note in traced(queue(), job("a", run_seconds=1, **{key: "x"})).notes)


def test_an_unknown_annotation_of_ours_is_noted() -> None:
    (found, _) = traced(queue(), job("a", colour="red")).notes
    assert found.startswith("Job default/a: annotation pykueue.io/colour is not known; those of a Job are")


def test_a_check_answers_one_of_four_things() -> None:
    assert traced(check("c", "retry")).answers == {"c": "retry"}
    assert "write one of: ready, pending, retry, rejected" in mistakes(check("c", "maybe"))[0]


def test_a_check_is_active_unless_it_says_otherwise() -> None:
    inactive = check("d", "ready") + (
        "status: {conditions: [{type: Active, status: 'False', reason: r, message: m, "
        "lastTransitionTime: '2026-01-01T00:00:00Z'}]}\n"
    )
    found = {
        thing.name: thing.active
        for thing in traced(check("c", "ready"), inactive).things
        if isinstance(thing, model.Check)
    }
    assert found == {"c": True, "d": False}


def test_a_job_without_a_queue_is_left_out_and_noted() -> None:
    loose = job("a").replace("kueue.x-k8s.io/queue-name: main", "")
    trace = traced(queue(), loose)
    assert trace.arrivals == ()
    assert "left out: it has no label kueue.x-k8s.io/queue-name" in trace.notes[0]
    assert len(traced(queue("default"), loose).arrivals) == 1
    assert len(traced(queue(), loose, configuration("manageJobsWithoutQueueName: true\n")).arrivals) == 1


def test_a_missing_priority_class_is_a_mistake() -> None:
    assert "create this WorkloadPriorityClass" in mistakes(queue(), job("a", klass="high"))[0]
    assert only_job(priority("high", 3), job("a", klass="high")).workload.priority == 3


def test_a_negative_request_is_a_mistake_of_the_job() -> None:
    (found,) = mistakes(queue(), job("a", cpu=-1))
    assert "Job a: spec.template.spec.containers[0].resources.requests[cpu]: Invalid value" in found


def test_limit_ranges_and_runtime_classes_count() -> None:
    limits = (
        "---\napiVersion: v1\nkind: LimitRange\nmetadata: {name: l}\n"
        "spec: {limits: [{type: Container, defaultRequest: {cpu: 2}}]}\n"
    )
    runtime = (
        "---\napiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: kata}\noverhead: {podFixed: {cpu: 1}}\n"
    )
    bare = job("a").replace("requests: {cpu: 1}", "").replace("{containers", "{runtimeClassName: kata, containers")
    assert only_job(limits, runtime, bare).workload.pod_sets[0].requests == (("cpu", 3000),)


def test_namespaces_exist_and_have_their_label() -> None:
    described = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team, labels: {a: b}}\n"
    found = {
        one.name: dict(one.labels) for one in traced(described, queue()).things if isinstance(one, model.Namespace)
    }
    assert found == {
        "team": {"a": "b", "kubernetes.io/metadata.name": "team"},
        "default": {"kubernetes.io/metadata.name": "default"},
    }


def test_a_configuration_may_be_among_the_manifests_but_only_one() -> None:
    pods_ready = traced(configuration("waitForPodsReady: {timeout: 7s}\n")).options.pods_ready
    assert pods_ready is not None
    assert pods_ready.timeout == 7
    again = ("c.yaml", configuration("").removeprefix("---\n").encode())
    assert "a second Configuration beside c.yaml" in mistakes(configuration(""), configuration=again)[0]


@pytest.mark.parametrize(
    ("text", "gates", "says"),
    [
        pytest.param(
            "resources: {deviceClassMappings: [{name: a, deviceClassNames: [b]}]}\n",
            "",
            "resources.deviceClassMappings: Forbidden: dynamic resource allocation is not supported",
            id="unbuilt",
        ),
        pytest.param("waitForPodReady: {}\n", "", "waitForPodReady", id="misspelt"),
        pytest.param("", "PartialAdmision=true", "PartialAdmis", id="unknown gate"),
        pytest.param("featureGates: {PriorityBoost: true}\n", "PriorityBoost=true", "cannot both", id="gates twice"),
    ],
)
def test_a_bad_configuration_is_a_mistake(text: str, gates: str, says: str) -> None:
    found = mistakes(configuration(text), queue(), feature_gates=gates)
    assert any(says in one for one in found)


def test_gates_are_obeyed() -> None:
    gated = job("a").replace("annotations: {", "annotations: {kueue.x-k8s.io/admission-gated-by: x.io/y, ")
    assert not World(traced(queue(), gated)).run().levels[0].finished
    assert World(traced(queue(), gated, feature_gates="AdmissionGatedBy=false")).run().levels[0].finished


def test_an_older_version_is_noted() -> None:
    assert (
        "v1beta1 is deprecated; write v1beta2 in ClusterQueue main"
        in traced(queue().replace("v1beta2", "v1beta1")).notes[0]
    )


MULTIKUEUE = check("c", "ready").replace("x.io/y", "kueue.x-k8s.io/multikueue")
DEMANDS = queue(admissionChecksStrategy="{admissionChecks: [{name: c}]}")


@pytest.mark.parametrize(
    "multikueue",
    [
        pytest.param(MULTIKUEUE, id="whatever its annotation says"),
        pytest.param(
            MULTIKUEUE + "status: {conditions: [{type: Active, status: 'True', reason: r, message: m, "
            "lastTransitionTime: '2026-01-01T00:00:00Z'}]}\n",
            id="even if it says that it is active",
        ),
    ],
)
def test_nothing_starts_behind_a_check_of_multikueue(multikueue: str) -> None:
    trace = traced(multikueue, DEMANDS, job("a", run_seconds=5))
    (level,) = (past := World(trace).run()).levels
    assert level.admission is None
    assert "references inactive AdmissionCheck(s): c" in report(past).waiting[0].why
    assert trace.notes == (
        "AdmissionCheck c: spec.controllerName: sending workloads to other clusters, MultiKueue, is not supported yet; "
        "ClusterQueues that name the check admit nothing",
    )


def test_a_check_without_an_answer_is_taken_to_be_ready_and_a_note_says_so() -> None:
    silent = check("c", "ready").replace(", annotations: {pykueue.io/check: ready}", "")
    assert traced(silent).notes == ("no pykueue.io/check on AdmissionCheck c; taken to answer ready",)
    assert traced(check("c", "ready")).notes == ()


@pytest.mark.parametrize(
    ("found", "replaced", "says"),
    [
        pytest.param("spec: {", "spec: {managedBy: kueue.x-k8s.io/multikueue, ", "spec.managedBy", id="MultiKueue's"),
        pytest.param(
            "labels: {", "labels: {kueue.x-k8s.io/prebuilt-workload-name: w, ", "is made before it", id="prebuilt"
        ),
        pytest.param("spec: {", "status: {conditions: [{type: Failed, status: 'True'}]}\nspec: {", "Failed", id="over"),
        pytest.param("{name: a, ", "{name: a, namespace: kube-system, ", "managedJobsNamespaceSelector", id="system"),
    ],
)
def test_a_job_that_is_not_ours_to_queue_is_left_out_with_a_note(found: str, replaced: str, says: str) -> None:
    trace = traced(queue(), job("a", run_seconds=5).replace(found, replaced, 1))
    assert trace.arrivals == ()
    (text,) = trace.notes
    assert re.match("Job (default|kube-system)/a is left out: ", text)
    assert says in text


def test_namespaces_are_selected_by_their_labels() -> None:
    chosen = configuration("managedJobsNamespaceSelector: {matchLabels: {team: a}}\n")
    labelled = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {team: a}}\n"
    assert len(traced(chosen, labelled, queue(), job("a")).arrivals) == 1
    assert traced(chosen, queue(), job("a")).arrivals == ()


def test_a_job_that_is_held_without_a_queue_is_told_how_to_go_on() -> None:
    loose = job("a", run_seconds=5).replace("kueue.x-k8s.io/queue-name: main", "")
    trace = traced(queue(), loose, configuration("manageJobsWithoutQueueName: true\n"))
    assert trace.notes[0].startswith("Job default/a names no queue, so manageJobsWithoutQueueName keeps it waiting; ")
    found = report(World(trace).run())
    assert (found.waiting[0].why, found.waiting[0].helps) == (
        "it names no LocalQueue",
        ("name one in its metadata.labels[kueue.x-k8s.io/queue-name]",),
    )
    assert found.lines[0].why == "asks 1 cpu, and names no LocalQueue"


WEIGHTED = "fairSharing: {weight: 2}"
IS_OFF = "fair sharing is off, so the weight has no effect; fairSharing in the Configuration enables it"
COHORT = "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\nmetadata: {name: x}\nspec: {}\n"


@pytest.mark.parametrize(
    ("manifest", "called"),
    [
        pytest.param(queue(fairSharing="{weight: 2}"), "ClusterQueue main", id="of a ClusterQueue"),
        pytest.param(COHORT.replace("spec: {}", f"spec: {{{WEIGHTED}}}"), "Cohort x", id="of a Cohort"),
    ],
)
def test_a_weight_without_effect_is_noted(manifest: str, called: str) -> None:
    assert traced(manifest).notes == (f"{called}: spec.fairSharing.weight: {IS_OFF}",)


def test_under_fair_sharing_weights_are_used() -> None:
    trace = traced(
        queue(fairSharing="{weight: 2}"),
        COHORT.replace("spec: {}", f"spec: {{{WEIGHTED}}}"),
        configuration("fairSharing: {preemptionStrategies: [LessThanInitialShare]}\n"),
    )
    assert trace.notes == ()
    assert trace.options.fair_sharing == (ShareStrategy.INITIAL,)


def pod_class(name: str, value: object, default: str = "false") -> str:
    return (
        f"---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {name}}}\n"
        f"value: {value}\nglobalDefault: {default}\n"
    )


def test_a_job_has_the_priority_of_its_pods() -> None:
    classy = job("a").replace("{containers", "{priorityClassName: high, containers")
    assert only_job(pod_class("high", 7), classy).workload.priority == 7
    assert only_job(pod_class("usual", 5, "true"), job("a")).workload.priority == 5
    (text,) = mistakes(queue(), classy)
    assert 'spec.template.spec.priorityClassName: Not found: "high": create this PriorityClass' in text


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        pytest.param(pod_class("a", 1, "true") + pod_class("b", 2, "true"), "b: globalDefault: Invalid", id="two"),
        pytest.param(pod_class("a", 10**9 + 1), "value: Invalid value: 1000000001: must be at most", id="too high"),
        pytest.param(pod_class("a", "high"), "value in body must be of type integer", id="a word"),
        pytest.param(pod_class("a", 1).replace("value: 1\n", ""), "value: Required value", id="no value"),
        pytest.param(pod_class("system-x", 1), "are for the classes that every cluster has", id="reserved name"),
        pytest.param(pod_class("a", 1).replace("k8s.io/v1", "k8s.io/v2"), "write scheduling.k8s.io/v1", id="version"),
    ],
)
def test_a_priority_class_is_judged(manifest: str, says: str) -> None:
    (text,) = mistakes(manifest)
    assert says in text


@pytest.mark.parametrize("boost", ["soon", "1_000", ""])
def test_a_boost_matters_only_with_its_gate(boost: str) -> None:
    boosted = workload().replace("{name: w", f'{{name: w, annotations: {{kueue.x-k8s.io/priority-boost: "{boost}"}}')
    (level,) = World(traced(queue(), boosted)).run().levels
    assert level.finished
    (text,) = mistakes(queue(), boosted, feature_gates="PriorityBoost=true")
    assert "must be a valid signed integer" in text


def test_a_workload_that_asks_for_what_is_not_built_is_parked() -> None:
    found = report(World(traced(queue(), workload("status: {clusterName: far}\n"))).run())
    assert "status.clusterName: sending workloads to other clusters, MultiKueue, is not" in found.waiting[0].why


def test_a_workload_that_holds_what_is_not_built_is_noted() -> None:
    held = (
        "status:\n  unhealthyNodes: [{name: n}]\n  admission:\n    clusterQueue: main\n"
        "    podSetAssignments: [{name: main, flavors: {cpu: default}, resourceUsage: {cpu: 1}, count: 1}]\n"
        "  conditions: [{type: QuotaReserved, status: 'True', reason: r, message: m, "
        "lastTransitionTime: '2025-12-31T00:00:00Z'}]\n"
    )
    assert traced(queue(), workload(held)).notes[0] == (
        "Workload default/w holds its quota, but status.unhealthyNodes: topology-aware scheduling is not supported yet"
    )


def test_a_bad_label_does_not_hide_a_bad_amount() -> None:
    for label in ("kueue.x-k8s.io/queue-name: 'a b'", "kueue.x-k8s.io/queue-name: A"):
        found = mistakes(queue(), job("a", cpu=-1).replace("kueue.x-k8s.io/queue-name: main", label))
        assert any("metadata.labels" in one for one in found)
        assert any("spec.template.spec.containers[0].resources.requests[cpu]: Invalid value" in one for one in found)
        assert len(found) == len(set(found))


@pytest.mark.parametrize(
    ("found", "replaced", "says"),
    [
        pytest.param("{cpu: 1}", "{cpu: lots}", "resources.requests", id="no amount"),
        pytest.param("{cpu: 1}", "{cpu: [1]}", "must be of type", id="a list"),
        pytest.param("requests", "request", "spec.template.spec.containers[0].resources.request", id="misspelt"),
    ],
)
def test_a_slip_in_a_pod_template_is_a_mistake(found: str, replaced: str, says: str) -> None:
    (text,) = mistakes(queue(), job("a").replace(found, replaced))
    assert text.startswith("f.yaml: document 4: Job a: spec.template.spec.containers[0].resources.")
    assert says in text


def test_what_is_not_built_is_told_beside_other_mistakes() -> None:
    found = mistakes(
        configuration("resources: {deviceClassMappings: [{name: a, deviceClassNames: [b]}]}\nwebhok: {}\n")
    )
    assert [any(word in one for one in found) for word in ("webhok", "resources.deviceClassMappings: Forbidden")] == [
        True,
        True,
    ]


def test_what_is_wrong_with_a_job_is_told_where_the_job_has_it() -> None:
    claims = job("a").replace("{containers", "{resourceClaims: [{name: gpu}], containers")
    limits = (
        "---\napiVersion: v1\nkind: LimitRange\nmetadata: {name: l}\n"
        "spec: {limits: [{type: Container, max: {cpu: 1}}]}\n"
    )
    for manifests, says in (
        ((claims,), "spec.template.spec.resourceClaims: dynamic resource allocation"),
        ((limits, job("a", cpu=2)), "spec.template.spec.containers[0]: Invalid value"),
    ):
        (row,) = report(World(traced(queue(), *manifests)).run()).waiting
        assert says in row.why
        assert "podSets" not in row.why


BASE = list(
    yaml.safe_load_all(
        configuration("waitForPodsReady: {timeout: 2m, requeuingStrategy: {backoffLimitCount: 2}}\n")
        + "---\n"
        + FLAVOR
        + queue(
            preemption="{withinClusterQueue: LowerPriority}", admissionChecksStrategy="{admissionChecks: [{name: c}]}"
        )
        + check("c", "ready")
        + priority("high", 9)
        + job("a", 2, run_seconds=30)
        + job("b", 4, klass="high", arrival="5s", ready_seconds=1)
    )
)
NUMBERS = (-1, 0, 1.5, 2**31, 2**70)
TEXTS = (
    "",
    "x",
    "-1",
    "never",
    "9" * 40,
    "x" * 300,
    "\x1b[0m",
    "HoldAndDrain",
    "Any",
    "10000h",
    "pending",
    "retry",
    "high",
)
OTHERS: tuple[object, ...] = (
    None,
    True,
    [],
    {},
    [None],
    ["cpu"],
    {"cpu": "-1"},
    {"cpu": "1e30"},
    "9999-12-31T23:59:59Z",
)
ODD = st.sampled_from((*NUMBERS, *TEXTS, *OTHERS))


def places(tree: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(place for key, value in inner for place in places(value, (*path, key)))]


PLACES = places(BASE)[1:]


def edited(tree: object, path: tuple[object, ...], value: object) -> object:
    """The tree with this value at a place, if it still has that place."""
    key, *rest = path
    if isinstance(tree, dict) and key in tree:
        return {**tree, key: edited(tree[key], tuple(rest), value) if rest else value}
    if isinstance(tree, list) and isinstance(key, int) and key < len(tree):
        return [*tree[:key], edited(tree[key], tuple(rest), value) if rest else value, *tree[key + 1 :]]
    return tree


@settings(max_examples=100)
@given(edits=st.lists(st.tuples(st.sampled_from(PLACES), ODD), min_size=1, max_size=3))
def test_whatever_is_wrong_is_told_or_simulated_but_never_a_crash(
    edits: list[tuple[tuple[object, ...], object]],
) -> None:
    trees: Any = BASE
    for path, value in edits:
        trees = edited(trees, path, value)
    raw = b"".join(b"\n---\n" + json.dumps(tree).encode() for tree in trees)
    try:
        trace = read_trace([("f.yaml", raw)])
    except Invalid as error:
        told = error.mistakes
    else:
        assert report(World(trace).run()).ended
        return
    assert all(one.where and one.text for one in told)
