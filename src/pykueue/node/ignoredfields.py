"""Fields of a pod that this node does not honour, one row each, with the warning for the pod's author.

Honoured fields have no row, and neither has `image`: every pod must name one, and docs/local.md explains its effect. A
field that cannot work at all, such as a volume of an unsupported kind, prevents the pod from starting and is reported
there.
"""

from collections.abc import Mapping
from typing import Final

from pykueue.api.core import Tree
from pykueue.base.struct import Frozen

MESSAGE_PATH: Final = "/dev/termination-log"
EACH: Final = "[]"
"""Stands for every item of a list in the path of a row."""
RIGHTS: Final = "is ignored: a process has the rights of its user and no others"
PROFILE: Final = "is ignored: processes are not confined"
NO_CLUSTER: Final = "is ignored: there are no Services and no cluster DNS on one machine"


NOTHING: Final[tuple[object, ...]] = (None, False, "", [], {})
"""Values that request nothing."""


class Row(Frozen):
    """A field that is not honoured."""

    field: str
    """Its path in a pod spec; `containers[]` stands for init containers too."""
    message: str
    usual: tuple[object, ...] = ()
    """Values that request only what happens anyway."""
    off: bool = False
    """Whether it requests something when false."""
    in_runtime: bool = False
    """Whether a container runtime honours it."""
    resource: str = ""
    """The resource whose limit it is: a server that enforces the limit honours the field."""


ROWS: Final = (
    Row("affinity.podAffinity", "is ignored: there is one node"),
    Row("affinity.podAntiAffinity", "is ignored: there is one node"),
    Row("automountServiceAccountToken", "is ignored: pods get no token of the API"),
    Row("dnsConfig", "is ignored: processes resolve names as the machine does"),
    Row(
        "dnsPolicy",
        "is ignored: processes resolve names as the machine does",
        usual=("ClusterFirst", "ClusterFirstWithHostNet", "Default"),
    ),
    Row("hostAliases", "is ignored: processes resolve names as the machine does"),
    Row("hostIPC", "changes nothing: without a container runtime all pods share the machine's IPC"),
    Row("hostNetwork", "changes nothing: all pods use the machine's network"),
    Row("hostPID", "changes nothing: without a container runtime all pods see the machine's processes"),
    Row("hostUsers", "is ignored: there are no user namespaces; ids are the machine's", off=True),
    Row("hostname", "sets the variable HOSTNAME alone: the machine keeps its name"),
    Row("hostnameOverride", "is ignored: the machine keeps its name"),
    Row("imagePullSecrets", "is ignored: a container runtime uses the credentials of the user who starts it"),
    Row("os.name", "is ignored: pods run on this machine's system", usual=("linux",)),
    Row("resourceClaims", "is ignored: there are no devices to claim; ask for GPUs by nvidia.com/gpu"),
    Row("runtimeClassName", "counts its overhead alone: its handler is not used"),
    Row("schedulerName", "is ignored: the server's own scheduler places every pod", usual=("default-scheduler",)),
    Row("schedulingGroup", "is ignored: pods are placed one by one"),
    Row("serviceAccountName", "is ignored: pods get no token of the API", usual=("default",)),
    Row("setHostnameAsFQDN", NO_CLUSTER),
    Row(
        "shareProcessNamespace",
        "changes nothing: without a container runtime all pods see the machine's processes",
    ),
    Row("subdomain", NO_CLUSTER),
    Row("topologySpreadConstraints", "is ignored: there is one node"),
    Row("securityContext.appArmorProfile", PROFILE),
    Row("securityContext.fsGroupChangePolicy", "is ignored: volumes are made with their group"),
    Row("securityContext.seLinuxChangePolicy", PROFILE),
    Row("securityContext.seLinuxOptions", PROFILE),
    Row("securityContext.seccompProfile", PROFILE),
    Row("securityContext.sysctls", "is ignored: the kernel's settings are the machine's"),
    Row("securityContext.windowsOptions", "is ignored: this is not Windows"),
    Row("volumes[].emptyDir.medium", "is ignored: the folder is on the machine's disk"),
    Row("volumes[].emptyDir.sizeLimit", "is ignored: nothing limits how much is written to the folder"),
    Row("containers[].lifecycle.postStart", "is ignored: no hooks are run"),
    Row("containers[].lifecycle.preStop", "is ignored: no hooks are run"),
    Row("containers[].lifecycle.stopSignal", "is ignored: containers are ended with SIGTERM", usual=("SIGTERM",)),
    Row("containers[].ports[].hostIP", "is ignored: a process listens where it likes, on the machine's network"),
    Row("containers[].ports[].hostPort", "is ignored: a process listens where it likes, on the machine's network"),
    Row("containers[].resizePolicy", "is ignored: pods are not resized while they run"),
    Row("containers[].resources.claims", "is ignored: there are no devices to claim; ask for GPUs by nvidia.com/gpu"),
    Row(
        "containers[].resources.limits.cpu",
        "is not enforced: this server has no cgroup for cpu",
        in_runtime=True,
        resource="cpu",
    ),
    Row(
        "containers[].resources.limits.ephemeral-storage",
        "is not enforced: nothing limits what a process writes to the disk",
    ),
    Row("containers[].restartPolicyRules", "is ignored: the restart policy alone decides"),
    Row("containers[].securityContext.allowPrivilegeEscalation", RIGHTS, off=True),
    Row("containers[].securityContext.appArmorProfile", PROFILE),
    Row("containers[].securityContext.capabilities", RIGHTS),
    Row("containers[].securityContext.privileged", RIGHTS),
    Row("containers[].securityContext.procMount", "is ignored: /proc is the machine's", usual=("Default",)),
    Row("containers[].securityContext.readOnlyRootFilesystem", "is ignored: a process may write what its user may"),
    Row("containers[].securityContext.seLinuxOptions", PROFILE),
    Row("containers[].securityContext.seccompProfile", PROFILE),
    Row("containers[].securityContext.windowsOptions", "is ignored: this is not Windows"),
    Row("containers[].terminationMessagePath", "is ignored: no file is read", usual=(MESSAGE_PATH,)),
    Row("containers[].volumeDevices", "is ignored: there are no block volumes"),
    Row("containers[].volumeMounts[].mountPropagation", "is ignored: volumes are folders", usual=("None",)),
    Row(
        "containers[].volumeMounts[].readOnly",
        "is not enforced: a process may write what its user may",
        in_runtime=True,
    ),
    Row("containers[].volumeMounts[].recursiveReadOnly", "is ignored: volumes are folders", usual=("Disabled",)),
)


