"""Validation of a Job's status: counts, times and conditions that contradict each other or the previous status."""

from collections.abc import Iterator, Mapping

from pykueue.api.core import Tree
from pykueue.api.fields import IMMUTABLE, NEGATIVE, FieldError, duplicate, invalid, required
from pykueue.api.trees import items, mapping, mappings, member, text, whole
from pykueue.apiserver.kinds.validation import ErrorWithoutValue
from pykueue.apiserver.kinds.validation_jobs import INDEXED, counted

COUNTS = ("active", "succeeded", "failed", "ready", "terminating")


def has(status: Mapping[str, object], kind: str) -> bool:
    """Whether a condition is true."""
    return any(text(one, "type") == kind and text(one, "status") == "True" for _, one in mappings(status, "conditions"))


def says(message: str) -> FieldError:
    """An error in the conditions."""
    return ErrorWithoutValue("status.conditions", "Invalid", None, message)


def job_status_errors(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Errors in the status of a Job; unchanged parts are not validated again."""
    status, before = mapping(new, "status"), mapping(old, "status")
    for name in COUNTS:
        count = whole(status, name)
        if count is not None and count < 0:
            yield invalid(f"status.{name}", count, NEGATIVE)
    yield from uncounted_errors(status)
    yield from finished_errors(status, before, mapping(new, "spec"))
    yield from index_errors(status, before, mapping(new, "spec"))
    ready, active = whole(status, "ready"), whole(status, "active") or 0
    moved = any(status.get(name) != before.get(name) for name in ("ready", "active"))
    if moved and ready is not None and ready > active:
        yield invalid("status.ready", ready, "cannot set more ready pods than active")
    if has(status, "SuccessCriteriaMet") and has(status, "Failed"):
        yield says("cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if has(status, "SuccessCriteriaMet") and has(status, "FailureTarget"):
        yield says("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    early = member(new, "spec", "successPolicy") is not None and not has(status, "SuccessCriteriaMet")
    if early and has(status, "Complete"):
        yield says("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
    yield from condition_change_errors(new, old)


def uncounted_errors(status: Mapping[str, object]) -> Iterator[FieldError]:
    """Errors in the pods that have ended and are not counted yet."""
    seen: set[object] = set()
    for field in ("succeeded", "failed"):
        for index, uid in enumerate(items(status, "uncountedTerminatedPods", field)):
            path = f"status.uncountedTerminatedPods.{field}[{index}]"
            if uid == "":
                yield invalid(path, uid, "must not be empty")
            elif uid in seen:
                yield duplicate(path, uid)
            seen.add(uid)


def finished_errors(
    status: Mapping[str, object], before: Mapping[str, object], spec: Mapping[str, object]
) -> Iterator[FieldError]:
    """Errors for fields that contradict the Job's end."""
    complete, failed = has(status, "Complete"), has(status, "Failed")
    completed, flopped = complete != has(before, "Complete"), failed != has(before, "Failed")
    met = has(status, "SuccessCriteriaMet") != has(before, "SuccessCriteriaMet")
    finished = complete or failed
    ended = finished != (has(before, "Complete") or has(before, "Failed"))

    def new(*names: str) -> bool:
        return any(status.get(name) != before.get(name) for name in names)

    time, start = member(status, "completionTime"), member(status, "startTime")
    if (completed or flopped) and complete and failed:
        yield says("cannot set Complete=True and Failed=true conditions")
    targeted = has(status, "FailureTarget") != has(before, "FailureTarget")
    if (completed or targeted) and complete and has(status, "FailureTarget"):
        yield says("cannot set Complete=True and FailureTarget=true conditions")
    if (completed or new("completionTime")) and time is not None and not complete:
        detail = "cannot set completionTime when there is no Complete=True condition"
        yield invalid("status.completionTime", time, detail)
    if (completed or new("completionTime")) and time is None and complete:
        yield required("status.completionTime", "completionTime is required for Complete jobs")
    if new("startTime", "completionTime") and start is not None and time is not None and str(time) < str(start):
        yield invalid("status.completionTime", time, "must be equal to or after `startTime`")
    if (flopped or new("failedIndexes")) and failed and not has(status, "FailureTarget"):
        yield says("cannot set Failed=True condition without the FailureTarget=true condition")
    if (completed or met) and complete and not has(status, "SuccessCriteriaMet"):
        yield says("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
    if not finished:
        return
    active, left = whole(status, "active") or 0, mapping(status, "uncountedTerminatedPods")
    if (ended or new("active")) and active > 0:
        yield invalid("status.active", active, "active>0 is invalid for finished job")
    idle = spec.get("suspend") is True and spec.get("completions") == 0
    if (ended or new("startTime")) and not idle and start is None:
        yield required("status.startTime", "startTime is required for finished job")
    if (ended or new("uncountedTerminatedPods")) and (items(left, "failed") or items(left, "succeeded")):
        yield invalid("status.uncountedTerminatedPods", left, "must be empty for finished job")
    terminating = whole(status, "terminating") or 0
    if (ended or new("terminating")) and terminating > 0:
        yield invalid("status.terminating", terminating, "terminating>0 is invalid for finished job")


def index_errors(
    status: Mapping[str, object], before: Mapping[str, object], spec: Mapping[str, object]
) -> Iterator[FieldError]:
    """Errors in the succeeded and failed indexes."""
    completions, done = whole(spec, "completions"), text(status, "completedIndexes")
    lost = member(status, "failedIndexes")
    if status.get("completedIndexes") != before.get("completedIndexes"):
        if completions is not None:
            yield from listed_errors("completedIndexes", done, completions)
        if done and text(spec, "completionMode") != INDEXED:
            detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
            yield invalid("status.completedIndexes", done, detail)
    if lost is None or lost == before.get("failedIndexes"):
        return
    limited = whole(spec, "backoffLimitPerIndex") is not None
    if completions is not None and limited:
        yield from listed_errors("failedIndexes", str(lost), completions)
    if not limited:
        yield invalid(
            "status.failedIndexes", lost, "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        )


def listed_errors(name: str, indexes: str, completions: int) -> Iterator[FieldError]:
    """Errors in a list of indexes."""
    try:
        counted(indexes, completions)
    except ValueError as error:
        yield invalid(f"status.{name}", indexes, f"error parsing {name}: {error}")


def condition_change_errors(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Errors for conditions of a Job that were true and may not become false."""
    status, before, spec = mapping(new, "status"), mapping(old, "status"), mapping(new, "spec")
    for kind in ("Failed", "Complete", "FailureTarget"):
        if has(before, kind) and not has(status, kind):
            yield says(f"cannot disable the terminal {kind}=True condition")
    shrinks = text(spec, "completionMode") == INDEXED and spec.get("completions") == spec.get("parallelism")
    for name in ("failed", "succeeded"):
        count = whole(status, name) or 0
        if count < (whole(before, name) or 0) and not (name == "succeeded" and shrinks):
            yield invalid(f"status.{name}", count, f"cannot decrease the {name} counter")
    time, start = member(status, "completionTime"), member(status, "startTime")
    if time is not None and before.get("completionTime") not in (None, time):
        yield invalid("status.completionTime", time, IMMUTABLE)
    resumes = has(before, "Suspended") and any(
        text(one, "type") == "Suspended" and text(one, "status") == "False" for _, one in mappings(status, "conditions")
    )
    if before.get("startTime") not in (None, start) and not resumes and spec.get("suspend") is not True:
        yield invalid("status.startTime", start, "field is immutable for unsuspended job once set")
    if has(before, "SuccessCriteriaMet") and not has(status, "SuccessCriteriaMet"):
        yield says("cannot disable the SuccessCriteriaMet=True condition")
    if has(before, "Complete") and not has(before, "SuccessCriteriaMet") and has(status, "SuccessCriteriaMet"):
        yield says("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
