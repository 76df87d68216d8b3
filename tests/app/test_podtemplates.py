"""Which pod templates of Workloads are rejected, and which fields of them are unknown?"""

from typing import Any

import pytest

from pykueue.app.podtemplates import PodTemplates
from pykueue.jobs.admit import Operation, Review, Strictness, Verdict, admit
from pykueue.jobs.admit_world import AdmitWorld

Tree = dict[str, Any]

WORLD = AdmitWorld(templates=PodTemplates())
AT = "spec.podSets[0].template"


def pods(**spec: object) -> Tree:
    return {"spec": {"containers": [{"name": "main"}], **spec}}


def requesting(amount: object) -> Tree:
    return pods(containers=[{"name": "main", "resources": {"requests": {"cpu": amount}}}])


def workload(*templates: Tree, queue: str = "q") -> Tree:
    pod_sets = [{"name": f"set-{i}", "count": 1, "template": template} for i, template in enumerate(templates)]
    spec = {"queueName": queue, "podSets": pod_sets}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "w"}, "spec": spec}


def asked(new: Tree, old: Tree | None = None, validation: Strictness = "") -> Verdict:
    operation: Operation = "CREATE" if old is None else "UPDATE"
    review = Review("validate", operation, "kueue.x-k8s.io", "Workload", new, old, validation=validation)
    return admit(review, WORLD)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        pytest.param(
            requesting("xx"),
            f"{AT}.spec.containers[0].resources.requests.cpu: Invalid value: \"xx\": 'xx' is not a quantity; write a "
            "number with an optional suffix, as in 500m, 2, 1.5Gi",
            id="a request that is no quantity",
        ),
        pytest.param(
            {"spec": {"restartPolicy": 7, "containers": "none"}},
            f'[{AT}.spec.containers: Invalid value: "string": {AT}.spec.containers in body must be of type array: '
            f'"string", {AT}.spec.restartPolicy: Invalid value: "integer": {AT}.spec.restartPolicy in body must be of '
            'type string: "integer"',
            id="a text for containers, a number for a text",
        ),
        pytest.param({"spec": {}}, f"{AT}.spec.containers: Required value", id="no containers"),
        pytest.param(
            pods(containers=[{"name": "main", "env": [{"name": 1}]}]),
            f'{AT}.spec.containers[0].env[0].name: Invalid value: "integer"',
            id="deep in a field that we do not read",
        ),
        pytest.param(
            pods(volumes=[{"name": "v", "emptyDir": {"sizeLimit": "zz"}}]),
            f'{AT}: Invalid value: "": quantities must match the regular expression',
            id="a quantity in a field that we do not read",
        ),
        pytest.param(
            pods(containers=[{"name": "a"}, {"name": "a"}]),
            f'{AT}.spec.containers[1]: Duplicate value: {{"name":"a"}}',
            id="two containers of one name",
        ),
    ],
)
def test_a_template_that_kueue_could_not_read_is_rejected(template: Tree, said: str) -> None:
    assert asked(workload(template)).message.startswith(said)
    assert asked(workload(template), workload(pods())).message.startswith(said), "nor may an update bring it in"
    stored = workload(template)
    assert asked(workload(template, queue="other"), stored).allowed, "what is stored already may stay"
    assert asked(workload(template, pods()), stored).allowed


@pytest.mark.parametrize(
    "template",
    [
        pytest.param(pods(restartPolicy="Never", tolerations=[{"operator": "New"}]), id="texts of a newer server"),
        pytest.param({"metadata": {"creationTimestamp": None}, **requesting(1)}, id="as Go writes it"),
        pytest.param({}, id="nothing"),
        pytest.param(
            pods(
                containers=[{"name": "main", "livenessProbe": {"httpGet": {"port": "http"}}, "ports": []}],
                volumes=[{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}],
            ),
            id="ports by name",
        ),
    ],
)
def test_a_template_that_kueue_accepts_is_accepted(template: Tree) -> None:
    assert asked(workload(template), validation="Strict") == Verdict()


def test_unknown_fields_are_treated_as_the_request_asks() -> None:
    tree = workload(pods(restartPolcy="Never"))
    told = f'unknown field "{AT}.spec.restartPolcy"'
    for validation in ("", "Ignore", "Warn"):
        assert asked(tree, validation=validation) == Verdict()
    assert asked(tree, validation="Strict").message == f"strict decoding error: {told}"
    assert asked(workload(pods(restartPolcy="Never"), queue="other"), tree, "Strict") == Verdict(), "stored already"
