"""The columns that `kubectl get` shows for built-in kinds, and the cells of a row."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from pykueue.api.core import Json, Tree
from pykueue.api.trees import items, mapping, mappings, member, text, whole
from pykueue.apiserver.http.podcolumns import pod_cells
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Instant, parse_instant

Cells: TypeAlias = list[Json]

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"
ROLE_PREFIX: Final = "node-role.kubernetes.io/"
ROLE_LABEL: Final = "kubernetes.io/role"
MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
YEAR: Final = 365 * DAY


class Head(Frozen):
    """The header of a column; `-o wide` also shows those of priority 1."""

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0


class Layout(Frozen):
    """The columns of a kind, and the function that returns the cells of an object."""

    heads: tuple[Head, ...]
    cells: Callable[[Tree, Instant], Cells]


NAME: Final = Head("Name", format="name")
AGE: Final = Head("Age")


def wide(*names: str) -> tuple[Head, ...]:
    """Columns that only `-o wide` shows."""
    return tuple(Head(name, priority=1) for name in names)


def name_of(tree: Tree) -> str:
    """An object's name."""
    return text(tree, "metadata", "name")


def human_duration(micros: int) -> str:
    """A duration in kubectl's short form."""
    seconds = int(micros / MICROS)
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * MINUTE:
        return f"{max(0, seconds)}s"
    if seconds < 10 * MINUTE:
        return two_units(seconds, MINUTE, "m", 1, "s")
    if seconds < 3 * HOUR:
        return f"{seconds // MINUTE}m"
    if seconds < 8 * HOUR:
        return two_units(seconds, HOUR, "h", MINUTE, "m")
    if seconds < 2 * DAY:
        return f"{seconds // HOUR}h"
    if seconds < 8 * DAY:
        return two_units(seconds, DAY, "d", HOUR, "h")
    if seconds < 2 * YEAR:
        return f"{seconds // DAY}d"
    if seconds < 8 * YEAR:
        return two_units(seconds, YEAR, "y", DAY, "d")
    return f"{seconds // YEAR}y"


def two_units(seconds: int, large: int, large_name: str, small: int, small_name: str) -> str:
    """A duration in two units; the smaller one is omitted if zero."""
    rest = seconds % large // small
    return f"{seconds // large}{large_name}" + (f"{rest}{small_name}" if rest else "")


def since(moment: object, now: Instant) -> str:
    """How long ago a timestamp was."""
    if not isinstance(moment, str) or not moment:
        return UNKNOWN
    try:
        return human_duration(now - parse_instant(moment))
    except ValueError:
        return "<invalid>"


def age(tree: Tree, now: Instant) -> str:
    """How long ago an object was created."""
    return since(member(tree, "metadata", "creationTimestamp"), now)


def holding(tree: Tree) -> frozenset[str]:
    """The types of the conditions that are true."""
    found = mappings(tree, "status", "conditions")
    return frozenset(text(one, "type") for _, one in found if text(one, "status") == "True")


def containers(tree: object) -> tuple[str, str]:
    """The names and the images of a template's containers, comma-separated."""
    found = [one for _, one in mappings(tree, "spec", "containers")]
    return ",".join(text(one, "name") for one in found), ",".join(text(one, "image") for one in found)


def selector_text(selector: object) -> str:
    """A label selector in kubectl's notation."""
    terms = [f"{key}={value}" for key, value in sorted(mapping(selector, "matchLabels").items())]
    for _, one in mappings(selector, "matchExpressions"):
        key, operator = text(one, "key"), text(one, "operator")
        values = ",".join(sorted(str(value) for value in items(one, "values")))
        match operator:
            case "In" | "NotIn":
                terms.append(f"{key} {operator.lower()} ({values})")
            case "Exists":
                terms.append(key)
            case "DoesNotExist":
                terms.append(f"!{key}")
    return ",".join(terms) or NONE


JOB_STATES: Final = ("Complete", "Failed", "", "Suspended", "FailureTarget", "SuccessCriteriaMet")
"""Conditions of a Job in order of precedence; the empty one stands for a Job that is being deleted."""


