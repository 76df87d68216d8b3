"""What does admission fill in, refuse and warn of? Every rule of Jobs with its exact words, and our own kinds."""

from typing import Any

import pytest

from pykueue.api.config.gates import defaults
from pykueue.api.rules.rule import Context
from pykueue.jobs.admit import STRICT_BY_CREATION, UNSELECTED, Operation, Review, Stage, Verdict, admit, json_patch
from pykueue.jobs.admit_world import AdmitWorld
from pykueue.kube.port import JOBS, WORKLOADS
from tests import builders
from tests.builders import made

QUEUE = "kueue.x-k8s.io/queue-name"
CLASS = "kueue.x-k8s.io/priority-class"
LIMIT = "kueue.x-k8s.io/max-exec-time-seconds"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
MINIMUM = "kueue.x-k8s.io/job-min-parallelism"
EQUAL = "kueue.x-k8s.io/job-completions-equal-parallelism"
ELASTIC = "kueue.x-k8s.io/elastic-job"
STOPPING = "kueue.x-k8s.io/stopping"
GATED = "kueue.x-k8s.io/admission-gated-by"
REQUIRED = "kueue.x-k8s.io/podset-required-topology"
PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"
UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"
SLICE = "kueue.x-k8s.io/podset-slice-required-topology"
SIZE = "kueue.x-k8s.io/podset-slice-size"
LAYERS = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
GROUPED = "kueue.x-k8s.io/podset-group-name"
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
TEMPLATE = "spec.template.metadata.annotations"
LONG = "x" * 64

Tree = dict[str, Any]


def gates(**changed: bool) -> Context:
    return Context({**defaults(), **changed})


def job(
    labels: Tree | None = None,
    annotations: Tree | None = None,
    *,
    placed: Tree | None = None,
    owner: Tree | None = None,
    **spec: object,
) -> Tree:
    """A Job; `placed` are the annotations of its template."""
    metadata: Tree = {} if labels is None else {"labels": labels}
    if annotations is not None:
        metadata["annotations"] = annotations
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    template: Tree = {"spec": {"containers": [{"name": "main"}]}}
    if placed is not None:
        template["metadata"] = {"annotations": placed}
    return made(JOBS, "job", "team", metadata, spec={"suspend": True, **spec, "template": template})


def asked(
    stage: Stage,
    new: Tree,
    old: Tree | None = None,
    world: AdmitWorld | None = None,
    *,
    group: str = "batch",
    kind: str = "Job",
    operation: Operation | None = None,
) -> Verdict:
    event: Operation = operation or ("CREATE" if old is None else "UPDATE")
    review = Review(stage=stage, operation=event, group=group, kind=kind, new=new, old=old)
    return admit(review, world or AdmitWorld())


def ours(stage: Stage, new: Tree, old: Tree | None = None, world: AdmitWorld | None = None) -> Verdict:
    return asked(stage, new, old, world, group="kueue.x-k8s.io", kind=str(new["kind"]))


