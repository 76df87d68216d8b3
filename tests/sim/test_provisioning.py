"""Do jobs wait in a simulation for capacity that is provisioned, as they would on a cluster?"""

import pytest

from pykueue.sim.manifests import Mistake
from pykueue.sim.trace import Invalid, Trace, read_trace
from tests.sim.builders import FLAVOR, check, configuration, job, priority, queue, reported, simulated, story

DEMANDS = "{admissionChecks: [{name: prov}]}"


def provisioning(kind: str = "scripted.pykueue.io", name: str = "prov", **parameters: object) -> str:
    """A check that has capacity provisioned, and how; attempts are a minute apart, then two, and there are three."""
    given = ", ".join(f'{key}: "{value}"' for key, value in parameters.items())
    return (
        f"---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: AdmissionCheck\nmetadata: {{name: {name}}}\n"
        "spec:\n  controllerName: kueue.x-k8s.io/provisioning-request\n"
        "  parameters: {apiGroup: kueue.x-k8s.io, kind: ProvisioningRequestConfig, name: config}\n"
        "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: ProvisioningRequestConfig\nmetadata: {name: config}\n"
        f"spec:\n  provisioningClassName: {kind}\n  parameters: {{{given}}}\n"
        "  retryStrategy: {backoffLimitCount: 2, backoffBaseSeconds: 60, backoffMaxSeconds: 90}\n"
    )


def happens(*manifests: str) -> list[str]:
    """What happens to one job behind the check."""
    return story(simulated(*manifests, queue(admissionChecksStrategy=DEMANDS), job("a", run_seconds=100)))


def traced(*manifests: str) -> Trace:
    return read_trace([("test.yaml", (FLAVOR + "".join(manifests)).encode())])


def mistakes(*manifests: str) -> list[Mistake]:
    with pytest.raises(Invalid) as caught:
        traced(*manifests)
    return list(caught.value.mistakes)


def test_a_job_starts_when_its_capacity_is_there() -> None:
    assert happens(provisioning(delaySeconds=300)) == [
        "0 a arrives",
        "0 a reserves",
        "300 a starts",
        "300 a runs",
        "400 a finishes",
    ]


def test_attempts_that_fail_are_made_again_after_ever_longer_waits() -> None:
    # The wait doubles from 60 s, but not beyond 90 s.
    told = happens(provisioning(failures=2, delaySeconds=10))
    assert [line for line in told if "reserves" in line] == ["0 a reserves", "70 a reserves", "170 a reserves"]
    assert [line for line in told if "evicted" in line] == ["10 a evicted", "80 a evicted"]
    assert told[-3:] == ["180 a starts", "180 a runs", "280 a finishes"]


def test_after_the_last_attempt_the_job_is_deactivated() -> None:
    told = happens(provisioning(failures=9))
    assert [line for line in told if "reserves" in line] == ["0 a reserves", "60 a reserves", "150 a reserves"]
    assert "150 a deactivated" in told
    assert not any("starts" in line for line in told)


def test_many_attempts_without_a_backoff_are_made_a_second_apart_at_the_latest() -> None:
    hasty = provisioning(failures=100).replace(
        "{backoffLimitCount: 2, backoffBaseSeconds: 60, backoffMaxSeconds: 90}",
        "{backoffLimitCount: 200, backoffBaseSeconds: 0}",
    )
    told = happens(hasty, configuration("featureGates: {KeepQuotaForProvReqRetry: true}\n"))
    assert told[:3] == ["0 a arrives", "0 a reserves", "1 a starts"]


def test_quota_is_free_for_others_between_attempts() -> None:
    past = simulated(
        provisioning(failures=1),
        queue("main", 1, cohortName="both", admissionChecksStrategy=DEMANDS),
        queue("free", 0, cohortName="both"),
        job("a", run_seconds=10),
        job("b", queue="free", run_seconds=30, arrival="10s"),
    )
    told = story(past)
    assert "10 b starts" in told
    assert "60 a starts" in told


@pytest.mark.parametrize(("most", "starts"), [(1, True), (0, False)])
def test_more_pods_than_there_is_capacity_for_are_refused(most: int, starts: bool) -> None:
    told = happens(provisioning(maxPods=most))
    assert ("0 a starts" in told) is starts


