"""Does every answer of the autoscaler lead to what the check should say, and to what becomes of the requests?"""

import msgspec
import pytest

from pykueue.api.checks import ProvisioningNodeSelector, ProvisioningPodSetUpdates
from pykueue.api.core import Tree
from pykueue.api.workload import AdmissionCheckState, PodSetUpdate
from pykueue.base.units import Seconds
from pykueue.checks.provisioning import Check, CheckInput, CheckPlan, Hindered, Rules, plan
from tests.checks.objects import (
    ACCEPTED,
    CHECK,
    CLASS,
    CONFIG,
    EXPIRED,
    FAILED,
    GONE,
    PROVISIONED,
    REQUEST,
    REVOKED,
    RUNNING,
    ago,
    asks,
    config,
    deletes,
    pod_set,
    request,
    says,
    seen,
    state,
    turned,
)
from tests.jobs.objects import NAME, NOW, RESERVED, THEN, evicted, later, workload

RETRIES = turned("Retry", "Retrying after failure: no room", requeue_after_seconds=60)
RETRIES_LATE = turned("Retry", "Retrying after booking expired: too late", requeue_after_seconds=60)
CONSUMES = {
    "autoscaling.x-k8s.io/consume-provisioning-request": REQUEST,
    "autoscaling.x-k8s.io/provisioning-class-name": CLASS,
}
READY = (PodSetUpdate("main", annotations=CONSUMES),)
NOTHING = CheckPlan()


