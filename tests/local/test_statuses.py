"""Tests of how the API says no."""

import pytest

from pykueue.api.fields import invalid as wrong
from pykueue.api.fields import required
from pykueue.kube.port import JOBS, PODS
from pykueue.local import statuses
from pykueue.local.statuses import StatusError


def test_a_refusal_is_a_status() -> None:
    assert statuses.not_found(JOBS, "x").status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'jobs.batch "x" not found',
        "reason": "NotFound",
        "details": {"name": "x", "group": "batch", "kind": "jobs"},
        "code": 404,
    }


def test_mistakes_are_causes() -> None:
    refused = statuses.invalid(JOBS, "x", [required("spec.a"), wrong("spec.b", 1, "no")])
    assert refused.message == 'Job.batch "x" is invalid: [spec.a: Required value, spec.b: Invalid value: 1: no]'
    assert refused.details["causes"] == [
        {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.a"},
        {"reason": "FieldValueInvalid", "message": "Invalid value: 1: no", "field": "spec.b"},
    ]
    assert refused.details["kind"] == "Job"


@pytest.mark.parametrize(
    ("refused", "code", "message"),
    [
        (statuses.exists(PODS, "p"), 409, 'pods "p" already exists'),
        (statuses.forbidden(PODS, "", "why"), 403, "pods is forbidden: why"),
        (statuses.not_allowed(JOBS, "delete"), 405, 'delete is not supported on resources of kind "jobs.batch"'),
        (statuses.too_large(), 413, "Request entity too large: limit is 3145728"),
        (statuses.internal("oops"), 500, "Internal error occurred: oops"),
        (statuses.unauthorized(), 401, "Unauthorized"),
        (statuses.too_many("later", 3), 429, "later"),
    ],
)
def test_texts_are_those_of_kubernetes(refused: StatusError, code: int, message: str) -> None:
    assert (refused.code, refused.message) == (code, message)


def test_details_may_be_empty_or_absent() -> None:
    assert statuses.unserved().status()["details"] == {}
    assert "details" not in statuses.bad_request("no").status()
    assert "reason" not in StatusError(500, "", "plain").status()


def test_advice_when_to_try_again_is_kept() -> None:
    assert statuses.no_name_left(PODS, "p-x").retry_after == 1
    assert statuses.bad_request("no").retry_after == 0


def test_names_in_messages_are_quoted() -> None:
    assert statuses.quoted('a"b\\c\n') == '"a\\"b\\\\c\\n"'
