"""Do a namespace's defaults and bounds reach a pod as Kueue applies them?"""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pykueue.api.core import ObjectMeta
from pykueue.api.pods import (
    Container,
    LimitRange,
    LimitRangeItem,
    LimitRangeSpec,
    PodSpec,
    ResourceList,
    Resources,
    RuntimeClass,
    RuntimeClassOverhead,
)
from pykueue.base.units import Quantity, parse_quantity
from pykueue.bridge.limits import adjusted, problem, summary
from pykueue.bridge.requests import pod_requests
from tests.facts import covers

GPU = "example.com/gpu"


def amounts(texts: Mapping[str, str] | None = None) -> ResourceList:
    return ResourceList({name: parse_quantity(text) for name, text in (texts or {}).items()})


def resources(requests: Mapping[str, str] | None = None, limits: Mapping[str, str] | None = None) -> Resources:
    return Resources(requests=amounts(requests), limits=amounts(limits))


def container(requests: Mapping[str, str] | None = None, limits: Mapping[str, str] | None = None) -> Container:
    return Container(resources=resources(requests, limits))


def limit_range(*items: LimitRangeItem) -> LimitRange:
    return LimitRange(spec=LimitRangeSpec(items))


def item(kind: str, **lists: Mapping[str, str]) -> LimitRangeItem:
    return LimitRangeItem(kind, **{name: amounts(texts) for name, texts in lists.items()})


DEFAULTS = limit_range(item("Container", default={"cpu": "4"}, default_request={"cpu": "2"}))
POD_DEFAULTS = limit_range(item("Pod", default={"cpu": "9"}, default_request={"cpu": "8"}))


@covers("REQ-2", "S143")
@pytest.mark.parametrize(
    ("before", "limit_ranges", "after"),
    [
        pytest.param(resources(), [], resources(), id="nothing comes of nothing"),
        pytest.param(resources({"cpu": "1"}), [], resources({"cpu": "1"}), id="what is asked for stays"),
        pytest.param(
            resources({"cpu": "1"}, {"cpu": "3", GPU: "1"}),
            [],
            resources({"cpu": "1", GPU: "1"}, {"cpu": "3", GPU: "1"}),
            id="a limit alone is a request too",
        ),
        pytest.param(resources(), [DEFAULTS], resources({"cpu": "2"}, {"cpu": "4"}), id="both defaults"),
        pytest.param(
            resources(None, {"cpu": "3"}),
            [DEFAULTS],
            resources({"cpu": "3"}, {"cpu": "3"}),
            id="the written limit comes before a default request",
        ),
        pytest.param(
            resources({"cpu": "1"}, {"cpu": "3"}),
            [DEFAULTS],
            resources({"cpu": "1"}, {"cpu": "3"}),
            id="defaults give way",
        ),
        pytest.param(
            resources(),
            [limit_range(item("Container", default={GPU: "1"}))],
            resources({GPU: "1"}, {GPU: "1"}),
            id="a default limit alone is a request too",
        ),
        pytest.param(
            resources(),
            [DEFAULTS, limit_range(item("Container", default_request={"cpu": "7", GPU: "1"}))],
            resources({"cpu": "2", GPU: "1"}, {"cpu": "4"}),
            id="the first default counts",
        ),
        pytest.param(resources(), [POD_DEFAULTS], resources(), id="defaults for pods are not for containers"),
    ],
)
def test_defaults_of_a_container(before: Resources, limit_ranges: list[LimitRange], after: Resources) -> None:
    spec = PodSpec(containers=(Container("a", before),), init_containers=(Container("b", before),))
    expected = PodSpec(containers=(Container("a", after),), init_containers=(Container("b", after),))
    assert adjusted(spec, limit_ranges, {}) == expected


