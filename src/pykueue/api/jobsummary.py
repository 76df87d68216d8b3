"""Wire types of `pykueue.io/v1alpha1`, the read-only API of the embedded server: jobs as people list them.

Items are flat, with stable codes, so that scripts read them without knowing Jobs, Workloads and pods.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from pykueue.base.struct import Wire

OWN_GROUP: Final = "pykueue.io"
OWN_VERSION: Final = "v1alpha1"
SUMMARIES: Final = "jobsummaries"
FINISHED_JOBS: Final = "finishedjobs"
TEXT_MAX: Final = 1_024
"""The most characters of a text that users can choose."""
REQUESTS_MAX: Final = 16
"""The most resources that are listed of a job."""
UNQUEUED: Final = "not queued yet"
"""The reason of a job without a Workload."""
UNNAMED: Final = "preempted for another workload of "
"""How the reason of a job begins that was preempted, where the preemptor is not looked up."""

RETRIED: Final = "failed; the next one starts "
"""A part of the reason of a job that waits between two attempts."""


class JobState(StrEnum):
    """The state of a job."""

    PENDING = "PENDING"
    HELD = "HELD"
    """It stays in line only once its owner releases it."""
    RUNNING = "RUNNING"
    FAILING = "FAILING"
    """It holds quota, and its containers cannot start."""
    STOPPING = "STOPPING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    """It was deleted before it had ended."""


class JobSummary(Wire):
    """A job that runs or waits."""

    namespace: str
    name: str
    state: JobState
    owner: str = ""
    """Who created it; empty where the server does not record that."""
    queue: str = ""
    """Its LocalQueue."""
    requests: Mapping[str, str] = {}
    """What it asks for, or holds, by resource; for all its pods."""
    gpus: tuple[int, ...] = ()
    """The numbers of its GPUs on one machine."""
    submitted: str = ""
    since: str = ""
    """Since when it has run, or waited."""
    limit_seconds: int | None = None
    """How long it may run, if that is declared."""
    deadline: str = ""
    """When it is stopped at the latest; empty if it does not run or has no limit."""
    progress: str = ""
    """Completed and all tasks of an Indexed Job: `37/100`."""
    place: int | None = None
    """Its place in line in its ClusterQueue, from 1; None if it does not wait, or the server does not say."""
    reason: str = ""
    """Why it waits, fails or stops, in a short phrase."""
    message: str = ""
    """The same in full."""
    evicted: str = ""
    """Why its last run was stopped at `since`, in a short phrase, while it waits to run again."""
    requests_left_out: int = 0
    """How many more resources it asks for than `requests` has."""


class FinishedJob(Wire, omit_defaults=False):
    """A job that has ended; its record outlives the Job."""

    namespace: str
    name: str
    uid: str
    state: JobState
    owner: str = ""
    queue: str = ""
    requests: Mapping[str, str] = {}
    submitted: str = ""
    started: str = ""
    """When its last run began; empty if it never ran."""
    ended: str = ""
    exit_code: int | None = None
    """Of the last container that failed, or 0; None if nothing ended by itself."""
    waited_seconds: int = 0
    ran_seconds: int = 0
    """How long its last run took."""
    preempted: int = 0
    """How often it was preempted."""
    lost_seconds: int = 0
    """How long those runs took that were evicted, and those pods that failed by a disruption."""
    progress: str = ""
    reason: str = ""
    message: str = ""
    requests_left_out: int = 0
    """How many more resources it asked for than `requests` has."""
    cluster_queue: str = ""
    """The ClusterQueue that admitted it last; empty if none did, or its Workload is not known."""
    flavors: Mapping[str, str] = {}
    """The flavor of each resource that it held last, as far as `requests` lists them."""


class SummaryList(Wire):
    """Jobs that run or wait."""

    items: tuple[JobSummary, ...] = ()


class ListMeta(Wire, rename={"continue_": "continue"}):
    """Where the next page of a list begins."""

    continue_: str = ""


class FinishedList(Wire):
    """A page of finished jobs, the newest first."""

    metadata: ListMeta = ListMeta()
    items: tuple[FinishedJob, ...] = ()