# What the check says of a request.


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(seen(request(FAILED)), RETRIES, id="failed, with attempts left"),
        pytest.param(
            seen(request(FAILED), config=config(limit=0)),
            turned("Rejected", "no room"),
            id="failed, where nothing is tried again",
        ),
        pytest.param(
            seen(request(FAILED, attempt=4), said=state(retry_count=3)),
            turned("Rejected", "no room", retry_count=3),
            id="failed for the last time",
        ),
        pytest.param(
            seen(request(FAILED, REVOKED, EXPIRED, PROVISIONED, ACCEPTED)), RETRIES, id="failed counts before all else"
        ),
        pytest.param(
            seen(request(FAILED), said=state("Ready", "here", pod_set_updates=READY), conditions=RUNNING),
            RETRIES,
            id="failed while it runs",
        ),
        pytest.param(
            seen(request(REVOKED, EXPIRED, PROVISIONED)), turned("Rejected", "taken away"), id="revoked before it runs"
        ),
        pytest.param(
            seen(request(REVOKED, PROVISIONED), said=state("Ready", pod_set_updates=READY), conditions=RUNNING),
            turned("Rejected", "taken away"),
            id="revoked while it runs",
        ),
        pytest.param(
            seen(request(REVOKED), may_run_again=False),
            turned("Rejected", "taken away"),
            id="revoked before it runs, from a job that runs but once",
        ),
        pytest.param(seen(request(EXPIRED, PROVISIONED)), RETRIES_LATE, id="expired before it runs"),
        pytest.param(
            seen(request(EXPIRED, PROVISIONED), said=state("Ready", pod_set_updates=READY)),
            RETRIES_LATE,
            id="expired while another check is waited for",
        ),
        pytest.param(
            seen(request(EXPIRED), config=config(limit=0)),
            turned("Rejected", "too late"),
            id="expired, where nothing is tried again",
        ),
        pytest.param(
            seen(request(PROVISIONED, ACCEPTED)), turned("Ready", "here it is", pod_set_updates=READY), id="provisioned"
        ),
        pytest.param(
            seen(request(PROVISIONED), said=state("Retry")),
            turned("Ready", "here it is", pod_set_updates=READY),
            id="provisioned after all",
        ),
        pytest.param(
            seen(request(ACCEPTED, says("Provisioned", "in 5 min", False))),
            state(message="in 5 min"),
            id="accepted, with an ETA",
        ),
        pytest.param(
            seen(request(ACCEPTED, says("Provisioned", "in 4 min", False)), said=state(message="in 5 min")),
            state(message="in 4 min"),
            id="the ETA changes, and the time of the state does not",
        ),
        pytest.param(
            seen(request(), said=state(message="Reset to Pending after eviction. Previously: Retry")),
            state(),
            id="nothing is said yet",
        ),
        pytest.param(
            seen(
                request(says("Accepted", "not yet", False), says("Provisioned", "x", False)), said=state(message="old")
            ),
            state(),
            id="not accepted yet",
        ),
        pytest.param(seen(request(), config=None), state(message="the check is not active"), id="no configuration"),
        pytest.param(
            seen(request(PROVISIONED), config=None, said=state("Ready", pod_set_updates=READY)),
            turned("Pending", "the check is not active"),
            id="no configuration any more, before it runs",
        ),
        pytest.param(
            seen(config=None, said=state("Retry", "no room")),
            turned("Pending", "the check is not active"),
            id="no configuration, between attempts",
        ),
        pytest.param(
            seen(config=config(managed_resources=("gpu",))),
            turned("Ready", "the provisioning request is not needed"),
            id="no managed resource",
        ),
    ],
)
def test_what_a_check_says(seen: CheckInput, expected: AdmissionCheckState) -> None:
    found = plan(seen, NOW)
    assert found.states == (expected,)
    assert (found.asks, found.hindered) == ((), ())


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(
            seen(request(EXPIRED, PROVISIONED), said=state("Ready"), conditions=RUNNING),
            id="an expired booking of what runs",
        ),
        pytest.param(
            seen(request(REVOKED), said=state("Ready"), conditions=RUNNING, may_run_again=False),
            id="what runs but once fails by itself",
        ),
        pytest.param(seen(request(REVOKED), active=False), id="revoked capacity of what is inactive"),
        pytest.param(seen(request(REVOKED), said=state("Rejected", "taken away")), id="revoked, and said so"),
        pytest.param(
            seen(request(FAILED), said=state("Retry", "Retrying after failure: no room", requeue_after_seconds=60)),
            id="failed, and said so",
        ),
        pytest.param(
            seen(request(FAILED), config=config(limit=0), said=state("Rejected", "no room")),
            id="failed for the last time, and said so",
        ),
        pytest.param(
            seen(request(says("Provisioned", "anew")), said=state("Ready", "once")),
            id="a Ready check says what it said",
        ),
        pytest.param(seen(said=state("Ready")), id="a request deleted by hand under a Ready check"),
        pytest.param(seen(said=state("Ready"), conditions=RUNNING), id="a request deleted by hand under what runs"),
        pytest.param(
            seen(said=state("Retry", "no room", requeue_after_seconds=60)),
            id="a request deleted by hand between attempts",
        ),
        pytest.param(
            seen(request(), said=state("Ready"), conditions=RUNNING), id="a request whose conditions are gone"
        ),
        pytest.param(
            seen(request(PROVISIONED), said=state("Ready"), conditions=RUNNING, config=None),
            id="what runs without a configuration keeps its request",
        ),
        pytest.param(
            seen(request(PROVISIONED), said=state("Ready"), conditions=RUNNING, config=config(parameters={"a": "1"})),
            id="what runs under another configuration keeps its request",
        ),
        pytest.param(
            seen(request(PROVISIONED), said=state("Ready"), config=config(parameters={"a": "1"})),
            id="a Ready check under another configuration keeps its request while others are waited for",
        ),
        pytest.param(
            seen(request(PROVISIONED), said=state("Ready"), flavors={}),
            id="a Ready check keeps its request where no other could be made",
        ),
        pytest.param(
            seen(request(PROVISIONED), said=state("Ready"), conditions=RUNNING, templates={}),
            id="what runs needs no template",
        ),
        pytest.param(
            seen(config=config(managed_resources=("gpu",)), said=state("Ready", "by hand")),
            id="not needed, and Ready already",
        ),
        pytest.param(seen(request(), conditions=()), id="without quota a request is kept"),
        pytest.param(
            seen(request(FAILED), conditions=(evicted(),), rules=Rules(cleans_up=False)),
            id="evicted, where requests are kept",
        ),
        pytest.param(seen(checks={}), id="no check of ours"),
    ],
)
def test_nothing_is_to_be_done_for(seen: CheckInput) -> None:
    assert plan(seen, NOW) == NOTHING