@pytest.mark.parametrize(
    ("new", "world", "labels", "suspend"),
    [
        pytest.param(job(suspend=False), AdmitWorld(), None, False, id="none of our business"),
        pytest.param(job({QUEUE: "q"}, suspend=False), AdmitWorld(), {QUEUE: "q"}, True, id="held back"),
        pytest.param(job({QUEUE: "q"}), AdmitWorld(), {QUEUE: "q"}, True, id="held back already"),
        pytest.param(
            job({QUEUE: "q"}, suspend=False), AdmitWorld(selected=False), {QUEUE: "q"}, False, id="namespace unselected"
        ),
        pytest.param(
            job(suspend=False), AdmitWorld(default_queue=True), {QUEUE: "default"}, True, id="in the default queue"
        ),
        pytest.param(
            job({QUEUE: ""}, suspend=False),
            AdmitWorld(default_queue=True),
            {QUEUE: "default"},
            True,
            id="an empty name is none",
        ),
        pytest.param(
            job({"a": "b"}, suspend=False),
            AdmitWorld(default_queue=True),
            {"a": "b", QUEUE: "default"},
            True,
            id="other labels stay",
        ),
        pytest.param(
            job({QUEUE: "q"}, suspend=False),
            AdmitWorld(default_queue=True),
            {QUEUE: "q"},
            True,
            id="its own queue before the default",
        ),
        pytest.param(
            job(suspend=False),
            AdmitWorld(default_queue=True, selected=False),
            None,
            False,
            id="no default queue where the namespace is unselected",
        ),
        pytest.param(
            job(suspend=False, owner={"apiVersion": "batch/v1", "kind": "Job", "name": "o", "controller": True}),
            AdmitWorld(default_queue=True, default_class=True),
            None,
            False,
            id="no defaults for what a queued kind owns",
        ),
        pytest.param(
            job(suspend=False, owner={"apiVersion": "batch/v1", "kind": "CronJob", "name": "o", "controller": True}),
            AdmitWorld(default_queue=True),
            {QUEUE: "default"},
            True,
            id="a CronJob is not queued",
        ),
        pytest.param(
            job(suspend=False, owner={"apiVersion": "batch/v1", "kind": "Job", "name": "o"}),
            AdmitWorld(default_queue=True),
            {QUEUE: "default"},
            True,
            id="an owner that does not control",
        ),
        pytest.param(
            job({QUEUE: "q"}, suspend=False),
            AdmitWorld(managed_ancestor=True),
            {QUEUE: "q"},
            False,
            id="an ancestor is queued",
        ),
        pytest.param(job(suspend=False), AdmitWorld(queueless=True), None, True, id="all jobs are held back"),
        pytest.param(
            job(suspend=False),
            AdmitWorld(queueless=True, selected=False),
            None,
            False,
            id="all jobs, but not in this namespace",
        ),
        pytest.param(
            job({QUEUE: "q"}),
            AdmitWorld(default_class=True),
            {QUEUE: "q", CLASS: "default"},
            True,
            id="of the default class",
        ),
        pytest.param(
            job({QUEUE: "q", CLASS: "high"}),
            AdmitWorld(default_class=True),
            {QUEUE: "q", CLASS: "high"},
            True,
            id="its own class before the default",
        ),
        pytest.param(
            job({QUEUE: "q"}),
            AdmitWorld(default_class=True, gates=gates(WorkloadPriorityClassDefaulting=False)),
            {QUEUE: "q"},
            True,
            id="no default class without the gate",
        ),
        pytest.param(job({QUEUE: "q"}, {STOPPING: "true"}), AdmitWorld(), {QUEUE: "q"}, True, id="still being stopped"),
    ],
)
def test_a_new_job_is_completed(new: Tree, world: AdmitWorld, labels: Tree | None, suspend: bool) -> None:
    before = repr(new)
    tree: Any = asked("mutate", new, None, world).tree or new
    assert tree["metadata"].get("labels") == labels
    assert tree["spec"]["suspend"] is suspend
    assert repr(new) == before, "the object that came in was altered"


