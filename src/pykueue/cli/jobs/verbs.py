"""Cancel, hold, release and requeue jobs, and say what came of it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from pykueue.api.core import Tree
from pykueue.api.names import Annotation, Label, WorkloadCondition
from pykueue.api.trees import member, text
from pykueue.base.clock import Clock, SystemClock
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, micro_time
from pykueue.bridge.sentences import condition
from pykueue.cli.jobs.chosen import (
    CONFLICT,
    ERROR,
    Chosen,
    Missing,
    Named,
    Say,
    all_jobs,
    chosen_jobs,
    found,
    printed,
    report,
)
from pykueue.cli.jobs.source import who_am_i
from pykueue.cli.objects import each
from pykueue.cli.serverstate import UNAUTHORIZED
from pykueue.engine.decisions import EvictionReason
from pykueue.jobs.activation import HOLD, YES
from pykueue.kube.port import (
    JOBS,
    WORKLOADS,
    DeniedError,
    Kube,
    KubeError,
    NotFoundError,
    Patch,
)

MANAGER: Final = "pykueue-cli"
PATIENCE: Final = 10 * MICROS
"""How long to wait until the job controller has reacted to an annotation."""
PAUSE: Final = MICROS // 10
UIDS_MAX: Final = 20
"""The Workloads of more jobs than this are listed all together."""

Workload: TypeAlias = Mapping[str, object]


class Answer(Frozen):
    """What to tell about a job after its name, and the exit code."""

    text: str
    code: int = 0


class Verb(Frozen):
    """An annotation that the job controller reacts to."""

    name: str
    annotation: Annotation
    marks: Callable[[str], str | None]
    """The value of the annotation, given the present time; None removes it."""
    before: Callable[[Chosen, Workload], Answer | None]
    """The answer where nothing is to be done."""
    after: Callable[[Chosen, Workload, str | None], Answer | None]
    """The answer once the Workload shows the effect of the value that was set; None before that."""


def deactivated(workload: Workload) -> Answer:
    """The answer about a job that its owner does not hold and whose Workload is inactive."""
    evicted = condition(workload, WorkloadCondition.EVICTED)
    # Kueue's reasons for a deactivation of its own have a cause after this word.
    cause = text(evicted, "message") if text(evicted, "reason") not in ("", EvictionReason.DEACTIVATED) else ""
    return Answer(
        f"is deactivated: {cause or 'spec.active of its Workload is false'}; if you may change Workloads, queue "
        f"it again with `pykueue resume workload {text(workload, 'metadata', 'name')}`",
        ERROR,
    )


def before_hold(job: Chosen, workload: Workload) -> Answer | None:
    """A job that is already held."""
    return Answer("is already held") if has_hold(job) and deactivated_by(workload) == HOLD else None


def after_hold(job: Chosen, workload: Workload, _value: str | None) -> Answer | None:
    """The Workload is inactive."""
    if is_active(workload):
        return None
    if not deactivated_by(workload):
        return Answer("is held; it was deactivated before, so a release will not start it")
    return Answer("held; it was running and is being stopped" if job.running else "held")


def before_release(job: Chosen, workload: Workload) -> Answer | None:
    """A job that is not held."""
    if has_hold(job):
        return None
    return deactivated(workload) if is_deactivated(workload) else Answer("is not held")


def after_release(_job: Chosen, workload: Workload, _value: str | None) -> Answer | None:
    """The Workload is active, or will be when its quota is released."""
    if is_active(workload):
        return Answer("released")
    if is_deactivated(workload):
        return deactivated(workload)
    return Answer("released; it is queued again when its processes have stopped") if is_reserved(workload) else None


def before_requeue(job: Chosen, workload: Workload) -> Answer | None:
    """A job that is held, deactivated, or does not run."""
    if has_hold(job):
        return Answer(f"is held; use `pykueue release {job.name}`", ERROR)
    if is_deactivated(workload):
        return deactivated(workload)
    evicted = text(condition(workload, WorkloadCondition.EVICTED), "status") == "True"
    if workload and (evicted or not is_reserved(workload)):
        return Answer("is already being stopped and queued again" if is_reserved(workload) else "is already pending")
    return None


def after_requeue(_job: Chosen, workload: Workload, value: str | None) -> Answer | None:
    """The Workload records the value."""
    done = text(workload, "metadata", "annotations", Annotation.REQUEUED) == value
    return Answer("requeued") if done else None


VERBS: Final[Mapping[str, Verb]] = {
    one.name: one
    for one in (
        Verb("hold", Annotation.HOLD, lambda _now: YES, before_hold, after_hold),
        Verb("release", Annotation.HOLD, lambda _now: None, before_release, after_release),
        Verb("requeue", Annotation.REQUEUE, lambda now: now, before_requeue, after_requeue),
    )
}


def has_hold(job: Chosen) -> bool:
    """Whether a Job has the annotation that holds it."""
    return text(job.tree, "metadata", "annotations", Annotation.HOLD) == YES


def is_active(workload: Workload) -> bool:
    """Whether a Workload is active; it is by default."""
    return member(workload, "spec", "active") is not False


def deactivated_by(workload: Workload) -> str:
    """Why the job controller has deactivated a Workload; empty if it has not."""
    return text(workload, "metadata", "annotations", Annotation.DEACTIVATED_BY)


def is_deactivated(workload: Workload) -> bool:
    """Whether a Workload is inactive, and not because its owner holds or requeues it."""
    return not is_active(workload) and not deactivated_by(workload)


def is_reserved(workload: Workload) -> bool:
    """Whether a Workload holds quota."""
    return text(condition(workload, WorkloadCondition.QUOTA_RESERVED), "status") == "True"


async def done_to_jobs(
    kube: Kube,
    verb: Verb,
    namespace: str,
    names: Sequence[Named],
    selector: str | None,
    clock: Clock | None = None,
    say: Say = printed,
) -> int:
    """Carry out a verb on the chosen jobs; return the exit code."""
    clock = clock or SystemClock()
    jobs, code = await some_jobs(kube, namespace, names, selector, say)
    workloads = await workloads_of(kube, namespace, jobs)
    value = verb.marks(micro_time(clock.now()))
    waiting: list[Chosen] = []
    for job in pending_first(jobs):
        done = Answer("has already ended", ERROR) if job.ended else verb.before(job, (workloads or {}).get(job.uid, {}))
        if done is not None:
            code = told(job, done, code, say)
            continue
        body = {"metadata": {"uid": job.uid, "annotations": {verb.annotation.value: value}}}
        try:
            await kube.patch(JOBS, job.name, msgspec.json.encode(body), namespace, how=Patch.MERGE, manager=MANAGER)
            waiting.append(job)
        except KubeError as error:
            code = report(error, job.title, say)
    until = clock.moment() + PATIENCE
    while waiting:
        workloads = await workloads_of(kube, namespace, waiting)
        overdue = clock.moment() > until
        still: list[Chosen] = []
        for job in waiting:
            answer = effect(verb, job, workloads, value, overdue=overdue)
            if answer is None:
                still.append(job)
            else:
                code = told(job, answer, code, say)
        waiting = still
        if waiting:
            await clock.sleep(PAUSE)
    return code


def effect(
    verb: Verb, job: Chosen, workloads: Mapping[str, Tree] | None, value: str | None, *, overdue: bool
) -> Answer | None:
    """The effect of an annotation on a job; None if it shows none yet."""
    if workloads is None:
        return Answer(f"{verb.name}: sent; you may not read Workloads, so the effect is unknown")
    workload = workloads.get(job.uid)
    shown = None if workload is None else verb.after(job, workload, value)
    return late(verb, workload) if shown is None and overdue else shown


def told(job: Chosen, answer: Answer, code: int, say: Say) -> int:
    """Say an answer; return the exit code, given that of the jobs before."""
    say(f"{job.title} {answer.text}", CONFLICT if answer.code else 0)
    return max(code, answer.code)


def late(verb: Verb, workload: Workload | None) -> Answer:
    """What to tell about a job whose annotation has had no effect."""
    seconds = PATIENCE // MICROS
    if workload is None:
        return Answer(f"has no Workload after {seconds} s: it is not queued, so there is nothing to {verb.name}", ERROR)
    return Answer(
        f"has not changed after {seconds} s: no job controller of pykueue is running, and Kueue ignores the "
        f"annotation {verb.annotation}, which stays on the Job",
        ERROR,
    )


async def some_jobs(
    kube: Kube, namespace: str, names: Sequence[Named], selector: str | None, say: Say = printed
) -> tuple[list[Chosen], int]:
    """The chosen jobs that exist, and the exit code so far; those that do not are reported."""
    jobs: list[Chosen] = []
    code = 0
    try:
        if not names:
            return await chosen_jobs(kube, namespace, (), selector), 0
        for one in dict.fromkeys(names):
            try:
                jobs.append(await found(kube, namespace, one))
            except Missing as error:
                code = report(error, say=say)
    except Missing as error:
        code = report(error, say=say)
    return jobs, code


def pending_first(jobs: Sequence[Chosen]) -> list[Chosen]:
    """Pending jobs before running ones: otherwise those that are about to be stopped would get the quota of others."""
    return sorted(jobs, key=lambda job: job.running)


async def workloads_of(kube: Kube, namespace: str, jobs: Sequence[Chosen]) -> dict[str, Tree] | None:
    """The Workload of each job that has one, by the uid of the job; None if this user may not read Workloads."""
    uids = ", ".join(one.uid for one in jobs)
    labels = f"{Label.JOB_UID} in ({uids})" if 0 < len(jobs) <= UIDS_MAX else Label.JOB_UID.value
    by_job: dict[str, Tree] = {}
    try:
        async for one in each(kube, WORKLOADS, namespace, labels=labels):
            by_job[text(one, "metadata", "labels", Label.JOB_UID)] = one
    except DeniedError as error:
        if error.code == UNAUTHORIZED:
            raise
        return None
    return by_job


# Cancel.


async def cancelled(
    kube: Kube,
    namespace: str,
    names: Sequence[Named],
    selector: str | None,
    *,
    ended: bool = False,
    say: Say = printed,
) -> int:
    """Delete the chosen jobs that have not ended, or all of this user's; return the exit code.

    With `ended`, delete those that have ended, too.
    """
    code = 0
    if names or selector:
        jobs, code = await some_jobs(kube, namespace, names, selector, say)
    else:
        me = await own_name(kube)
        jobs = [one for one in map(Chosen, await all_jobs(kube, namespace)) if creator(one) in ("", me)]
    if not names and not ended:
        jobs = [one for one in jobs if not one.ended]
        if not jobs and not code:
            say(f"nothing to cancel: no such jobs are pending or running in namespace {namespace}", 0)
    for job in pending_first(jobs):
        if job.ended and not ended:
            say(f"{job.title} has already ended", 0)
            continue
        if text(job.tree, "metadata", "deletionTimestamp"):
            say(f"{job.title} was already cancelled; its processes have not ended yet", 0)
            continue
        try:
            # The Job stays, as STOPPING, until its processes have ended.
            await kube.delete(JOBS, job.name, namespace, uid=job.uid, propagation="Foreground")
            say(f"{job.title} deleted, with its output" if job.ended else f"{job.title} cancelled", 0)
        except NotFoundError:
            say(f"{job.title} was already deleted", 0)
        except KubeError as error:
            code = report(error, job.title, say)
    return code


def creator(job: Chosen) -> str:
    """Who created a Job, as far as the server records it."""
    return text(job.tree, "metadata", "annotations", Annotation.CREATOR)


async def own_name(kube: Kube) -> str:
    """The name that the server knows this user by; empty if it does not say."""
    try:
        return await who_am_i(kube)
    except KubeError as error:
        if error.code == UNAUTHORIZED:
            raise
        return ""
