"""Is every Job looked after? Jobs without their one Workload, Workloads that vanish, quota that nobody uses."""

from collections.abc import Iterator
from typing import Final

from pykueue.api.names import Annotation, Label
from pykueue.api.workload import Workload
from pykueue.audit.starts import queued
from pykueue.audit.uptime import Uptime
from pykueue.audit.views import Job, controller_uid, finished, holds, reserving
from pykueue.audit.world import Change, Finding, Settings, World
from pykueue.base.units import MICROS, Instant

RULE: Final = "lost"


class Losses:
    """The rule that every unfinished queued Job has exactly one Workload, and that a Job that ended holds no quota."""

    def __init__(self, settings: Settings, uptime: Uptime) -> None:
        self.settings, self.uptime = settings, uptime
        self.amiss: dict[tuple[str, str], Instant] = {}
        """Since when each of these sentences has been true, by what it is about."""
        self.told: set[tuple[str, str]] = set()
        """What was reported, until it is no longer true."""

    def seen(self, change: Change, world: World) -> Iterator[Finding]:
        """What this change breaks."""
        old, new = change.of(Workload) or (None, None)
        job = world.job_of(old) if old is not None else None
        if old is None or new is not None or job is None or change.listed or not self.settings.alone:
            return
        edited = not world.quiet("Job", f"{job.namespace}/{job.name}", change.at, self.settings.lag_seconds * MICROS)
        if cared_for(job) and not holds(old, "Finished") and not edited:
            yield change.found(RULE, f"Workload {change.key}", f"was deleted, and Job {job.name} lives on unchanged")

    def late(self, at: Instant, world: World) -> Iterator[Finding]:
        """What has been amiss for too long."""
        still = {wrong: self.amiss.get(wrong, at) for wrong in [*unattended(world), *leaking(world)]}
        self.amiss = still
        self.told &= still.keys()
        for (about, says), since in still.items():
            if self.uptime.waited(since, at) <= self.settings.lost_seconds * MICROS or (about, says) in self.told:
                continue
            self.told.add((about, says))
            yield Finding(RULE, about, f"{says}, for {(at - since) // MICROS} s", world.version, at)


def unattended(world: World) -> Iterator[tuple[str, str]]:
    """Jobs that have no Workload, or several."""
    for key, job in world.jobs.items():
        if not cared_for(job):
            continue
        mine = list(world.workloads_of(job))
        unfinished = sorted(workload.name for workload in mine if not holds(workload, "Finished"))
        if not mine:
            yield f"Job {key}", "has no Workload"
        elif len(unfinished) > 1:
            yield f"Job {key}", f"has the Workloads {' and '.join(unfinished)}"


def leaking(world: World) -> Iterator[tuple[str, str]]:
    """Workloads that hold quota for a Job that has ended or is gone."""
    for key, workload in world.workloads.items():
        if not controller_uid(workload, "Job") or not reserving(workload):
            continue
        job = world.job_of(workload)
        if job is None:
            yield f"Workload {key}", "holds quota for a Job that is gone"
        elif finished(job):
            yield f"Workload {key}", f"holds quota for Job {job.name}, which has ended"


def cared_for(job: Job) -> bool:
    """Whether the Job must have a Workload made for it: queued, on its own, unfinished and not about to go."""
    metadata = job.metadata
    return (
        queued(job)
        and not finished(job)
        and metadata.deletion_timestamp is None
        and not any(owner.controller for owner in metadata.owner_references)
        and Label.PREBUILT_WORKLOAD not in metadata.labels
        and Annotation.PREBUILT_WORKLOAD not in metadata.annotations
    )
