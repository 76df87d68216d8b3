"""What all Kubernetes objects share: metadata, conditions, selectors, taints, and the description of fields.

A field's description and limits are in its annotation only: `about` writes them, `schema` enforces them, and the
CustomResourceDefinitions print them. Decoding a view does not enforce them, so an object stored under older limits can
still be read.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from pykueue.base.struct import Wire

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
Tree: TypeAlias = dict[str, Json]
"""A Kubernetes object as it is stored and sent: a JSON object."""

SUBDOMAIN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
LABEL: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
QUALIFIED: Final = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
QUANTITY: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
REASON: Final = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"


def about(description: str, *, required: bool = False, unread: tuple[str, ...] = (), **limits: object) -> msgspec.Meta:
    """A field's description and its limits in OpenAPI's words; `x_kubernetes_map_type` stands for `x-kubernetes-…`.

    `required` marks a field that clients must send although views do not need it; `unread` names fields within it that
    exist but that views leave out.
    """
    said: dict[str, object] = {"required": required, "unread": unread}
    return msgspec.Meta(description=description, extra_json_schema=worded(limits), extra=said)


def limited(**limits: object) -> msgspec.Meta:
    """The limits of a named type; the field that uses it adds the description."""
    return msgspec.Meta(extra_json_schema=worded(limits))


def keyed(*keys: str, **limits: object) -> msgspec.Meta:
    """A list whose items are identified by these fields."""
    return msgspec.Meta(
        extra_json_schema={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": list(keys),
            **worded(limits),
        }
    )


def holds(hint: object) -> msgspec.Meta:
    """The schema type of a field that views keep undecoded or decode by a type of their own."""
    return msgspec.Meta(extra={"holds": hint})


def worded(limits: Mapping[str, object]) -> dict[str, object]:
    """OpenAPI's names for Python's keywords: `x_kubernetes_list_type` is `x-kubernetes-list-type`."""
    return {name.replace("_", "-"): limit for name, limit in limits.items()}


Int32: TypeAlias = Annotated[int, limited(format="int32")]
Int64: TypeAlias = Annotated[int, limited(format="int64")]
Count: TypeAlias = Annotated[int, limited(format="int32", minimum=0)]
Positive: TypeAlias = Annotated[int, limited(format="int32", minimum=1)]
Moment: TypeAlias = Annotated[str, limited(format="date-time")]
"""RFC 3339; `units.parse_instant` reads it."""
QuantityText: TypeAlias = Annotated[str | int, limited(pattern=QUANTITY, x_kubernetes_int_or_string=True)]
"""A quantity as written; `units.parse_quantity(str(...))` reads it."""
AnyQuantity: TypeAlias = str | int | float
"""A quantity as pods and jobs may write it."""
ObjectName: TypeAlias = Annotated[str, limited(maxLength=253, pattern=SUBDOMAIN)]
LabelKey: TypeAlias = Annotated[str, limited(minLength=1, maxLength=317, pattern=QUALIFIED)]
Labels: TypeAlias = Mapping[str, str]
Quantities: TypeAlias = Mapping[str, QuantityText]


class OwnerReference(Wire):
    """The object that this one belongs to, and is deleted with."""

    api_version: Annotated[str, about("API version of the owner.")]
    kind: Annotated[str, about("Kind of the owner.")]
    name: Annotated[str, about("Name of the owner.")]
    uid: Annotated[str, about("UID of the owner.")]
    controller: Annotated[bool | None, about("Whether this owner is the managing controller.")] = None
    block_owner_deletion: Annotated[
        bool | None, about("Whether the owner's foreground deletion waits for this object.")
    ] = None


class ObjectMeta(Wire):
    """Metadata that every object carries.

    The server validates names and labels by rules of its own, not by a schema.
    """

    name: Annotated[str | None, about("Name, unique within its namespace and kind.")] = None
    namespace: Annotated[str | None, about("Namespace of the object.")] = None
    generate_name: Annotated[str | None, about("Prefix of a name that the server generates.")] = None
    uid: Annotated[str | None, about("Identity of the object, which is never reused.")] = None
    resource_version: Annotated[str | None, about("Version of the stored object; opaque.")] = None
    generation: Annotated[Int64 | None, about("Counts the changes of the spec.")] = None
    creation_timestamp: Annotated[Moment | None, about("When the object was created.")] = None
    deletion_timestamp: Annotated[Moment | None, about("When its deletion was requested.")] = None
    deletion_grace_period_seconds: Annotated[Int64 | None, about("Time it has to end gracefully.")] = None
    labels: Annotated[Labels, about("Labels, which selectors use.")] = msgspec.field(default_factory=dict)
    annotations: Annotated[Labels, about("Annotations, which selectors do not use.")] = msgspec.field(
        default_factory=dict
    )
    finalizers: Annotated[tuple[str, ...], about("Finalizers that must be removed before the object is.")] = ()
    owner_references: Annotated[
        tuple[OwnerReference, ...], about("The objects that this one belongs to."), keyed("uid")
    ] = ()


Metadata: TypeAlias = Annotated[ObjectMeta, about("Standard metadata.", unread=("managedFields", "selfLink"))]


class TypeMeta(Wire):
    """The apiVersion and kind of an object."""

    api_version: Annotated[str, about("Group and version of the API.")] = ""
    kind: Annotated[str, about("Kind of the object.")] = ""


class KubeObject(TypeMeta):
    """Any object of the API, whatever its kind."""

    metadata: Metadata = ObjectMeta()

    @property
    def name(self) -> str:
        """Its name; empty before the server has generated it."""
        return self.metadata.name or ""

    @property
    def namespace(self) -> str:
        """Its namespace; empty for a cluster-scoped kind."""
        return self.metadata.namespace or ""


class Condition(Wire):
    """One aspect of an object's state, and when it last changed."""

    type: Annotated[str, about("Type of the condition.", maxLength=316, pattern=QUALIFIED)]
    status: Annotated[Literal["True", "False", "Unknown"], about("Whether the condition holds.")]
    reason: Annotated[
        str, about("Reason, as one word for programs.", required=True, minLength=1, maxLength=1024, pattern=REASON)
    ] = ""
    message: Annotated[str, about("Message for users.", required=True, maxLength=32768)] = ""
    last_transition_time: Annotated[Moment | None, about("When the status last changed.", required=True)] = None
    observed_generation: Annotated[Int64 | None, about("Generation that the condition was set for.", minimum=0)] = None


