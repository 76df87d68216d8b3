"""What can a story do with a Job, and what can it wait for? `job` makes one, `Job` is the handle on it."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tests import builders
from tests.plane.client import WAIT, Late, Tree, condition, shown
from tests.plane.stages import PREFIX

if TYPE_CHECKING:
    from tests.e2e.team import Team

KUEUE = "kueue.x-k8s.io/v1beta2"
QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
NUDGES = 8


def quantities(amounts: Mapping[str, object]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def resources(requests: dict[str, str]) -> Tree:
    """What a container asks for; the API server wants a limit for resources that are not Kubernetes' own."""
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    return {"requests": requests, **({"limits": limits} if limits else {})}


def job(
    team: "Team",
    name: str,
    queue: str = "",
    *,
    pods: int = 1,
    completions: int | None = None,
    cpu: object = 1,
    requests: Mapping[str, object] | None = None,
    priority: str = "",
    run: str = "",
    ready: str = "",
    fail: bool = False,
    unready: str = "",
    stop: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    template: Mapping[str, Any] | None = None,
    namespace: str = "",
    **spec: Any,
) -> "Job":
    """A Job that is created now. Its pods run until told otherwise.

    `run`, `ready`, `unready` and `stop` are durations as `stages` has them: how long a pod runs, when it is ready, when
    it is no longer, and how long it takes to go. `template` goes into the pod's spec, `spec` into the Job's.
    """
    steer = {"run-for": run, "ready-after": ready, "unready-after": unready, "stop-for": stop}
    steer["fail"] = "true" if fail else ""
    marks = {**({QUEUE: queue} if queue else {}), **({PRIORITY: priority} if priority else {}), **(labels or {})}
    asked = {
        "parallelism": pods,
        "completions": completions if completions is not None else pods,
        "backoffLimit": 6,
        "template": {
            "metadata": {"annotations": {f"{PREFIX}{key}": value for key, value in steer.items() if value}},
            "spec": builders.pod_spec(
                spec={"terminationGracePeriodSeconds": 60, **(template or {})},
                image="example.com/none",
                resources=resources(quantities(requests or {"cpu": cpu})),
            ),
        },
        **spec,
    }
    metadata = {"labels": marks, "annotations": dict(annotations or {})}
    made = team.client.create(builders.job(name, queue, namespace or team.namespace, metadata, **asked))
    return Job(team, name, made["metadata"]["namespace"], made["metadata"]["uid"])


