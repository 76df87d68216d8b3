"""Adds the unset timestamps that kube-apiserver writes as null in built-in kinds."""

from collections.abc import Mapping
from typing import Final

from pykueue.api.core import Json, Tree
from pykueue.apiserver.kinds.poddefaults import as_tree, each

PROBED: Final = ("lastProbeTime", "lastTransitionTime")
BEATEN: Final = ("lastHeartbeatTime", "lastTransitionTime")
STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
STATES: Final[Mapping[str, tuple[str, ...]]] = {"running": ("startedAt",), "terminated": ("startedAt", "finishedAt")}
EVENT: Final[Mapping[str, Json]] = {
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}


def with_nulls(tree: Tree, names: tuple[str, ...]) -> Tree:
    """An object with null for each of these fields that is not set."""
    missing = [name for name in names if name not in tree]
    return {**tree, **dict.fromkeys(missing)} if missing else tree


def with_conditions(tree: Tree, names: tuple[str, ...]) -> Tree:
    """An object whose conditions have null for unset times."""
    status = as_tree(tree.get("status"))
    conditions = status.get("conditions")
    if not conditions:
        return tree
    made = each(conditions, lambda one: with_nulls(one, names))
    return {**tree, "status": {**status, "conditions": made}}


def with_states(container: Tree) -> Tree:
    """A container state with null for unset start and end times."""
    made = {**container}
    for name in ("state", "lastState"):
        state = made.get(name)
        if isinstance(state, dict):
            made[name] = {
                kind: with_nulls(as_tree(value), STATES[kind]) if kind in STATES else value
                for kind, value in state.items()
            }
    return made


def pod_times(tree: Tree) -> Tree:
    """A pod with null for unset times."""
    tree = with_conditions(tree, PROBED)
    status = as_tree(tree.get("status"))
    if not any(status.get(name) for name in STATUSES):
        return tree
    made = {name: each(value, with_states) if name in STATUSES else value for name, value in status.items()}
    return {**tree, "status": made}


def event_times(tree: Tree) -> Tree:
    """An event with null for unset times."""
    return {**EVENT, **tree}


def job_times(tree: Tree) -> Tree:
    """A Job whose conditions have null for unset times."""
    return with_conditions(tree, PROBED)


def node_times(tree: Tree) -> Tree:
    """A Node whose conditions have null for unset times."""
    return with_conditions(tree, BEATEN)