def job_state(job: Tree) -> str:
    """The state of a Job as one word."""
    held = holding(job)
    for state in JOB_STATES:
        if state in held:
            return state
        if not state and member(job, "metadata", "deletionTimestamp"):
            return "Terminating"
    # The condition of a new Job is written a moment later.
    return "Suspended" if member(job, "spec", "suspend") is True and not holding(job) else "Running"


def job_cells(job: Tree, now: Instant) -> Cells:
    """A Job's row."""
    done, wanted = whole(job, "status", "succeeded") or 0, whole(job, "spec", "completions")
    parallel = whole(job, "spec", "parallelism") or 0
    completions = f"{done}/{wanted}" if wanted is not None else f"{done}/1" + (f" of {parallel}" * (parallel > 1))
    begun, ended = text(job, "status", "startTime"), text(job, "status", "completionTime")
    lasted = ""
    if begun:
        lasted = human_duration((parse_instant(ended) if ended else now) - parse_instant(begun))
    names, images = containers(member(job, "spec", "template"))
    selector = selector_text(member(job, "spec", "selector"))
    return [name_of(job), job_state(job), completions, lasted, age(job, now), names, images, selector]


def node_cells(node: Tree, now: Instant) -> Cells:
    """A Node's row."""
    ready = [text(one, "status") for _, one in mappings(node, "status", "conditions") if text(one, "type") == "Ready"]
    state = ("Ready" if ready[-1] == "True" else "NotReady") if ready else "Unknown"
    if member(node, "spec", "unschedulable") is True:
        state += ",SchedulingDisabled"
    labels = mapping(node, "metadata", "labels")
    roles = {key.removeprefix(ROLE_PREFIX) for key in labels if key.startswith(ROLE_PREFIX)} | {
        str(labels.get(ROLE_LABEL, ""))
    }
    info = mapping(node, "status", "nodeInfo")
    kernel = text(info, "kernelVersion") or UNKNOWN
    if text(info, "architecture"):
        kernel += f" ({text(info, 'architecture')})"
    return [
        name_of(node),
        state,
        ",".join(sorted(roles - {""})) or NONE,
        age(node, now),
        text(info, "kubeletVersion"),
        address(node, "InternalIP"),
        address(node, "ExternalIP"),
        text(info, "osImage") or UNKNOWN,
        kernel,
        text(info, "containerRuntimeVersion") or UNKNOWN,
    ]


def address(node: Tree, kind: str) -> str:
    """The address of a Node of this type."""
    found = (text(one, "address") for _, one in mappings(node, "status", "addresses") if text(one, "type") == kind)
    return next(found, NONE)


def event_cells(event: Tree, now: Instant) -> Cells:
    """The row of an Event, of the core group or of events.k8s.io."""
    newer = text(event, "apiVersion") == "events.k8s.io/v1"
    names = EVENT_FIELDS if newer else {name: name for name in EVENT_FIELDS}
    first = member(event, names["firstTimestamp"]) or member(event, "eventTime")
    last = member(event, names["lastTimestamp"]) or first
    count = whole(event, names["count"]) or 1
    if isinstance(member(event, "series"), Mapping):
        last, count = member(event, "series", "lastObservedTime"), whole(event, "series", "count") or 0
    about = mapping(event, names["involvedObject"])
    kind, name = text(about, "kind").lower(), text(about, "name")
    source = mapping(event, names["source"])
    component = text(source, "component") or text(event, names["reportingComponent"])
    host = text(source, "host") or text(event, "reportingInstance")
    return [
        since(last, now),
        text(event, "type"),
        text(event, "reason"),
        f"{kind}/{name}" if name else kind,
        text(about, "fieldPath"),
        f"{component}, {host}" if host else component,
        text(event, names["message"]).strip(),
        since(first, now),
        count,
        name_of(event),
    ]


EVENT_FIELDS: Final[Mapping[str, str]] = {
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "involvedObject": "regarding",
    "source": "deprecatedSource",
    "reportingComponent": "reportingController",
    "message": "note",
}
"""Fields of the core Event, with their names in events.k8s.io."""


def namespace_cells(tree: Tree, now: Instant) -> Cells:
    """A Namespace's row."""
    return [name_of(tree), text(tree, "status", "phase"), age(tree, now)]


