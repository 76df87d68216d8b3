"""Answers of an autoscaler that cannot add nodes: whether the pods fit, with the cluster autoscaler's messages.

It answers two classes of the cluster autoscaler, and a scripted one of our own (`scripted`). Like the cluster
autoscaler, it ignores requests of other classes.
"""

from collections.abc import Callable
from typing import Final

from pykueue.api.checks import ProvisioningRequest
from pykueue.base.units import Instant, Seconds, after
from pykueue.checks.provisioning import made_at, since, true
from pykueue.checks.requeststatus import Answer, StatusUpdate, has_ended
from pykueue.checks.scripted import SCRIPTED, as_scripted

CHECK_CAPACITY: Final = "check-capacity.autoscaling.x-k8s.io"
BEST_EFFORT: Final = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
NO_RETRY: Final = "noRetry"
INSTANCE: Final = "processorInstance"
"""The parameter that addresses a request to another autoscaler."""
BOOKED: Final = Seconds(600)
"""How long capacity is booked for the pods that it was found for."""
GIVEN_UP: Final = Seconds(7 * 86_400)
FOUND: Final = "Capacity is found in the cluster"


def answer(request: ProvisioningRequest, fits: Callable[[], bool], now: Instant) -> Answer | None:
    """The answer to a request; None if it is for another autoscaler.

    `fits` says whether all its pods fit beside what runs and what is booked.
    """
    if request.spec.provisioning_class_name == SCRIPTED:
        return as_scripted(request, now)
    return by_room(request, fits, now) if needs_free_capacity(request) else None


def needs_free_capacity(request: ProvisioningRequest) -> bool:
    """Whether a request is answered by the free capacity."""
    kind = request.spec.provisioning_class_name
    return kind == BEST_EFFORT or (kind == CHECK_CAPACITY and not request.spec.parameters.get(INSTANCE))


def is_ours(request: ProvisioningRequest) -> bool:
    """Whether a request is answered here at all."""
    return request.spec.provisioning_class_name == SCRIPTED or needs_free_capacity(request)


def is_booked(request: ProvisioningRequest) -> bool:
    """Whether capacity is booked for the pods of a request."""
    return needs_free_capacity(request) and true(request, "Provisioned") is not None and not has_ended(request)


def waits_for_room(request: ProvisioningRequest) -> bool:
    """Whether a request is checked again when capacity is freed."""
    return needs_free_capacity(request) and true(request, "Provisioned") is None and not has_ended(request)


def by_room(request: ProvisioningRequest, fits: Callable[[], bool], now: Instant) -> Answer:
    """Whether capacity is found; if so, it is booked for a while."""
    update = StatusUpdate(request, now)
    if has_ended(request):
        return update.answer()
    provisioned = true(request, "Provisioned")
    if provisioned is not None:
        due = after(since(provisioned, now), BOOKED)
        if now < due:
            return update.answer(due)
        update.set_condition(
            "BookingExpired", True, "CapacityReservationTimeExpired", "Capacity reservation time is expired"
        )
        return update.answer()
    given_up = after(made_at(request, now), GIVEN_UP)
    if now >= given_up:
        update.set_condition("Failed", True, "Expired", "ProvisioningRequest is expired")
        return update.answer()
    update.accept()
    if fits():
        update.set_condition("Provisioned", True, "CapacityIsFound", FOUND)
        return update.answer(after(now, BOOKED))
    if request.spec.provisioning_class_name == CHECK_CAPACITY and request.spec.parameters.get(NO_RETRY) == "true":
        update.set_condition("Failed", True, "CapacityIsNotFound", "CA could not find requested capacity")
        return update.answer()
    update.set_condition(
        "Provisioned", False, "CapacityIsNotFound", "Capacity is not found, CA will try to find it later."
    )
    return update.answer(given_up)
