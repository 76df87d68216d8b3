"""Is a pod counted as Kubernetes and Kueue count it?"""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pykueue.api.config.types import Transformation
from pykueue.api.pods import Container, PodSpec, ResourceList, Resources
from pykueue.base.units import UNLIMITED, Quantity, parse_quantity
from pykueue.bridge.requests import ResourceConfig, counted, pod_requests
from pykueue.engine.items import totals_of
from pykueue.engine.model import PodSet
from tests.facts import covers


def amounts(**texts: str) -> ResourceList:
    """Quantities by resource name; `_` in a name stands for `-`."""
    return ResourceList({name.replace("_", "-"): parse_quantity(text) for name, text in texts.items()})


def asks(**texts: str) -> Container:
    return Container(resources=Resources(requests=amounts(**texts)))


def sidecar(**texts: str) -> Container:
    return replace(asks(**texts), restart_policy="Always")


@covers("REQ-1", "S141", "S144")
@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        pytest.param(PodSpec(), {}, id="no containers ask for nothing"),
        pytest.param(
            PodSpec(containers=(asks(cpu="1", memory="1Gi"), asks(cpu="500m"))),
            amounts(cpu="1500m", memory="1Gi"),
            id="containers run together",
        ),
        pytest.param(
            PodSpec(init_containers=(asks(cpu="3"), asks(cpu="2", memory="1")), containers=(asks(cpu="1"),)),
            amounts(cpu="3", memory="1"),
            id="init containers run one by one",
        ),
        pytest.param(
            PodSpec(init_containers=(sidecar(cpu="1"), asks(cpu="4")), containers=(asks(cpu="1"), asks(cpu="1"))),
            amounts(cpu="5"),
            id="a sidecar started before runs beside an init container",
        ),
        pytest.param(
            PodSpec(init_containers=(asks(cpu="4"), sidecar(cpu="1")), containers=(asks(cpu="1"),)),
            amounts(cpu="4"),
            id="a sidecar started after does not",
        ),
        pytest.param(
            PodSpec(init_containers=(sidecar(cpu="1"), sidecar(cpu="2")), containers=(asks(cpu="3"),)),
            amounts(cpu="6"),
            id="sidecars run beside the containers",
        ),
        pytest.param(
            PodSpec(containers=(replace(asks(cpu="2"), restart_policy="Always"),)),
            amounts(cpu="2"),
            id="a restarted container is no sidecar",
        ),
        pytest.param(
            PodSpec(
                containers=(asks(cpu="2", memory="3", hugepages_2Mi="4", gpu="1"), asks(cpu="2", memory="1")),
                resources=Resources(requests=amounts(cpu="5", hugepages_2Mi="8", gpu="9")),
            ),
            amounts(cpu="5", memory="4", hugepages_2Mi="8", gpu="1"),
            id="the pod's own requests replace its containers' sum where Kubernetes knows them",
        ),
        pytest.param(
            PodSpec(
                containers=(asks(cpu="8"), asks(memory="1Gi")),
                init_containers=(asks(memory="2Gi"),),
                resources=Resources(requests=amounts(cpu="0", memory="1Gi")),
            ),
            amounts(cpu="8", memory="2Gi"),
            id="a pod's own request below its containers' does not lower them",
        ),
        pytest.param(
            PodSpec(containers=(asks(cpu="1"),), resources=Resources(limits=amounts(cpu="3"))),
            amounts(cpu="1"),
            id="limits are not requests until the spec is adjusted",
        ),
        pytest.param(
            PodSpec(
                containers=(asks(cpu="1"),),
                resources=Resources(requests=amounts(cpu="2")),
                overhead=amounts(cpu="250m", memory="64Mi"),
            ),
            amounts(cpu="2250m", memory="64Mi"),
            id="overhead comes on top of everything",
        ),
    ],
)
def test_what_a_pod_asks_for(spec: PodSpec, requests: Mapping[str, Quantity]) -> None:
    assert pod_requests(spec) == requests


