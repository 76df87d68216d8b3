"""Is the autoscaler asked for what the pods will need, no more and no less?"""

from typing import Any

import pytest

from pykueue.api.checks import ProvisioningRequest, ProvisioningRequestConfigSpec
from pykueue.api.codec import decode_as
from pykueue.api.core import Tree
from pykueue.api.workload import Workload
from pykueue.checks.requestspec import (
    Pods,
    asked,
    asks_for,
    digest,
    fault,
    is_needed,
    parameters,
    request_tree,
    template_trees,
)
from pykueue.jobs.podsets import InjectionError, MissingFlavorError
from tests.checks.objects import CHECK, CLASS, CONFIG, FLAVORS, REQUEST, holding, pod_set, request
from tests.jobs.objects import CONTAINER, NAME, PLAIN, flavor, workload

GPU = "example.com/gpu"
PREFIX = "provreq.kueue.x-k8s.io/"
SAME = "IdenticalPodTemplates"
ALIKE = "IdenticalWorkloadSchedulingRequirements"
PLACED: Tree = {
    "nodeSelector": {"pool": "spot"},
    "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
}
"""What the flavor makes of every pod."""
BELONGS: Tree = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "Workload",
    "name": NAME,
    "uid": "w-1",
    "controller": True,
    "blockOwnerDeletion": True,
}


def config(**parts: Any) -> ProvisioningRequestConfigSpec:
    return ProvisioningRequestConfigSpec(**{"provisioning_class_name": CLASS, **parts})


def spec_of(pods: Pods) -> Any:
    return pods.template["spec"]


def counts(seen: Workload, **parts: Any) -> list[tuple[tuple[str, ...], int]]:
    return [(one.pod_sets, one.count) for one in asked(seen, config(**parts), FLAVORS)]


# Which pods, and how many.


@pytest.mark.parametrize(
    ("counted", "expected"),
    [
        pytest.param({}, [(("head",), 1), (("tail",), 4)], id="all, where the assignment does not count"),
        pytest.param({"tail": 2}, [(("head",), 1), (("tail",), 2)], id="as many as were given quota"),
        pytest.param({"tail": 0}, [(("head",), 1)], id="none of a pod set that was given none"),
        pytest.param({"head": 0, "tail": 0}, [], id="none at all"),
    ],
)
def test_pods_are_counted_as_they_were_given_quota(
    counted: dict[str, int | None], expected: list[tuple[tuple[str, ...], int]]
) -> None:
    seen = holding(pod_set("head", 1), pod_set("tail", 4), counts=counted)
    assert counts(seen) == expected
    assert is_needed(seen, CONFIG) == bool(expected)


def test_pod_sets_without_pods_or_without_an_assignment_are_not_asked_for() -> None:
    assert counts(holding(pod_set("none", 0), pod_set("some", 1))) == [(("some",), 1)]
    seen = workload(podSets=[pod_set()])
    assert not is_needed(seen, CONFIG)
    assert asked(seen, CONFIG, FLAVORS) == ()


@pytest.mark.parametrize(
    ("managed", "container", "spec", "needed"),
    [
        pytest.param((), {"resources": {}}, {}, True, id="without a list everything is managed"),
        pytest.param((GPU,), {}, {}, False, id="only cpu, where gpus are managed"),
        pytest.param(
            ("memory", GPU), {"resources": {"requests": {GPU: "1"}}}, {}, True, id="one of several, requested"
        ),
        pytest.param((GPU,), {"resources": {"limits": {GPU: "1"}}}, {}, True, id="in the limits alone"),
        pytest.param(
            (GPU,),
            {},
            {"initContainers": [{**CONTAINER, "resources": {"requests": {GPU: "1"}}}]},
            True,
            id="in an init container",
        ),
        pytest.param((GPU,), {"resources": None}, {"initContainers": None}, False, id="nothing is stated"),
    ],
)
def test_only_pods_with_a_managed_resource_need_a_request(
    managed: tuple[str, ...], container: dict[str, Any], spec: Tree, needed: bool
) -> None:
    seen = holding(pod_set(spec=spec, **container))
    assert is_needed(seen, config(managed_resources=managed)) == needed
    assert bool(asked(seen, config(managed_resources=managed), FLAVORS)) == needed