def test_revoked_capacity_ends_the_job() -> None:
    told = happens(provisioning(revokeAfterSeconds=40))
    assert told[:4] == ["0 a arrives", "0 a reserves", "0 a starts", "0 a runs"]
    assert "40 a deactivated" in told
    assert not any("finishes" in line for line in told)


def test_a_job_that_is_over_loses_no_capacity() -> None:
    past = simulated(
        provisioning(revokeAfterSeconds=400), queue(admissionChecksStrategy=DEMANDS), job("a", run_seconds=100)
    )
    assert story(past)[-1] == "100 a finishes"
    assert past.end - past.trace.start == 100 * 1_000_000


def test_who_is_preempted_asks_anew() -> None:
    past = simulated(
        provisioning(delaySeconds=30),
        priority("high", 10),
        queue("main", 1, admissionChecksStrategy=DEMANDS, preemption="{withinClusterQueue: LowerPriority}"),
        job("low", run_seconds=100),
        job("high", klass="high", run_seconds=10, arrival="20s"),
    )
    told = story(past)
    assert "20 low preempted" in told
    assert "50 high starts" in told
    # The first request is gone with the reservation: the second takes its whole time again.
    assert "90 low starts" in told


def test_a_check_that_is_never_answered_in_time_asks_again() -> None:
    patient = provisioning(delaySeconds=1000).replace(
        "metadata: {name: prov}", 'metadata: {name: prov, annotations: {pykueue.io/check-timeout-seconds: "30"}}', 1
    )
    told = happens(patient)
    assert [line for line in told if "reserves" in line] == ["0 a reserves", "90 a reserves", "210 a reserves"]
    assert "240 a deactivated" in told


def test_with_the_gate_a_job_keeps_its_quota_between_attempts() -> None:
    told = happens(provisioning(failures=1), configuration("featureGates: {KeepQuotaForProvReqRetry: true}\n"))
    assert told == ["0 a arrives", "0 a reserves", "60 a starts", "60 a runs", "160 a finishes"]


def test_what_a_check_says_is_told_of_who_waits() -> None:
    found = reported(
        provisioning(delaySeconds=600), queue(admissionChecksStrategy=DEMANDS), job("a", run_seconds=1), until=400
    )
    assert [one.why for one in found.waiting] == ["AdmissionCheck prov is not ready: ETA 5 min"]


@pytest.mark.parametrize("kind", ["check-capacity.autoscaling.x-k8s.io", "queued-provisioning.gke.io"])
def test_any_other_class_finds_capacity_at_once_and_a_note_says_so(kind: str) -> None:
    assert "0 a starts" in happens(provisioning(kind))
    (note,) = traced(provisioning(kind)).notes
    assert note == (
        f"ProvisioningRequestConfig config: requests of class {kind} are taken to find capacity at once; "
        "class scripted.pykueue.io may say otherwise"
    )


def test_an_answer_by_annotation_goes_first() -> None:
    annotated = check("prov", "rejected").replace("x.io/y", "kueue.x-k8s.io/provisioning-request")
    assert "0 a deactivated" in happens(annotated)


def test_without_its_configuration_a_check_is_inactive_and_its_queue_takes_nothing() -> None:
    bare = provisioning().partition("---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: ProvisioningRequestConfig")[0]
    assert happens(bare)[1:] == ["0 a waits"]
    assert traced(bare).notes == (
        'AdmissionCheck prov is not active: ProvisioningRequestConfig.kueue.x-k8s.io "config" not found',
    )


def test_a_wrong_script_is_a_mistake_of_the_file() -> None:
    (found,) = mistakes(provisioning(delaySeconds="soon"))
    assert str(found).endswith(
        'spec.parameters: parameter "delaySeconds": \'soon\' is not a whole number; write digits alone, as in "30"'
    )


def test_a_configuration_is_judged_by_its_schema() -> None:
    (found,) = mistakes(provisioning().replace("backoffLimitCount: 2", "backoffLimitCount: many"))
    assert "spec.retryStrategy.backoffLimitCount" in str(found)


def test_a_booking_that_expires_matters_only_to_who_does_not_run_yet() -> None:
    assert happens(provisioning(expireAfterSeconds=20))[-1] == "100 a finishes"
    both = "{admissionChecks: [{name: prov}, {name: hand}]}"
    past = simulated(
        provisioning(expireAfterSeconds=20),
        check("hand", "pending"),
        queue(admissionChecksStrategy=both),
        job("a"),
        until=30,
    )
    assert "20 a evicted" in story(past)