@pytest.mark.parametrize("on", [True, False])
def test_a_job_that_is_being_deleted_is_held_back_only_without_the_gate(on: bool) -> None:
    new = job({QUEUE: "q"}, suspend=False)
    new["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    verdict = asked("mutate", new, None, AdmitWorld(gates=gates(SkipAncestorCheckForDeletedWorkloads=on)))
    assert (verdict.tree is None) is on


def test_a_job_that_is_there_is_left_as_it_is() -> None:
    new = job({QUEUE: "q"}, suspend=False)
    assert asked("mutate", new, new, AdmitWorld(default_class=True)) == Verdict()


def label(key: str) -> str:
    return f"metadata.labels[{key}]"


def note(key: str) -> str:
    return f"metadata.annotations[{key}]"


@pytest.mark.parametrize(
    ("new", "says"),
    [
        pytest.param(job({QUEUE: "q"}), "", id="nothing wrong"),
        pytest.param(
            job({QUEUE: "a_b"}), f'{label(QUEUE)}: Invalid value: "a_b": {SUBDOMAIN}', id="a queue of an odd name"
        ),
        pytest.param(job({QUEUE: ""}), f'{label(QUEUE)}: Invalid value: "": {SUBDOMAIN}', id="a queue without a name"),
        pytest.param(
            job({PREBUILT: "A"}), f'{label(PREBUILT)}: Invalid value: "A": {SUBDOMAIN}', id="a prebuilt one by label"
        ),
        pytest.param(
            job({PREBUILT: "A"}, {PREBUILT: "B"}),
            f'{note(PREBUILT)}: Invalid value: "B": {SUBDOMAIN}',
            id="the annotation before the label",
        ),
        pytest.param(
            job({LIMIT: "abc"}),
            f'{label(LIMIT)}: Invalid value: "abc": strconv.Atoi: parsing "abc": invalid syntax',
            id="no number of seconds",
        ),
        pytest.param(job({LIMIT: "0"}), f"{label(LIMIT)}: Invalid value: 0: should be greater than 0", id="no seconds"),
        pytest.param(
            job({LIMIT: "-1"}), f"{label(LIMIT)}: Invalid value: -1: should be greater than 0", id="fewer than none"
        ),
        pytest.param(job({LIMIT: "2147483647"}), "", id="the longest time"),
        pytest.param(
            job({LIMIT: "2147483648"}),
            f"{label(LIMIT)}: Invalid value: 2147483648: should be at most 2147483647",
            id="longer than the API can say",
        ),
        pytest.param(
            job({LIMIT: "9" * 20}),
            f'{label(LIMIT)}: Invalid value: "{"9" * 20}": strconv.Atoi: parsing "{"9" * 20}": value out of range',
            id="longer than anybody can count",
        ),
        pytest.param(
            job(annotations={MINIMUM: "two"}, parallelism=4),
            f'{note(MINIMUM)}: Invalid value: "two": strconv.Atoi: parsing "two": invalid syntax',
            id="no number of pods",
        ),
        pytest.param(
            job(annotations={MINIMUM: "0"}, parallelism=4),
            f"{note(MINIMUM)}: Invalid value: 0: should be between 0 and 3",
            id="no pods at least",
        ),
        pytest.param(job(annotations={MINIMUM: "3"}, parallelism=4), "", id="one fewer than all"),
        pytest.param(
            job(annotations={MINIMUM: "4"}, parallelism=4),
            f"{note(MINIMUM)}: Invalid value: 4: should be between 0 and 3",
            id="all pods at least",
        ),
        pytest.param(
            job(annotations={MINIMUM: "2"}, parallelism=4, completions=2),
            f"{note(MINIMUM)}: Invalid value: 2: should be between 0 and 1",
            id="completions limit the pods",
        ),
        pytest.param(
            job(annotations={MINIMUM: "2", ELASTIC: "true"}, parallelism=4),
            f'{note(MINIMUM)}: Invalid value: "2": partial admission and elastic job cannot be used together',
            id="partial and elastic",
        ),
        pytest.param(
            job(annotations={EQUAL: "maybe"}),
            f'{note(EQUAL)}: Invalid value: "maybe": strconv.ParseBool: parsing "maybe": invalid syntax',
            id="neither true nor false",
        ),
        pytest.param(job(annotations={EQUAL: "false"}, parallelism=2), "", id="not asked for"),
        pytest.param(
            job(annotations={EQUAL: "true"}, parallelism=2, completions=2),
            f'{note(EQUAL)}: Invalid value: "true": should not be enabled for NonIndexed jobs',
            id="in step without indexes",
        ),
        pytest.param(
            job(annotations={EQUAL: "true"}, parallelism=2, completions=3, completionMode="Indexed"),
            f"spec.completions: Invalid value: 3: should be equal to parallelism when {EQUAL} annotation is true",
            id="out of step",
        ),
        pytest.param(
            job(annotations={EQUAL: "1"}, parallelism=2),
            f'[{note(EQUAL)}: Invalid value: "1": should not be enabled for NonIndexed jobs, '
            f"spec.completions: Invalid value: null: should be equal to parallelism when {EQUAL} annotation is true]",
            id="two mistakes at once",
        ),
        pytest.param(
            job(annotations={GATED: "a.io/x,,a.io/x"}),
            f'[{note(GATED)}: Invalid value: "a.io/x,,a.io/x": cannot contain empty gate names, '
            f'{note(GATED)}: Invalid value: "a.io/x,,a.io/x": duplicate gate name: a.io/x]',
            id="gates without a name and twice",
        ),
        pytest.param(
            job(annotations={GATED: "x"}),
            f'{note(GATED)}: Invalid value: "x": must be a domain-prefixed path (such as "acme.io/foo")',
            id="a gate without a domain",
        ),
        pytest.param(
            job(annotations={GATED: f"a.io/{LONG}"}),
            f"{note(GATED)}: Too long: may not be more than 63 bytes",
            id="a gate of a long name",
        ),
        pytest.param(
            job(placed={REQUIRED: "rack", PREFERRED: "rack"}),
            f'{TEMPLATE}: Invalid value: must not contain more than one topology annotation: ["{REQUIRED}", '
            f'"{PREFERRED}", "{UNCONSTRAINED}"]',
            id="two modes of placement",
        ),
        pytest.param(
            job(placed={REQUIRED: "a b"}),
            f'{TEMPLATE}[{REQUIRED}]: Invalid value: "a b": {LABEL_NAME}',
            id="a level that is no label",
        ),
        pytest.param(
            job(placed={UNCONSTRAINED: "yes"}),
            f'{TEMPLATE}[{UNCONSTRAINED}]: Invalid value: "yes": must be a boolean value',
            id="neither constrained nor not",
        ),
        pytest.param(
            job(placed={GROUPED: "7"}),
            f'[{TEMPLATE}[{GROUPED}]: Invalid value: "7": must not be a number, {TEMPLATE}[{GROUPED}]: Forbidden: '
            f"may not be set when neither '{PREFERRED}' nor '{REQUIRED}' is specified]",
            id="a group that is a number, and placed nowhere",
        ),
        pytest.param(
            job(placed={SLICE: "rack"}),
            f"{TEMPLATE}[{SIZE}]: Required value: must be set when '{SLICE}' is specified",
            id="slices without a size",
        ),
        pytest.param(
            job(placed={SIZE: "2"}),
            f"{TEMPLATE}[{SIZE}]: Forbidden: may not be set when '{SLICE}' is not specified",
            id="a size without slices",
        ),
        pytest.param(
            job(placed={SLICE: "rack", SIZE: "two"}),
            f'{TEMPLATE}[{SIZE}]: Invalid value: "two": must be a numeric value',
            id="a size that is no number",
        ),
        pytest.param(
            job(placed={SLICE: "rack", SIZE: "0"}),
            f'{TEMPLATE}[{SIZE}]: Invalid value: "0": must be greater than or equal to 1',
            id="slices of nothing",
        ),
        pytest.param(
            job(placed={SLICE: "rack", SIZE: "3"}, parallelism=2),
            f'{TEMPLATE}[{SIZE}]: Invalid value: "3": must not be greater than pod set count 2',
            id="slices larger than the whole",
        ),
        pytest.param(
            job(placed={SLICE: "rack", SIZE: "2", GROUPED: "g", REQUIRED: "rack"}, parallelism=2),
            f"[{TEMPLATE}[{GROUPED}]: Forbidden: may not be set when '{SIZE}' is specified, "
            f"{TEMPLATE}[{GROUPED}]: Forbidden: may not be set when '{SLICE}' is specified]",
            id="a group with slices",
        ),
        pytest.param(
            job(placed={LAYERS: "[]"}),
            f'{TEMPLATE}[{LAYERS}]: Invalid value: "[]": topology constraints must contain between 1 and 3 entries',
            id="no layers",
        ),
        pytest.param(
            job(placed={LAYERS: '[{"topology":"rack","size":4},{"topology":"rack","size":3}]'}, parallelism=4),
            f'[{TEMPLATE}[{LAYERS}][1].topology: Duplicate value: "rack (also at index 0)", '
            f"{TEMPLATE}[{LAYERS}][1].size: Invalid value: 3: must evenly divide the parent layer size 4]",
            id="layers that do not nest",
        ),
        pytest.param(
            job(placed={LAYERS: '[{"topology":"rack","size":4}]'}, parallelism=2),
            f"{TEMPLATE}[{LAYERS}]: Invalid value: 4: must not be greater than pod set count 2",
            id="a layer larger than the whole",
        ),
        pytest.param(
            job(placed={LAYERS: '[{"topology":"rack","size":0}]'}),
            f"{TEMPLATE}[{LAYERS}][0].size: Invalid value: 0: must be greater than or equal to 1",
            id="a layer of nothing",
        ),
        pytest.param(
            job(placed={LAYERS: '[{"topology":"rack","size":1}]', SLICE: "rack", SIZE: "1"}),
            f"[{TEMPLATE}[{LAYERS}]: Forbidden: may not be set when '{SLICE}' is specified, "
            f"{TEMPLATE}[{LAYERS}]: Forbidden: may not be set when '{SIZE}' is specified]",
            id="layers beside slices",
        ),
        pytest.param(
            job(annotations={ELASTIC: "true"}, placed={REQUIRED: "rack"}),
            f"{TEMPLATE}.{REQUIRED}: Forbidden: required topology is not supported with elastic jobs",
            id="elastic in a required place",
        ),
        pytest.param(
            job(annotations={ELASTIC: "true"}, placed={PREFERRED: "rack"}),
            f"{TEMPLATE}.{PREFERRED}: Forbidden: preferred topology is not supported with elastic jobs",
            id="elastic in a preferred place",
        ),
    ],
)
def test_a_new_job_is_refused_in_these_words(new: Tree, says: str) -> None:
    assert asked("validate", new).message == says


@pytest.mark.parametrize(
    ("new", "gate"),
    [
        pytest.param(job(annotations={GATED: ","}), "AdmissionGatedBy", id="gates"),
        pytest.param(job(placed={SIZE: "2"}), "TopologyAwareScheduling", id="topology"),
        pytest.param(
            job(annotations={MINIMUM: "2", ELASTIC: "true"}, parallelism=4),
            "ElasticJobsViaWorkloadSlices",
            id="elastic",
        ),
        pytest.param(job(annotations={PREBUILT: "B"}), "WorkloadIdentifierAnnotations", id="prebuilt by annotation"),
    ],
)
def test_a_rule_goes_with_its_gate(new: Tree, gate: str) -> None:
    off = AdmitWorld(gates=gates(**{gate: False}))
    assert asked("validate", new).message
    assert asked("validate", new, None, off).message == ""


def test_a_prebuilt_name_too_long_for_a_label_is_read_without_the_gate() -> None:
    off = AdmitWorld(gates=gates(WorkloadIdentifierAnnotations=False))
    verdict = asked("validate", job(annotations={PREBUILT: LONG.upper()}), None, off)
    assert verdict.message == f'{note(PREBUILT)}: Invalid value: "{LONG.upper()}": {SUBDOMAIN}'


def test_layers_are_refused_without_their_gate() -> None:
    off = AdmitWorld(gates=gates(TASMultiLayerTopology=False))
    says = "Forbidden: the TASMultiLayerTopology feature gate must be enabled to use this annotation"
    assert asked("validate", job(placed={LAYERS: "[]"}), None, off).message == f"{TEMPLATE}[{LAYERS}]: {says}"


def test_layers_that_are_no_list_are_refused() -> None:
    message = asked("validate", job(placed={LAYERS: "{"})).message
    assert message.startswith(f'{TEMPLATE}[{LAYERS}]: Invalid value: "{{": must be a valid JSON array: ')


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        pytest.param(job({QUEUE: "a"}), job({QUEUE: "b"}), "", id="to another queue while it waits"),
        pytest.param(
            job({QUEUE: "a"}, suspend=False),
            job({QUEUE: "b"}, suspend=False),
            f'{label(QUEUE)}: Invalid value: "b": field is immutable',
            id="to another queue while it runs",
        ),
        pytest.param(
            job({QUEUE: "a"}),
            job({QUEUE: "b"}, {STOPPING: "true"}),
            f'{label(QUEUE)}: Invalid value: "b": field is immutable',
            id="to another queue while it is being stopped",
        ),
        pytest.param(job({QUEUE: "a"}, suspend=False), job({QUEUE: "b"}), "", id="to another queue as it is stopped"),
        pytest.param(
            job({QUEUE: "a"}),
            job({QUEUE: "a_b"}),
            f'{label(QUEUE)}: Invalid value: "a_b": {SUBDOMAIN}',
            id="to a queue of an odd name",
        ),
        pytest.param(job({QUEUE: "a"}), job({}), "", id="out of the queue"),
        pytest.param(
            job({PREBUILT: "a"}, suspend=False),
            job({PREBUILT: "b"}, suspend=False),
            f'{label(PREBUILT)}: Invalid value: "b": field is immutable',
            id="another prebuilt one while it runs",
        ),
        pytest.param(job({PREBUILT: "a"}), job({PREBUILT: "b"}), "", id="another prebuilt one while it waits"),
        pytest.param(
            job({PREBUILT: "a"}, {ELASTIC: "true"}, suspend=False),
            job({PREBUILT: "b"}, {ELASTIC: "true"}, suspend=False),
            "",
            id="another prebuilt one for an elastic job",
        ),
        pytest.param(job({LIMIT: "1"}), job({LIMIT: "2"}), "", id="a longer time while it waits"),
        pytest.param(
            job({LIMIT: "1"}, suspend=False),
            job({LIMIT: "2"}, suspend=False),
            f'{label(LIMIT)}: Invalid value: "2": field is immutable',
            id="a longer time while it runs",
        ),
        pytest.param(
            job({LIMIT: "1"}, suspend=False),
            job({}),
            f'{label(LIMIT)}: Invalid value: "": field is immutable',
            id="no limit as it is stopped",
        ),
        pytest.param(job({}), job({CLASS: "high"}), "", id="a class while it waits"),
        pytest.param(
            job({}, suspend=False),
            job({CLASS: "high"}, suspend=False),
            f'{label(CLASS)}: Invalid value: "high": WorkloadPriorityClass cannot be added to a non-suspended workload',
            id="a class while it runs",
        ),
        pytest.param(
            job({CLASS: "low"}, suspend=False), job({CLASS: "high"}, suspend=False), "", id="another class any time"
        ),
        pytest.param(
            job({CLASS: "low"}),
            job({}),
            f'{label(CLASS)}: Invalid value: "": WorkloadPriorityClass cannot be removed from a workload',
            id="no class any more",
        ),
        pytest.param(
            job(),
            job(annotations={ELASTIC: "true"}),
            f"{note(ELASTIC)}: Invalid value: true: field is immutable",
            id="elastic from now on",
        ),
        pytest.param(
            job(annotations={ELASTIC: "true"}),
            job(),
            f"{note(ELASTIC)}: Invalid value: false: field is immutable",
            id="elastic no more",
        ),
        pytest.param(
            job(),
            job(annotations={GATED: "a.io/x"}),
            f"{note(GATED)}: Forbidden: cannot add admission gate after creation",
            id="a gate too late",
        ),
        pytest.param(
            job(annotations={GATED: "a.io/x"}),
            job(annotations={GATED: "a.io/x,a.io/y"}),
            f"{note(GATED)}: Forbidden: can only remove gates, not add new ones",
            id="one gate more",
        ),
        pytest.param(
            job(annotations={GATED: "a.io/x,a.io/y"}), job(annotations={GATED: "a.io/y"}), "", id="one gate fewer"
        ),
        pytest.param(job(annotations={GATED: "a.io/x"}), job(), "", id="all gates open"),
        pytest.param(
            job(annotations={MINIMUM: "1"}, parallelism=3, suspend=False),
            job(annotations={MINIMUM: "1"}, parallelism=4, suspend=False),
            "spec.parallelism: Forbidden: cannot change when partial admission is enabled and the job is not suspended",
            id="more pods of a partial job",
        ),
        pytest.param(
            job(annotations={MINIMUM: "2"}, parallelism=3),
            job(annotations={MINIMUM: "2"}, parallelism=2, suspend=False),
            "",
            id="started with the least it accepts",
        ),
        pytest.param(
            job(annotations={MINIMUM: "2"}, parallelism=3),
            job(annotations={MINIMUM: "3"}, parallelism=3),
            f"{note(MINIMUM)}: Invalid value: 3: should be between 0 and 2",
            id="a least number that is all",
        ),
        pytest.param(
            job(annotations={EQUAL: "false"}, parallelism=2, completions=2, completionMode="Indexed", suspend=False),
            job(annotations={EQUAL: "true"}, parallelism=2, completions=2, completionMode="Indexed", suspend=False),
            f"{note(EQUAL)}: Forbidden: field is immutable while the job is not suspended",
            id="in step from now on",
        ),
        pytest.param(
            job({QUEUE: "a_b"}, {EQUAL: "x"}, suspend=False, placed={SIZE: "1"}),
            job({QUEUE: "a_b"}, {EQUAL: "x"}, suspend=True, placed={SIZE: "1"}),
            "",
            id="what was wrong before does not keep it from being stopped",
        ),
        pytest.param(
            job({LIMIT: "x"}),
            job({LIMIT: "y"}),
            f'{label(LIMIT)}: Invalid value: "y": strconv.Atoi: parsing "y": invalid syntax',
            id="wrong in another way",
        ),
    ],
)
def test_a_change_of_a_job_is_judged_in_these_words(old: Tree, new: Tree, says: str) -> None:
    assert asked("validate", new, old).message == says