class RowTree:
    """The rows below a field."""

    __slots__ = ("below", "row")

    def __init__(self) -> None:
        self.below: dict[str, RowTree] = {}
        self.row: Row | None = None


def grown() -> RowTree:
    """All rows as a tree, so that a spec is read once for any number of rows."""
    root = RowTree()
    for row in ROWS:
        paths = [row.field]
        if row.field.startswith("containers[]"):
            paths.append(f"initContainers{row.field.removeprefix('containers')}")
        for path in paths:
            node = root
            for name in path.replace(EACH, f".{EACH}").split("."):
                node = node.below.setdefault(name, RowTree())
            node.row = row
    return root


TREE: Final = grown()


def ignored(spec: Mapping[str, object], path: str, *, enforced: frozenset[str], runtime: bool) -> tuple[str, ...]:
    """The warnings for a pod spec: each ignored field once, where it first occurs."""
    # Fields that are honoured here count as reported.
    found = {row.field: "" for row in ROWS if (runtime and row.in_runtime) or row.resource in enforced}
    look(TREE, spec, path, found)
    return tuple(found[row.field] for row in ROWS if found.get(row.field))


def look(node: RowTree, value: object, path: str, found: dict[str, str]) -> None:
    """Find the ignored fields at and below a value; there may be very many containers."""
    if isinstance(value, dict):
        for name, inner in value.items():
            below = node.below.get(name)
            if below is None:
                continue
            row = below.row
            if row is not None and row.field not in found and asks(row, inner):
                found[row.field] = f"{path}.{name}: {row.message}"
            if inner and below.below:
                look(below, inner, f"{path}.{name}", found)
    elif isinstance(value, list) and EACH in node.below:
        for index, one in enumerate(value):
            look(node.below[EACH], one, f"{path}[{index}]", found)


def asks(row: Row, value: object) -> bool:
    """Whether a value of a field requests something that is ignored."""
    return value is False if row.off else value not in row.usual and value not in NOTHING


def spec_in(group: str, kind: str, tree: Tree) -> tuple[Mapping[str, object], str] | None:
    """The pod spec of a Pod or Job and its path; None for other kinds and if there is none."""
    fields = SPECS.get((group, kind))
    value: object = tree
    for field in fields or ():
        value = value.get(field) if isinstance(value, Mapping) else None
    return (value, ".".join(fields)) if fields and isinstance(value, Mapping) else None


SPECS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("", "Pod"): ("spec",),
    ("batch", "Job"): ("spec", "template", "spec"),
}
"""The path of the pod spec in the kinds whose pods this node runs."""
