"""The status of a ProvisioningRequest, built condition by condition."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from pykueue.api.checks import ProvisioningRequest, ProvisioningRequestStatus
from pykueue.api.core import Condition
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant, format_instant
from pykueue.checks.provisioning import condition, true
from pykueue.engine.wording import shortened

ENDS: Final = ("Failed", "CapacityRevoked", "BookingExpired")
"""After any of these conditions no capacity is booked or searched for."""


class Answer(Frozen):
    """The status of a request, and when to look at it again if nothing changes before."""

    status: ProvisioningRequestStatus
    again: Instant | None = None


class StatusUpdate:
    """Builds the status of one request at one moment."""

    def __init__(self, request: ProvisioningRequest, now: Instant) -> None:
        self.request = request
        self.now = now
        self.status = request.status

    def set_condition(self, kind: str, holds: bool, reason: str, message: str) -> None:
        """Set a condition; its lastTransitionTime changes only with its status."""
        before = condition(self.request, kind)
        new = Condition(
            kind,
            "True" if holds else "False",
            reason,
            shortened(message),
            format_instant(self.now),
            self.request.metadata.generation,
        )
        if before is not None and before.status == new.status:
            new = replace(new, last_transition_time=before.last_transition_time)
        conditions = self.status.conditions
        known = any(one.type == kind for one in conditions)
        whole = tuple(new if one.type == kind else one for one in conditions) if known else (*conditions, new)
        self.status = replace(self.status, conditions=whole)

    def accept(self) -> None:
        """Accept the request."""
        self.set_condition("Accepted", True, "Accepted", "ProvisioningRequest is accepted by ClusterAutoscaler")

    def detail(self, details: Mapping[str, str]) -> None:
        """Set a detail about the nodes."""
        self.status = replace(self.status, provisioning_class_details=details)

    def answer(self, again: Instant | None = None) -> Answer:
        """The resulting answer."""
        return Answer(self.status, again)


def has_ended(request: ProvisioningRequest) -> bool:
    """Whether the capacity of a request is gone, or will never exist."""
    return any(true(request, kind) is not None for kind in ENDS)


def pod_count(request: ProvisioningRequest) -> int:
    """How many pods a request is for."""
    return sum(one.count for one in request.spec.pod_sets)
