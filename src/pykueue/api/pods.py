"""The parts of pods, LimitRange, RuntimeClass and batch/v1 Job that we read.

Amounts are parsed during decoding, so these structs always hold valid quantities. The annotations say what `podcheck`
validates; `unread` names the fields that Kubernetes knows and we do not use, so a field that is neither read nor listed
is a mistake.
"""

from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias, TypeVar

import msgspec

from pykueue.api.core import AnyQuantity, Int32, Labels, Metadata, ObjectMeta, Toleration, about, holds
from pykueue.api.fields import located
from pykueue.base.struct import Wire
from pykueue.base.units import Quantity, parse_quantity

NEVER_STARTING: Final = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)
"""Why a container waits that will not start without help."""
UNREAD_OF_CONTAINERS: Final = (
    "args",
    "command",
    "env",
    "envFrom",
    "image",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "resizePolicy",
    "restartPolicyRules",
    "securityContext",
    "startupProbe",
    "stdin",
    "stdinOnce",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "volumeDevices",
    "volumeMounts",
    "workingDir",
)
UNREAD_OF_PODS: Final = (
    "activeDeadlineSeconds",
    "automountServiceAccountToken",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "ephemeralContainers",
    "hostAliases",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostUsers",
    "hostname",
    "hostnameOverride",
    "imagePullSecrets",
    "nodeName",
    "os",
    "preemptionPolicy",
    "readinessGates",
    "restartPolicy",
    "schedulerName",
    "schedulingGates",
    "schedulingGroup",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "subdomain",
    "terminationGracePeriodSeconds",
    "volumes",
    "workloadRef",
)
UNREAD_OF_JOBS: Final = (
    "activeDeadlineSeconds",
    "backoffLimit",
    "backoffLimitPerIndex",
    "completionMode",
    "managedBy",
    "manualSelector",
    "maxFailedIndexes",
    "podFailurePolicy",
    "podReplacementPolicy",
    "selector",
    "successPolicy",
    "ttlSecondsAfterFinished",
)


