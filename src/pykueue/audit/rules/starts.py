"""Nothing runs without admission: pods of queued Jobs, and when they were created."""

from collections.abc import Iterator
from typing import Final

from pykueue.api.names import Label
from pykueue.api.workload import Workload
from pykueue.audit.times import MICROS, Instant
from pykueue.audit.uptime import Uptime
from pykueue.audit.views import Job, Pod, controller_uid, finished, holds
from pykueue.audit.world import Change, Finding, Settings, World

RULE: Final = "unadmitted"
START: Final = "start"
OVER: Final = frozenset({"Succeeded", "Failed"})


class Starts:
    """The rule that pods of a queued Job are created and run only while its Workload is admitted."""

    def __init__(self, settings: Settings, uptime: Uptime) -> None:
        self.settings, self.uptime = settings, uptime
        self.lag_micros = settings.lag_seconds * MICROS
        self.lost: dict[str, Instant] = {}
        """When the Workload of each Job, by UID, was last seen to lose its admission."""
        self.held_back: dict[str, Instant] = {}
        """When each Job, by UID, was last seen to be suspended."""
        self.unadmitted_since: dict[str, Instant] = {}
        """Since when each pod, by key, has run without admission."""
        self.reported: set[str] = set()
        """UIDs of the pods that were reported."""

    def seen(self, change: Change, world: World) -> Iterator[Finding]:
        """Violations by this change."""
        workload, job, pod = change.of(Workload), change.of(Job), change.of(Pod)
        if workload is not None:
            yield from self.given_back(change, world, *workload)
        elif job is not None:
            yield from self.switched(change, world, *job)
        elif pod is not None and pod[0] is None and pod[1] is not None and not change.listed:
            yield from self.made(change, world, pod[1])

    def given_back(self, change: Change, world: World, old: Workload | None, new: Workload | None) -> Iterator[Finding]:
        """What is wrong with an admission that was just lost; also records the time."""
        if old is None or not holds(old, "Admitted") or (new is not None and holds(new, "Admitted")):
            return
        self.lost[controller_uid(old, "Job")] = change.at
        job = world.job_of(old)
        if job is None or new is None or change.listed or finished(job) or not queued(job):
            return
        if not job.spec.suspend or job.status.active:
            message = "runs" if not job.spec.suspend else f"has {job.status.active} active pods"
            yield change.found(
                RULE, f"Workload {change.key}", f"released its quota while Job {job.name} still {message}"
            )

    def switched(self, change: Change, world: World, old: Job | None, new: Job | None) -> Iterator[Finding]:
        """What is wrong with a Job that was started; also forgets deleted Jobs."""
        if new is None:
            uid = (old.metadata.uid or "") if old is not None else ""
            self.lost.pop(uid, None)
            self.held_back.pop(uid, None)
            return
        was, now = bool(old is not None and old.spec.suspend), bool(new.spec.suspend)
        if now and not was:
            self.held_back[new.metadata.uid or ""] = change.at
        if was and not now and self.settings.alone and queued(new) and not change.listed and not admitted(new, world):
            yield change.found(START, f"Job {change.key}", "was started without an admitted Workload")

    def made(self, change: Change, world: World, pod: Pod) -> Iterator[Finding]:
        """What is wrong with a new pod."""
        job = world.job_of(pod)
        if job is None or not queued(job):
            return
        uid = job.metadata.uid or ""
        # If we could not watch in between, the pod may have been created much earlier than it arrived here.
        held_back = max(self.held_back.get(uid, 0), self.uptime.watched_since)
        if job.spec.suspend and change.at - held_back >= self.lag_micros:
            self.reported.add(pod.metadata.uid or "")
            yield change.found(RULE, f"Pod {change.key}", f"was created although Job {job.name} is suspended")
        # The Job controller may not know yet that the Job is suspended, or that its admission was lost.
        lately = uid in self.lost and change.at - max(self.lost[uid], self.uptime.watched_since) < self.lag_micros
        if not job.spec.suspend and self.settings.alone and not lately and not admitted(job, world):
            self.reported.add(pod.metadata.uid or "")
            yield change.found(RULE, f"Pod {change.key}", f"was created although Job {job.name} is not admitted")

    def late(self, at: Instant, world: World) -> Iterator[Finding]:
        """Pods that have run without admission for longer than a stop takes."""
        still: dict[str, Instant] = {}
        for key, pod in world.pods.items():
            job = world.job_of(pod)
            if job is None or not queued(job) or ended(pod) or admitted(job, world):
                continue
            since = still[key] = self.unadmitted_since.get(key, at)
            if (
                self.uptime.waited(since, at) > self.settings.stop_seconds * MICROS
                and pod.metadata.uid not in self.reported
            ):
                self.reported.add(pod.metadata.uid or "")
                message = f"has been running for {(at - since) // MICROS} s although Job {job.name} is not admitted"
                yield Finding(RULE, f"Pod {key}", message, world.version, at)
        self.unadmitted_since = still


def queued(job: Job) -> bool:
    """Whether the Job names a queue, and so is managed."""
    return bool(job.metadata.labels.get(Label.QUEUE))


def admitted(job: Job, world: World) -> bool:
    """Whether a Workload of the Job is admitted, or was when it finished."""
    return any(holds(workload, "Admitted") for workload in world.workloads_of(job))


def ended(pod: Pod) -> bool:
    """Whether the pod has ended or is being deleted."""
    return pod.status.phase in OVER or pod.metadata.deletion_timestamp is not None