Conditions: TypeAlias = Annotated[tuple[Condition, ...], keyed("type")]
FewConditions: TypeAlias = Annotated[tuple[Condition, ...], keyed("type", maxItems=16)]


class LabelSelectorRequirement(Wire):
    """One condition on the value of a label."""

    key: Annotated[str, about("Label that the requirement is on.")]
    operator: Annotated[str, about("In, NotIn, Exists or DoesNotExist.")]
    values: Annotated[
        tuple[str, ...], about("Values for In and NotIn; empty for the others.", x_kubernetes_list_type="atomic")
    ] = ()


class LabelSelector(Wire):
    """Which labels are meant: all of the pairs and all of the requirements. An empty selector means everything."""

    match_labels: Annotated[Labels, about("Labels that must have these values.")] = msgspec.field(default_factory=dict)
    match_expressions: Annotated[
        tuple[LabelSelectorRequirement, ...],
        about("Further requirements, all of which must hold.", x_kubernetes_list_type="atomic"),
    ] = ()


class Taint(Wire):
    """Keeps pods that do not tolerate it off a node."""

    key: Annotated[str, about("Key that a toleration must name.")]
    effect: Annotated[str, about("Effect on pods that do not tolerate it.")]
    value: Annotated[str | None, about("Value that a toleration must name.")] = None
    time_added: Annotated[Moment | None, about("When it was added to the node.")] = None


class Toleration(Wire):
    """Taints that a pod tolerates."""

    key: Annotated[str | None, about("Key of the taint; without one, any key.")] = None
    operator: Annotated[str | None, about("Equal, the default, or Exists.")] = None
    value: Annotated[str | None, about("Value of the taint, with Equal.")] = None
    effect: Annotated[str | None, about("Effect that is tolerated; without one, any effect.")] = None
    toleration_seconds: Annotated[Int64 | None, about("How long NoExecute is tolerated; without it, forever.")] = None


class NamespaceStatus(Wire):
    """State of a namespace."""

    phase: Annotated[str | None, about("Active or Terminating.")] = None


class Namespace(KubeObject):
    """The scope of a team's objects; its labels decide which ClusterQueues serve it."""

    status: Annotated[NamespaceStatus, about("State of the namespace.")] = NamespaceStatus()


def controller_of(metadata: ObjectMeta) -> OwnerReference | None:
    """The reference to the object that controls this one."""
    for one in metadata.owner_references:
        if one.controller:
            return one
    return None


def matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether the selector matches the labels: no selector matches nothing, an empty one everything."""
    if selector is None:
        return False
    for key, value in selector.match_labels.items():
        if labels.get(key) != value:
            return False
    expressions = selector.match_expressions
    return not expressions or all(satisfies(requirement, labels) for requirement in expressions)


def satisfies(requirement: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    """Whether the labels meet the requirement; an unknown operator is never met."""
    match requirement.operator:
        case "In":
            return requirement.key in labels and labels[requirement.key] in requirement.values
        case "NotIn":
            return requirement.key not in labels or labels[requirement.key] not in requirement.values
        case "Exists":
            return requirement.key in labels
        case "DoesNotExist":
            return requirement.key not in labels
        case _:
            return False


def condition_tree(seen: Condition) -> Tree:
    """A condition with all fields that the API requires."""
    found: Tree = {
        "type": seen.type,
        "status": seen.status,
        "reason": seen.reason,
        "message": seen.message,
        "lastTransitionTime": seen.last_transition_time,
    }
    if seen.observed_generation is not None:
        found["observedGeneration"] = seen.observed_generation
    return found
