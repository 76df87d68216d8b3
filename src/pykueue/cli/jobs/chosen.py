"""The Jobs that a command is about: by name, by NAME:INDEX, or by label."""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Final, TypeAlias

import msgspec

from pykueue.api.core import Tree
from pykueue.api.names import Annotation
from pykueue.api.trees import member, text, whole
from pykueue.base.struct import Frozen
from pykueue.cli.arrays import Array, ArrayError, array_of
from pykueue.cli.jobend import end_of
from pykueue.cli.jobs.lostoutput import of_deleted
from pykueue.cli.messages import tell
from pykueue.cli.objects import everything
from pykueue.cli.serverstate import UNAUTHORIZED, fail
from pykueue.kube.port import JOBS, Kube, KubeError, NotFoundError, UnansweredError

Say: TypeAlias = Callable[[str, int], None]
"""Says what became of a Job; the number is the HTTP status of a refusal, and 0 otherwise."""

ERROR: Final = 1
NOT_FOUND: Final = 404
CONFLICT: Final = 409
INDEX_DIGITS_MAX: Final = 10


class Named(Frozen):
    """A Job, or one task of it, as the command line names it."""

    name: str
    index: int | None = None
    """The number of the task: as in --array, else the index."""


def names_of(words: Sequence[str], selector: str | None, index: int | None = None) -> tuple[Named, ...]:
    """The Jobs that are named; exits with code 2 if none is chosen, or if an index is malformed."""
    if not words and not selector:
        fail("specify a job, or select jobs by label with -l; `pykueue jobs` lists them")
    if words and selector:
        fail("--selector: cannot be combined with names; use one or the other")
    return tuple(named(one, index) for one in words)


def named(word: str, index: int | None = None) -> Named:
    """The Job of NAME or NAME:INDEX; a prefix such as job/ is ignored, as in kubectl."""
    name, colon, number = word.rpartition("/")[2].partition(":")
    if not name:
        fail(f"{word!r} is not the name of a job; use NAME or NAME:INDEX")
    if not colon:
        return Named(name, index)
    if not (number.isascii() and number.isdigit() and len(number) <= INDEX_DIGITS_MAX):
        fail(f"{word!r}: {number!r} is not the number of a task; use a whole number, e.g. {name}:1")
    if index is not None and index != int(number):
        fail(f"{word!r}: differs from --index {index}; use one of them")
    return Named(name, int(number))


class Chosen(Frozen):
    """A Job that exists."""

    tree: Tree
    index: int | None = None
    """The completion index."""

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return text(self.tree, "metadata", "namespace")

    @property
    def name(self) -> str:
        """Its name."""
        return text(self.tree, "metadata", "name")

    @property
    def uid(self) -> str:
        """Its uid."""
        return text(self.tree, "metadata", "uid")

    @property
    def named(self) -> Named:
        """Its name and index."""
        return Named(self.name, self.index)

    @property
    def title(self) -> str:
        """How messages name it."""
        return (
            f"job {self.namespace}/{self.name}{'' if self.index is None else f', {task_name(self.tree, self.index)}'}"
        )

    @property
    def ended(self) -> bool:
        """Whether the whole Job has ended."""
        return end_of(self.tree) is not None

    @property
    def running(self) -> bool:
        """Whether the Job may have pods."""
        return member(self.tree, "spec", "suspend") is not True


class Missing(Exception):
    """A Job, or an index of it, does not exist; the message says what does."""


async def chosen_jobs(
    kube: Kube, namespace: str, names: Sequence[Named], selector: str | None, index: int | None = None
) -> list[Chosen]:
    """The Jobs that are named or selected; `Missing` if one does not exist, or if none is selected.

    `index` is that of selected Jobs.
    """
    if names:
        return [await found(kube, namespace, one) for one in dict.fromkeys(names)]
    selected = [indexed(one, index) for one in await all_jobs(kube, namespace, labels=selector or "")]
    if not selected:
        raise Missing(f"no job in namespace {namespace} has the labels {selector}")
    return selected


async def found(kube: Kube, namespace: str, wanted: Named) -> Chosen:
    """A Job by its name; `Missing` if it does not exist."""
    try:
        tree: Tree = msgspec.json.decode(await kube.get(JOBS, wanted.name, namespace))
    except NotFoundError:
        if gone := await of_deleted(kube, namespace, wanted.name):
            raise Missing(f"no job {wanted.name!r} in namespace {namespace}: {gone}") from None
        known = [text(one, "metadata", "name") for one in await all_jobs(kube, namespace)]
        near = get_close_matches(wanted.name, known, n=1)
        advice = f"did you mean {near[0]}?" if near else "`pykueue jobs` lists them"
        raise Missing(f"no job {wanted.name!r} in namespace {namespace}; {advice}") from None
    return indexed(tree, wanted.index)


def indexed(tree: Tree, number: int | None) -> Chosen:
    """A Job, or one task of it; `Missing` if it has no task of this number."""
    job = Chosen(tree)
    if number is None:
        return job
    if text(tree, "spec", "completionMode") != "Indexed":
        raise Missing(f"{job.title} has one task: it is not an array; omit the number of the task")
    array = array_in(tree)
    if array is not None:
        index = array.index(number)
        if index is None:
            raise Missing(f"{job.title} has no task {number}; its tasks are {array}, as given with --array")
        return Chosen(tree, index)
    count = whole(tree, "spec", "completions") or 0
    if number >= count:
        raise Missing(f"{job.title} has no index {number}; use 0 to {count - 1}")
    return Chosen(tree, number)


def check_one_task(job: Chosen) -> None:
    """Raise `Missing` if a Job has several tasks and none of them is chosen."""
    count = whole(job.tree, "spec", "completions") or 0
    if job.index is None and text(job.tree, "spec", "completionMode") == "Indexed" and count > 1:
        array = array_in(job.tree)
        tasks, first = (f"0-{count - 1}", 0) if array is None else (str(array), array.task(0))
        raise Missing(
            f"{job.title} has {count} tasks ({tasks}), each with its own output; follow one with "
            f"`pykueue attach {job.name}:{first}`, print all with `pykueue logs {job.name}`, or wait for all with "
            f"`pykueue wait {job.name}`"
        )


def array_in(tree: Tree) -> Array | None:
    """The tasks of a Job of `pykueue run --array`; None for any other."""
    try:
        found = array_of(text(tree, "metadata", "annotations", Annotation.ARRAY))
    except ArrayError:
        return None
    return found if found.count == whole(tree, "spec", "completions") else None


def task_name(tree: Tree, index: int) -> str:
    """How messages name the task with an index: by its number in --array, else by the index."""
    array = array_in(tree)
    return f"index {index}" if array is None else f"task {array.task(index)}"


async def all_jobs(kube: Kube, namespace: str, *, labels: str = "") -> list[Tree]:
    """The Jobs of a namespace with these labels, the oldest first."""
    jobs = await everything(kube, JOBS, namespace, labels=labels)
    return sorted(jobs, key=lambda one: (text(one, "metadata", "creationTimestamp"), text(one, "metadata", "name")))


def printed(words: str, code: int = 0) -> None:
    """Print what became of a Job."""
    tell(words)


def report(error: KubeError | Missing, title: str = "", say: Say = printed) -> int:
    """Say why one Job could not be changed and return the exit code; raises what concerns the server as a whole."""
    if isinstance(error, Missing):
        say(str(error), NOT_FOUND)
    elif isinstance(error, UnansweredError) or error.code == UNAUTHORIZED:
        raise error
    else:
        say(f"{title}: {error.message or error.reason}", error.code)
    return ERROR
