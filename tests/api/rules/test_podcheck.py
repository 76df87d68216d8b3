"""Is every slip in a pod template or a Job found, at once, in words that help?"""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykueue.api.pods import Job, PodTemplate, TemplateError, from_tree
from pykueue.api.rules.podcheck import job_problems, template_problems
from pykueue.api.schema import problems, unknown_problems
from pykueue.api.workload import Workload

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def container(**changes: object) -> dict[str, object]:
    return {"name": "c", "image": "i", **changes}


def template(**spec: object) -> dict[str, object]:
    return {"spec": {"containers": [container()], "restartPolicy": "Never", **spec}}


def asking(**resources: object) -> dict[str, object]:
    return template(containers=[container(resources=resources)])


def on_nodes(*terms: object) -> dict[str, object]:
    return template(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}})


def expression(**requirement: object) -> dict[str, object]:
    return on_nodes({"matchExpressions": [requirement]})


def job(**spec: object) -> dict[str, object]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "creationTimestamp": None},
        "spec": {"parallelism": 2, "completions": 2, "backoffLimit": 0, "template": template(), **spec},
        "status": {"active": 1},
    }


C = "spec.containers[0]"
TERM = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0]"
NO_OPERATOR = 'Invalid value: "Foo": not a valid selector operator'