def test_a_sum_is_written_as_its_first_part() -> None:
    spec = PodSpec(containers=(asks(memory="0"), asks(memory="1Gi"), asks(memory="1k")))
    assert str(pod_requests(spec)["memory"]) == "1073742824"
    assert pod_requests(spec)["memory"].family == "BinarySI"


NAMES = st.sampled_from(["cpu", "memory", "hugepages-1Gi", "example.com/gpu"])
QUANTITIES = st.integers(0, 10**12).map(Quantity)
SIGNED = st.integers(-(10**12), 10**12).map(Quantity)


def containers(quantities: st.SearchStrategy[Quantity]) -> st.SearchStrategy[tuple[Container, ...]]:
    lists = st.dictionaries(NAMES, quantities).map(ResourceList)
    one = st.builds(
        lambda requests, policy: Container(resources=Resources(requests=requests), restart_policy=policy),
        lists,
        st.sampled_from([None, "Always", "Never"]),
    )
    return st.lists(one, max_size=5).map(tuple)


def specs(quantities: st.SearchStrategy[Quantity]) -> st.SearchStrategy[PodSpec]:
    lists = st.dictionaries(NAMES, quantities).map(ResourceList)
    return st.builds(
        PodSpec,
        containers=containers(quantities),
        init_containers=containers(quantities),
        overhead=lists,
        resources=st.none() | lists.map(lambda requests: Resources(requests=requests)),
    )


def moments(spec: PodSpec) -> list[list[Container]]:
    """Who runs at the same time, moment by moment in the life of the pod."""
    sidecars: list[Container] = []
    found: list[list[Container]] = []
    for container in spec.init_containers:
        found.append([*sidecars, container])
        if container.restart_policy == "Always":
            sidecars.append(container)
    return [*found, [*sidecars, *spec.containers]]


def slow_requests(spec: PodSpec, name: str) -> int | None:
    """How many billionths of the resource the pod asks for, found the long way; `None` if nothing names it."""
    sums = [
        sum(container.resources.requests[name].nanos for container in together if name in container.resources.requests)
        for together in moments(spec)
        if any(name in container.resources.requests for container in together)
    ]
    total = max(sums) if sums else None
    if spec.resources is not None and name in spec.resources.requests and name != "example.com/gpu":
        own = spec.resources.requests[name].nanos
        total = own if total is None else max(total, own)
    if name in spec.overhead:
        total = (total or 0) + spec.overhead[name].nanos
    return total


@given(specs(SIGNED))
def test_requests_are_those_of_the_fullest_moment(spec: PodSpec) -> None:
    found = pod_requests(spec)
    for name in ("cpu", "memory", "hugepages-1Gi", "example.com/gpu"):
        assert (found[name].nanos if name in found else None) == slow_requests(spec, name)


@given(specs(QUANTITIES), containers(QUANTITIES), containers(QUANTITIES))
def test_more_containers_never_ask_for_less(
    spec: PodSpec, more: tuple[Container, ...], more_init: tuple[Container, ...]
) -> None:
    larger = pod_requests(
        replace(spec, containers=spec.containers + more, init_containers=spec.init_containers + more_init)
    )
    for name, quantity in pod_requests(spec).items():
        assert larger[name].nanos >= quantity.nanos >= 0


MIG = Transformation(input="mig-1g", strategy="Replace", outputs=amounts(gpu_mem="5Gi"))