class Job:
    """A Job of the story, its Workload and its pods."""

    def __init__(self, team: "Team", name: str, namespace: str, uid: str) -> None:
        self.team = team
        self.client = team.client
        self.name = name
        self.namespace = namespace
        self.uid = uid

    # -- looking

    def tree(self) -> Tree:
        return self.client.get("Job", self.name, self.namespace)

    def find_workload(self) -> Tree | None:
        """The Workload of this Job, if there is one now that is not going away."""
        found = self.client.objects("Workload", self.namespace, labels=f"kueue.x-k8s.io/job-uid={self.uid}")
        kept = [tree for tree in found if "deletionTimestamp" not in tree["metadata"]]
        return kept[0] if kept else None

    def workload(self) -> Tree:
        """The Workload of this Job; waits for it."""
        return self.until(lambda tree: True, "a Workload")

    @property
    def workload_name(self) -> str:
        return str(self.workload()["metadata"]["name"])

    def until(self, holds: Callable[[Tree], bool], what: str, timeout: float = WAIT) -> Tree:
        """The Workload once something is so of it."""
        seen: list[Tree | None] = [None]

        def so() -> bool:
            seen[0] = self.find_workload()
            return seen[0] is not None and holds(seen[0])

        if not self.client.soon(so, timeout):
            name = seen[0]["metadata"]["name"] if seen[0] else ""
            raise Late(
                f"Job {self.namespace}/{self.name}: {what} did not come within {timeout} s. Its Workload is now:\n"
                f"{shown(seen[0])}\n{self.client.events_text(name, self.namespace) if name else ''}\n"
                f"The Job:\n{shown(self.client.find('Job', self.name, self.namespace))}\n"
                f"{self.client.events_text(self.name, self.namespace)}\n{self.client.report(self.name)}"
            )
        assert seen[0] is not None
        return seen[0]

    def shows(
        self, type_: str, status: bool, reason: str = "", message: str | None = None, timeout: float = WAIT
    ) -> Tree:
        """The Workload once a condition is so; an empty reason or no message leaves that open."""

        def so(tree: Tree) -> bool:
            one = condition(tree, type_)
            return (
                one.get("status") == str(status)
                and reason in ("", one.get("reason"))
                and message in (None, one.get("message"))
            )

        return self.until(so, f"{type_}={status}/{reason} {message or ''}", timeout)

    # -- what should come

    def runs(self, pods: int | None = None, timeout: float = WAIT) -> Tree:
        """Wait until it is admitted, started, and all its pods are there; gives the Workload."""
        tree = self.shows("Admitted", True, "Admitted", "The workload is admitted", timeout)
        self.client.wait_for(
            "Job",
            self.name,
            self.namespace,
            lambda job: (
                not job["spec"].get("suspend")
                and job.get("status", {}).get("active", 0)
                == (pods if pods is not None else min(job["spec"]["parallelism"], job["spec"]["completions"]))
            ),
            timeout,
            "started with all its pods",
        )
        return tree

    def waits(self, reason: str, message: str | None = None, timeout: float = WAIT) -> Tree:
        """Wait until it holds no quota for this reason, and is suspended."""
        tree = self.shows("QuotaReserved", False, reason, message, timeout)
        self.is_suspended()
        return tree

    def is_suspended(self) -> None:
        """Wait until it is suspended and has no pod."""
        self.client.wait_for(
            "Job",
            self.name,
            self.namespace,
            lambda job: bool(job["spec"].get("suspend")) and not job.get("status", {}).get("active"),
            what="suspended, without pods",
        )

    def is_evicted(self, reason: str, message: str | None = None, timeout: float = WAIT) -> Tree:
        return self.shows("Evicted", True, reason, message, timeout)

    def finishes(self, reason: str = "Succeeded", message: str | None = None, timeout: float = WAIT) -> Tree:
        """Wait until its Workload is finished."""
        return self.shows("Finished", True, reason, message, timeout)

    def never_runs(self, seconds: float = 1.5) -> None:
        """Look for a while that it is not started."""
        self.team.never(lambda: not self.tree()["spec"].get("suspend"), f"{self.name} was started", seconds)

    def stays(self, seconds: float = 1.5) -> None:
        """Look for a while that it goes on running as it is."""
        before = {pod["metadata"]["uid"] for pod in self.pods()}
        assert before, f"{self.name} has no pods"
        self.team.sleep(seconds)
        assert not self.tree()["spec"].get("suspend"), f"{self.name} was suspended"
        assert {pod["metadata"]["uid"] for pod in self.pods()} == before, f"pods of {self.name} were replaced"

    def event(self, reason: str, note: str | None = None, type_: str = "Normal") -> Tree:
        """An event about the Job."""
        return self.team.event(self.name, reason, note, type_)

    def workload_event(self, reason: str, note: str | None = None, type_: str = "Normal") -> Tree:
        """An event about its Workload."""
        return self.team.event(self.workload_name, reason, note, type_)

    # -- what its user does

    def patch(self, body: Mapping[str, Any], **how: Any) -> Tree:
        return self.client.patch("Job", self.name, body, self.namespace, **how)

    def label(self, **labels: str | None) -> None:
        """Set labels of ours by their last part: `queue_name`, `priority_class`; None removes one."""
        full = {f"kueue.x-k8s.io/{key.replace('_', '-')}": value for key, value in labels.items()}
        self.patch({"metadata": {"labels": full}})

    def annotate(self, **annotations: str | None) -> None:
        """Set annotations of ours by their last part: `hold`, `requeue`; None removes one."""
        self.patch({"metadata": {"annotations": {f"pykueue.io/{key}": value for key, value in annotations.items()}}})

    def delete(self, propagation: str = "Background") -> None:
        self.client.delete("Job", self.name, self.namespace, propagation)

    def set_active(self, active: bool) -> None:
        """Deactivate or activate its Workload."""
        self.client.patch("Workload", self.workload_name, {"spec": {"active": active}}, self.namespace)

    def pods(self) -> list[Tree]:
        """Its pods that have not ended and are not going away."""
        found = self.client.objects("Pod", self.namespace, labels=f"batch.kubernetes.io/controller-uid={self.uid}")
        return [
            pod
            for pod in found
            if "deletionTimestamp" not in pod["metadata"]
            and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        ]

    def pods_do(self, what: str, count: int | None = None) -> None:
        """Have running pods be `succeeded`, `failed`, `unready` or `ready` now: the first `count`, or all."""
        names = sorted(str(pod["metadata"]["name"]) for pod in self.pods())[:count]
        for turn in range(NUDGES):
            for name in sorted(self.going_on(names)):
                body = {"metadata": {"annotations": {f"{PREFIX}now": what, f"{PREFIX}nudge": str(turn)}}}
                self.client.patch("Pod", name, body, self.namespace)
            # Seldom KWOK overlooks an edit that comes while it is at work on the pod, and needs another.
            if self.client.soon(lambda: not self.behind(names, what), 5):
                return
        raise Late(
            f"Job {self.namespace}/{self.name}: pods did not become {what} within {5 * NUDGES} s. They are:\n"
            + "---\n".join(shown(pod) for pod in self.pods() if pod["metadata"]["name"] in names)
        )

    def going_on(self, names: list[str]) -> set[str]:
        """Those of some pods of its that have not ended."""
        return {str(pod["metadata"]["name"]) for pod in self.pods()} & set(names)

    def behind(self, names: list[str], what: str) -> set[str]:
        """Those of some pods that have not done this yet; one that has gone has nothing left to do."""
        if what in ("succeeded", "failed"):
            return self.going_on(names)
        wanted = "True" if what == "ready" else "False"
        pods = {str(pod["metadata"]["name"]): condition(pod, "Ready").get("status") for pod in self.pods()}
        return {name for name in names if name in pods and pods[name] != wanted}

    def ends(self) -> None:
        """Let its running pods succeed."""
        self.client.soon(lambda: all(pod.get("status", {}).get("phase") == "Running" for pod in self.pods()), 5)
        self.pods_do("succeeded")

    # -- what a check says

    def set_check(self, check: str, state: str, message: str = "", **more: Any) -> None:
        """Answer for an AdmissionCheck, as its controller would."""
        one = {
            "name": check,
            "state": state,
            "message": message,
            "lastTransitionTime": self.team.instant(),
            **more,
        }
        tree = self.workload()
        self.client.apply(
            {
                "apiVersion": KUEUE,
                "kind": "Workload",
                "metadata": {"name": tree["metadata"]["name"], "namespace": self.namespace},
                "status": {"admissionChecks": [one]},
            },
            "e2e-check",
            "status",
        )

    def check_is(self, check: str, state: str, message: str | None = None) -> Tree:
        """Wait until the Workload lists a check in this state."""

        def so(tree: Tree) -> bool:
            return any(
                one["name"] == check and one["state"] == state and message in (None, one.get("message"))
                for one in tree.get("status", {}).get("admissionChecks", [])
            )

        return self.until(so, f"check {check} {state}")
