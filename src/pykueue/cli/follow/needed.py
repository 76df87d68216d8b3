"""The Jobs that a Job waits for: whether they exist, and what to say while it waits."""

from collections.abc import Mapping

from pykueue.api.core import Tree
from pykueue.api.trees import mapping
from pykueue.base.units import Instant
from pykueue.cli.jobend import end_of
from pykueue.jobs.dependencies import Needs, Other, State, needs_of, phrase
from pykueue.kube.port import JOBS, Kube, NotFoundError


async def unknown(kube: Kube, needs: Needs, namespace: str) -> str:
    """An error about a Job that should be waited for and does not exist; empty if all exist."""
    for flag, names in (("--after", needs.after), ("--after-ok", needs.after_ok)):
        for name in names:
            try:
                await kube.get(JOBS, name, namespace)
            except NotFoundError:
                return f"{flag}: no Job {name!r} in namespace {namespace}; specify a Job that was submitted before"
    return ""


def annotations_of(job: Tree | None) -> dict[str, str]:
    """The annotations of a Job."""
    return {key: text for key, text in mapping(job, "metadata", "annotations").items() if isinstance(text, str)}


def why_held(name: str, jobs: Mapping[str, Tree], now: Instant) -> str:
    """Why our gate holds a Job, given those of its namespace that are known; empty if it does not."""
    return phrase(name, annotations_of(jobs.get(name)), {key: other(job) for key, job in jobs.items()}, now)


def other(job: Tree) -> Other:
    """A Job as those see it that wait for it."""
    ended = end_of(job)
    state = State.UNFINISHED if ended is None else State.FAILED if ended else State.SUCCEEDED
    return Other(state, needs_of(annotations_of(job)))