def test_of_several_pod_sets_those_with_a_managed_resource_are_asked_for() -> None:
    seen = holding(pod_set("head", 1), pod_set("tail", 4, resources={"requests": {GPU: "1"}}))
    assert counts(seen, managed_resources=(GPU,)) == [(("tail",), 4)]


# What they look like.


def test_a_template_goes_where_its_flavors_send_it_and_carries_nothing_else_of_ours() -> None:
    (found,) = asked(holding(pod_set()), CONFIG, FLAVORS)
    assert found == Pods(("main",), {**PLAIN, "spec": {**pod_spec(), **PLACED}}, 3)


def pod_spec() -> Tree:
    return {"containers": [CONTAINER], "restartPolicy": "Never"}


def test_a_flavor_without_labels_adds_nothing_to_a_template() -> None:
    (found,) = asked(holding(pod_set()), CONFIG, {"spot": flavor("spot")})
    assert spec_of(found) == pod_spec()


def test_what_the_template_says_itself_is_kept_beside_its_flavors() -> None:
    own: Tree = {"nodeSelector": {"disk": "fast"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    (found,) = asked(holding(pod_set(spec=own)), CONFIG, FLAVORS)
    assert spec_of(found)["nodeSelector"] == {"disk": "fast", "pool": "spot"}
    assert [one["key"] for one in spec_of(found)["tolerations"]] == ["gpu", "spot"]


def test_a_template_that_contradicts_its_flavor_cannot_be_asked_for() -> None:
    with pytest.raises(InjectionError, match="conflict for nodeSelector: conflict for key=pool"):
        asked(holding(pod_set(spec={"nodeSelector": {"pool": "own"}})), CONFIG, FLAVORS)


def test_a_flavor_that_is_not_there_is_named() -> None:
    with pytest.raises(MissingFlavorError, match="spot"):
        asked(holding(pod_set()), CONFIG, {})


@pytest.mark.parametrize(
    ("resources", "requests"),
    [
        pytest.param({"limits": {"cpu": "2"}}, {"cpu": "2"}, id="a limit alone"),
        pytest.param({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}, {"cpu": "1"}, id="a request below its limit"),
        pytest.param(
            {"limits": {"cpu": "2", GPU: "1"}, "requests": {"cpu": "1"}}, {"cpu": "1", GPU: "1"}, id="one of each"
        ),
        pytest.param({"requests": {"cpu": "1"}}, {"cpu": "1"}, id="a request alone"),
    ],
)
def test_limits_are_requests_where_none_are_made(resources: Tree, requests: Tree) -> None:
    first: Tree = {**CONTAINER, "resources": resources}
    (found,) = asked(holding(pod_set(spec={"containers": [first], "initContainers": [first]})), CONFIG, FLAVORS)
    for name in ("containers", "initContainers"):
        (container,) = spec_of(found)[name]
        assert container == {**first, "resources": {**resources, "requests": requests}}


# Which of them are asked for together.


NEEDS: dict[str, Any] = {
    "initContainers": [CONTAINER],
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {"x": 1}},
    "resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}],
    "resources": {"requests": {"cpu": "4"}},
}
"""What of a pod decides where it may run."""


def twins(**container: Any) -> Workload:
    """Two pod sets, the second with a container that differs in this."""
    return holding(pod_set("head", 1), pod_set("tail", 4, **container))


@pytest.mark.parametrize(
    ("policy", "seen", "together"),
    [
        pytest.param(None, twins(), False, id="no policy keeps twins apart"),
        pytest.param(SAME, twins(), True, id="identical templates"),
        pytest.param(ALIKE, twins(), True, id="identical templates are alike"),
        pytest.param(SAME, twins(image="example.com/other"), False, id="another image is not identical"),
        pytest.param(ALIKE, twins(image="example.com/other"), True, id="another image needs the same nodes"),
        pytest.param(ALIKE, twins(resources={"requests": {"cpu": "1000m"}}), True, id="the same amount, spelled anew"),
        pytest.param(ALIKE, twins(resources={"limits": {"cpu": "1"}}), True, id="the same amount as a limit"),
        pytest.param(ALIKE, twins(resources={"requests": {"cpu": "2"}}), False, id="more cpu cannot merge"),
        pytest.param(
            ALIKE,
            holding(pod_set("head", 1), pod_set("tail", 4, spec={"containers": [CONTAINER, CONTAINER]})),
            False,
            id="a second container cannot merge",
        ),
        *(
            pytest.param(
                ALIKE,
                holding(pod_set("head", 1), pod_set("tail", 4, spec={name: needs})),
                False,
                id=f"another {name} cannot merge",
            )
            for name, needs in NEEDS.items()
        ),
    ],
)
def test_pod_sets_are_asked_for_together_where_the_policy_takes_them_for_the_same(
    policy: str | None, seen: Workload, together: bool
) -> None:
    expected = [(("head", "tail"), 5)] if together else [(("head",), 1), (("tail",), 4)]
    assert counts(seen, pod_set_merge_policy=policy) == expected


def test_those_asked_for_together_have_the_first_ones_template() -> None:
    first, second = pod_set("a", 1), pod_set("b", 2, image="example.com/other")
    seen = holding(first, pod_set("odd", 1, resources={"requests": {"cpu": "9"}}), second)
    found = asked(seen, config(pod_set_merge_policy=ALIKE), FLAVORS)
    assert [(one.pod_sets, one.count) for one in found] == [(("a", "b"), 3), (("odd",), 1)]
    assert spec_of(found[0])["containers"] == [CONTAINER]


# With which parameters.


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({}, {"a": "1", "b": "2"}, id="those of the configuration"),
        pytest.param({f"{PREFIX}c": "3"}, {"a": "1", "b": "2", "c": "3"}, id="one more by annotation"),
        pytest.param({f"{PREFIX}a": "9"}, {"a": "9", "b": "2"}, id="one changed by annotation"),
        pytest.param({"other.example.com/a": "9"}, {"a": "1", "b": "2"}, id="other annotations are no parameters"),
    ],
)
def test_annotations_go_over_the_parameters_of_the_configuration(
    annotations: dict[str, str], expected: dict[str, str]
) -> None:
    seen = holding(pod_set(), metadata={"annotations": annotations})
    assert parameters(seen, config(parameters={"a": "1", "b": "2"})) == expected


