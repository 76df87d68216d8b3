"""Adds the reason why a Workload is pending to a GET response before that reason is written to its status."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from pykueue.api.core import Tree
from pykueue.api.names import WorkloadCondition
from pykueue.api.trees import mappings, text
from pykueue.apiserver.wire.paths import RequestInfo
from pykueue.kube.port import WORKLOADS

Reasons: TypeAlias = Callable[[str], Tree | None]
"""The condition that explains why the Workload of a key is pending; None if it is not, or has the condition already."""


def with_reason(call: RequestInfo, body: bytes, reasons: Reasons) -> bytes:
    """The object of a GET; a Workload without a QuotaReserved condition gets the one about to be written.

    The added condition is not stored, and lists and watches do not show it: it is written a little later, or not at
    all if the Workload starts before that.
    """
    if (call.group, call.plural) != (WORKLOADS.group, WORKLOADS.plural) or call.subresource not in ("", "status"):
        return body
    told = reasons(f"{call.namespace}/{call.name}")
    if told is None:
        return body
    tree: Tree = msgspec.json.decode(body)
    if any(text(one, "type") == WorkloadCondition.QUOTA_RESERVED for _, one in mappings(tree, "status", "conditions")):
        return body
    status = tree.get("status")
    status = dict(status) if isinstance(status, dict) else {}
    known = status.get("conditions")
    status["conditions"] = [*(known if isinstance(known, list) else []), told]
    tree["status"] = status
    return msgspec.json.encode(tree)