@pytest.mark.parametrize(
    ("before", "limit_ranges", "after"),
    [
        pytest.param(None, [POD_DEFAULTS], None, id="a pod without a block of its own gets none"),
        pytest.param(resources(), [POD_DEFAULTS], resources({"cpu": "8"}, {"cpu": "9"}), id="an empty block is filled"),
        pytest.param(resources(), [DEFAULTS], resources(), id="defaults for containers are not for pods"),
        pytest.param(
            resources(None, {"cpu": "3"}),
            [],
            resources({"cpu": "3"}, {"cpu": "3"}),
            id="a limit alone is a request too",
        ),
    ],
)
def test_defaults_of_a_pod(before: Resources | None, limit_ranges: list[LimitRange], after: Resources | None) -> None:
    assert adjusted(PodSpec(resources=before), limit_ranges, {}).resources == after


KATA = RuntimeClass(ObjectMeta(name="kata"), RuntimeClassOverhead(amounts({"cpu": "250m"})))


@pytest.mark.parametrize(
    ("spec", "overhead"),
    [
        pytest.param(PodSpec(), {}, id="no class"),
        pytest.param(PodSpec(runtime_class_name="kata"), {"cpu": "250m"}, id="the overhead of the class"),
        pytest.param(
            PodSpec(runtime_class_name="kata", overhead=amounts({"memory": "1"})),
            {"memory": "1"},
            id="an overhead of its own keeps the class out",
        ),
        pytest.param(PodSpec(runtime_class_name="plain"), {}, id="a class without overhead"),
        pytest.param(PodSpec(runtime_class_name="gone"), {}, id="a class that does not exist"),
    ],
)
def test_overhead_of_a_runtime_class(spec: PodSpec, overhead: Mapping[str, str]) -> None:
    classes = {"kata": KATA, "plain": RuntimeClass(ObjectMeta(name="plain"))}
    assert adjusted(spec, [], classes).overhead == amounts(overhead)


@covers("REQ-1", "S142")
@pytest.mark.parametrize(
    ("own", "requests"),
    [
        pytest.param({}, {"cpu": "1250m"}, id="its class's overhead when it states none"),
        pytest.param({"cpu": "2"}, {"cpu": "3"}, id="its own overhead alone when it states one"),
        pytest.param({"memory": "1"}, {"cpu": "1", "memory": "1"}, id="even for another resource"),
    ],
)
def test_what_a_pod_of_a_runtime_class_asks_for(own: Mapping[str, str], requests: Mapping[str, str]) -> None:
    spec = PodSpec(containers=(container({"cpu": "1"}),), runtime_class_name="kata", overhead=amounts(own))
    assert pod_requests(adjusted(spec, [], {"kata": KATA})) == amounts(requests)


@covers("REQ-2", "S143")
@pytest.mark.parametrize(
    ("limit_ranges", "cpu"),
    [
        pytest.param([], "3", id="the limit without a LimitRange"),
        pytest.param([DEFAULTS], "3", id="the limit beside the default request of a LimitRange"),
    ],
)
def test_what_a_pod_with_a_limit_and_no_request_asks_for(limit_ranges: list[LimitRange], cpu: str) -> None:
    spec = PodSpec(containers=(container(None, {"cpu": "3"}),))
    assert pod_requests(adjusted(spec, limit_ranges, {})) == amounts({"cpu": cpu})


@covers("REQ-2")
def test_several_limit_ranges_are_as_strict_as_the_strictest() -> None:
    first = item("Container", max={"cpu": "4", "memory": "4"}, min={"cpu": "1"}, default={"cpu": "2"})
    second = item("Container", max={"cpu": "3", GPU: "1"}, min={"cpu": "2"}, default={"cpu": "3", GPU: "1"})
    assert summary([limit_range(first), limit_range(second, item("Pod"))]) == {
        "Container": item(
            "Container",
            max={"cpu": "3", "memory": "4", GPU: "1"},
            min={"cpu": "2"},
            default={"cpu": "2", GPU: "1"},
        ),
        "Pod": item("Pod"),
    }


CONTAINER_BOUNDS = limit_range(item("Container", max={"cpu": "4", GPU: "2"}, min={"cpu": "1"}))
POD_BOUNDS = limit_range(item("Pod", max={"cpu": "4"}, min={"cpu": "2", GPU: "1"}))
FAILED = "resources validation failed: "
OUTSIDE = "resources didn't satisfy LimitRange constraints: "
ABOVE = "requests must not be above the limitRange max"
BELOW = "requests must not be below the limitRange min"
EXCEEDS = "requests must not exceed its limits"


