"""The gate of a job that waits for other jobs or for a time: remove it, or say what the job waits for."""

from collections.abc import Mapping
from typing import Final

from pykueue.api.core import Tree
from pykueue.api.names import DEPENDENCIES_GATE, Annotation
from pykueue.base.units import MICROS, Instant
from pykueue.jobs.actions import NOTHING, Actions, LookAgain, Notice, PatchJob, SendEvent
from pykueue.jobs.dependencies import Never, Others, Release, gates_of, needs_of, said, verdict

LOOK_MAX_SECONDS: Final = 86_400.0
"""The longest timer; an earlier look changes nothing."""
MET: Final = Notice("DependenciesMet", "The job waits for nothing more; it is queued")


def next_actions(name: str, annotations: Mapping[str, str], others: Others, now: Instant) -> Actions:
    """What to do for a job that our gate may hold: remove the gate, record what is met, or say what it waits for."""
    needs = needs_of(annotations)
    if needs is None:
        return NOTHING
    found = verdict(name, needs, others, now)
    if isinstance(found, Release):
        gates = [one for one in gates_of(annotations) if one != DEPENDENCIES_GATE]
        return (patched({Annotation.ADMISSION_GATED_BY.value: ",".join(gates) or None}, MET),)
    if found.left.jobs != needs.jobs:
        # Recorded, because a job that has succeeded may be deleted before the others end.
        lists = {Annotation.AFTER.value: found.left.after, Annotation.AFTER_OK.value: found.left.after_ok}
        return (patched({key: ",".join(names) or None for key, names in lists.items()}),)
    never = isinstance(found, Never)
    reason = "DependencyNeverMet" if never else "WaitingForDependencies"
    told = SendEvent(Notice(reason, f"The job {said(found, now)}", warning=never, by_note=True))
    if needs.begin is None or needs.begin <= now:
        return (told,)
    return (told, LookAgain(min((needs.begin - now) / MICROS, LOOK_MAX_SECONDS)))


def patched(annotations: Tree, notice: Notice | None = None) -> PatchJob:
    """A patch of a job's annotations."""
    return PatchJob({"metadata": {"annotations": annotations}}, notice=notice)
