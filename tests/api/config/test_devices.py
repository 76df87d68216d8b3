"""The rules on devices speak in Kueue's words."""

import pytest

from pykueue.api.config.devices import device_errors
from pykueue.api.config.gates import resolve
from pykueue.api.config.types import CelSelector, DeviceClassMapping, DeviceSelector, DeviceSource, MappingSource

AT = "resources.deviceClassMappings"
GATES = resolve({"KueueDRAIntegrationConsumableCapacity": True}).values
CEL = DeviceSelector(CelSelector("true"))


def counter(name: str, driver: str = "gpu.example.com") -> MappingSource:
    return MappingSource(counter=DeviceSource(name, driver, CEL))


def capacity(name: str, driver: str = "gpu.example.com") -> MappingSource:
    return MappingSource(capacity=DeviceSource(name, driver, CEL))


def mapping(name: str, *classes: str, sources: tuple[MappingSource, ...] = ()) -> DeviceClassMapping:
    return DeviceClassMapping(name, classes, sources)


@pytest.mark.parametrize(
    ("mappings", "expected"),
    [
        pytest.param((), [], id="none"),
        pytest.param((mapping("a.io/gpu", "x", "y"), mapping("tpu", "z")), [], id="two resources"),
        pytest.param(
            tuple(mapping(f"r{n}", f"c{n}") for n in range(17)),
            [f"{AT}: Too many: 17: must have at most 16 items"],
            id="too many mappings",
        ),
        pytest.param(
            (mapping("a", "x"), mapping("a", "y")), [f'{AT}[1].name: Duplicate value: "a"'], id="a resource twice"
        ),
        pytest.param(
            (mapping("a"),),
            [f"{AT}[0].deviceClassNames: Required value: at least one device class name is required"],
            id="no class",
        ),
        pytest.param(
            (mapping("a", *(f"c{n}" for n in range(9))),),
            [f"{AT}[0].deviceClassNames: Too many: 9: must have at most 8 items"],
            id="too many classes",
        ),
        pytest.param(
            (mapping("a", "x", "x"),), [f'{AT}[0].deviceClassNames[1]: Duplicate value: "x"'], id="a class twice"
        ),
        pytest.param(
            (mapping("a", "x"), mapping("b", "x")),
            [f'{AT}[1].deviceClassNames[0]: Invalid value: "x": device class already mapped to resource a'],
            id="a class of two resources",
        ),
        pytest.param(
            (mapping("a", "x", sources=(counter("c"),)), mapping("b", "x", sources=(counter("d"),))),
            [],
            id="a class of two resources with other counters",
        ),
        pytest.param(
            (mapping("a", "x", sources=(counter("c"),)), mapping("b", "x", sources=(counter("c"),))),
            [
                f'{AT}[1].deviceClassNames[0]: Invalid value: "x": '
                'device class already has a counter source for counter "c"'
            ],
            id="a class of two resources with one counter",
        ),
        pytest.param(
            (mapping("a", "x", sources=(MappingSource(),)),),
            [f"{AT}[0].sources[0]: Required value: exactly one source type must be set per entry"],
            id="an empty source",
        ),
        pytest.param(
            (mapping("a", "x", sources=(counter("c"), capacity("d"))),),
            [f"{AT}[0].sources: Invalid value: 2: cannot mix counter and capacity sources in the same mapping"],
            id="a mix",
        ),
        pytest.param(
            (mapping("a", "x", sources=(MappingSource(DeviceSource(), None),)),),
            [
                f"{AT}[0].sources[0].counter.name: Required value",
                f"{AT}[0].sources[0].counter.driver: Required value",
                f"{AT}[0].sources[0].counter.deviceSelector.cel.expression: Required value",
            ],
            id="an empty counter",
        ),
        pytest.param(
            (mapping("a", "x", sources=(counter("c", "d" * 64),)),),
            [f'{AT}[0].sources[0].counter.driver: Invalid value: "{"d" * 64}": must not exceed 63 characters'],
            id="a long driver",
        ),
        pytest.param(
            (mapping("a", "x", sources=(capacity("Example.com/memory"),)),), [], id="a capacity below a domain"
        ),
        pytest.param(
            (mapping("a", "x", sources=(capacity("/m"), capacity("example.com/"))),),
            [
                f'{AT}[0].sources[0].capacity.name: Invalid value: "": the domain must not be empty',
                f'{AT}[0].sources[1].capacity.name: Invalid value: "": the name must not be empty',
            ],
            id="half a capacity's name",
        ),
        pytest.param(
            (mapping("a", "x", sources=(capacity("m" * 33), capacity(f"{'d' * 64}/m"))),),
            [
                f"{AT}[0].sources[0].capacity.name: Too long: may not be more than 32 bytes",
                f"{AT}[0].sources[1].capacity.name: Too long: may not be more than 63 bytes",
            ],
            id="long names",
        ),
    ],
)
def test_a_rule_is_kept(mappings: tuple[DeviceClassMapping, ...], expected: list[str]) -> None:
    assert list(map(str, device_errors(mappings, GATES))) == expected


@pytest.mark.parametrize(
    ("source", "beginning"),
    [
        pytest.param(
            MappingSource(DeviceSource(), DeviceSource()), '[0]: Invalid value: "counter+capacity"', id="both"
        ),
        pytest.param(counter("A"), '[0].counter.name: Invalid value: "A": a lowercase RFC 1123 label', id="counter"),
        pytest.param(counter("a", "_"), '[0].counter.driver: Invalid value: "_": a lowercase RFC 1123', id="driver"),
        pytest.param(capacity("1m"), '[0].capacity.name: Invalid value: "1m": a valid C identifier', id="capacity"),
        pytest.param(capacity("_/m"), '[0].capacity.name: Invalid value: "_": a lowercase RFC 1123', id="domain"),
    ],
)
def test_a_name_has_its_form(source: MappingSource, beginning: str) -> None:
    first = next(iter(device_errors((mapping("a", "x", sources=(source,)),), GATES)))
    assert str(first).startswith(f"{AT}[0].sources{beginning}")


def test_names_of_resources_and_classes_are_label_keys() -> None:
    found = list(map(str, device_errors((mapping("a/b/c", "-"),), GATES)))
    assert [error.partition(":")[0] for error in found] == [f"{AT}[0].name", f"{AT}[0].deviceClassNames[0]"]
    long = f"{'d' * 250}.io/x"
    assert str(list(device_errors((mapping(long, "x"),), GATES))[-1]).endswith("must not exceed 253 characters")


def test_sources_need_their_gates() -> None:
    gates = resolve({"KueueDRAIntegrationPartitionableDevices": False}).values
    mappings = (mapping("a", "x", sources=(counter(""),)), mapping("b", "y", sources=(capacity(""),)))
    assert list(map(str, device_errors(mappings, gates))) == [
        f"{AT}[0].sources[0].counter: Invalid value: true: "
        "counter sources require KueueDRAIntegrationPartitionableDevices to be enabled",
        f"{AT}[1].sources[0].capacity: Invalid value: true: "
        "capacity sources require KueueDRAIntegrationConsumableCapacity to be enabled",
    ]