@covers("REQ-2")
@pytest.mark.parametrize(
    ("specs", "limit_ranges", "message"),
    [
        pytest.param([], [], None, id="no pod sets"),
        pytest.param([PodSpec(containers=(container({"cpu": "1"}, {"cpu": "1"}),))], [], None, id="just at its limit"),
        pytest.param([PodSpec(containers=(container({"cpu": "1"}, {"memory": "1"}),))], [], None, id="another limit"),
        pytest.param(
            [PodSpec(containers=(container(), container({"cpu": "1001m"}, {"cpu": "1"})))],
            [],
            f'{FAILED}spec.podSets[0].template.spec.containers[1]: Invalid value: ["cpu"]: {EXCEEDS}',
            id="above its limit",
        ),
        pytest.param(
            [
                PodSpec(),
                PodSpec(init_containers=(container({"memory": "2", "cpu": "2"}, {"cpu": "1", "memory": "1"}),)),
            ],
            [],
            f'{FAILED}spec.podSets[1].template.spec.initContainers[0]: Invalid value: ["cpu","memory"]: {EXCEEDS}',
            id="two resources of an init container in the second pod set",
        ),
        pytest.param(
            [PodSpec(resources=resources({"cpu": "2"}, {"cpu": "1"}))],
            [],
            f'{FAILED}spec.podSets[0].template.spec.resources: Invalid value: ["cpu"]: {EXCEEDS}',
            id="the pod as a whole above its limit",
        ),
        pytest.param(
            [
                PodSpec(containers=(container({"cpu": "2"}, {"cpu": "1"}),)),
                PodSpec(containers=(container({"cpu": "2"}, {"cpu": "1"}),)),
            ],
            [CONTAINER_BOUNDS],
            f'{FAILED}[spec.podSets[0].template.spec.containers[0]: Invalid value: ["cpu"]: {EXCEEDS}, '
            f'spec.podSets[1].template.spec.containers[0]: Invalid value: ["cpu"]: {EXCEEDS}]',
            id="every pod set is named, and limits come before LimitRanges",
        ),
        pytest.param(
            [PodSpec(containers=(container({"cpu": "1"}, {"cpu": "4"}),))], [CONTAINER_BOUNDS], None, id="within bounds"
        ),
        pytest.param([PodSpec(containers=(container(),))], [CONTAINER_BOUNDS], None, id="silence is within bounds"),
        pytest.param(
            [PodSpec(containers=(container({"cpu": "2"}, {"cpu": "5"}),))],
            [CONTAINER_BOUNDS],
            f'{OUTSIDE}spec.podSets[0].template.spec.containers[0]: Invalid value: ["cpu"]: {ABOVE}',
            id="a limit above the maximum",
        ),
        pytest.param(
            [PodSpec(containers=(container({"cpu": "500m"}, {"cpu": "2"}),))],
            [CONTAINER_BOUNDS],
            f'{OUTSIDE}spec.podSets[0].template.spec.containers[0]: Invalid value: ["cpu"]: {BELOW}',
            id="a request below the minimum, with a limit above it",
        ),
        pytest.param(
            [PodSpec(init_containers=(container({"cpu": "500m", GPU: "3"}),))],
            [CONTAINER_BOUNDS],
            f'{OUTSIDE}[spec.podSets[0].template.spec.initContainers[0]: Invalid value: ["{GPU}"]: {ABOVE}, '
            f'spec.podSets[0].template.spec.initContainers[0]: Invalid value: ["cpu"]: {BELOW}]',
            id="one resource above and another below",
        ),
        pytest.param(
            [PodSpec(containers=(container({"cpu": "3"}), container({"cpu": "3"})))],
            [CONTAINER_BOUNDS, POD_BOUNDS],
            f'{OUTSIDE}spec.podSets[0].template.spec: Invalid value: ["cpu"]: {ABOVE}',
            id="containers within their bounds, but not their pod",
        ),
        pytest.param(
            [PodSpec(containers=(container({"cpu": "1"}),))],
            [POD_BOUNDS],
            f'{OUTSIDE}spec.podSets[0].template.spec: Invalid value: ["cpu"]: {BELOW}',
            id="a pod below the minimum",
        ),
        pytest.param(
            [PodSpec(containers=(container({"cpu": "1"}),), overhead=amounts({"cpu": "1"}))],
            [POD_BOUNDS],
            None,
            id="overhead counts for a pod",
        ),
        pytest.param(
            [PodSpec(containers=(container({"cpu": "99"}),))],
            [limit_range(item("PersistentVolumeClaim", max={"cpu": "1"}))],
            None,
            id="bounds of something else",
        ),
    ],
)
def test_what_a_namespace_refuses(specs: list[PodSpec], limit_ranges: list[LimitRange], message: str | None) -> None:
    assert problem(specs, limit_ranges) == message