def secret_cells(tree: Tree, now: Instant) -> Cells:
    """A Secret's row."""
    return [name_of(tree), text(tree, "type"), len(mapping(tree, "data")), age(tree, now)]


def config_cells(tree: Tree, now: Instant) -> Cells:
    """A ConfigMap's row."""
    return [name_of(tree), len(mapping(tree, "data")) + len(mapping(tree, "binaryData")), age(tree, now)]


def plain_cells(tree: Tree, now: Instant) -> Cells:
    """The row of a kind that shows only name and age."""
    return [name_of(tree), age(tree, now)]


def lease_cells(tree: Tree, now: Instant) -> Cells:
    """A Lease's row."""
    return [name_of(tree), text(tree, "spec", "holderIdentity"), age(tree, now)]


def priority_cells(tree: Tree, now: Instant) -> Cells:
    """A PriorityClass's row."""
    default = member(tree, "globalDefault") is True
    return [name_of(tree), whole(tree, "value") or 0, default, age(tree, now), text(tree, "preemptionPolicy")]


def runtime_cells(tree: Tree, now: Instant) -> Cells:
    """A RuntimeClass's row."""
    return [name_of(tree), text(tree, "handler"), age(tree, now)]


def template_cells(tree: Tree, now: Instant) -> Cells:
    """A PodTemplate's row."""
    labels = mapping(tree, "template", "metadata", "labels")
    shown = ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE
    return [name_of(tree), *containers(member(tree, "template")), shown]


def pod_row(tree: Tree, now: Instant) -> Cells:
    """A Pod's row."""
    seen = pod_cells(tree)
    restarts = str(seen.restarts)
    if seen.restarts and seen.restarted_at:
        restarts += f" ({since(seen.restarted_at, now)} ago)"
    return [name_of(tree), f"{seen.ready}/{seen.containers}", seen.state, restarts, age(tree, now), *seen.wide]


def created_cells(tree: Tree, now: Instant) -> Cells:
    """The row of a kind without columns of its own: name and creation time."""
    return [name_of(tree), text(tree, "metadata", "creationTimestamp")]


OTHERS: Final = Layout((NAME, Head("Created At", "date")), created_cells)
"""The columns of kinds without columns of their own."""
EVENT: Final = Layout(
    (
        Head("Last Seen"),
        Head("Type"),
        Head("Reason"),
        Head("Object"),
        *wide("Subobject", "Source"),
        Head("Message"),
        *wide("First Seen", "Count"),
        Head("Name", format="name", priority=1),
    ),
    event_cells,
)
LAYOUTS: Final[Mapping[str, Layout]] = {
    "configmaps": Layout((NAME, Head("Data"), AGE), config_cells),
    "events": EVENT,
    "events.events.k8s.io": EVENT,
    "namespaces": Layout((NAME, Head("Status"), AGE), namespace_cells),
    "nodes": Layout(
        (
            NAME,
            Head("Status"),
            Head("Roles"),
            AGE,
            Head("Version"),
            *wide("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        ),
        node_cells,
    ),
    "pods": Layout(
        (
            NAME,
            Head("Ready"),
            Head("Status"),
            Head("Restarts"),
            AGE,
            *wide("IP", "Node", "Nominated Node", "Readiness Gates"),
        ),
        pod_row,
    ),
    "podtemplates": Layout((NAME, Head("Containers"), Head("Images"), Head("Pod Labels")), template_cells),
    "secrets": Layout((NAME, Head("Type"), Head("Data"), AGE), secret_cells),
    "serviceaccounts": Layout((NAME, AGE), plain_cells),
    "jobs.batch": Layout(
        (
            NAME,
            Head("Status"),
            Head("Completions"),
            Head("Duration"),
            AGE,
            *wide("Containers", "Images", "Selector"),
        ),
        job_cells,
    ),
    "leases.coordination.k8s.io": Layout((NAME, Head("Holder"), AGE), lease_cells),
    "priorityclasses.scheduling.k8s.io": Layout(
        (NAME, Head("Value", "integer"), Head("Global-Default", "boolean"), AGE, Head("PreemptionPolicy")),
        priority_cells,
    ),
    "runtimeclasses.node.k8s.io": Layout((NAME, Head("Handler"), AGE), runtime_cells),
}
"""By resource name with group."""