def test_a_job_may_not_leave_its_queue_where_there_is_a_default_one() -> None:
    verdict = asked("validate", job(), job({QUEUE: "a"}), AdmitWorld(default_queue=True))
    says = f'{label(QUEUE)}: Invalid value: "": queue-name must not be empty in namespace with default queue'
    assert verdict.message == says


def test_whatever_is_deleted_may_go() -> None:
    assert asked("validate", {}, job({QUEUE: "a_b"}), operation="DELETE") == Verdict()


def test_an_object_on_its_way_out_is_let_go_of_whatever_is_wrong_with_it() -> None:
    queue = cluster_queue()
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "-1"
    leaving = {**queue, "metadata": {"name": "q", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    changed = {**leaving, "spec": {**leaving["spec"], "cohortName": "c"}}
    assert ours("validate", leaving, queue).allowed
    assert not ours("validate", changed, queue).allowed


@pytest.mark.parametrize("stage", ["mutate", "validate"])
@pytest.mark.parametrize(
    ("group", "kind"),
    [
        pytest.param("", "Pod", id="a pod"),
        pytest.param("jobset.x-k8s.io", "JobSet", id="a JobSet"),
        pytest.param("other.io", "ClusterQueue", id="somebody else's ClusterQueue"),
        pytest.param("kueue.x-k8s.io", "LocalQueue", id="a LocalQueue"),
    ],
)
def test_what_we_do_not_judge_is_let_through_as_it_is(stage: Stage, group: str, kind: str) -> None:
    assert asked(stage, job({QUEUE: "a_b"}), group=group, kind=kind) == Verdict()


@pytest.mark.parametrize(
    "tree",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"metadata": None, "spec": None}, id="nulls"),
        pytest.param({"metadata": [], "spec": 3}, id="of other types"),
        pytest.param(
            {"metadata": {"labels": {QUEUE: 3}, "annotations": []}, "spec": {"template": "x"}}, id="odd parts"
        ),
        pytest.param({"metadata": {"ownerReferences": [3, {"controller": True}]}, "spec": {}}, id="odd owners"),
    ],
)
@pytest.mark.parametrize("kind", ["Job", "ClusterQueue", "Cohort", "ResourceFlavor", "Workload"])
def test_an_object_of_no_shape_at_all_is_survived(tree: Tree, kind: str) -> None:
    world = AdmitWorld(default_queue=True, default_class=True, queueless=True)
    group = "batch" if kind == "Job" else "kueue.x-k8s.io"
    completed = asked("mutate", tree, None, world, group=group, kind=kind)
    assert completed.allowed
    asked("validate", tree, None, world, group=group, kind=kind)
    asked("validate", tree, tree, world, group=group, kind=kind)


