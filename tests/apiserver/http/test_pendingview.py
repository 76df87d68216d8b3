"""A GET of a pending Workload shows the reason that is not written yet, and changes nothing else."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from pykueue.api.core import Tree
from pykueue.apiserver.http.pendingview import with_reason
from pykueue.apiserver.wire.paths import RequestInfo
from tests.builders import condition, workload

GET = RequestInfo("get", "kueue.x-k8s.io", "v1beta2", "workloads", "team", "w")
WAITS = condition("QuotaReserved", "False", "WaitingForQuota")


def reason(key: str) -> Tree | None:
    return WAITS if key == "team/w" else None


def body(status: Any = None) -> bytes:
    tree = workload("w", "main", namespace="team")
    return json.dumps(tree if status is None else {**tree, "status": status}).encode()


@pytest.mark.parametrize("call", [GET, replace(GET, subresource="status")], ids=["object", "status"])
@pytest.mark.parametrize(
    ("status", "conditions"),
    [
        pytest.param(None, [WAITS], id="no status"),
        pytest.param({}, [WAITS], id="no conditions"),
        pytest.param({"conditions": [condition("Requeued")]}, [condition("Requeued"), WAITS], id="another condition"),
    ],
)
def test_the_reason_is_shown(call: RequestInfo, status: Any, conditions: list[Tree]) -> None:
    shown = json.loads(with_reason(call, body(status), reason))
    assert shown == {**json.loads(body(status)), "status": {"conditions": conditions}}


@pytest.mark.parametrize(
    ("call", "status"),
    [
        pytest.param(GET, {"conditions": [condition("QuotaReserved")]}, id="it says so itself"),
        pytest.param(replace(GET, name="other"), None, id="no reason"),
        pytest.param(replace(GET, plural="localqueues"), None, id="another kind"),
        pytest.param(replace(GET, group=""), None, id="another group"),
        pytest.param(replace(GET, subresource="x"), None, id="another subresource"),
    ],
)
def test_everything_else_is_shown_as_stored(call: RequestInfo, status: Any) -> None:
    stored = body(status)
    assert with_reason(call, stored, reason) is stored