@covers("REQ-3", "S146", "S147")
@pytest.mark.parametrize(
    ("requests", "config", "found"),
    [
        pytest.param(
            amounts(cpu="1.0001", memory="1.5", gpu="2"),
            ResourceConfig(),
            {"cpu": 1001, "gpu": 2, "memory": 2},
            id="cpu in thousandths, the rest whole, each rounded up",
        ),
        pytest.param(amounts(cpu="-1", gpu="0"), ResourceConfig(), {"cpu": 0, "gpu": 0}, id="nothing is negative"),
        pytest.param(
            amounts(cpu="1", net_a="1", net_b="1"), ResourceConfig(("net-",)), {"cpu": 1000}, id="excluded by prefix"
        ),
        pytest.param(
            amounts(net="1"),
            ResourceConfig(("net",), (Transformation(input="net", outputs=amounts(credits="1")),)),
            {"credits": 1},
            id="what is excluded is transformed, and not retained",
        ),
        pytest.param(
            amounts(mig_1g="2"),
            ResourceConfig(("mig-",), (Transformation("mig-1g", "Replace", outputs=amounts(gpu_mem="5")),)),
            {"gpu-mem": 10},
            id="what is excluded is transformed and replaced",
        ),
        pytest.param(
            amounts(gpu="4", per_gpu="3"),
            ResourceConfig(
                ("gpu",), (Transformation("per-gpu", "Replace", multiply_by="gpu", outputs=amounts(total="10")),)
            ),
            {"total": 120},
            id="what is excluded is a multiplier",
        ),
        pytest.param(
            amounts(mig_1g="2", cpu="1"),
            ResourceConfig(("credits",), (Transformation("mig-1g", "Replace", outputs=amounts(credits="5")),)),
            {"cpu": 1000},
            id="an output that is excluded is not charged",
        ),
        pytest.param(
            amounts(mig_1g="1", gpu_mem="1Gi"),
            ResourceConfig(transformations=(MIG,)),
            {"gpu-mem": 6 * 2**30},
            id="generated amounts add to the request under the same name",
        ),
        pytest.param(
            amounts(mig_1g="2"),
            ResourceConfig(transformations=(Transformation(input="mig-1g", outputs=amounts(gpu_mem="5Gi")),)),
            {"gpu-mem": 10 * 2**30, "mig-1g": 2},
            id="the input is retained unless it is replaced",
        ),
        pytest.param(
            amounts(mig_1g="1", mig_2g="1"),
            ResourceConfig(
                transformations=(
                    MIG,
                    Transformation(input="mig-2g", strategy="Replace", outputs=amounts(gpu_mem="10Gi")),
                )
            ),
            {"gpu-mem": 15 * 2**30},
            id="several inputs add up to one output",
        ),
        pytest.param(
            amounts(gpu="2", per_gpu="3"),
            ResourceConfig(
                transformations=(Transformation("per-gpu", multiply_by="gpu", outputs=amounts(total="10")),)
            ),
            {"gpu": 2, "per-gpu": 3, "total": 60},
            id="outputs are multiplied, the retained input is not",
        ),
        pytest.param(
            amounts(per_gpu="3"),
            ResourceConfig(
                transformations=(Transformation("per-gpu", multiply_by="gpu", outputs=amounts(total="10")),)
            ),
            {"per-gpu": 3, "total": 30},
            id="a multiplier that is not requested counts as one",
        ),
        pytest.param(
            amounts(cpu="500m"),
            ResourceConfig(transformations=(Transformation("cpu", outputs=amounts(credits="3")),)),
            {"cpu": 500, "credits": 2},
            id="a fraction is multiplied exactly and rounded up once",
        ),
        pytest.param(
            amounts(a="1", b="1", credits="7"),
            ResourceConfig(
                transformations=(
                    Transformation("a", "Replace", outputs=amounts(credits="2")),
                    Transformation("b", "Replace", outputs=amounts(credits="-5")),
                )
            ),
            {"credits": 7},
            id="a negative total leaves a direct request alone",
        ),
        pytest.param(
            amounts(a="1", b="1"),
            ResourceConfig(
                transformations=(
                    Transformation("a", "Replace", outputs=amounts(credits="2")),
                    Transformation("b", "Replace", outputs=amounts(credits="-5")),
                )
            ),
            {"credits": 0},
            id="a negative total is nothing",
        ),
        pytest.param(
            amounts(a="1", b="1"),
            ResourceConfig(
                transformations=(
                    Transformation("a", "Replace", outputs=amounts(credits="5")),
                    Transformation("b", "Replace", outputs=amounts(credits="-2")),
                )
            ),
            {"credits": 3},
            id="a negative factor lessens what others generate",
        ),
        pytest.param(
            amounts(a="1"),
            ResourceConfig(
                transformations=(
                    Transformation("a", outputs=amounts(b="2")),
                    Transformation("b", outputs=amounts(c="3")),
                )
            ),
            {"a": 1, "b": 2},
            id="what is generated is not transformed again",
        ),
        pytest.param(
            amounts(noise="5", cpu="1"),
            ResourceConfig(transformations=(Transformation("noise", strategy="Replace"),)),
            {"cpu": 1000},
            id="replaced by nothing is ignored",
        ),
        pytest.param(
            amounts(a="9223372036854775807"),
            ResourceConfig(transformations=(Transformation("a", outputs=amounts(b="1Ei")),)),
            {"a": UNLIMITED, "b": UNLIMITED},
            id="past 64 bits is the largest amount",
        ),
    ],
)
def test_what_is_counted(requests: ResourceList, config: ResourceConfig, found: dict[str, int]) -> None:
    amounts_found = counted(requests, config)
    assert amounts_found == found
    assert list(amounts_found) == sorted(found)


