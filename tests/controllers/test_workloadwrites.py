"""What of a Workload's status must be removed by hand, and which writes must not be an apply?"""

import msgspec

from pykueue.api.core import ObjectMeta, Tree
from pykueue.api.workload import AdmissionCheckState, PodSetUpdate, Workload, WorkloadStatus
from pykueue.bridge.outbound import slice_of
from pykueue.controllers.workloadwrites import drops_check, leftovers

READY = AdmissionCheckState("capacity", "Ready", "found", "2026-11-15T23:50:14Z", (PodSetUpdate("main"),))


def listing(*checks: AdmissionCheckState) -> Workload:
    return Workload(metadata=ObjectMeta(name="one"), status=WorkloadStatus(admission_checks=checks))


def stored(status: Tree) -> bytes:
    return msgspec.json.encode({"status": status})


def test_nothing_is_left_over_where_the_answer_is_what_was_sent() -> None:
    status = slice_of(listing(READY))
    assert leftovers(stored(status), status) == {}


def test_what_another_manager_keeps_in_a_check_is_removed() -> None:
    kept = slice_of(listing(READY))
    wanted = slice_of(listing(AdmissionCheckState("capacity", "Pending", "", "2026-11-15T23:50:14Z")))
    assert leftovers(stored(kept), wanted) == {"admissionChecks": wanted["admissionChecks"]}


def test_a_check_that_is_listed_no_more_is_not_left_in_pieces_by_an_apply() -> None:
    other = AdmissionCheckState("approval", "Pending")
    assert drops_check(listing(READY, other), slice_of(listing(other)))
    assert drops_check(listing(READY), {})
    assert not drops_check(listing(READY), slice_of(listing(READY, other)))
    assert not drops_check(listing(), {})