class TemplateError(ValueError):
    """An object that Kubernetes would not accept as the kind it should be: where, and what is wrong there."""

    def __init__(self, *, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path
        self.problem = problem


class ResourceList(dict[str, Quantity]):
    """Quantities by resource name, as in `requests`; treat it as a `Mapping`, since structs share it."""


Amounts: TypeAlias = Annotated[ResourceList, holds(Mapping[str, AnyQuantity])]


class Resources(Wire):
    """Requests and limits of a container or of a pod as a whole."""

    requests: Annotated[Amounts, about("Amounts to reserve.")] = msgspec.field(default_factory=ResourceList)
    limits: Annotated[Amounts, about("Amounts that must not be exceeded.")] = msgspec.field(
        default_factory=ResourceList
    )
    claims: Annotated[tuple[object, ...], about("Claims on devices.")] = ()


class Container(Wire):
    """A container; among the init containers, one that is always restarted is a sidecar."""

    name: Annotated[str, about("Name within the pod.", required=True)] = ""
    resources: Annotated[Resources, about("Requests and limits.")] = Resources()
    ports: Annotated[tuple[object, ...], about("Ports that it opens.")] = ()
    restart_policy: Annotated[str | None, about("Always makes an init container a sidecar.")] = None

    def is_sidecar(self) -> bool:
        """Whether it keeps running beside the containers started after it; meaningful for init containers only."""
        return self.restart_policy == "Always"


class NodeSelectorRequirement(Wire):
    """One condition on a node's label, or on a field of the node."""

    key: Annotated[str, about("Label or field that the condition is on.")]
    operator: Annotated[str, about("In, NotIn, Exists, DoesNotExist, Gt or Lt.")]
    values: Annotated[tuple[str, ...], about("What to compare with.")] = ()


class NodeSelectorTerm(Wire):
    """Conditions that must hold together."""

    match_expressions: Annotated[tuple[NodeSelectorRequirement, ...], about("Conditions on labels.")] = ()
    match_fields: Annotated[tuple[NodeSelectorRequirement, ...], about("Conditions on fields.")] = ()


class NodeSelector(Wire):
    """Terms of which one must hold."""

    node_selector_terms: Annotated[tuple[NodeSelectorTerm, ...], about("The terms.", required=True)] = ()


class NodeAffinity(Wire):
    """On which nodes the pod must run, or preferably runs."""

    required_during_scheduling_ignored_during_execution: Annotated[
        NodeSelector | None, about("Nodes on which it must run.")
    ] = None
    preferred_during_scheduling_ignored_during_execution: Annotated[
        tuple[object, ...], about("Nodes on which it preferably runs.")
    ] = ()


class Affinity(Wire):
    """Where the pod is placed. The parts about other pods are kept undecoded, for comparison only."""

    node_affinity: Annotated[NodeAffinity | None, about("On which nodes.")] = None
    pod_affinity: Annotated[object, about("Near which pods.")] = None
    pod_anti_affinity: Annotated[object, about("Far from which pods.")] = None


class PodSpec(Wire):
    """The parts of a pod that decide how much it takes and where it may run."""

    containers: Annotated[
        tuple[Container, ...], about("Containers that run side by side.", required=True, unread=UNREAD_OF_CONTAINERS)
    ] = ()
    init_containers: Annotated[
        tuple[Container, ...], about("Containers that run first, one after the other.", unread=UNREAD_OF_CONTAINERS)
    ] = ()
    node_selector: Annotated[Labels, about("Labels that its node must have.")] = {}
    affinity: Annotated[Affinity | None, about("Node affinity, and affinity to other pods.")] = None
    tolerations: Annotated[tuple[Toleration, ...], about("Tolerated taints.")] = ()
    runtime_class_name: Annotated[str | None, about("Way in which its containers run.")] = None
    priority: Annotated[Int32 | None, about("Its priority, as its class gives it.")] = None
    priority_class_name: Annotated[str, about("Where its priority comes from.")] = ""
    overhead: Annotated[Amounts, about("Cost of running it besides its containers.")] = msgspec.field(
        default_factory=ResourceList
    )
    resources: Annotated[Resources | None, about("Requests and limits of the pod as a whole.")] = None
    resource_claims: Annotated[tuple[object, ...], about("Claims on devices.")] = ()
    topology_spread_constraints: Annotated[tuple[object, ...], about("How pods are spread out.")] = ()


class PodTemplate(Wire):
    """The template of every pod of a pod set."""

    metadata: Metadata = ObjectMeta()
    spec: Annotated[PodSpec, about("Spec of the pods.", unread=UNREAD_OF_PODS)] = PodSpec()


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
    """The cost of running a pod besides its containers."""

    pod_fixed: ResourceList = msgspec.field(default_factory=ResourceList)


class RuntimeClass(Wire):
    """A way to run containers, and what it costs."""

    metadata: ObjectMeta = ObjectMeta()
    overhead: RuntimeClassOverhead | None = None


class JobSpec(Wire):
    """How many pods a Job runs, whether it may start them, and their undecoded template."""

    parallelism: Annotated[Int32 | None, about("Most pods at a time.")] = None
    completions: Annotated[Int32 | None, about("Pods that must succeed.")] = None
    suspend: Annotated[bool | None, about("Whether it is suspended.")] = None
    template: Annotated[msgspec.Raw, holds(PodTemplate), about("Template of the pods.", required=True)] = msgspec.Raw(
        b"{}"
    )


class Job(Wire):
    """A batch/v1 Job."""

    metadata: Metadata = ObjectMeta()
    spec: Annotated[JobSpec, about("What it runs.", required=True, unread=UNREAD_OF_JOBS)] = JobSpec()


Value = TypeVar("Value")
Slice = TypeVar("Slice", PodTemplate, LimitRange, RuntimeClass, Job)


def decode_template(raw: bytes | msgspec.Raw) -> PodTemplate:
    """Decode a pod template from JSON; raises only `TemplateError`."""
    return decode(raw, PodTemplate)


def decode(raw: bytes | msgspec.Raw, kind: type[Slice]) -> Slice:
    """Decode an object of this kind from JSON; raises only `TemplateError`."""
    try:
        return msgspec.json.decode(raw, type=kind, dec_hook=read_special)
    except msgspec.ValidationError as error:
        # A null means an absent field; it is rare, so nulls are removed only after the fast path has failed.
        return decode_without_nulls(raw, kind, first=error)
    except (ValueError, RecursionError) as error:
        raise TemplateError(path="", problem=f"{error}; send one JSON object in UTF-8") from error


def decode_without_nulls(raw: bytes | msgspec.Raw, kind: type[Slice], *, first: msgspec.ValidationError) -> Slice:
    """Decode an object of this kind from JSON with its nulls removed; raises only `TemplateError`."""
    try:
        tree = msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        raise misplaced(first) from first
    return from_tree(tree, kind)


def from_tree(tree: object, kind: type[Slice]) -> Slice:
    """Decode an object of this kind from a JSON tree; raises only `TemplateError`."""
    try:
        return msgspec.json.decode(msgspec.json.encode(without_nulls(tree)), type=kind, dec_hook=read_special)
    except msgspec.ValidationError as error:
        raise misplaced(error) from error
    except (TypeError, ValueError, RecursionError) as error:
        raise TemplateError(path="", problem=f"{error}; use plain JSON values") from error


def misplaced(error: msgspec.ValidationError) -> TemplateError:
    """The same error with its path in Kubernetes' form."""
    path, problem = located(error)
    return TemplateError(path=path, problem=problem)


def read_special(kind: type, value: object) -> object:
    """Decode a type that msgspec does not know: quantities by name, or undecoded JSON."""
    return resource_list(value) if kind is ResourceList else value


def resource_list(value: object) -> ResourceList:
    """The quantities of a JSON object; raises `ValueError` with the resource's name."""
    if not isinstance(value, dict):
        raise ValueError(f'{value!r} is not a JSON object; write quantities by resource name, as in {{"cpu": 1}}')
    return ResourceList({name: read_quantity(name, amount) for name, amount in value.items()})


def read_quantity(name: str, amount: object) -> Quantity:
    """Decode a quantity from a JSON text or number; raises `ValueError` with the resource's name."""
    if isinstance(amount, bool) or not isinstance(amount, str | int | float):
        raise ValueError(f"{name}: {amount!r} is not a quantity; write a text or a number, as in 500m, 2, 1.5Gi")
    try:
        return parse_quantity(str(amount))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def without_nulls(tree: Value) -> Value:
    """The tree without null members, which Kubernetes treats as absent."""
    if isinstance(tree, dict):
        kept = {key: without_nulls(value) for key, value in tree.items() if value is not None}
        return kept  # type: ignore[return-value]  # a dict comes of a dict
    if isinstance(tree, list):
        return [without_nulls(value) for value in tree]  # type: ignore[return-value]  # and a list of a list
    return tree


def read_with(decoder: "msgspec.json.Decoder[Value]", raw: bytes | msgspec.Raw) -> Value:
    """Decode with this decoder; raises `msgspec.ValidationError` if the bytes do not fit."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError:
        # A null means an absent field; it is rare, so nulls are removed only after the fast path has failed.
        return decoder.decode(msgspec.json.encode(without_nulls(msgspec.json.decode(raw))))


def node_problem(type_: str, status: str, reason: str, message: str) -> str:
    """What keeps a pod from getting a node, from one of its conditions; empty for all other conditions."""
    if (type_, status, reason) != ("PodScheduled", "False", "Unschedulable"):
        return ""
    # The sentences after the first are about preemption.
    return f"waits for a node: {message.partition('. ')[0].removesuffix('.')}".removesuffix(": ")


def start_problem(reason: str, message: str) -> str:
    """Why a container that waits for this reason cannot start; empty if it will."""
    return f"{reason}: {message}".removesuffix(": ") if reason in NEVER_STARTING else ""