@covers("REQ-3", "S145")
def test_what_is_generated_is_asked_for_by_each_pod() -> None:
    pod = counted(amounts(mig_1g="1", gpu_mem="1Gi"), ResourceConfig(transformations=(MIG,)))
    assert totals_of(PodSet("main", 3, tuple(pod.items())), 3) == (("gpu-mem", 18 * 2**30),)


@covers("S150")
def test_a_sum_past_64_bits_is_the_largest_amount() -> None:
    spec = PodSpec(containers=(asks(memory="9223372036854775807"), asks(memory="9223372036854775807")))
    assert counted(pod_requests(spec), ResourceConfig()) == {"memory": UNLIMITED}


RESOURCES = st.sampled_from(["cpu", "memory", "a", "b"])
TRANSFORMATIONS = st.lists(
    st.builds(
        Transformation,
        input=RESOURCES,
        outputs=st.dictionaries(RESOURCES, SIGNED),
        strategy=st.sampled_from(["Retain", "Replace"]),
        multiply_by=RESOURCES | st.just(""),
    ),
    unique_by=lambda rule: rule.input,
    max_size=4,
).map(tuple)


@given(st.dictionaries(RESOURCES, SIGNED), st.builds(ResourceConfig, transformations=TRANSFORMATIONS))
def test_counts_are_between_nothing_and_the_largest_amount(
    requests: dict[str, Quantity], config: ResourceConfig
) -> None:
    found = counted(requests, config)
    outputs = {name for rule in config.transformations if rule.input in requests for name in rule.outputs}
    assert set(found) <= set(requests) | outputs
    assert outputs <= set(found)
    assert all(0 <= amount <= UNLIMITED for amount in found.values())


@given(st.dictionaries(RESOURCES, QUANTITIES), st.dictionaries(RESOURCES, QUANTITIES), TRANSFORMATIONS)
def test_larger_requests_never_count_less_where_factors_are_positive(
    requests: dict[str, Quantity], more: dict[str, Quantity], rules: tuple[Transformation, ...]
) -> None:
    # A multiplier below one, when it comes to be requested at all, is the one way to count less; leave it out.
    config = ResourceConfig(
        transformations=tuple(
            replace(
                rule,
                outputs={name: Quantity(abs(factor.nanos)) for name, factor in rule.outputs.items()},
                multiply_by="",
            )
            for rule in rules
        )
    )
    larger = requests | {
        name: Quantity(requests[name].nanos + more[name].nanos if name in requests else more[name].nanos)
        for name in more
    }
    found = counted(larger, config)
    assert all(found[name] >= amount for name, amount in counted(requests, config).items())
