"""How much one pod requests, and how that is counted.

Call `limits.adjusted` first, which fills in what a pod template leaves to its namespace.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from pykueue.api.config.types import Transformation
from pykueue.api.pods import PodSpec
from pykueue.base.struct import Frozen
from pykueue.base.units import NANO, Quantity, amount_of

ONE: Final = Quantity(NANO)


class ResourceConfig(Frozen):
    """The Configuration's settings on counting."""

    exclude_prefixes: tuple[str, ...] = ()
    transformations: tuple[Transformation, ...] = ()


def pod_requests(spec: PodSpec) -> Mapping[str, Quantity]:
    """What the pod needs to run from its first container to its last, overhead included."""
    # spec: REQ-1
    sidecars: Mapping[str, Quantity] = {}
    peak: Mapping[str, Quantity] = {}
    for container in spec.init_containers:
        beside = added(sidecars, container.resources.requests)
        if container.is_sidecar():
            sidecars = beside
        peak = highest(peak, beside)
    steady = sidecars
    for container in spec.containers:
        steady = added(steady, container.resources.requests)
    # The API server refuses a Pod whose own request is below its containers'; a Workload with such a template is
    # charged both.
    return added(highest(highest(steady, peak), pod_level(spec)), spec.overhead)


def pod_level(spec: PodSpec) -> Mapping[str, Quantity]:
    """The pod-level requests, for the resources that support them."""
    requests = spec.resources.requests if spec.resources else {}
    return {
        name: quantity
        for name, quantity in requests.items()
        if name in ("cpu", "memory") or name.startswith("hugepages-")
    }


def added(first: Mapping[str, Quantity], second: Mapping[str, Quantity]) -> Mapping[str, Quantity]:
    """The sum, resource by resource."""
    return {**first, **{name: plus(first.get(name), quantity) for name, quantity in second.items()}}


def plus(first: Quantity | None, second: Quantity) -> Quantity:
    """The sum of two quantities, in the format of the first unless that is zero."""
    if first is None or first.nanos == 0:
        return second
    return Quantity(first.nanos + second.nanos, first.family)


def highest(first: Mapping[str, Quantity], second: Mapping[str, Quantity]) -> Mapping[str, Quantity]:
    """The larger per resource; a resource that only one of them names is taken from that one."""
    larger = {
        name: quantity for name, quantity in second.items() if name not in first or quantity.nanos > first[name].nanos
    }
    return {**first, **larger}


def counted(requests: Mapping[str, Quantity], config: ResourceConfig) -> Mapping[str, int]:
    """The engine's amounts for one pod with these requests, in order of resource name; none is negative."""
    # An excluded resource is not charged, but it can be the input or the multiplier of a transformation.
    amounts = transformed(requests, config.transformations)
    kept = sorted(name for name in amounts if not name.startswith(config.exclude_prefixes))
    return {name: max(0, amount_of(name, amounts[name])) for name in kept}


def transformed(requests: Mapping[str, Quantity], transformations: Iterable[Transformation]) -> Mapping[str, Quantity]:
    """The requests with every transformation applied; each takes the original requests as input."""
    # spec: REQ-3
    rules = {rule.input: rule for rule in transformations if rule.input in requests}
    # The product of three quantities is exact in units of 10**-27; it is rounded once, at the end.
    generated: dict[str, int] = {}
    for name, rule in rules.items():
        base = requests[name].nanos * requests.get(rule.multiply_by, ONE).nanos
        for output, factor in rule.outputs.items():
            generated[output] = generated.get(output, 0) + base * factor.nanos
    retained = {
        name: quantity for name, quantity in requests.items() if name not in rules or rules[name].strategy == "Retain"
    }
    # A negative factor reduces what other factors generate, not what the pod itself requested under that name.
    return added(retained, {name: Quantity(max(0, -(-total // NANO**2))) for name, total in generated.items()})