def cluster_queue(version: str = "v1beta2", **spec: Any) -> Tree:
    return builders.cluster_queue("q", **spec) | {"apiVersion": f"kueue.x-k8s.io/{version}"}


def workload(**spec: object) -> Tree:
    pod_set = {"name": "main", "count": 3, "minCount": 1, "template": {"spec": {"containers": [{"name": "c"}]}}}
    return made(WORKLOADS, "w", "team", spec={"podSets": [pod_set], **spec})


@pytest.mark.parametrize("kind", ["ClusterQueue", "ResourceFlavor"])
def test_our_objects_are_kept_while_they_are_in_use(kind: str) -> None:
    new = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": "x", "finalizers": ["other"]}}
    verdict = ours("mutate", new)
    assert verdict.tree is not None
    assert verdict.tree["metadata"] == {"name": "x", "finalizers": ["other", "kueue.x-k8s.io/resource-in-use"]}
    assert ours("mutate", {**new, **verdict.tree}) == Verdict()


@pytest.mark.parametrize("on", [True, False])
def test_a_workload_is_partial_only_with_the_gate(on: bool) -> None:
    verdict = ours("mutate", workload(), None, AdmitWorld(gates=gates(PartialAdmission=on)))
    tree: Any = verdict.tree or workload()
    assert ("minCount" in tree["spec"]["podSets"][0]) is on


