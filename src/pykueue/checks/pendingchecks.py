"""The messages of checks that keep a Workload with quota from being admitted."""

from pykueue.api.names import WorkloadCondition
from pykueue.api.trees import Tree, mappings, text


def awaited(workload: Tree) -> str:
    """The checks that a Workload with quota still waits for, with their messages; empty if there are none."""
    conditions = {text(one, "type"): text(one, "status") for _, one in mappings(workload, "status", "conditions")}
    if conditions.get(WorkloadCondition.QUOTA_RESERVED) != "True":
        return ""
    if conditions.get(WorkloadCondition.ADMITTED) == "True":
        return ""
    return "; ".join(
        f"{text(one, 'name')}: {text(one, 'message') or text(one, 'state')}"
        for _, one in mappings(workload, "status", "admissionChecks")
        if text(one, "state") != "Ready"
    )
