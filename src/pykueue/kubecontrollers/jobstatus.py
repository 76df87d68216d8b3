"""The status of a Job: its conditions, its counters, and the patch between two of them."""

from collections.abc import Sequence
from typing import Final

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant, format_instant
from pykueue.kubecontrollers.indexes import Intervals, overlap, read_indexes, total
from pykueue.kubecontrollers.jobviews import Condition, JobStatus, Pod, SuccessPolicy, Uncounted

FAILURE_TARGET: Final = "FailureTarget"
SUCCESS_CRITERIA_MET: Final = "SuccessCriteriaMet"
NOTHING: Final = Uncounted()


class Verdict(Frozen):
    """How a Job ends, and why."""

    failed: bool
    reason: str
    message: str

    @property
    def interim(self) -> str:
        """The condition while pods of it are left."""
        return FAILURE_TARGET if self.failed else SUCCESS_CRITERIA_MET

    @property
    def final(self) -> str:
        """The condition when none is left."""
        return "Failed" if self.failed else "Complete"


COMPLETIONS_REACHED: Final = Verdict(False, "CompletionsReached", "Reached expected number of succeeded pods")
BACKOFF_LIMIT: Final = Verdict(True, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
DEADLINE: Final = Verdict(True, "DeadlineExceeded", "Job was active longer than specified deadline")
TOO_MANY_FAILED_INDEXES: Final = Verdict(
    True, "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
)
FAILED_INDEXES: Final = Verdict(True, "FailedIndexes", "Job has failed indexes")


def standing(status: JobStatus) -> Verdict | None:
    """The verdict that was reached earlier."""
    for kind in (SUCCESS_CRITERIA_MET, FAILURE_TARGET):
        found = status.holds(kind)
        if found is not None:
            return Verdict(kind == FAILURE_TARGET, found.reason, found.message)
    return None


def successful(policy: SuccessPolicy | None, completions: int, done: Intervals) -> Verdict | None:
    """The verdict of a success policy on the succeeded indexes."""
    for position, rule in enumerate(policy.rules if policy is not None and done else ()):
        if rule.succeeded_indexes is not None:
            wanted = read_indexes(rule.succeeded_indexes, completions)
            common = overlap(wanted, done)
            enough = common == total(wanted) or (rule.succeeded_count is not None and common >= rule.succeeded_count)
            met = bool(wanted) and enough
        else:
            met = rule.succeeded_count is not None and total(done) >= rule.succeeded_count
        if met:
            return Verdict(False, "SuccessPolicy", f"Matched rules at index {position}")
    return None


def condition(kind: str, status: str, reason: str, message: str, now: Instant) -> Condition:
    """A condition that begins now."""
    moment = format_instant(now)
    return Condition(kind, status, moment, moment, reason, message)


def with_condition(conditions: tuple[Condition, ...], wanted: Condition) -> tuple[Condition, ...]:
    """The conditions with this one; unchanged if it adds nothing, such as one that is false and was never true."""
    for position, known in enumerate(conditions):
        if known.type == wanted.type:
            if (known.status, known.reason, known.message) == (wanted.status, wanted.reason, wanted.message):
                return conditions
            return (*conditions[:position], wanted, *conditions[position + 1 :])
    return conditions if wanted.status == "False" else (*conditions, wanted)


def concluded(
    conditions: tuple[Condition, ...], verdict: Verdict, now: Instant, *, over: bool
) -> tuple[Condition, ...]:
    """The conditions with a verdict, and with the final condition if no pod is left."""
    kinds = (verdict.interim, verdict.final) if over else (verdict.interim,)
    known = {one.type for one in conditions if one.status == "True"}
    for kind in kinds:
        if kind not in known:
            conditions = with_condition(conditions, condition(kind, "True", verdict.reason, verdict.message, now))
    return conditions


def still_tracked(uncounted: Uncounted, pods: Sequence[Pod]) -> Uncounted:
    """The uncounted pods that still have our finalizer, and so may not be counted yet."""
    if not uncounted.succeeded and not uncounted.failed:
        return uncounted
    tracked = {pod.uid for pod in pods if pod.tracked}
    return Uncounted(
        tuple(uid for uid in uncounted.succeeded if uid in tracked),
        tuple(uid for uid in uncounted.failed if uid in tracked),
    )


def status_patch(old: JobStatus, new: JobStatus) -> Tree:
    """The merge patch that turns one status into another."""
    return difference(msgspec.to_builtins(old), msgspec.to_builtins(new))


def difference(old: Tree, new: Tree) -> Tree:
    """The merge patch that turns one tree into another; lists are replaced whole."""
    patch: Tree = {key: None for key in old if key not in new}
    for key, value in new.items():
        known = old.get(key)
        if isinstance(value, dict) and isinstance(known, dict):
            inner: Json = difference(known, value)
            if inner:
                patch[key] = inner
        elif key not in old or known != value:
            patch[key] = value
    return patch