@pytest.mark.parametrize(
    ("given", "why"),
    [
        pytest.param({}, "", id="none"),
        pytest.param({f"key-{number}": "x" * 255 for number in range(100)}, "", id="as many, as long as may be"),
        pytest.param(
            {"b": "x" * 256, "a": "x" * 999, "c": ""},
            'the parameter "a" of the ProvisioningRequest is longer than 255 characters',
            id="one too long",
        ),
        pytest.param(
            {f"key-{number}": "x" for number in range(101)},
            "101 parameters are more than the 100 that a ProvisioningRequest may have",
            id="too many",
        ),
    ],
)
def test_parameters_that_no_request_can_have_are_known_before(given: dict[str, str], why: str) -> None:
    assert fault(given) == why


# The objects.


def test_a_request_names_its_templates_and_belongs_to_its_workload() -> None:
    seen = holding(pod_set("head", 1), pod_set("tail", 4), metadata={"annotations": {f"{PREFIX}speed": "high"}})
    pods = asked(seen, CONFIG, FLAVORS)
    assert request_tree(REQUEST, seen, CONFIG, pods) == {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {
            "name": f"{NAME}-{CHECK}-1",
            "namespace": "team",
            "labels": {"kueue.x-k8s.io/managed": "true"},
            "annotations": {"pykueue.io/asked-for": digest(pods)},
            "ownerReferences": [BELONGS],
        },
        "spec": {
            "provisioningClassName": CLASS,
            "parameters": {"speed": "high"},
            "podSets": [
                {"podTemplateRef": {"name": f"ppt-{NAME}-{CHECK}-1-head"}, "count": 1},
                {"podTemplateRef": {"name": f"ppt-{NAME}-{CHECK}-1-tail"}, "count": 4},
            ],
        },
    }


