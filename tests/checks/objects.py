"""Workloads, requests and configurations for the tests of `checks`, as the API server would send them."""

from typing import Any

from pykueue.api.checks import (
    AdmissionCheck,
    ProvisioningRequest,
    ProvisioningRequestConfigSpec,
    ProvisioningRetryStrategy,
)
from pykueue.api.codec import decode_as
from pykueue.api.core import Json, Tree
from pykueue.api.trees import text
from pykueue.api.workload import AdmissionCheckState, Workload
from pykueue.base.units import format_instant
from pykueue.checks.provisioning import Check, CheckInput, CheckPlan
from pykueue.kube.port import ADMISSION_CHECKS
from tests.builders import made
from tests.jobs.objects import ADMITTED, CONTAINER, NAME, PLAIN, RESERVED, SPOT, THEN, condition, later, workload

CHECK = "capacity"
CLASS = "atomic.example.com"
REQUEST = f"{NAME}-{CHECK}-1"
CONFIG = ProvisioningRequestConfigSpec(provisioning_class_name=CLASS)
FLAVORS = {"spot": SPOT}
AT_ONCE = format_instant(later(0))


def pod_set(name: str = "main", count: int = 3, spec: Tree | None = None, **container: Json) -> Tree:
    """Pods of a Workload; `container` changes their only one."""
    inner: Tree = {"containers": [{**CONTAINER, **container}], "restartPolicy": "Never", **(spec or {})}
    return {"name": name, "count": count, "template": {"metadata": PLAIN["metadata"], "spec": inner}}


def holding(*pod_sets: Tree, counts: dict[str, int | None] | None = None, **parts: Any) -> Workload:
    """A Workload with quota for its pods, of the flavor `spot`; without a count it is for all of them."""
    given: list[Json] = [
        {"name": one["name"], "flavors": {"cpu": "spot"}, **({} if count is None else {"count": count})}
        for one in pod_sets
        for count in ((counts or {}).get(str(one["name"])),)
    ]
    status = {"admission": {"clusterQueue": "shared", "podSetAssignments": given}}
    return workload(RESERVED, podSets=list(pod_sets), status=status, **parts)


def state(said: str = "Pending", message: str = "", **parts: Any) -> AdmissionCheckState:
    """What the check says; it has said so for an hour."""
    given: dict[str, Any] = {"name": CHECK, "last_transition_time": THEN, **parts}
    return AdmissionCheckState(state=said, message=message, **given)  # type: ignore[arg-type]  # one of the four


def request(
    *conditions: Tree, attempt: int = 1, check: str = CHECK, made: str = AT_ONCE, **parts: Any
) -> ProvisioningRequest:
    """A request that asks for the three pods of a Workload; `parts` are `metadata`, `spec` and `details`."""
    name = f"{NAME}-{check}-{attempt}"
    tree: Tree = {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"r-{attempt}",
            "creationTimestamp": made,
            **parts.get("metadata", {}),
        },
        "spec": {
            "provisioningClassName": CLASS,
            "podSets": [{"podTemplateRef": {"name": f"ppt-{name}-main"}, "count": 3}],
            **parts.get("spec", {}),
        },
        "status": {"conditions": list(conditions), "provisioningClassDetails": parts.get("details", {})},
    }
    return decode_as(ProvisioningRequest, tree)


def says(kind: str, message: str = "", status: bool = True, at: str = AT_ONCE) -> Tree:
    """A condition that the autoscaler writes."""
    return condition(kind, status, "", message, at)


FAILED = says("Failed", "no room")
EXPIRED = says("BookingExpired", "too late")
REVOKED = says("CapacityRevoked", "taken away")
PROVISIONED = says("Provisioned", "here it is")
ACCEPTED = says("Accepted")
RUNNING = (RESERVED, ADMITTED)
GONE = condition("Finished", True)


def ago(seconds: float) -> str:
    return format_instant(later(-seconds))


def config(limit: int = 3, base: int = 60, most: int = 1800, **parts: Any) -> ProvisioningRequestConfigSpec:
    """A configuration with this strategy after failures."""
    strategy = ProvisioningRetryStrategy(limit, base, most)
    return ProvisioningRequestConfigSpec(**{"provisioning_class_name": CLASS, "retry_strategy": strategy, **parts})


def turned(to: str, message: str, **parts: Any) -> AdmissionCheckState:
    """A state that is entered now."""
    return state(to, message, last_transition_time=AT_ONCE, **parts)


def asks(found: CheckPlan) -> list[str]:
    """The names of the requests to be made."""
    return [text(one.request, "metadata", "name") for one in found.asks]


def deletes(found: CheckPlan) -> list[str]:
    """The names of the requests to be deleted."""
    return [one.name for one in found.deletes]


def seen(*requests: ProvisioningRequest, said: AdmissionCheckState | None = None, **parts: Any) -> CheckInput:
    """A Workload with quota whose only check is ours; `parts` change the Workload, or what else is seen."""
    conditions = parts.pop("conditions", (RESERVED,))
    of_workload = {key: parts.pop(key) for key in ("active", "metadata", "podSets", "given") if key in parts}
    status = {"admissionChecks": [as_tree(said or state())]}
    templates = {
        one.pod_template_ref.name: str(request.metadata.uid) for request in requests for one in request.spec.pod_sets
    }
    check = Check(parts.pop("config", CONFIG), parts.pop("timeout", None))
    given: dict[str, Any] = {"checks": {CHECK: check}, "templates": templates, "flavors": FLAVORS, **parts}
    return CheckInput(workload(*conditions, status=status, **of_workload), requests=requests, **given)


def as_tree(said: AdmissionCheckState) -> Tree:
    """A state as a Workload carries it."""
    found: Tree = {
        "name": said.name,
        "state": said.state,
        "message": said.message,
        "lastTransitionTime": said.last_transition_time,
    }
    if said.retry_count is not None:
        found["retryCount"] = said.retry_count
    if said.requeue_after_seconds is not None:
        found["requeueAfterSeconds"] = said.requeue_after_seconds
    if said.pod_set_updates:
        found["podSetUpdates"] = [
            {"name": one.name, "annotations": dict(one.annotations), "nodeSelector": dict(one.node_selector)}
            for one in said.pod_set_updates
        ]
    return found


def admission_check(annotations: dict[str, str] | None = None, **spec: Json) -> AdmissionCheck:
    """An AdmissionCheck of ours."""
    asked = {"controllerName": "kueue.x-k8s.io/provisioning-request", **spec}
    metadata = {"annotations": {**(annotations or {})}}
    return decode_as(AdmissionCheck, made(ADMISSION_CHECKS, CHECK, metadata=metadata, spec=asked))
