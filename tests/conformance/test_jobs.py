"""Do Jobs fare here as under kube-controller-manager? The same Jobs, with pods that end in the same way, compared.

`python -m tests.conformance.test_jobs` plays all stories on a real control plane, side by side, and writes what it saw
after each step to `jobs.json.gz`. `make test` plays them on the embedded API and compares; `make e2e` asks the real one
anew. Between two steps time passes, the same on both sides, so that delays are comparable.
"""

import asyncio
import gzip
import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pykueue.base.clock import SystemClock
from pykueue.base.units import format_instant
from pykueue.kube.port import JOBS, PODS
from pykueue.kubecontrollers.jobcontroller import JobController
from tests.e2e.backend import on_plane
from tests.kubecontrollers.town import Town, new_town, tree_of
from tests.plane.plane import Plane

Object = dict[str, Any]
Step = tuple[Any, ...]

FILE = Path(__file__).parent / "jobs.json.gz"
NAMESPACE = "team-a"
CALM = 2
"""Seconds after a step, unless it says otherwise: the real controller gathers changes of pods for one."""
PATIENCE = 60
"""Seconds that a busy machine may take more."""
CONTAINER: Object = {"name": "main", "image": "a:1"}
DISRUPTED = {"type": "DisruptionTarget", "status": "True"}


def exits(action: str, *values: int) -> Object:
    return {"action": action, "onExitCodes": {"operator": "In", "values": list(values)}}


IGNORE = {"action": "Ignore", "onPodConditions": [DISRUPTED]}
PER_INDEX: Object = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimitPerIndex": 1}
INDEXED: Object = {"completionMode": "Indexed", "completions": 3, "parallelism": 2}

STORIES: dict[str, tuple[Object, list[Step]]] = {
    "one-pod": ({}, [("end", "Succeeded")]),
    "three-completions": (
        {"completions": 3, "parallelism": 2},
        [("end one", "Succeeded"), ("end", "Succeeded")],
    ),
    "work-queue": ({"parallelism": 2}, [("end one", "Succeeded"), ("end", "Succeeded")]),
    "no-parallelism": ({"parallelism": 0, "completions": 1}, [("change", {"parallelism": 1}), ("end", "Succeeded")]),
    "indexed": (INDEXED, [("end index", 1, "Succeeded"), ("end index", 2, "Succeeded"), ("end", "Succeeded")]),
    "indexed-grows": (
        INDEXED | {"completions": 2},
        [("change", {"completions": 3, "parallelism": 3}), ("end index", 2, "Succeeded"), ("end", "Succeeded")],
    ),
    "indexed-shrinks": (
        INDEXED | {"completions": 3, "parallelism": 3},
        [("change", {"completions": 2, "parallelism": 2}), ("end", "Succeeded")],
    ),
    "no-retries": ({"backoffLimit": 0}, [("end", "Failed", 1)]),
    "limit-with-others-running": (
        {"backoffLimit": 0, "parallelism": 2, "completions": 2},
        [("end one", "Failed", 1)],
    ),
    "delayed-replacement": ({"backoffLimit": 1}, [("end", "Failed", 1), ("wait", 11), ("end", "Failed", 1)]),
    "restarts-in-place": ({"backoffLimit": 2, "restartPolicy": "OnFailure"}, [("restarts", 1), ("restarts", 2)]),
    "policy-fails-job": (
        {"podFailurePolicy": {"rules": [IGNORE, exits("FailJob", 42)]}, "parallelism": 2, "completions": 2},
        [("end one", "Failed", 42)],
    ),
    "policy-fails-job-by-condition": (
        {"podFailurePolicy": {"rules": [{"action": "FailJob", "onPodConditions": [DISRUPTED]}]}},
        [("end", "Failed", 1, DISRUPTED)],
    ),
    "policy-ignores": (
        {"podFailurePolicy": {"rules": [IGNORE]}, "backoffLimit": 0},
        [("end", "Failed", 1, DISRUPTED), ("wait", 11), ("end", "Succeeded")],
    ),
    "policy-counts": (
        {"podFailurePolicy": {"rules": [exits("Count", 3), IGNORE]}, "backoffLimit": 0},
        [("end", "Failed", 3)],
    ),
    "per-index": (
        PER_INDEX,
        [("end index", 0, "Failed", 1), ("wait", 11), ("end index", 0, "Failed", 1), ("end", "Succeeded")],
    ),
    "per-index-ignored": (
        PER_INDEX | {"podFailurePolicy": {"rules": [IGNORE]}},
        [("end index", 0, "Failed", 1, DISRUPTED), ("wait", 11), ("end", "Succeeded")],
    ),
    "fail-index": (
        PER_INDEX | {"podFailurePolicy": {"rules": [exits("FailIndex", 13)]}},
        [("end index", 1, "Failed", 13), ("end", "Succeeded")],
    ),
    "max-failed-indexes": (
        PER_INDEX | {"completions": 3, "parallelism": 3, "backoffLimitPerIndex": 0, "maxFailedIndexes": 0},
        [("end index", 0, "Failed", 1)],
    ),
    "success-policy-indexes": (
        INDEXED | {"successPolicy": {"rules": [{"succeededIndexes": "0"}]}},
        [("end index", 0, "Succeeded")],
    ),
    "success-policy-count": (
        INDEXED | {"successPolicy": {"rules": [{"succeededIndexes": "1-2"}, {"succeededCount": 1}]}},
        [("end index", 0, "Succeeded")],
    ),
    "deadline": (
        {"activeDeadlineSeconds": 13, "parallelism": 2, "completions": 2},
        [("end one", "Succeeded"), ("wait", 11)],
    ),
    "suspended": (
        {"suspend": True},
        [
            ("change", {"suspend": False}),
            ("change", {"suspend": True}),
            ("change", {"suspend": False}),
            ("end", "Succeeded"),
        ],
    ),
    "suspended-half-way": (
        {"parallelism": 2, "completions": 3},
        [("end one", "Succeeded"), ("change", {"suspend": True}), ("change", {"suspend": False})],
    ),
    "fewer-in-parallel": (
        {"parallelism": 3, "completions": 9},
        [("change", {"parallelism": 1}), ("change", {"parallelism": 2})],
    ),
    "pod-deleted": ({}, [("delete one",), ("wait", 11), ("end", "Succeeded")]),
    "managed-by-another": ({"managedBy": "example.com/other"}, [("change", {"parallelism": 2})]),
}
STEPS = max(len(steps) for _, steps in STORIES.values())
PASSING = frozenset(
    (name, number) for name, (_, steps) in STORIES.items() for number, step in enumerate(steps) if step[0] == "wait"
)
"""What is seen before a wait lasts for seconds only; on a busy machine it may be over when somebody looks."""


