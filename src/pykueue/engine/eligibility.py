"""Whether pods may run on the nodes of a flavor: taints, node selectors and required affinity."""

from collections.abc import Sequence

from pykueue.engine.decisions import FlavorMissing, Mismatch, Obstacle, Untolerated
from pykueue.engine.model import Flavor, PodSet, Taint, Toleration, requirement_holds


def eligibility(pod_set: PodSet, name: str, flavor: Flavor | None) -> Obstacle | None:
    """Why a pod set's pods cannot run on a flavor's nodes; None when they can."""
    if flavor is None:
        return FlavorMissing(name)
    # spec: FLV-2
    for taint in flavor.taints:
        if taint.effect != "PreferNoSchedule" and not tolerated(taint, (*pod_set.tolerations, *flavor.tolerations)):
            return Untolerated(name, taint.key, taint.value, taint.effect)
    return None if affine(pod_set, dict(flavor.labels)) else Mismatch(name)


def tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    """Whether some toleration covers a taint."""
    for toleration in tolerations:
        if toleration.effect and toleration.effect != taint.effect:
            continue
        if toleration.key and toleration.key != taint.key:
            continue
        match toleration.operator:
            case "Exists":
                return True
            case "" | "Equal" if toleration.value == taint.value and toleration.key:
                return True
            case "Gt" | "Lt" if requirement_holds(
                {taint.key: taint.value}, taint.key, toleration.operator, (toleration.value,)
            ):
                return True
    return False


def affine(pod_set: PodSet, labels: dict[str, str]) -> bool:
    """Whether node selector and required affinity accept a flavor, judged by the keys its labels have."""
    # spec: FLV-3
    if conflicts(pod_set, labels):
        return False
    if not pod_set.affinity:
        return True
    terms = [[e for e in term if e[0] in labels] for term in pod_set.affinity]
    return any(all(requirement_holds(labels, *expression) for expression in term) for term in terms)


def conflicts(pod_set: PodSet, labels: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """The parts of a node selector that contradict these labels."""
    return tuple((key, value) for key, value in pod_set.selector if key in labels and labels[key] != value)
