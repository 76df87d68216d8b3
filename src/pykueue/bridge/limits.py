"""A namespace's effect on a pod's resources: defaults of LimitRanges and RuntimeClasses, and their bounds.

Call `adjusted` on every pod set first, then `problem` on all of them; `requests` counts the result.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from pykueue.api.fields import FieldError, aggregate, invalid
from pykueue.api.pods import Container, LimitRange, LimitRangeItem, PodSpec, ResourceList, Resources, RuntimeClass
from pykueue.base.units import Quantity, amount_of
from pykueue.bridge.requests import highest, pod_requests

NOTHING: Final = LimitRangeItem("")


def adjusted(spec: PodSpec, limit_ranges: Iterable[LimitRange], runtime_classes: Mapping[str, RuntimeClass]) -> PodSpec:
    """The pod spec as it will run: with the overhead of its RuntimeClass and the defaults of LimitRanges.

    A RuntimeClass that does not exist adds nothing; the pod's creation would be refused, not the Workload.
    """
    # spec: REQ-2
    merged = summary(limit_ranges)
    of_container = merged.get("Container", NOTHING)
    return replace(
        spec,
        overhead=spec.overhead or class_overhead(spec, runtime_classes),
        containers=tuple(with_defaults(container, of_container) for container in spec.containers),
        init_containers=tuple(with_defaults(container, of_container) for container in spec.init_containers),
        resources=spec.resources and filled(spec.resources, merged.get("Pod", NOTHING)),
    )


def problem(
    specs: Sequence[PodSpec], limit_ranges: Iterable[LimitRange], written: Sequence[PodSpec] | None = None
) -> str | None:
    """Why a workload with these adjusted pod sets may not be admitted to its namespace; `None` if it may.

    `written` are the pod specs before adjustment: only where both were written is a request checked against its limit.
    """
    own = specs if written is None else written
    exceeding = [error for index, spec in enumerate(own) for error in over_limits(spec, index)]
    if exceeding:
        return f"resources validation failed: {aggregate(exceeding)}"
    merged = summary(limit_ranges)
    outside = [error for index, spec in enumerate(specs) for error in out_of_range(spec, merged, index)]
    if outside:
        return f"resources didn't satisfy LimitRange constraints: {aggregate(outside)}"
    return None


def summary(limit_ranges: Iterable[LimitRange]) -> Mapping[str, LimitRangeItem]:
    """One item per type: the lowest maxima, the highest minima, and the first of each default."""
    merged: dict[str, LimitRangeItem] = {}
    for item in (item for limit_range in limit_ranges for item in limit_range.spec.limits):
        seen = merged.get(item.type)
        merged[item.type] = item if seen is None else combined(seen, item)
    return merged


def combined(first: LimitRangeItem, second: LimitRangeItem) -> LimitRangeItem:
    """Both items of one type as one; defaults of the first take precedence."""
    return LimitRangeItem(
        first.type,
        max=ResourceList(lowest(first.max, second.max)),
        min=ResourceList(highest(first.min, second.min)),
        default=ResourceList({**second.default, **first.default}),
        default_request=ResourceList({**second.default_request, **first.default_request}),
    )


def lowest(first: Mapping[str, Quantity], second: Mapping[str, Quantity]) -> Mapping[str, Quantity]:
    """The smaller per resource; a resource that only one of them names is taken from that one."""
    smaller = {
        name: quantity for name, quantity in second.items() if name not in first or quantity.nanos < first[name].nanos
    }
    return {**first, **smaller}


def class_overhead(spec: PodSpec, runtime_classes: Mapping[str, RuntimeClass]) -> ResourceList:
    """The overhead of the RuntimeClass that the pod names, if there is one and it has one."""
    named = None if spec.runtime_class_name is None else runtime_classes.get(spec.runtime_class_name)
    return ResourceList() if named is None or named.overhead is None else named.overhead.pod_fixed


def with_defaults(container: Container, item: LimitRangeItem) -> Container:
    """The container with its resources filled in."""
    return replace(container, resources=filled(container.resources, item))


def filled(resources: Resources, item: LimitRangeItem) -> Resources:
    """The resources with limits as missing requests, then with the item's defaults for what is missing.

    This is the order of the API server, which sets requests from limits before it applies any LimitRange.
    """
    limits = {**item.default, **resources.limits}
    requests = {**item.default, **item.default_request, **resources.limits, **resources.requests}
    return replace(resources, limits=ResourceList(limits), requests=ResourceList(requests))


def over_limits(spec: PodSpec, pod_set: int) -> Iterator[FieldError]:
    """Requests above their own limit, in the pod set with this index."""
    path = template_path(pod_set)
    for where, resources in (*each_container(spec, path), *each_pod_level(spec, path)):
        if names := greater(resources.requests, resources.limits):
            yield invalid(where, names, "requests must not exceed its limits")


def out_of_range(spec: PodSpec, merged: Mapping[str, LimitRangeItem], pod_set: int) -> Iterator[FieldError]:
    """Resources above a maximum or below a minimum of the namespace, in the pod set with this index."""
    path = template_path(pod_set)
    if (item := merged.get("Container")) is not None:
        for where, resources in each_container(spec, path):
            largest = highest(resources.requests, resources.limits)
            smallest = lowest(resources.requests, resources.limits)
            yield from beyond(where, largest=largest, smallest=smallest, item=item)
    if (item := merged.get("Pod")) is not None:
        total = pod_requests(spec)
        yield from beyond(path, largest=total, smallest=total, item=item)


def beyond(
    where: str, *, largest: Mapping[str, Quantity], smallest: Mapping[str, Quantity], item: LimitRangeItem
) -> Iterator[FieldError]:
    """Up to two errors: for the resources above the item's maximum, and for those below its minimum."""
    if names := greater(largest, item.max):
        yield invalid(where, names, "requests must not be above the limitRange max")
    if names := greater(item.min, smallest):
        yield invalid(where, names, "requests must not be below the limitRange min")


def greater(first: Mapping[str, Quantity], second: Mapping[str, Quantity]) -> list[str]:
    """The resources that both name and of which the first has more, in order; compared as they are counted."""
    return sorted(
        name
        for name, quantity in first.items()
        if name in second and amount_of(name, quantity) > amount_of(name, second[name])
    )


def template_path(pod_set: int) -> str:
    """The path of a pod set's pod spec in a Workload."""
    return f"spec.podSets[{pod_set}].template.spec"


def each_container(spec: PodSpec, path: str) -> Iterator[tuple[str, Resources]]:
    """The resources of every container with its path, init containers first."""
    for index, container in enumerate(spec.init_containers):
        yield f"{path}.initContainers[{index}]", container.resources
    for index, container in enumerate(spec.containers):
        yield f"{path}.containers[{index}]", container.resources


def each_pod_level(spec: PodSpec, path: str) -> Iterator[tuple[str, Resources]]:
    """The resources of the pod as a whole with their path, if it has any."""
    if spec.resources is not None:
        yield f"{path}.resources", spec.resources
