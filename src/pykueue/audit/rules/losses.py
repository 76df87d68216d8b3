"""Rules on lost objects: Jobs without their one Workload, Workloads that vanish, quota that is never used."""

from collections.abc import Iterator
from typing import Final

from pykueue.api.names import Annotation, Finalizer, Label
from pykueue.api.workload import Workload
from pykueue.audit.rules.overdue import Overdue, Violation
from pykueue.audit.rules.starts import queued
from pykueue.audit.times import MICROS, Instant, parse_instant
from pykueue.audit.uptime import Uptime
from pykueue.audit.views import Job, controller_uid, finished, holds, reserving
from pykueue.audit.world import Change, Finding, Settings, World, edited

RULE: Final = "lost"
NEVER: Final = "9999-12-31T00:00:00Z"


class Losses:
    """The rule that every unfinished queued Job has exactly one Workload, and that a finished Job holds no quota."""

    def __init__(self, settings: Settings, uptime: Uptime) -> None:
        self.settings = settings
        self.lag_micros = settings.lag_seconds * MICROS
        self.overdue = Overdue(uptime, settings.lost_seconds)
        self.changed: dict[str, Instant] = {}
        """When each Job, by UID, was last changed by someone other than the manager."""

    def seen(self, change: Change, world: World) -> Iterator[Finding]:
        """Violations by this change."""
        both = change.of(Job)
        if both is not None:
            self.note(change.at, *both)
        old, new = change.of(Workload) or (None, None)
        job = world.job_of(old) if old is not None else None
        if old is None or new is not None or job is None or change.listed or not self.settings.alone:
            return
        over = holds(old, "Finished") or any(not holds(other, "Finished") for other in world.workloads_of(job))
        if needs_workload(job) and not over and not self.is_outdated(change.at, old, job):
            yield change.found(
                RULE, f"Workload {change.key}", f"was deleted, but Job {job.name} still exists unchanged"
            )

    def note(self, at: Instant, old: Job | None, new: Job | None) -> None:
        """Record a change of a Job, unless it starts or stops the Job, which the manager does."""
        if new is None:
            self.changed.pop((old.metadata.uid or "") if old is not None else "", None)
        elif old is not None and edited(old, new) and old.spec.suspend == new.spec.suspend:
            self.changed[new.metadata.uid or ""] = at

    def is_outdated(self, at: Instant, workload: Workload, job: Job) -> bool:
        """Whether the Job was created or changed a moment ago, or changed after the Workload was created."""
        changed = self.changed.get(job.metadata.uid or "")
        ours, theirs = (parse_instant(one.metadata.creation_timestamp or NEVER) for one in (workload, job))
        return at - theirs < self.lag_micros or (changed is not None and changed >= min(ours, at - self.lag_micros))

    def late(self, at: Instant, world: World) -> Iterator[Finding]:
        """What has been wrong for too long."""
        yield from self.overdue.look([*without_one_workload(world), *leaking(world)], at, world)


def without_one_workload(world: World) -> Iterator[Violation]:
    """Jobs that have no Workload, or several."""
    for key, job in world.jobs.items():
        if not needs_workload(job):
            continue
        mine = list(world.workloads_of(job))
        unfinished = sorted(workload.name for workload in mine if not holds(workload, "Finished"))
        if not mine:
            yield Violation(RULE, f"Job {key}", "has no Workload")
        elif len(unfinished) > 1:
            yield Violation(RULE, f"Job {key}", f"has the Workloads {' and '.join(unfinished)}")


def leaking(world: World) -> Iterator[Violation]:
    """Workloads that hold quota for a Job that has ended or is gone."""
    for key, workload in world.workloads.items():
        if not controller_uid(workload, "Job") or not reserving(workload) or left_to_collector(workload):
            continue
        job = world.job_of(workload)
        if job is None:
            yield Violation(RULE, f"Workload {key}", "holds quota for a Job that no longer exists")
        elif finished(job):
            yield Violation(RULE, f"Workload {key}", f"holds quota for Job {job.name}, which is finished")


def left_to_collector(workload: Workload) -> bool:
    """Whether a Workload is deleted and the manager has released it, so that only the garbage collector is left."""
    metadata = workload.metadata
    return metadata.deletion_timestamp is not None and Finalizer.RESOURCE_IN_USE not in metadata.finalizers


def needs_workload(job: Job) -> bool:
    """Whether the Job must have a Workload: queued, on its own, unfinished and not being deleted."""
    metadata = job.metadata
    return (
        queued(job)
        and not finished(job)
        and metadata.deletion_timestamp is None
        and not any(owner.controller for owner in metadata.owner_references)
        and Label.PREBUILT_WORKLOAD not in metadata.labels
        and Annotation.PREBUILT_WORKLOAD not in metadata.annotations
    )
