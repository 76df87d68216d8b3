"""Does the auditor see capacity that is asked for twice, out of turn, for nobody, or not at all?"""

from typing import Any

import pytest

from tests.audit.told import Tale, Tree, condition, counted, evicted

CHECK = "prov"
RETRY = [condition("Evicted", True, "AdmissionCheck", "try again")]


class Story(Tale):
    """A queue with a check that asks for capacity, and a workload `a` in it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(lost_seconds=10, stuck_seconds=1000, **settings)
        self.queue("q", 4)
        self.check()
        self.made = self.evictions = 0
        self.admitted = False

    def check(self, active: bool = True, controller: str = "kueue.x-k8s.io/provisioning-request", **notes: str) -> None:
        self.tell(
            "AdmissionCheck",
            "",
            CHECK,
            spec={"controllerName": controller},
            status={"conditions": [condition("Active", active)]},
            metadata={"annotations": {f"pykueue.io/{key.replace('_', '-')}": text for key, text in notes.items()}},
        )

    def holds(self, state: str = "Pending", message: str = "", retries: int = 0) -> None:
        """The workload holds quota, and its check says this."""
        said = {"name": CHECK, "state": state, "message": message, **({"retryCount": retries} if retries else {})}
        self.admitted |= state == "Ready"
        status = {"admissionChecks": [said], **counted(self.evictions)}
        self.reserve("a", "q", 1, condition("Admitted", self.admitted), status=status)

    def leaves(self, retries: int = 0, *conditions: Tree, previously: str = "Retry") -> None:
        """The workload is evicted, and its check starts over."""
        message = f"Reset to Pending after eviction. Previously: {previously}"
        said = {"name": CHECK, "state": "Pending", "message": message, **({"retryCount": retries} if retries else {})}
        self.evictions += 1
        self.admitted = False
        status = {"admissionChecks": [said], **counted(self.evictions)}
        self.workload("a", "q", 1, *(conditions or RETRY), status=status)

    def request(self, attempt: int | str, *answers: str, **metadata: Any) -> None:
        """A request of the workload, with these conditions true; each that is new has a UID of its own."""
        name = f"a-{CHECK}-{attempt}"
        known = self.trees.get(("ProvisioningRequest", f"ns/{name}"))
        self.made += known is None
        owner = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": "a", "uid": "uid-Workload-a"}
        self.tell(
            "ProvisioningRequest",
            "ns",
            name,
            labels={"kueue.x-k8s.io/managed": "true"},
            spec={"podSets": [{"podTemplateRef": {"name": f"ppt-{name}-main"}, "count": 1}]},
            status={"conditions": [condition(answer, True) for answer in answers]},
            metadata={
                "uid": known["metadata"]["uid"] if known else f"request-{self.made}",
                "ownerReferences": [{**owner, "controller": True}],
                **metadata,
            },
        )

    def drop(self, attempt: int | str) -> None:
        """A request is deleted."""
        self.gone("ProvisioningRequest", "ns", f"a-{CHECK}-{attempt}")

    def template(self, attempt: int, kind: str, uid: str) -> None:
        self.tell(
            "PodTemplate",
            "ns",
            f"ppt-a-{CHECK}-{attempt}-main",
            labels={"kueue.x-k8s.io/managed": "true"},
            metadata={
                "ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": "x", "uid": uid, "controller": True}]
            },
        )


def waiting(**settings: Any) -> Story:
    """A workload that has got its quota."""
    told = Story(**settings)
    told.workload("a", "q", 1, status={"admissionChecks": [{"name": CHECK, "state": "Pending"}]})
    told.holds()
    return told


def failed(answer: str = "Failed") -> Story:
    """A workload whose first attempt came to nothing, and that is in its queue again."""
    told = waiting()
    told.request(1)
    told.request(1, "Accepted")
    told.request(1, "Accepted", answer)
    told.holds("Retry", "Retrying after failure: no")
    told.leaves(1)
    told.drop(1)
    return told


@pytest.mark.parametrize("answer", ["Failed", "BookingExpired"])
def test_attempts_that_follow_each_other_until_capacity_is_found_are_fine(answer: str) -> None:
    told = failed(answer)
    told.holds(retries=1)
    told.request(2)
    told.later(30)
    told.request(2, "Provisioned")
    told.holds("Ready", "found", 1)
    told.later(30)
    told.leaves(0, *evicted("NodeFailures"), previously="Ready")
    told.drop(2)
    told.later(30)
    told.holds()
    told.request(1)
    told.later(30)
    assert told.found == []


def test_a_workload_whose_last_attempt_fails_is_rejected() -> None:
    told = failed()
    told.holds(retries=1)
    told.request(2)
    told.request(2, "Failed")
    told.holds("Rejected", "no", 1)
    told.leaves(0, *evicted("DeactivatedDueToAdmissionCheck"), previously="Rejected")
    told.drop(2)
    told.later(30)
    assert told.found == []


def test_a_second_request_of_one_attempt_is_found() -> None:
    told = waiting()
    told.request(1)
    told.request("01")
    assert told.found == ["attempt: ProvisioningRequest ns/a-prov-01: is attempt 1, but a-prov-1 already is"]


def test_a_request_that_is_made_anew_after_it_was_deleted_is_fine() -> None:
    told = waiting()
    told.request(1)
    told.drop(1)
    told.request(1)
    told.later(30)
    assert told.found == []


def test_an_attempt_made_again_though_it_has_failed_is_found() -> None:
    told = waiting()
    told.request(1)
    told.request(1, "Failed")
    told.drop(1)
    told.request(1)
    assert told.found == ["attempt: ProvisioningRequest ns/a-prov-1: is attempt 1, which was already made and failed"]


def test_an_attempt_made_again_though_it_was_counted_as_failed_is_found() -> None:
    told = failed()
    told.holds(retries=1)
    told.request(1)
    assert told.found == ["attempt: ProvisioningRequest ns/a-prov-1: is attempt 1, but 1 have already failed"]


def test_a_failure_that_nobody_heard_before_the_workload_had_to_leave_is_not_counted() -> None:
    told = waiting()
    told.request(1)
    told.request(1, "Failed")
    told.leaves(0, *evicted("NodeFailures"), previously="Pending")
    told.holds()
    told.drop(1)
    told.request(1)
    told.later(30)
    assert told.found == []


def test_an_attempt_that_was_left_out_is_found() -> None:
    told = waiting()
    told.request(2)
    assert told.found == ["attempt: ProvisioningRequest ns/a-prov-2: is attempt 2, but only 0 have failed"]


def test_where_quota_is_kept_an_attempt_follows_the_one_that_failed() -> None:
    told = waiting()
    told.request(1)
    told.request(1, "Failed")
    told.holds("Pending", "Retrying after failure: no")
    told.later(30)
    told.request(2)
    told.drop(1)
    told.later(30)
    assert told.found == []


def test_an_attempt_begun_while_another_is_under_way_is_found() -> None:
    told = waiting()
    told.request(1)
    told.holds(retries=1)
    told.request(2)
    assert told.found == [
        "attempt: Workload ns/a: check prov counts 1 retries after 0, but was not in Retry",
        "attempt: ProvisioningRequest ns/a-prov-2: is attempt 2, started while a-prov-1 is in progress",
    ]


def test_where_a_check_gives_up_by_itself_an_attempt_needs_no_answer() -> None:
    told = waiting()
    told.check(check_timeout_seconds="5")
    told.request(1)
    told.later(5)
    told.holds("Retry", "Retrying after timeout: no capacity within 5 s")
    told.leaves(1)
    told.holds(retries=1)
    told.request(2)
    told.drop(1)
    told.later(30)
    assert told.found == []


def test_a_retry_that_is_not_counted_is_found() -> None:
    told = waiting()
    told.request(1)
    told.request(1, "Failed")
    told.holds("Retry", "Retrying after failure: no")
    told.leaves(0)
    assert told.found == ["attempt: Workload ns/a: check prov was in Retry and counts 0 retries after 0"]


def test_two_requests_of_one_check_for_long_are_found() -> None:
    told = waiting()
    told.request(1)
    told.request(1, "Failed")
    told.holds("Pending", "Retrying after failure: no")
    told.request(2)
    told.later(13)
    assert told.found == ["attempt: Workload ns/a: check prov has several requests: a-prov-1 and a-prov-2, for 11 s"]


@pytest.mark.parametrize(
    ("end", "says"),
    [
        pytest.param("gone", "belongs to a Workload that no longer exists", id="its Workload is gone"),
        pytest.param("finished", "still exists although Workload a is finished", id="its Workload has finished"),
        pytest.param("evicted", "still exists although Workload a was evicted", id="its Workload was evicted"),
    ],
)
def test_a_request_that_is_left_behind_is_found(end: str, says: str) -> None:
    told = waiting()
    told.request(1)
    if end == "gone":
        told.gone("Workload", "ns", "a")
    elif end == "finished":
        told.workload("a", "q", 1, condition("Finished", True))
    else:
        told.leaves(0, *evicted("NodeFailures"), previously="Pending")
    told.later(9)
    assert told.found == []
    told.later(4)
    assert told.found == [f"orphan: ProvisioningRequest ns/a-prov-1: {says}, for 11 s"]


def test_where_requests_outlive_evictions_one_may_stay() -> None:
    told = waiting(cleans_up=False)
    told.request(1)
    told.leaves(0, *evicted("NodeFailures"), previously="Pending")
    told.later(30)
    assert told.found == []


def test_a_request_of_nobody_is_found_unless_it_is_none_of_ours() -> None:
    told = Story()
    told.tell("ProvisioningRequest", "ns", "theirs", spec={})
    told.tell("ProvisioningRequest", "ns", "ours", labels={"kueue.x-k8s.io/managed": "true"}, spec={})
    told.later(13)
    assert told.found == ["orphan: ProvisioningRequest ns/ours: belongs to no Workload, for 11 s"]


def test_a_template_that_goes_with_its_request_is_fine() -> None:
    told = waiting()
    told.template(1, "Workload", "uid-Workload-a")
    told.request(1)
    told.later(5)
    told.template(1, "ProvisioningRequest", "request-1")
    told.later(30)
    told.drop(1)
    told.request(1)
    told.later(5)
    told.gone("PodTemplate", "ns", "ppt-a-prov-1-main")
    told.later(30)
    assert told.found == []


@pytest.mark.parametrize(
    ("kind", "uid", "says"),
    [
        pytest.param(
            "ProvisioningRequest", "x", "belongs to a ProvisioningRequest that no longer exists", id="no request"
        ),
        pytest.param("Workload", "x", "belongs to a Workload that no longer exists", id="no Workload"),
        pytest.param("Workload", "uid-Workload-a", "does not belong to a-prov-1, which refers to it", id="kept back"),
        pytest.param("Job", "x", "has no owner", id="nobody"),
    ],
)
def test_a_template_of_the_wrong_owner_is_found(kind: str, uid: str, says: str) -> None:
    told = waiting()
    told.request(1)
    told.template(1, kind, uid)
    told.later(13)
    assert told.found == [f"orphan: PodTemplate ns/ppt-a-prov-1-main: {says}, for 11 s"]


def test_a_check_that_is_ready_without_capacity_is_found() -> None:
    told = waiting()
    told.request(1)
    told.request(1, "Accepted")
    told.holds("Ready")
    assert told.found == ["capacity: Workload ns/a: check prov is Ready, but no capacity was found"]


def test_a_check_whose_request_has_just_been_deleted_may_be_ready() -> None:
    told = waiting()
    told.request(1)
    told.request(1, "Provisioned")
    told.drop(1)
    told.later(1)
    told.holds("Ready")
    assert told.found == []


@pytest.mark.parametrize(("seconds", "found"), [(1, []), (8, ["capacity"])])
def test_a_check_whose_capacity_has_just_expired_may_be_ready(seconds: int, found: list[str]) -> None:
    told = waiting(lag_seconds=5)
    told.request(1)
    told.request(1, "Provisioned")
    told.request(1, "Provisioned", "BookingExpired")
    told.later(seconds)
    told.holds("Ready")
    assert told.rules() == found


def test_a_check_that_needs_no_capacity_is_ready_at_once() -> None:
    told = waiting()
    told.holds("Ready", "the provisioning request is not needed")
    told.later(30)
    assert told.found == []


def test_admission_while_the_check_is_not_ready_is_found() -> None:
    told = waiting()
    told.request(1)
    told.reserve("a", "q", 1, status={"admissionChecks": [{"name": CHECK, "state": "Pending"}]})
    assert told.found == ["conditions: Workload ns/a: was admitted while checks are not ready: prov"]


@pytest.mark.parametrize("before", ["Ready", "Pending"])
def test_whoever_is_admitted_and_evicted_in_one_write_was_ready_before(before: str) -> None:
    told = waiting()
    told.request(1)
    told.request(1, "Provisioned")
    ready = {"name": CHECK, "state": before}
    told.reserve("a", "q", 1, condition("Admitted", False), status={"admissionChecks": [ready]})
    reset = {"name": CHECK, "state": "Pending", "message": "Reset to Pending after eviction. Previously: Ready"}
    preempted = evicted("NodeFailures")
    told.reserve("a", "q", 1, *preempted, status={"admissionChecks": [reset], **counted(1)})
    wrong = ["conditions: Workload ns/a: was admitted while checks are not ready: prov"]
    assert told.found == ([] if before == "Ready" else wrong)


@pytest.mark.parametrize("state", ["Retry", "Rejected"])
def test_a_check_that_gives_up_though_no_attempt_failed_is_found(state: str) -> None:
    told = waiting()
    told.request(1)
    told.request(1, "Accepted")
    told.holds(state, "no")
    assert told.found == [f"capacity: Workload ns/a: check prov is {state}, but none of its attempts failed"]


def test_capacity_that_was_revoked_rejects_the_workload() -> None:
    told = waiting()
    told.request(1)
    told.request(1, "Provisioned")
    told.holds("Ready")
    told.request(1, "Provisioned", "CapacityRevoked")
    told.holds("Rejected", "revoked")
    told.leaves(0, *evicted("DeactivatedDueToAdmissionCheck"), previously="Rejected")
    told.drop(1)
    told.later(30)
    assert told.found == []


def test_quota_held_without_asking_for_capacity_is_found() -> None:
    told = waiting()
    told.later(9)
    assert told.found == []
    told.later(4)
    assert told.found == [
        "capacity: Workload ns/a: holds quota and check prov is Pending, but no capacity was requested, for 11 s"
    ]


@pytest.mark.parametrize("why", ["inactive", "not ours", "says why"])
def test_a_check_that_cannot_ask_or_is_made_by_others_asks_for_nothing(why: str) -> None:
    told = waiting()
    told.check(active=why != "inactive", **({"controller": "example.com/budget"} if why == "not ours" else {}))
    if why == "says why":
        told.holds("Pending", 'ResourceFlavor "spot" is not found')
    told.later(30)
    assert told.found == []


@pytest.mark.parametrize(("answer", "is_"), [("Failed", "has failed"), ("Provisioned", "is provisioned")])
def test_an_answer_that_nobody_heeds_is_found(answer: str, is_: str) -> None:
    told = waiting()
    told.request(1)
    told.request(1, answer)
    told.later(13)
    assert told.found == [f"capacity: Workload ns/a: check prov is Pending, but a-prov-1 {is_}, for 11 s"]


def test_a_name_that_was_cut_still_says_which_attempt_it_is() -> None:
    told = Story()
    name = "w" * 220
    check = {"name": CHECK, "state": "Pending"}
    told.workload(name, "q", 1, status={"admissionChecks": [check]})
    told.reserve(name, "q", 1, condition("Admitted", False), status={"admissionChecks": [check]})
    owner = {"apiVersion": "v1", "kind": "Workload", "name": name, "uid": f"uid-Workload-{name}", "controller": True}
    told.tell("ProvisioningRequest", "ns", f"{name}-abcde-1", metadata={"ownerReferences": [owner]}, spec={})
    told.later(30)
    assert told.found == []


def test_time_without_a_manager_does_not_count() -> None:
    told = waiting(lease="kueue/lock")
    told.later(60)
    assert told.found == []