@pytest.mark.parametrize(
    ("tree", "texts"),
    [
        pytest.param(template(), [], id="a good template"),
        pytest.param(asking(requests={"cpu": 0.5, "memory": "1Gi"}, limits={"cpu": 1}, claims=[]), [], id="amounts"),
        pytest.param(
            asking(request={"cpu": 100}),
            [f"{C}.resources.request: unknown field; did you mean requests?"],
            id="a letter too few",
        ),
        pytest.param(
            template(initContainers=[container(Command=["x"])]),
            ["spec.initContainers[0].Command: unknown field; did you mean command?"],
            id="a capital",
        ),
        pytest.param(
            template(nodeselector={"a": "b"}, zzz=1),
            [
                "spec.nodeselector: unknown field; did you mean nodeSelector?",
                "spec.zzz: unknown field; correct its name or remove it",
            ],
            id="two names that are none",
        ),
        pytest.param(
            {"specs": {}, "spec": {"containers": [container()]}},
            ["specs: unknown field; did you mean spec?"],
            id="at the top",
        ),
        pytest.param({}, ["spec.containers: Required value"], id="nothing"),
        pytest.param({"spec": {}}, ["spec.containers: Required value"], id="no containers"),
        pytest.param(template(containers=[]), ["spec.containers: Required value"], id="an empty list of containers"),
        pytest.param(template(containers=[{"image": "i"}]), [f"{C}.name: Required value"], id="no name"),
        pytest.param(template(containers=[container(name="")]), [f"{C}.name: Required value"], id="an empty name"),
        pytest.param(
            template(containers=[container(), container()]),
            ['spec.containers[1].name: Duplicate value: "c"'],
            id="two of one name",
        ),
        pytest.param(
            template(containers="c"),
            ['spec.containers: Invalid value: "string": spec.containers in body must be of type array: "string"'],
            id="a text for containers",
        ),
        pytest.param(
            asking(requests={"cpu": "abc"}),
            [
                f'{C}.resources.requests.cpu: Invalid value: "abc": \'abc\' is not a quantity; '
                "write a number with an optional suffix, as in 500m, 2, 1.5Gi"
            ],
            id="no quantity",
        ),
        pytest.param(
            asking(limits={"cpu": True}),
            [
                f'{C}.resources.limits.cpu: Invalid value: "boolean": '
                f'{C}.resources.limits.cpu in body must be of type integer,number,string: "boolean"'
            ],
            id="a boolean for a quantity",
        ),
        pytest.param(
            asking(requests={"cpu": "-1"}),
            [f'{C}.resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0'],
            id="less than nothing",
        ),
        pytest.param(
            template(overhead={"memory": "x"}, resources={"limits": {"cpu": -1}}),
            [
                "spec.overhead.memory: Invalid value: \"x\": 'x' is not a quantity; "
                "write a number with an optional suffix, as in 500m, 2, 1.5Gi",
                'spec.resources.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
            ],
            id="amounts of the pod",
        ),
        pytest.param(
            expression(key="k", operator="Foo", values=["v"]),
            [f"{TERM}.matchExpressions[0].operator: {NO_OPERATOR}"],
            id="no operator",
        ),
        pytest.param(
            template(
                affinity={
                    "nodeAffinity": {
                        PREFERRED: [{"preference": {"matchExpressions": [{"key": "k", "operator": "Foo"}]}}]
                    }
                }
            ),
            [f"spec.affinity.nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0].operator: {NO_OPERATOR}"],
            id="no operator in a preference",
        ),
        pytest.param(
            expression(key="k", operator="In"),
            [
                f"{TERM}.matchExpressions[0].values: Required value: "
                "must be specified when `operator` is 'In' or 'NotIn'"
            ],
            id="in nothing",
        ),
        pytest.param(
            expression(key="k", operator="Exists", values=["v"]),
            [
                f"{TERM}.matchExpressions[0].values: Forbidden: "
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            ],
            id="exists with a value",
        ),
        pytest.param(
            expression(key="k", operator="Gt", values=["1", "2"]),
            [
                f"{TERM}.matchExpressions[0].values: Required value: "
                "must be specified single value when `operator` is 'Lt' or 'Gt'"
            ],
            id="more than two numbers",
        ),
        pytest.param(
            expression(key="k"), [f"{TERM}.matchExpressions[0].operator: Required value"], id="without an operator"
        ),
        pytest.param(
            on_nodes({"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}),
            [f'{TERM}.matchFields[0].operator: Invalid value: "Exists": not a valid selector operator'],
            id="an operator that fields do not have",
        ),
        pytest.param(
            on_nodes(),
            [
                f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms: Required value: "
                "must have at least one node selector term"
            ],
            id="no term",
        ),
        pytest.param(
            template(affinity={"nodeAfinity": {}}),
            ["spec.affinity.nodeAfinity: unknown field; did you mean nodeAffinity?"],
            id="a letter of affinity",
        ),
        pytest.param(
            template(tolerations=[{"key": "k", "operator": "Foo", "effect": "Bar"}]),
            [
                'spec.tolerations[0].operator: Unsupported value: "Foo": supported values: "Equal", "Exists"',
                'spec.tolerations[0].effect: Unsupported value: "Bar": supported values: '
                '"NoSchedule", "PreferNoSchedule", "NoExecute"',
            ],
            id="neither operator nor effect",
        ),
        pytest.param(
            template(tolerations=[{"operator": "Equal"}]),
            [
                'spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, '
                'which means "match all values and all keys"'
            ],
            id="equal to no key",
        ),
        pytest.param(
            template(tolerations=[{"key": "k", "operator": "Exists", "value": "v", "tolerationSeconds": 5}]),
            [
                "spec.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when "
                "`tolerationSeconds` is set",
                "spec.tolerations[0].operator: Invalid value: \"v\": value must be empty when `operator` is 'Exists'",
            ],
            id="a toleration that contradicts itself",
        ),
        pytest.param(
            [], ['Invalid value: "array": body must be of type object: "array"', "spec.containers: Required value"],
            id="a list",
        ),
        pytest.param(template(tolerations=None, affinity=None, nodeSelector=None), [], id="nulls are absent"),
    ],
)  # fmt: skip
def test_template_problems(tree: object, texts: list[str]) -> None:
    assert [str(error) for error in template_problems(tree)] == texts


def test_the_path_comes_first_and_unknown_fields_may_be_left_out() -> None:
    tree = template(zzz=1, containers=[{"resources": {"request": {}}}])
    at = "spec.podSets[3].template"
    assert [error.path for error in template_problems(tree, at, unknown=False)] == [f"{at}.spec.containers[0].name"]
    assert [error.path for error in template_problems(tree, at)] == [
        f"{at}.spec.containers[0].name",
        f"{at}.spec.containers[0].resources.request",
        f"{at}.spec.zzz",
    ]


@pytest.mark.parametrize(
    ("tree", "texts"),
    [
        pytest.param(job(), [], id="a good job"),
        pytest.param(
            job(paralelism=9), ["spec.paralelism: unknown field; did you mean parallelism?"], id="a letter too few"
        ),
        pytest.param(
            job(parallelism="9", completions=-1, suspend="no"),
            [
                'spec.parallelism: Invalid value: "string": spec.parallelism in body must be of type integer: "string"',
                'spec.suspend: Invalid value: "string": spec.suspend in body must be of type boolean: "string"',
                "spec.completions: Invalid value: -1: must be greater than or equal to 0",
            ],
            id="three at once",
        ),
        pytest.param(job(template=None), ["spec.template: Required value"], id="no template"),
        pytest.param(job(template={}), ["spec.template.spec.containers: Required value"], id="an empty template"),
        pytest.param(
            job(template={"spec": {"restartPolicy": "Always", "containers": [{"name": "a"}]}}),
            ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'],
            id="a restart policy that Jobs cannot have",
        ),
        pytest.param({}, ["spec: Required value"], id="no spec"),
        pytest.param({"metadata": [], "spec": job()["spec"], "stats": {}}, [
            'metadata: Invalid value: "array": metadata in body must be of type object: "array"',
            "stats: unknown field; did you mean status?",
        ], id="no metadata"),
        pytest.param(
            job(template=asking(requests={"cpu": "abc"}, request={})),
            [
                "spec.template.spec.containers[0].resources.requests.cpu: "
                "Invalid value: \"abc\": 'abc' is not a quantity; "
                "write a number with an optional suffix, as in 500m, 2, 1.5Gi",
                "spec.template.spec.containers[0].resources.request: unknown field; did you mean requests?",
            ],
            id="in the template",
        ),
    ],
)  # fmt: skip
def test_job_problems(tree: object, texts: list[str]) -> None:
    assert [str(error) for error in job_problems(tree)] == texts


def workload(tree: object) -> dict[str, object]:
    return {"spec": {"podSets": [{"name": "main", "count": 1, "template": tree}]}}


AT = "spec.podSets[0].template"


@pytest.mark.parametrize(
    ("tree", "refused", "unknown"),
    [
        pytest.param({}, [], [], id="a server lets an empty template pass"),
        pytest.param({"spec": {}}, [f"{AT}.spec.containers: Required value"], [], id="no containers"),
        pytest.param(
            asking(request={"cpu": 1}),
            [],
            [f"{AT}.{C}.resources.request: unknown field; did you mean requests?"],
            id="a server drops what it does not know",
        ),
        pytest.param(
            template(priority="high"),
            [
                f'{AT}.spec.priority: Invalid value: "string": '
                f'{AT}.spec.priority in body must be of type integer: "string"'
            ],
            [],
            id="a wrong type",
        ),
        pytest.param(expression(key="k", operator="Foo"), [], [], id="a server lets operators pass"),
    ],
)
def test_a_workload_is_judged_by_its_templates(tree: object, refused: list[str], unknown: list[str]) -> None:
    assert [str(error) for error in problems(Workload, workload(tree))] == refused
    assert [str(error) for error in unknown_problems(Workload, workload(tree))] == unknown


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            "spec template containers resources requests limits overhead affinity nodeAffinity tolerations key "
            f"operator values nodeSelectorTerms matchExpressions matchFields preference cpu name "
            f"metadata {REQUIRED} {PREFERRED}".split()
        ),
        inner,
        max_size=5,
    ),
    max_leaves=20,
)  # fmt: skip


@settings(deadline=None)
@given(JSON)
def test_what_passes_can_be_read_and_nothing_raises(tree: object) -> None:
    for error in job_problems(tree):
        assert str(error)
    wrapped = {"spec": tree}
    if not template_problems(wrapped):
        from_tree(wrapped, PodTemplate)
    if not job_problems({"spec": {"template": wrapped}}):
        from_tree({"spec": {"template": wrapped}}, Job)


@settings(deadline=None)
@given(JSON)
def test_what_cannot_be_read_does_not_pass(tree: object) -> None:
    try:
        from_tree({"spec": tree}, PodTemplate)
    except TemplateError:
        assert template_problems({"spec": tree})


def test_the_style_guide_shows_what_is_said() -> None:
    guide = Path(__file__).resolve().parents[3] / "docs/style.md"
    (error,) = job_problems(job(template=asking(request={"cpu": 1})))
    assert f"\n{error}\n" in guide.read_text()