def rest(number: int) -> int:
    """Seconds after the step of this number, in all stories alike."""
    taken = (steps[number] for _, steps in STORIES.values() if number < len(steps))
    return max(step[1] if step[0] == "wait" else CALM for step in taken)


def manifest(name: str) -> Object:
    spec = dict(STORIES[name][0])
    restart = spec.pop("restartPolicy", "Never")
    template = {
        "metadata": {"labels": {"app": "train"}, "annotations": {"example.com/note": "kept"}},
        "spec": {"containers": [CONTAINER], "restartPolicy": restart},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec | {"template": template},
    }


class Side(ABC):
    """One of the two that are compared."""

    @abstractmethod
    async def create(self, job: Object) -> None: ...

    @abstractmethod
    async def job(self, name: str) -> Object: ...

    @abstractmethod
    async def pods(self, job: str) -> list[Object]: ...

    @abstractmethod
    async def change(self, name: str, spec: Object) -> None: ...

    @abstractmethod
    async def set_status(self, pod: str, status: Object) -> None: ...

    @abstractmethod
    async def delete_pod(self, name: str) -> None: ...

    @abstractmethod
    async def said(self, job: str) -> list[list[str]]: ...

    @abstractmethod
    async def rest(self, seconds: int) -> None: ...

    @abstractmethod
    def now(self) -> str: ...

    async def step(self, job: str, step: Step) -> None:
        """Do one thing to a Job or its pods."""
        match step:
            case ("wait", _):
                return
            case ("change", spec):
                await self.change(job, spec)
            case ("delete one",):
                await self.delete_pod(name_of((await self.running(job))[0]))
            case ("restarts", count):
                for pod in await self.running(job):
                    await self.set_status(name_of(pod), restarted(count))
            case ("end", phase, *more):
                for pod in await self.running(job):
                    await self.set_status(name_of(pod), ended(self.now(), phase, *more))
            case ("end one", phase, *more):
                await self.set_status(name_of((await self.running(job))[0]), ended(self.now(), phase, *more))
            case ("end index", index, phase, *more):
                (pod,) = [one for one in await self.running(job) if index_of(one) == str(index)]
                await self.set_status(name_of(pod), ended(self.now(), phase, *more))
            case _:
                raise AssertionError(step)

    async def running(self, job: str) -> list[Object]:
        """The pods that have not ended, by name."""
        return await self.unended(job)

    async def unended(self, job: str) -> list[Object]:
        """The pods that have not ended, by name."""
        return sorted((pod for pod in await self.pods(job) if phase_of(pod) in ("Pending", "Running")), key=name_of)

    async def calm(self, name: str) -> bool:
        """Whether everything that happened to the pods of a Job has been counted."""
        job = await self.job(name)
        status = job.get("status", {})
        pods = await self.pods(name)
        ready = [pod for pod in pods if phase_of(pod) == "Running"]
        kinds = {one["type"] for one in status.get("conditions", ())}
        return (
            len(ready) == len(await self.unended(name)) == status.get("active", 0) == status.get("ready", 0)
            and not any("deletionTimestamp" in pod["metadata"] for pod in pods)
            and not status.get("terminating")
            and not status.get("uncountedTerminatedPods")
            and ("FailureTarget" in kinds) == ("Failed" in kinds)
            and ("SuccessCriteriaMet" in kinds) == ("Complete" in kinds)
        )

    async def seen(self, name: str) -> Object:
        """What can be compared of a Job."""
        job = await self.job(name)
        status = dict(job.get("status", {}))
        for key in ("startTime", "completionTime"):
            if key in status:
                status[key] = "some time"
        status["conditions"] = [
            [one["type"], one["status"], one.get("reason", ""), one.get("message", "")]
            for one in status.get("conditions", ())
        ]
        uid = job["metadata"]["uid"]
        pods = sorted((facts(pod) for pod in await self.pods(name)), key=lambda one: json.dumps(one, sort_keys=True))
        found = {"status": status, "pods": pods, "events": sorted(await self.said(name))}
        text = json.dumps(found).replace(uid, "UID")
        text = re.sub(rf"\b{name}-(\d+-)?[a-z0-9]{{5}}\b", rf"{name}-\g<1>xxxxx", text)
        made: Object = json.loads(text)
        return made


