"""Tests of how the API says no."""

import pytest

from pykueue.api.fields import invalid as wrong
from pykueue.api.fields import required
from pykueue.apiserver.wire import statuserrors
from pykueue.apiserver.wire.statuserrors import StatusError
from pykueue.kube.port import JOBS, PODS


def test_a_refusal_is_a_status() -> None:
    assert statuserrors.not_found(JOBS, "x").status() == {
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
    refused = statuserrors.invalid(JOBS, "x", [required("spec.a"), wrong("spec.b", 1, "no")])
    assert refused.message == 'Job.batch "x" is invalid: [spec.a: Required value, spec.b: Invalid value: 1: no]'
    assert refused.details["causes"] == [
        {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.a"},
        {"reason": "FieldValueInvalid", "message": "Invalid value: 1: no", "field": "spec.b"},
    ]
    assert refused.details["kind"] == "Job"


@pytest.mark.parametrize(
    ("refused", "code", "message"),
    [
        (statuserrors.exists(PODS, "p"), 409, 'pods "p" already exists'),
        (statuserrors.forbidden(PODS, "", "why"), 403, "pods is forbidden: why"),
        (statuserrors.not_allowed(JOBS, "delete"), 405, 'delete is not supported on resources of kind "jobs.batch"'),
        (statuserrors.too_large(), 413, "Request entity too large: limit is 3145728"),
        (statuserrors.internal("oops"), 500, "Internal error occurred: oops"),
        (statuserrors.unauthorized(), 401, "Unauthorized"),
        (statuserrors.too_many("later", 3), 429, "later"),
    ],
)
def test_texts_are_those_of_kubernetes(refused: StatusError, code: int, message: str) -> None:
    assert (refused.code, refused.message) == (code, message)


def test_details_may_be_empty_or_absent() -> None:
    assert statuserrors.unserved().status()["details"] == {}
    assert "details" not in statuserrors.bad_request("no").status()
    assert "reason" not in StatusError(500, "", "plain").status()


def test_advice_when_to_try_again_is_kept() -> None:
    assert statuserrors.no_name_left(PODS, "p-x").retry_after == 1
    assert statuserrors.bad_request("no").retry_after == 0


def test_names_in_messages_are_quoted() -> None:
    assert statuserrors.quoted('a"b\\c\n') == '"a\\"b\\\\c\\n"'