def test_a_queue_is_refused_by_the_rules_of_its_kind() -> None:
    new = cluster_queue()
    new["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0] |= {"nominalQuota": "-1", "lendingLimit": "1"}
    path = "spec.resourceGroups[0].flavors[0].resources[0]"
    message = ours("validate", new).message
    assert message.startswith("[")
    assert f'{path}.nominalQuota: Invalid value: "-1": must be greater than or equal to 0' in message
    assert f'{path}.lendingLimit: Invalid value: "1": must be nil when cohort is empty' in message


def test_an_older_version_is_judged_as_the_newer() -> None:
    new = cluster_queue("v1beta1", cohort="all")
    new["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["borrowingLimit"] = "1"
    assert ours("validate", new).message == ""
    del new["spec"]["cohort"]
    assert "must be nil when cohort is empty" in ours("validate", new).message


def test_what_was_wrong_with_a_workload_does_not_keep_its_status_from_being_written() -> None:
    wrong = workload()
    wrong["spec"]["podSets"].append({**wrong["spec"]["podSets"][0], "name": "other"})
    moment = "2026-01-01T00:00:00Z"
    condition = {"type": "QuotaReserved", "status": "True", "reason": "X", "message": "", "lastTransitionTime": moment}
    reserved = {"conditions": [condition]}
    assert ours("validate", wrong).message.endswith("at most one podSet can use minCount")
    assert ours("validate", {**wrong, "status": {"conditions": []}}, wrong).message == ""
    late = ours("validate", {**wrong, "status": reserved}, wrong).message
    assert late == "status.admission: Required value: must be set while the QuotaReserved condition is true"
    edited = {**wrong, "spec": {**wrong["spec"], "priority": 1}}
    assert ours("validate", edited, wrong).message.endswith("at most one podSet can use minCount")


def test_a_workload_is_judged_by_what_the_schema_leaves_to_the_webhook() -> None:
    new = workload(priorityClassRef={"group": "kueue.x-k8s.io", "kind": "PriorityClass", "name": "high"})
    new["spec"]["podSets"] *= 2
    said = ours("validate", new).message
    assert 'spec: Invalid value: "object": priority should not be nil when priorityClassRef is set' in said
    assert 'spec.priorityClassRef: Invalid value: "object": only the WorkloadPriorityClass kind is allowed' in said
    assert 'spec.podSets[1]: Duplicate value: {"name":"main"}' in said


def test_a_workload_written_in_the_older_version_is_judged_by_the_rules_of_the_newer() -> None:
    new = workload(priorityClassName="high", priorityClassSource="kueue.x-k8s.io/workloadpriorityclass")
    new["apiVersion"] = "kueue.x-k8s.io/v1beta1"
    says = 'spec: Invalid value: "object": priority should not be nil when priorityClassRef is set'
    assert ours("validate", new).message == says
    new["spec"]["priority"] = 1
    assert ours("validate", new).message == ""


def test_the_queue_of_a_workload_that_holds_quota_stays() -> None:
    moment = "2026-01-01T00:00:00Z"
    condition = {"type": "QuotaReserved", "status": "True", "reason": "X", "message": "", "lastTransitionTime": moment}
    given = {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "count": 3}]}
    status = {"conditions": [condition], "admission": given}
    old = {**workload(queueName="a"), "status": status}
    says = 'Invalid value: "object": queueName is immutable while workload quota reserved'
    assert ours("validate", {**workload(queueName="b"), "status": status}, old).message == says
    assert ours("validate", {**workload(queueName="b"), "status": {}}, old).message == ""


