"""Does a check find its configuration, and say in so many words why it cannot be made?"""

import pytest

from pykueue.api.checks import AdmissionCheck, ProvisioningRequestConfig
from pykueue.api.codec import decode_as
from pykueue.api.core import Json
from pykueue.bridge.statuses import Verdict
from pykueue.checks.parameters import referenced, timeout, verdict
from tests.checks.objects import CLASS, admission_check

TIMEOUT = "pykueue.io/check-timeout-seconds"
FAST = decode_as(
    ProvisioningRequestConfig,
    {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ProvisioningRequestConfig",
        "metadata": {"name": "fast"},
        "spec": {"provisioningClassName": CLASS},
    },
)
ACTIVE = "The admission check is active"
IDLE = f"{ACTIVE}; the annotation {TIMEOUT} has no effect: "


def referring(annotations: dict[str, str] | None = None, **changed: Json) -> AdmissionCheck:
    reference: Json = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "fast", **changed}
    return admission_check(annotations, parameters=reference)


WRONG = [
    pytest.param(admission_check(), "missing parameters reference", id="no reference"),
    pytest.param(referring(name=""), "empty name: bad parameters reference", id="no name"),
    pytest.param(
        referring(apiGroup="kueue.x-k8s.io/v1beta1"),
        'wrong group "kueue.x-k8s.io/v1beta1", expecting "kueue.x-k8s.io": bad parameters reference',
        id="a group with a version",
    ),
    pytest.param(
        referring(kind="MultiKueueConfig"),
        'wrong kind "MultiKueueConfig", expecting "ProvisioningRequestConfig": bad parameters reference',
        id="the parameters of another controller",
    ),
    pytest.param(
        referring(name="slow"),
        'ProvisioningRequestConfig.kueue.x-k8s.io "slow" not found',
        id="a configuration that is not there",
    ),
]


def test_a_check_finds_the_configuration_that_it_names() -> None:
    assert referenced(referring(), {"fast": FAST}) is FAST


@pytest.mark.parametrize(("check", "why"), WRONG)
def test_a_check_without_its_configuration_says_what_is_wrong(check: AdmissionCheck, why: str) -> None:
    assert referenced(check, {"fast": FAST}) == why
    assert verdict(check, {"fast": FAST}, "") == Verdict(False, "BadParametersRef", why)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("90", 90, id="so many seconds"),
        pytest.param("0090", 90, id="with leading zeros"),
        pytest.param("999999999", 999_999_999, id="thirty years"),
        pytest.param("1000000000", None, id="a number too long"),
        pytest.param("0", None, id="none"),
        pytest.param("-5", None, id="less than none"),
        pytest.param("1.5", None, id="a fraction"),
        pytest.param("5m", None, id="a duration"),
        pytest.param("٩", None, id="a digit of another script"),
        pytest.param("²", None, id="what Python takes for a digit"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_the_patience_of_a_check_is_a_number_of_seconds(text: str, seconds: int | None) -> None:
    check = referring({TIMEOUT: text})
    assert timeout(check) == seconds
    note = ACTIVE if seconds else f"{IDLE}{text!r} is not a number of seconds"
    assert verdict(check, {"fast": FAST}, "") == Verdict(True, "Active", note)


def test_a_check_without_an_annotation_is_patient_forever() -> None:
    assert timeout(referring()) is None
    assert verdict(referring(), {"fast": FAST}, "") == Verdict(True, "Active", ACTIVE)


def test_only_the_beginning_of_a_long_annotation_is_quoted() -> None:
    found = verdict(referring({TIMEOUT: "x" * 10_000}), {"fast": FAST}, "")
    assert found.message == f"{IDLE}{'x' * 63!r} is not a number of seconds"


@pytest.mark.parametrize("check", [referring(), admission_check()], ids=["in order", "wrong in itself"])
def test_no_check_can_be_made_where_requests_cannot_be_read(check: AdmissionCheck) -> None:
    said = Verdict(False, "ProvisioningRequestsUnreadable", "404: no such kind")
    assert verdict(check, {"fast": FAST}, "404: no such kind") == said