def test_a_request_above_a_default_limit_is_refused() -> None:
    spec = adjusted(PodSpec(containers=(container({"cpu": "5"}),)), [DEFAULTS], {})
    assert problem([spec], [DEFAULTS]) == (
        f'{FAILED}spec.podSets[0].template.spec.containers[0]: Invalid value: ["cpu"]: {EXCEEDS}'
    )


LISTS = st.dictionaries(st.sampled_from(["cpu", "memory", GPU]), st.integers(0, 10**11).map(Quantity)).map(ResourceList)
RESOURCES = st.builds(Resources, requests=LISTS, limits=LISTS)
CONTAINERS = st.lists(st.builds(Container, resources=RESOURCES), max_size=3).map(tuple)
SPECS = st.builds(
    PodSpec, containers=CONTAINERS, init_containers=CONTAINERS, overhead=LISTS, resources=st.none() | RESOURCES
)
LIMIT_RANGES = st.lists(
    st.builds(
        lambda items: limit_range(*items),
        st.lists(
            st.builds(
                LimitRangeItem,
                type=st.sampled_from(["Container", "Pod"]),
                max=LISTS,
                min=LISTS,
                default=LISTS,
                default_request=LISTS,
            ),
            max_size=3,
        ),
    ),
    max_size=3,
)
CLASSES = {"kata": KATA}


@given(SPECS, LIMIT_RANGES)
def test_adjusting_twice_changes_nothing_more(spec: PodSpec, limit_ranges: list[LimitRange]) -> None:
    once = adjusted(replace(spec, runtime_class_name="kata"), limit_ranges, CLASSES)
    assert adjusted(once, limit_ranges, CLASSES) == once


@given(SPECS, LIMIT_RANGES)
def test_adjusting_keeps_what_was_said(spec: PodSpec, limit_ranges: list[LimitRange]) -> None:
    after = adjusted(spec, limit_ranges, CLASSES)
    pairs = zip(spec.containers + spec.init_containers, after.containers + after.init_containers, strict=True)
    for said, now in pairs:
        assert said.resources.requests.items() <= now.resources.requests.items()
        assert said.resources.limits.items() <= now.resources.limits.items()
        assert now.resources.limits.keys() <= now.resources.requests.keys()


@given(st.builds(PodSpec, containers=CONTAINERS, init_containers=CONTAINERS, overhead=LISTS), LIMIT_RANGES)
def test_adjusting_never_lessens_what_a_pod_asks_for(spec: PodSpec, limit_ranges: list[LimitRange]) -> None:
    after = pod_requests(adjusted(spec, limit_ranges, CLASSES))
    for name, quantity in pod_requests(spec).items():
        assert after[name].nanos >= quantity.nanos


@given(SPECS, LIMIT_RANGES, LIMIT_RANGES)
def test_another_limit_range_never_admits_what_was_refused(
    spec: PodSpec, limit_ranges: list[LimitRange], more: list[LimitRange]
) -> None:
    if problem([spec], limit_ranges) is not None:
        assert problem([spec], [*more, *limit_ranges]) is not None