@pytest.mark.parametrize("conditions", [(), (RESERVED,)], ids=["no condition", "no assignment"])
def test_quota_that_is_half_written_is_none(conditions: tuple[Tree, ...]) -> None:
    given: Tree = {"clusterQueue": "shared", "podSetAssignments": [{"name": "main", "flavors": {"cpu": "spot"}}]}
    listed: Tree = {"admissionChecks": [{"name": CHECK, "state": "Pending"}]}
    half = workload(*conditions, status={**listed, "admission": None if conditions else given})
    assert plan(msgspec.structs.replace(seen(), workload=half), NOW) == NOTHING


def test_once_accepted_a_request_has_had_an_answer() -> None:
    silent = state(message="No answer from the autoscaler for 2 min")
    assert plan(seen(request(ACCEPTED, made=ago(150)), said=silent), NOW) == CheckPlan(states=(state(),))
    assert plan(seen(request(ACCEPTED, made=ago(150))), NOW) == NOTHING


@pytest.mark.parametrize(
    ("seen", "gone"),
    [
        pytest.param(seen(request(PROVISIONED), conditions=(*RUNNING, GONE)), [REQUEST], id="finished"),
        pytest.param(
            seen(request(), request(attempt=2), conditions=(RESERVED, evicted())),
            [REQUEST, f"{NAME}-{CHECK}-2"],
            id="evicted",
        ),
        pytest.param(
            seen(request(metadata={"deletionTimestamp": THEN}), conditions=(evicted(),)),
            [],
            id="evicted, and about to go",
        ),
        pytest.param(seen(request(), config=None), [REQUEST], id="no configuration any more"),
        pytest.param(seen(request(), config=config(managed_resources=("gpu",))), [REQUEST], id="not needed any more"),
        pytest.param(seen(request(), checks={}), [REQUEST], id="no check of ours any more"),
        pytest.param(seen(request(check="other")), [f"{NAME}-other-1"], id="of a check that is not listed"),
        pytest.param(
            seen(request(FAILED), request(attempt=2), said=state(retry_count=1)), [REQUEST], id="an older attempt"
        ),
        pytest.param(
            seen(
                request(PROVISIONED),
                request(PROVISIONED, attempt=2),
                said=state("Ready"),
                conditions=RUNNING,
                config=None,
            ),
            [REQUEST],
            id="an older attempt of what runs",
        ),
    ],
)
def test_requests_that_go(seen: CheckInput, gone: list[str]) -> None:
    assert deletes(plan(seen, NOW)) == gone


# What pods are given.


def test_pods_are_sent_where_the_class_says() -> None:
    details = {"zone": "west", "spare": "no"}
    chosen = ProvisioningPodSetUpdates(
        (ProvisioningNodeSelector("place", "zone"), ProvisioningNodeSelector("never", "absent"))
    )
    found = plan(seen(request(PROVISIONED, details=details), config=config(pod_set_updates=chosen)), NOW)
    assert found.states[0].pod_set_updates == (
        PodSetUpdate("main", annotations=CONSUMES, node_selector={"place": "west"}),
    )


def test_every_pod_set_of_those_asked_for_together_is_given_the_same() -> None:
    pods = [pod_set("head", 1), pod_set("tail", 2), pod_set("odd", 1, resources={"requests": {"cpu": "9"}})]
    given = [{"name": one["name"], "count": one["count"], "flavors": {"cpu": "spot"}} for one in pods]
    status = {
        "admission": {"clusterQueue": "shared", "podSetAssignments": given},
        "admissionChecks": [{"name": CHECK, "state": "Pending"}],
    }
    listed = [
        {"podTemplateRef": {"name": f"ppt-{REQUEST}-{name}"}, "count": count}
        for name, count in (("head", 3), ("odd", 1))
    ]
    merged = config(pod_set_merge_policy="IdenticalPodTemplates")
    looked = msgspec.structs.replace(
        seen(request(PROVISIONED, spec={"podSets": listed}), config=merged),
        workload=workload(RESERVED, podSets=pods, status=status),
    )
    (found,) = plan(looked, NOW).states
    assert found.pod_set_updates == tuple(PodSetUpdate(name, annotations=CONSUMES) for name in ("head", "tail", "odd"))


