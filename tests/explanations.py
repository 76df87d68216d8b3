"""The answers of `pykueue explain` in docs/reasons.md, from real runs. `python -m tests.explanations` prints them."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from pykueue.api.explanations import Sentence
from pykueue.cli.explain.lines import tree_lines
from pykueue.kube.port import ADMISSION_CHECKS, LOCAL_QUEUES
from pykueue.testing.kueue import Kueue
from tests.builders import local_queue

ROOT: Final = "/apis/query.pykueue.io/v1alpha1"
PREEMPTION: Final = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}


def kueue_object(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, **fields}


def flavor(name: str, **spec: Any) -> dict[str, Any]:
    return kueue_object("ResourceFlavor", name, **({"spec": spec} if spec else {}))


def queue(name: str, cpu: int, *flavors: str, cohort: str = "research", gpu: int = 0, **spec: Any) -> dict[str, Any]:
    """A ClusterQueue with this much in each flavor."""
    resources = [{"name": "cpu", "nominalQuota": cpu}]
    if gpu:
        resources.append({"name": "nvidia.com/gpu", "nominalQuota": gpu})
    named = [{"name": one, "resources": resources} for one in flavors or ("on-demand",)]
    groups = [{"coveredResources": [one["name"] for one in resources], "flavors": named}]
    return kueue_object(
        "ClusterQueue",
        name,
        spec={
            "namespaceSelector": {},
            "resourceGroups": groups,
            "preemption": PREEMPTION,
            **({"cohortName": cohort} if cohort else {}),
            **spec,
        },
    )


def teams(kueue: Kueue) -> None:
    """Two teams with 8 cpu each, which they lend to each other."""
    kueue.apply(flavor("on-demand"), queue("team-a", 8), queue("team-b", 8))
    kueue.apply(*(local_queue(name, "default", name) for name in ("team-a", "team-b")))


def waits_for_quota(kueue: Kueue) -> str:
    teams(kueue)
    kueue.job("sweep", queue="team-a", cpu=6, pods=2)
    kueue.job("train", queue="team-a", cpu=8)
    return "train"


def goes_past(kueue: Kueue) -> str:
    teams(kueue)
    kueue.job("sweep", queue="team-a", cpu=10)
    kueue.job("large", queue="team-a", cpu=12)
    for number in range(3):
        kueue.job(f"small-{number}", queue="team-a", cpu=1)
    kueue.job("medium", queue="team-a", cpu=6)
    return "large"


def never(kueue: Kueue) -> str:
    teams(kueue)
    kueue.job("huge", queue="team-a", cpu=4, pods=8)
    return "huge"


def wrong_nodes(kueue: Kueue) -> str:
    taint = {"key": "spot", "value": "true", "effect": "NoSchedule"}
    kueue.apply(flavor("a100", nodeLabels={"gpu": "a100"}), flavor("spot", nodeTaints=[taint]))
    kueue.apply(queue("team-a", 8, "a100", "spot", cohort=""), local_queue("team-a", "default", "team-a"))
    template = {"spec": {"restartPolicy": "Never", "nodeSelector": {"gpu": "h100"}, "containers": [container()]}}
    kueue.job("picky", queue="team-a", template=template)
    return "picky"


def container() -> dict[str, Any]:
    return {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}


def preempted(kueue: Kueue) -> str:
    teams(kueue)
    kueue.apply(kueue_object("WorkloadPriorityClass", "urgent", value=10))
    kueue.job("early", queue="team-a", cpu=6)
    kueue.job("important", queue="team-a", cpu=2, priority="urgent")
    kueue.advance("1m")
    kueue.job("borrower", queue="team-a", cpu=5)
    kueue.job("tiny", queue="team-a", cpu=1)
    kueue.advance("25m")
    kueue.job("owner", queue="team-b", cpu=7)
    return "borrower"


def strict(kueue: Kueue) -> str:
    kueue.apply(flavor("on-demand"), queue("batch", 4, cohort="", queueingStrategy="StrictFIFO"), queue("spare", 4))
    kueue.apply(local_queue("batch", "default", "batch"), local_queue("spare", "default", "spare"))
    kueue.job("runs", queue="batch", cpu=3)
    kueue.job("head", queue="batch", cpu=4)
    kueue.job("behind", queue="batch", cpu=1)
    return "behind"


def stopped(kueue: Kueue) -> str:
    teams(kueue)
    kueue.client.patch(LOCAL_QUEUES, "team-a", {"spec": {"stopPolicy": "Hold"}}, "default")
    kueue.job("train", queue="team-a")
    return "train"


def checked(kueue: Kueue) -> str:
    check = kueue_object("AdmissionCheck", "capacity", spec={"controllerName": "example.com/capacity"})
    kueue.apply(flavor("on-demand"), check)
    active = {"type": "Active", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 1}
    active["lastTransitionTime"] = "2027-01-15T08:00:00Z"
    kueue.client.patch(ADMISSION_CHECKS, "capacity", {"status": {"conditions": [active]}}, subresource="status")
    strategy = {"admissionChecks": [{"name": "capacity"}]}
    kueue.apply(queue("team-a", 8, admissionChecksStrategy=strategy), local_queue("team-a", "default", "team-a"))
    kueue.job("train", queue="team-a")
    return "train"


def runs(kueue: Kueue) -> str:
    teams(kueue)
    kueue.job("sweep", queue="team-a", cpu=12)
    return "sweep"


def whole_queue(kueue: Kueue) -> str:
    teams(kueue)
    kueue.job("sweep", queue="team-a", cpu=10)
    kueue.job("eval", queue="team-b", cpu=5)
    kueue.job("train", queue="team-b", cpu=6)
    return "queue/team-b"


STORIES: Final[Mapping[str, Callable[[Kueue], str]]] = {
    "It waits for quota": waits_for_quota,
    "Smaller ones go past": goes_past,
    "It can never start": never,
    "No flavor suits its pods": wrong_nodes,
    "It was preempted": preempted,
    "It is behind the head of a StrictFIFO queue": strict,
    "Its queue is stopped": stopped,
    "It waits for an admission check": checked,
    "It runs on borrowed quota": runs,
    "Of a queue": whole_queue,
}


def answer(kueue: Kueue, word: str) -> list[str]:
    """What `pykueue explain` prints."""
    kind, _, name = word.rpartition("/")
    if kind == "queue":
        path, title = f"localqueues/{name}", f"LocalQueue default/{name}"
    else:
        workload = kueue.workload(name)["metadata"]["name"]
        path, title = f"workloads/{workload}", f"Job default/{name} (Workload {workload})"
    tree = kueue.client.request("GET", f"{ROOT}/namespaces/default/{path}/explanations")["tree"]
    return [f"$ pykueue explain {word}", *tree_lines(title, msgspec.convert(tree, Sentence))]


@contextmanager
def utc() -> Iterator[None]:
    """Times are printed in UTC, whatever the zone of this machine."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        yield
    finally:
        del os.environ["TZ"]
        os.environ |= {} if before is None else {"TZ": before}
        time.tzset()


def page() -> str:
    """The answers as the document has them."""
    parts = []
    for title, story in STORIES.items():
        kueue = Kueue()
        try:
            word = story(kueue)
            with utc():
                lines = "\n".join(answer(kueue, word))
        finally:
            kueue.close()
        parts.append(f"### {title}\n\n```text\n{lines}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
