"""What metrics read from the conditions of Workloads."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from pykueue.api.core import Condition
from pykueue.api.names import WorkloadCondition
from pykueue.api.workload import Workload
from pykueue.base.units import MICROS, Instant, parse_instant

Conditions: TypeAlias = Mapping[str, Condition]
"""By type."""

RESERVED: Final = WorkloadCondition.QUOTA_RESERVED.value
ADMITTED: Final = WorkloadCondition.ADMITTED.value
READY: Final = WorkloadCondition.PODS_READY.value
EVICTED: Final = WorkloadCondition.EVICTED.value
PREEMPTED: Final = WorkloadCondition.PREEMPTED.value
FINISHED: Final = WorkloadCondition.FINISHED.value


def held(seen: Workload | None) -> Conditions:
    """The conditions of a Workload that are true."""
    if seen is None:
        return {}
    return {condition.type: condition for condition in seen.status.conditions if condition.status == "True"}


def is_no_news(old: Workload, new: Workload) -> bool:
    """Whether nothing that is counted has changed."""
    return (
        old.status.conditions == new.status.conditions
        and old.metadata.uid == new.metadata.uid
        and old.spec.queue_name == new.spec.queue_name
        and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        and old.status.scheduling_stats == new.status.scheduling_stats
    )


def since(condition: Condition) -> Instant:
    """The time of a condition's last transition."""
    text = condition.last_transition_time
    return Instant(0) if text is None else parse_instant(text)


def between(start: Instant, end: Instant) -> float:
    """The time between, in seconds."""
    return max(0, end - start) / MICROS