def test_templates_belong_to_the_workload_until_their_request_is_there() -> None:
    seen = holding(pod_set())
    (pods,) = asked(seen, CONFIG, FLAVORS)
    assert template_trees(REQUEST, seen, (pods,)) == (
        {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {
                "name": f"ppt-{NAME}-{CHECK}-1-main",
                "namespace": "team",
                "labels": {"kueue.x-k8s.io/managed": "true"},
                "annotations": {"pykueue.io/asked-for": digest((pods,))},
                "ownerReferences": [BELONGS],
            },
            "template": pods.template,
        },
    )


# Whether a request still asks for that.


def test_a_request_asks_for_what_it_was_made_for() -> None:
    seen = holding(pod_set("head", 1), pod_set("tail", 4), metadata={"annotations": {f"{PREFIX}a": "1"}})
    pods = asked(seen, CONFIG, FLAVORS)
    made = decode_as(ProvisioningRequest, request_tree(REQUEST, seen, CONFIG, pods))
    assert asks_for(made, seen, CONFIG, pods)


LISTED: Tree = {"podTemplateRef": {"name": f"ppt-{REQUEST}-main"}, "count": 3}


@pytest.mark.parametrize(
    ("made", "same"),
    [
        pytest.param(request(), True, id="one that Kueue made, and that says no more"),
        pytest.param(request(spec={"provisioningClassName": "other"}), False, id="another class"),
        pytest.param(request(spec={"parameters": {"a": "1"}}), False, id="a parameter too many"),
        pytest.param(request(spec={"podSets": [{**LISTED, "count": 2}]}), False, id="fewer pods"),
        pytest.param(request(spec={"podSets": [LISTED, LISTED]}), False, id="a pod set too many"),
        pytest.param(
            request(spec={"podSets": [{**LISTED, "podTemplateRef": {"name": "x"}}]}), False, id="another template"
        ),
        pytest.param(
            request(metadata={"annotations": {"pykueue.io/asked-for": "0"}}), False, id="other pods of the same name"
        ),
    ],
)
def test_a_request_for_something_else_is_known(made: ProvisioningRequest, same: bool) -> None:
    seen = holding(pod_set())
    assert asks_for(made, seen, CONFIG, asked(seen, CONFIG, FLAVORS)) == same


def test_a_parameter_too_few_is_noticed() -> None:
    seen = holding(pod_set())
    wanted = config(parameters={"a": "1"})
    assert not asks_for(request(), seen, wanted, asked(seen, wanted, FLAVORS))


@pytest.mark.parametrize(
    "other",
    [
        holding(pod_set(image="example.com/other")),
        holding(pod_set(count=4)),
        holding(pod_set("other")),
        holding(pod_set(), pod_set("more")),
    ],
    ids=["the template", "the number", "the name", "one more"],
)
def test_the_digest_tells_apart_what_differs_in(other: Workload) -> None:
    plain = asked(holding(pod_set()), CONFIG, FLAVORS)
    assert digest(plain) == digest(asked(holding(pod_set()), CONFIG, FLAVORS))
    assert digest(plain) != digest(asked(other, CONFIG, FLAVORS))