def name_of(tree: Object) -> str:
    return str(tree["metadata"]["name"])


def phase_of(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def index_of(pod: Object) -> str:
    return str(pod["metadata"].get("annotations", {}).get("batch.kubernetes.io/job-completion-index"))


def ended(now: str, phase: str, code: int = 0, *conditions: Object) -> Object:
    terminated = {"exitCode": code, "finishedAt": now, "reason": "Completed" if code == 0 else "Error"}
    return {
        "phase": phase,
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": now}, *conditions],
        "containerStatuses": [container(0, {"terminated": terminated})],
    }


def restarted(count: int) -> Object:
    return {"containerStatuses": [container(count, {"running": {}})]}


def container(restarts: int, state: Object) -> Object:
    return {"name": "main", "image": "a:1", "imageID": "", "ready": False, "restartCount": restarts, "state": state}


def facts(pod: Object) -> Object:
    """What can be compared of a pod."""
    metadata, spec = pod["metadata"], pod["spec"]
    return {
        "prefix": metadata.get("generateName"),
        "labels": metadata.get("labels"),
        "annotations": metadata.get("annotations"),
        "finalizers": metadata.get("finalizers"),
        "owners": metadata.get("ownerReferences"),
        "deleted": "deletionTimestamp" in metadata,
        "phase": phase_of(pod),
        "hostname": spec.get("hostname"),
        "env": spec["containers"][0].get("env"),
    }


class Real(Side):
    """A real control plane."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.client = plane.client
        plane.namespace(NAMESPACE)

    async def create(self, job: Object) -> None:
        self.client.create(job)

    async def job(self, name: str) -> Object:
        return self.client.get("Job", name, NAMESPACE)

    async def pods(self, job: str) -> list[Object]:
        return self.client.objects("Pod", NAMESPACE, labels=f"job-name={job}")

    async def change(self, name: str, spec: Object) -> None:
        self.client.patch("Job", name, {"spec": spec}, NAMESPACE)

    async def set_status(self, pod: str, status: Object) -> None:
        self.client.patch("Pod", pod, {"status": status}, NAMESPACE, subresource="status")

    async def delete_pod(self, name: str) -> None:
        self.client.delete("Pod", name, NAMESPACE)

    async def said(self, job: str) -> list[list[str]]:
        return [
            [tree["type"], tree["reason"], tree["note"], tree["deprecatedSource"]["component"]]
            for tree in self.client.events(job, NAMESPACE)
            for _ in range(tree.get("deprecatedCount", 1))
        ]

    async def rest(self, seconds: int) -> None:
        time.sleep(seconds)
        for name in STORIES:
            await self.until(name, self.calm)

    async def running(self, job: str) -> list[Object]:
        await self.until(job, self.going)
        return await self.unended(job)

    async def going(self, job: str) -> bool:
        """Whether pods run; one that is to be replaced takes its time."""
        return bool(await self.unended(job)) and await self.calm(job)

    async def until(self, job: str, holds: Callable[[str], Awaitable[bool]]) -> None:
        """Wait until something holds for a Job, or for too long."""
        for _ in range(PATIENCE * 5):
            if await holds(job):
                return
            time.sleep(0.2)

    def now(self) -> str:
        return format_instant(SystemClock().now())


class Ours(Side):
    """The embedded API, with our Job controller, and a kubelet that does what KWOK does."""

    def __init__(self, town: Town) -> None:
        self.town = town

    async def create(self, job: Object) -> None:
        await self.town.create(JOBS, job, NAMESPACE)

    async def job(self, name: str) -> Object:
        return tree_of(await self.town.kube.get(JOBS, name, NAMESPACE))

    async def pods(self, job: str) -> list[Object]:
        return [pod for pod in await self.town.pods() if pod["metadata"]["labels"]["job-name"] == job]

    async def change(self, name: str, spec: Object) -> None:
        await self.town.patch(JOBS, name, {"spec": spec})

    async def set_status(self, pod: str, status: Object) -> None:
        await self.town.patch(PODS, pod, {"status": status}, subresource="status")

    async def delete_pod(self, name: str) -> None:
        await self.town.delete(PODS, name)

    async def said(self, job: str) -> list[list[str]]:
        return [
            ["Warning" if one.warning else "Normal", one.reason, one.note, one.reporter] for one in self.town.notices
        ]

    async def rest(self, seconds: int) -> None:
        for part in (1, seconds - 2, 1):
            await self.kubelet()
            await self.town.advance(part)

    async def kubelet(self) -> None:
        for pod in await self.town.pods():
            if pod["metadata"].get("deletionTimestamp"):
                await self.town.kube.delete(PODS, name_of(pod), NAMESPACE, grace=0)
            elif not pod["spec"].get("nodeName"):
                await self.town.kube.bind(NAMESPACE, name_of(pod), "node-0")
                await self.town.say(name_of(pod), "Running")
        await self.town.settle()

    def now(self) -> str:
        return format_instant(self.town.clock.now())


async def played(side: Side, names: list[str]) -> dict[str, list[Object]]:
    """What was seen of each Job at first, and after each of its steps."""
    for name in names:
        await side.create(manifest(name))
    await side.rest(CALM)
    found = {name: [await side.seen(name)] for name in names}
    for number in range(STEPS):
        going = [name for name in names if number < len(STORIES[name][1])]
        for name in going:
            await side.step(name, STORIES[name][1][number])
        if going:
            await side.rest(rest(number))
        for name in going:
            found[name].append(await side.seen(name))
    return found


def real_ones() -> dict[str, list[Object]]:
    with Plane.start() as plane:
        return asyncio.run(played(Real(plane), list(STORIES)))


async def our_one(name: str) -> list[Object]:
    async with new_town() as town:
        controller = JobController(town.counted, town.clock, town.notices.append)
        async with town.running(controller.run):
            return (await played(Ours(town), [name]))[name]


def differences(theirs: object, ours: object, path: str = "") -> Iterator[str]:
    """Where two trees differ."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted(theirs.keys() | ours.keys()):
            yield from differences(theirs.get(key), ours.get(key), f"{path}.{key}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for number, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif theirs != ours:
        yield f"{path}: theirs {json.dumps(theirs)}, ours {json.dumps(ours)}"


def recorded() -> dict[str, list[Object]]:
    kept: dict[str, list[Object]] = json.loads(gzip.decompress(FILE.read_bytes()))
    return kept


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.skipif(on_plane(), reason="the embedded API is compared by `make test`")
async def test_our_jobs_fare_like_theirs(name: str) -> None:
    wrong = list(differences(recorded()[name], await our_one(name)))
    assert not wrong, "\n".join(wrong)


@pytest.fixture(scope="module")
def theirs() -> dict[str, list[Object]]:
    return real_ones()


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.xdist_group("conformance-jobs")
@pytest.mark.skipif(not on_plane(), reason="the real controllers are asked by `make e2e` alone")
def test_their_jobs_fare_as_recorded(theirs: dict[str, list[Object]], name: str) -> None:
    wrong = [
        line
        for number, (kept, seen) in enumerate(zip(recorded()[name], theirs[name], strict=True))
        if (name, number) not in PASSING
        for line in differences(kept, seen, f"[{number}]")
    ]
    assert not wrong, "\n".join(["record anew by `python -m tests.conformance.test_jobs`, or:", *wrong])


if __name__ == "__main__":
    text = json.dumps(real_ones(), sort_keys=True, separators=(",", ":"))
    FILE.write_bytes(gzip.compress(text.encode(), mtime=0))