@pytest.mark.parametrize(
    ("new", "old", "by_creation", "warned"),
    [
        pytest.param("StrictFIFO", None, True, True, id="a strict queue, by creation"),
        pytest.param("StrictFIFO", None, False, False, id="a strict queue, by eviction"),
        pytest.param("BestEffortFIFO", None, True, False, id="best effort, by creation"),
        pytest.param("StrictFIFO", "BestEffortFIFO", True, True, id="strict from now on"),
        pytest.param("StrictFIFO", "StrictFIFO", True, False, id="as strict as before"),
    ],
)
def test_a_strict_queue_by_creation_is_warned_of(new: str, old: str | None, by_creation: bool, warned: bool) -> None:
    before = None if old is None else cluster_queue(queueingStrategy=old)
    verdict = ours("validate", cluster_queue(queueingStrategy=new), before, AdmitWorld(creation_order=by_creation))
    assert verdict.allowed
    assert verdict.warnings == ((STRICT_BY_CREATION,) if warned else ())
    assert len(STRICT_BY_CREATION) < 256, "a server may cut longer warnings"


def test_a_job_whose_queue_means_nothing_in_its_namespace_is_warned_of() -> None:
    outside = AdmitWorld(selected=False)
    assert asked("validate", job({QUEUE: "q"}), None, outside).warnings == (UNSELECTED,)
    assert asked("validate", job(), None, outside).warnings == ()
    assert asked("validate", job({QUEUE: "q"}), job({QUEUE: "q"}), outside).warnings == ()


def test_a_patch_says_how_one_object_becomes_the_other() -> None:
    old = {"metadata": {"labels": {"a": "b"}, "x": 1}, "spec": {"suspend": False, "list": [1]}}
    new = {"metadata": {"labels": {"a": "b", "k/e~y": "v"}}, "spec": {"suspend": True, "list": [1, 2], "new": {}}}
    assert json_patch(old, new) == [
        {"op": "remove", "path": "/metadata/x"},
        {"op": "add", "path": "/metadata/labels/k~1e~0y", "value": "v"},
        {"op": "replace", "path": "/spec/suspend", "value": True},
        {"op": "replace", "path": "/spec/list", "value": [1, 2]},
        {"op": "add", "path": "/spec/new", "value": {}},
    ]
