"""What to tell about jobs that hold quota: containers that cannot start, and quota that is borrowed."""

import contextlib
from typing import Final

import msgspec

from pykueue.api import pods
from pykueue.api.trees import Tree, mapping, mappings, text
from pykueue.base.clock import Clock
from pykueue.base.units import MICROS, QuantityError, parse_quantity
from pykueue.kube.port import CLUSTER_QUEUES, Kube, KubeError

LOOKS: Final = 6
PAUSE: Final = MICROS // 2
"""The status of a queue is written with a delay of a second or more."""


def start_problem(pod: Tree) -> str:
    """Why a container of a pod cannot start; empty if all can."""
    for field in ("initContainerStatuses", "containerStatuses"):
        for _, one in mappings(pod, "status", field):
            waiting = mapping(one, "state", "waiting")
            if said := pods.start_problem(text(waiting, "reason"), text(waiting, "message")):
                return said
    return ""


def node_problem(pod: Tree) -> str:
    """What keeps a pod from getting a node; empty if nothing does."""
    said = (
        pods.node_problem(text(one, "type"), text(one, "status"), text(one, "reason"), text(one, "message"))
        for _, one in mappings(pod, "status", "conditions")
    )
    return next(filter(None, said), "")


def borrowed(queue: Tree, workload: Tree) -> list[str]:
    """The amounts that a ClusterQueue borrows of the flavors and resources that an admitted workload uses."""
    used = {
        (flavor, resource)
        for _, one in mappings(workload, "status", "admission", "podSetAssignments")
        for resource, flavor in mapping(one, "flavors").items()
    }
    found = []
    for _, flavor in mappings(queue, "status", "flavorsReservation"):
        for _, one in mappings(flavor, "resources"):
            name, amount = text(one, "name"), text(one, "borrowed")
            with contextlib.suppress(QuantityError):
                if (text(flavor, "name"), name) in used and amount and parse_quantity(amount).nanos > 0:
                    found.append(f"{amount} {name}")
    return found


async def borrowing_note(kube: Kube, clock: Clock, workload: Tree, looks: int = LOOKS) -> str:
    """A sentence about the quota that the queue of an admitted workload borrows; empty if it borrows none."""
    name = text(workload, "status", "admission", "clusterQueue")
    for _ in range(looks):
        await clock.sleep(PAUSE)
        try:
            queue: Tree = msgspec.json.decode(await kube.get(CLUSTER_QUEUES, name))
        except KubeError:
            return ""
        if amounts := borrowed(queue, workload):
            return (
                f"ClusterQueue {name} borrows {' and '.join(amounts)}: the job may be preempted when the owner of this "
                "quota needs it"
            )
    return ""