def test_what_pods_were_given_is_withdrawn_with_the_capacity() -> None:
    found = plan(seen(request(EXPIRED), said=state("Ready", pod_set_updates=READY)), NOW)
    assert found.states[0].pod_set_updates == ()


# What stands in the way.


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        pytest.param(seen(flavors={}), 'ResourceFlavor "spot" is not found', id="a flavor is missing"),
        pytest.param(
            seen(podSets=[pod_set(spec={"nodeSelector": {"pool": "own"}})]),
            "invalid admission check PodSetUpdate: conflict for nodeSelector: conflict for key=pool, "
            "value1=own, value2=spot",
            id="a template contradicts its flavor",
        ),
        pytest.param(
            seen(config=config(parameters={"a": "x" * 256})),
            'the parameter "a" of the ProvisioningRequest is longer than 255 characters',
            id="a parameter is too long",
        ),
    ],
)
def test_an_attempt_that_cannot_be_made_says_why(seen: CheckInput, why: str) -> None:
    assert plan(seen, NOW) == CheckPlan(hindered=(Hindered(CHECK, why),))


def test_what_runs_is_not_disturbed_by_what_stands_in_the_way_of_another_attempt() -> None:
    ready = state("Ready", pod_set_updates=READY)
    assert plan(seen(request(PROVISIONED), said=ready, conditions=RUNNING, flavors={}), NOW) == NOTHING
    revoked = plan(seen(request(REVOKED), said=ready, conditions=RUNNING, flavors={}), NOW)
    assert revoked == CheckPlan(states=(turned("Rejected", "taken away"),))


def test_a_template_that_still_belongs_to_the_workload_is_handed_over() -> None:
    made = request()
    name = f"ppt-{REQUEST}-main"
    found = plan(seen(made, templates={name: "w-1"}), NOW)
    assert found.hand_over == ((name, made),)


def test_a_message_beyond_all_bounds_is_cut() -> None:
    (found,) = plan(seen(request(says("Failed", "x" * 40_000))), NOW).states
    assert len(found.message) == 32_768
    assert found.message.startswith("Retrying after failure: xxx")
    assert found.message.endswith("x ...")


# Several checks.


def test_a_check_without_a_request_keeps_no_other_from_speaking() -> None:
    checks = {name: Check(CONFIG) for name in ("a", "b", "c")}
    listed: Tree = {"admissionChecks": [{"name": name, "state": "Pending"} for name in ("a", "b", "c", "theirs")]}
    requests = (request(PROVISIONED, check="b"), request(check="c", made=ago(30)))
    templates = {f"ppt-{one.name}-main": "r-1" for one in requests}
    looked = CheckInput(workload(RESERVED, status=listed), checks, requests, templates, seen().flavors)
    found = plan(looked, NOW)
    assert [(one.name, one.state) for one in found.states] == [("b", "Ready")]
    assert asks(found) == [f"{NAME}-a-1"]
    assert found.deletes == ()
    assert found.again == later(30)


def test_the_first_of_several_moments_is_looked_at_again() -> None:
    checks = {"a": Check(CONFIG), "b": Check(CONFIG, Seconds(45))}
    listed: Tree = {"admissionChecks": [{"name": name, "state": "Pending"} for name in checks]}
    requests = (request(check="a", made=ago(10)), request(check="b", made=ago(10)))
    templates = {f"ppt-{one.name}-main": "r-1" for one in requests}
    looked = CheckInput(workload(RESERVED, status=listed), checks, requests, templates, seen().flavors)
    assert plan(looked, NOW) == CheckPlan(again=later(35))
