"""Whether pods may run on the nodes of a flavor."""

from collections.abc import Iterable

from pykueue.api.core import Taint, Toleration
from pykueue.api.kueue import ResourceFlavor
from pykueue.audit.templates import PodSpec


def refuses(flavor: ResourceFlavor, spec: PodSpec) -> str:
    """Why pods cannot run on a flavor's nodes; empty if nothing certain is known against it."""
    for key, value in flavor.spec.node_labels.items():
        if spec.node_selector.get(key, value) != value:
            return f"whose nodes have {key}={value}, but its pods select {key}={spec.node_selector[key]}"
    for taint in flavor.spec.node_taints:
        if taint.effect != "PreferNoSchedule" and not tolerated(taint, (*spec.tolerations, *flavor.spec.tolerations)):
            return f"whose nodes have the taint {taint.key}, which its pods do not tolerate"
    return ""


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether one of the tolerations may match a taint; an unknown operator counts as a match."""
    return any(
        one.effect in (None, "", taint.effect)
        and (one.key == taint.key or (not one.key and one.operator == "Exists"))
        and (one.operator not in (None, "", "Equal") or (one.value or "") == (taint.value or ""))
        for one in tolerations
    )
