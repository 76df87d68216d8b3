"""What is this object, and what does it say? Bytes or trees of any served version to typed views."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final, Literal, TypeVar, cast

import msgspec

from pykueue.api.checks import (
    AdmissionCheck,
    MultiKueueCluster,
    MultiKueueConfig,
    ProvisioningRequest,
    ProvisioningRequestConfig,
)
from pykueue.api.convert import GROUP, to_v1beta2
from pykueue.api.core import Json, KubeObject, Namespace, Tree, TypeMeta
from pykueue.api.kueue import (
    ClusterQueue,
    Cohort,
    LocalQueue,
    ResourceFlavor,
    Topology,
    WorkloadPriorityClass,
)
from pykueue.api.schema import defaults
from pykueue.api.workload import Workload
from pykueue.base.struct import Frozen

View = TypeVar("View", bound=KubeObject)


class DecodeError(ValueError):
    """An object that cannot be read: where, what, and what to do."""


class Column(Frozen):
    """A column that kubectl prints; those of priority 1 only on `-o wide`."""

    name: str
    type: Literal["string", "integer", "date"]
    path: str
    priority: int = 0
    path_v1beta1: str | None = None
    """Where it differs in the older version."""


class Kind(Frozen):
    """A kind of object, and how the API serves it."""

    view: type[KubeObject]
    plural: str
    scope: Literal["Cluster", "Namespaced"] = "Cluster"
    group: str = GROUP
    versions: tuple[str, ...] = ("v1beta2", "v1beta1")
    """Served versions; the first is the one that is stored, and that views show."""
    short_names: tuple[str, ...] = ()
    status: bool = False
    """Whether status is written apart from the rest."""
    columns: tuple[Column, ...] = ()
    deprecated: tuple[str, ...] = ("v1beta1",)
    """Versions whose use is answered with `DEPRECATED`."""
    selectable: tuple[str, ...] = ()
    """Fields that lists can be selected by, in the stored version."""

    @property
    def kind(self) -> str:
        """Its name."""
        return self.view.__name__

    @property
    def api_versions(self) -> tuple[str, ...]:
        """Served versions as objects name them."""
        return tuple(f"{self.group}/{version}" if self.group else version for version in self.versions)


DEPRECATED: Final = "This version is deprecated. Use v1beta2 instead."
AGE: Final = Column("Age", "date", ".metadata.creationTimestamp")

KINDS: Final[Mapping[str, Kind]] = {
    kind.kind: kind
    for kind in (
        Kind(
            ClusterQueue,
            "clusterqueues",
            short_names=("cq",),
            status=True,
            columns=(
                Column("Cohort", "string", ".spec.cohortName", path_v1beta1=".spec.cohort"),
                Column("Strategy", "string", ".spec.queueingStrategy", 1),
                Column("Pending Workloads", "integer", ".status.pendingWorkloads"),
                Column("Admitted Workloads", "integer", ".status.admittedWorkloads", 1),
            ),
        ),
        Kind(
            LocalQueue,
            "localqueues",
            "Namespaced",
            short_names=("queue", "queues", "lq"),
            status=True,
            columns=(
                Column("ClusterQueue", "string", ".spec.clusterQueue"),
                Column("Pending Workloads", "integer", ".status.pendingWorkloads"),
                Column("Admitted Workloads", "integer", ".status.admittedWorkloads"),
            ),
        ),
        Kind(
            Workload,
            "workloads",
            "Namespaced",
            short_names=("kwl", "kueueworkload", "kueueworkloads"),
            status=True,
            columns=(
                Column("Queue", "string", ".spec.queueName"),
                Column("Reserved in", "string", ".status.admission.clusterQueue"),
                Column("Admitted", "string", ".status.conditions[?(@.type=='Admitted')].status"),
                Column("Finished", "string", ".status.conditions[?(@.type=='Finished')].status"),
                AGE,
            ),
            selectable=(".status.admission.clusterQueue",),
        ),
        Kind(ResourceFlavor, "resourceflavors", short_names=("flavor", "flavors", "rf")),
        Kind(
            WorkloadPriorityClass,
            "workloadpriorityclasses",
            short_names=("wpc",),
            columns=(Column("Value", "integer", ".value"),),
        ),
        Kind(AdmissionCheck, "admissionchecks", short_names=("ac",), status=True),
        Kind(ProvisioningRequestConfig, "provisioningrequestconfigs", short_names=("prc",)),
        Kind(Cohort, "cohorts", short_names=("co",), status=True),
        Kind(Topology, "topologies", short_names=("topo",)),
        Kind(MultiKueueConfig, "multikueueconfigs", short_names=("mkconf",), deprecated=()),
        Kind(
            MultiKueueCluster,
            "multikueueclusters",
            short_names=("mkc",),
            status=True,
            columns=(Column("Connected", "string", ".status.conditions[?(@.type=='Active')].status"), AGE),
        ),
        Kind(
            ProvisioningRequest,
            "provisioningrequests",
            "Namespaced",
            group="autoscaling.x-k8s.io",
            versions=("v1",),
            short_names=("provreq", "provreqs"),
            status=True,
            columns=(AGE,),
            deprecated=(),
        ),
        Kind(Namespace, "namespaces", group="", versions=("v1",), short_names=("ns",), status=True, deprecated=()),
    )
}

TYPE_META: Final = msgspec.json.Decoder(TypeMeta)
TREE: Final = msgspec.json.Decoder(dict[str, object])


READERS: Final = {kind.view: msgspec.json.Decoder(kind.view) for kind in KINDS.values()}


def reader(view: type[View]) -> msgspec.json.Decoder[View]:
    """The decoder of a view."""
    return cast("msgspec.json.Decoder[View]", READERS[view])


def decode(source: bytes | Tree) -> KubeObject:
    """The view of an object, of the type that its kind names."""
    return decode_as(kind_of(source).view, source)


def decode_as(view: type[View], source: bytes | Tree) -> View:
    """The view of an object that is known to be of this kind, whatever of the served versions it is written in."""
    known = KINDS[view.__name__]
    raw = source if isinstance(source, bytes) else encoded(source, where=known.kind)
    try:
        found = reader(view).decode(raw)
        if found.api_version in known.api_versions[1:]:
            found = reader(view).decode(encoded(to_v1beta2(parsed(raw)), where=known.kind))
        return found
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return decode_again(known, view, raw, first=error)


def decode_again(known: Kind, view: type[View], raw: bytes, *, first: Exception) -> View:
    """The view of an object that could not be decoded as it is: older versions converted, nulls dropped."""
    tree = to_v1beta2(parsed(raw))
    try:
        return reader(view).decode(encoded(defaults(view, tree), where=known.kind))
    except msgspec.ValidationError as error:
        metadata = tree.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        raise DecodeError(f"{known.kind} {name or '(without a name)'}: {located(error)}") from first


def kind_of(source: bytes | Tree) -> Kind:
    """The kind of an object, by what it says in `apiVersion` and `kind`."""
    if isinstance(source, bytes):
        try:
            said = TYPE_META.decode(source)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DecodeError(f"apiVersion and kind cannot be read: {error}; send one JSON object") from error
        version, name = said.api_version, said.kind
    else:
        version, name = (str(source.get(key) or "") for key in ("apiVersion", "kind"))
    known = KINDS.get(name)
    if known is None:
        raise DecodeError(f"kind: {unknown_kind(name)}")
    if version not in known.api_versions:
        served = " or ".join(known.api_versions)
        raise DecodeError(f"apiVersion: {version[:253]!r} does not serve {name}; write {served}")
    return known


def unknown_kind(name: str) -> str:
    """What to say about a kind that there is not."""
    if not name:
        return f"is missing; write one of: {', '.join(KINDS)}"
    folded = {known.lower(): known for known in KINDS}
    near = get_close_matches(name[:253].lower(), folded, n=1)
    advice = f"did you mean {folded[near[0]]}?" if near else f"write one of: {', '.join(KINDS)}"
    return f"{name[:253]!r} is not known; {advice}"


def encoded(tree: Mapping[str, Json], *, where: str) -> bytes:
    """The tree as JSON."""
    try:
        return msgspec.json.encode(tree)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise DecodeError(
            f"{where}: cannot be written as JSON: {error}; use plain JSON values, not nested too deep"
        ) from error


def parsed(raw: bytes) -> Tree:
    """The JSON object in these bytes."""
    try:
        return TREE.decode(raw)  # type: ignore[return-value]  # decoded JSON is Json
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f"the object cannot be read: {error}; send one JSON object") from error


def located(error: msgspec.ValidationError) -> str:
    """What msgspec says, with the path in front."""
    text, _, path = str(error).partition(" - at `$")
    where = path.removesuffix("`").lstrip(".")
    return f"{where or 'the object'}: {text[:1].lower()}{text[1:]}; correct it or leave the field out"
