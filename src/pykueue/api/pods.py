"""What does a pod template say? What we read of pods, and of LimitRange, RuntimeClass and batch/v1 Job beside them.

Amounts are parsed while the object is decoded, so whoever holds one of these structs holds valid quantities.
"""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from pykueue.api.core import ObjectMeta, Toleration
from pykueue.base.struct import Wire
from pykueue.base.units import Quantity, parse_quantity


class TemplateError(ValueError):
    """A text that Kubernetes would not read as the object it should be: where, and what is wrong there."""

    def __init__(self, *, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path
        self.problem = problem


class ResourceList(dict[str, Quantity]):
    """Quantities by resource name, as in `requests`; treat it as a `Mapping`, for structs share it."""


class Resources(Wire):
    """What a container, or a pod as a whole, asks for and is held to."""

    requests: ResourceList = msgspec.field(default_factory=ResourceList)
    limits: ResourceList = msgspec.field(default_factory=ResourceList)
    claims: tuple[object, ...] = ()


class Container(Wire):
    """A container; among the init containers, one that is always restarted is a sidecar."""

    name: str = ""
    resources: Resources = Resources()
    ports: tuple[object, ...] = ()
    restart_policy: str | None = None

    def is_sidecar(self) -> bool:
        """Whether it keeps running beside what starts after it; meaningful for init containers only."""
        return self.restart_policy == "Always"


class NodeSelectorRequirement(Wire):
    """One condition on a node's label, or on a field of the node."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Wire):
    """Conditions that must hold together."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Wire):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class NodeAffinity(Wire):
    """On which nodes the pod must, or would rather, run."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[object, ...] = ()


class Affinity(Wire):
    """Where the pod wants to be. What concerns other pods is kept as it came, for comparison only."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: object = None
    pod_anti_affinity: object = None


class PodSpec(Wire):
    """What decides how much room a pod takes and where it may run."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    node_selector: Mapping[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    runtime_class_name: str | None = None
    priority: int | None = None
    priority_class_name: str = ""
    overhead: ResourceList = msgspec.field(default_factory=ResourceList)
    resources: Resources | None = None
    resource_claims: tuple[object, ...] = ()
    topology_spread_constraints: tuple[object, ...] = ()


class PodTemplate(Wire):
    """What every pod of a pod set is made from."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class LimitRangeItem(Wire):
    """Bounds and defaults for things of one type: `Container`, `Pod` or `PersistentVolumeClaim`."""

    type: str
    max: ResourceList = msgspec.field(default_factory=ResourceList)
    min: ResourceList = msgspec.field(default_factory=ResourceList)
    default: ResourceList = msgspec.field(default_factory=ResourceList)
    default_request: ResourceList = msgspec.field(default_factory=ResourceList)


class LimitRangeSpec(Wire):
    """The items of a LimitRange."""

    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(Wire):
    """Bounds and defaults that a namespace sets for its pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LimitRangeSpec = LimitRangeSpec()


class RuntimeClassOverhead(Wire):
    """What running a pod costs beside its containers."""

    pod_fixed: ResourceList = msgspec.field(default_factory=ResourceList)


class RuntimeClass(Wire):
    """A way to run containers, and what it costs."""

    metadata: ObjectMeta = ObjectMeta()
    overhead: RuntimeClassOverhead | None = None


class JobSpec(Wire):
    """How many pods a Job runs, whether it may start them, and their template as it came."""

    parallelism: int | None = None
    completions: int | None = None
    suspend: bool | None = None
    template: msgspec.Raw = msgspec.Raw(b"{}")


class Job(Wire):
    """A batch/v1 Job."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


Slice = TypeVar("Slice", PodTemplate, LimitRange, RuntimeClass, Job)


def decode_template(raw: bytes | msgspec.Raw) -> PodTemplate:
    """The pod template in this JSON text; raises only `TemplateError`."""
    return decode(raw, PodTemplate)


def decode(raw: bytes | msgspec.Raw, kind: type[Slice]) -> Slice:
    """The object of that kind in this JSON text; raises only `TemplateError`."""
    try:
        return msgspec.json.decode(raw, type=kind, dec_hook=read_special)
    except msgspec.ValidationError as error:
        # A null stands for an absent field, and is rare enough to be looked for only when the quick way has failed.
        return decode_without_nulls(raw, kind, first=error)
    except (ValueError, RecursionError) as error:
        raise TemplateError(path="", problem=f"{error}; send one JSON object in UTF-8") from error


def decode_without_nulls(raw: bytes | msgspec.Raw, kind: type[Slice], *, first: msgspec.ValidationError) -> Slice:
    """The object of that kind in this JSON text once its nulls are left out, or a `TemplateError`."""
    try:
        tree = msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        raise located(first) from first
    return from_tree(tree, kind)


def from_tree(tree: object, kind: type[Slice]) -> Slice:
    """The object of that kind in this tree of plain JSON values; raises only `TemplateError`."""
    try:
        return msgspec.json.decode(msgspec.json.encode(without_nulls(tree)), type=kind, dec_hook=read_special)
    except msgspec.ValidationError as error:
        raise located(error) from error
    except (TypeError, ValueError, RecursionError) as error:
        raise TemplateError(path="", problem=f"{error}; use plain JSON values") from error


def located(error: msgspec.ValidationError) -> TemplateError:
    """The same error with its path as Kubernetes writes it."""
    before, found, after = str(error).rpartition(" - at `$")
    return (
        TemplateError(path=after.rstrip("`").lstrip("."), problem=before)
        if found
        else TemplateError(path="", problem=after)
    )


def read_special(kind: type, value: object) -> object:
    """The value of a type that msgspec does not know: quantities by name, or plain JSON to be kept as it came."""
    return resource_list(value) if kind is ResourceList else value


def resource_list(value: object) -> ResourceList:
    """The quantities in a JSON object; raises `ValueError` with the resource's name."""
    if not isinstance(value, dict):
        raise ValueError(f'{value!r} is no JSON object; write quantities by resource name, as in {{"cpu": 1}}')
    return ResourceList({name: read_quantity(name, amount) for name, amount in value.items()})


def read_quantity(name: str, amount: object) -> Quantity:
    """The quantity in a JSON text or number, as Kubernetes takes both; raises `ValueError` with the resource's name."""
    if isinstance(amount, bool) or not isinstance(amount, str | int | float):
        raise ValueError(f"{name}: {amount!r} is no quantity; write a text or a number, as in 500m, 2, 1.5Gi")
    try:
        return parse_quantity(str(amount))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def without_nulls(tree: object) -> object:
    """The tree without the members that are null, which Kubernetes reads as absent."""
    if isinstance(tree, dict):
        return {key: without_nulls(value) for key, value in tree.items() if value is not None}
    if isinstance(tree, list):
        return [without_nulls(value) for value in tree]
    return tree
