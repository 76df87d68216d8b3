"""Build the Job that `pykueue run` submits."""

import json
import re
import shlex
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pykueue.api.core import Json, Tree
from pykueue.api.durations import DurationError
from pykueue.api.names import GPU, GPU_SHARE, RUN_CONTAINER, Annotation, Label
from pykueue.api.trees import text
from pykueue.base.units import MICROS, NANO, Instant, QuantityError, parse_quantity
from pykueue.cli.amounts import duration_of, memory_quantity
from pykueue.cli.serverstate import fail, here

if TYPE_CHECKING:
    # Imported where they are used, because `pykueue run --help` needs none of them.
    from pykueue.cli.arrays import Array
    from pykueue.jobs.dependencies import Needs

"""In thousandths."""
IMAGE: Final = "local"
"""Ignored unless the server uses a container runtime."""
NAME_MAX: Final = 40
"""Longest part of the command's name in the name of its Job."""
TAKEN_ALONG: Final = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "TZ",
        "VIRTUAL_ENV",
        "PYTHONPATH",
        "LD_LIBRARY_PATH",
        "CUDA_HOME",
    }
)
OF_THE_SHELL: Final = frozenset({"_", "OLDPWD", "PWD", "SHLVL", "TERM", "COLORTERM", "COLUMNS", "LINES"})
"""Variables that --env-all leaves out: they describe the present shell and its terminal."""
VARIABLE: Final = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
TAKEN_TO_TERMINALS: Final = frozenset({"TERM", "COLORTERM"})
TAKEN_ALONG_TOO: Final = ("LC_", "CONDA_")
"""Environment variables, and prefixes of their names, that are passed on to the command."""
OWN_OPTIONS: Final = {Label.QUEUE.value: "--queue", Label.PRIORITY_CLASS.value: "--priority"}
"""Labels that have an option."""
UNBUFFERED: Final = "PYTHONUNBUFFERED"
"""Set unless the user has set it: Python buffers output that does not go to a terminal."""
REQUEUED: Final[Tree] = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
"""The podFailurePolicy of a Job that runs again if its machine went down: such a failure does not count."""
RETRIES_MAX: Final = 2**31 - 1
LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
JOB_NAME: Final = re.compile(rf"{LABEL}(?:\.{LABEL})*")
JOB_NAME_MAX: Final = 63
"""Its pods have it in a label."""
TASK_ID: Final = "PYKUEUE_ARRAY_TASK_ID"
NAME_VARIABLE: Final = "PYKUEUE_JOB_NAME"
NAME_FIELD: Final = "metadata.labels['batch.kubernetes.io/job-name']"
INDEX_FIELD: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
UID_FIELD: Final = "metadata.labels['batch.kubernetes.io/controller-uid']"


def resources(cpu: str, memory: str | None, gpu: int, gpu_share: float | None = None) -> Tree:
    """The resources of the container."""
    asked: dict[str, str] = {"cpu": cpu} | ({"memory": memory} if memory else {})
    for flag, amount in asked.items():
        try:
            found = memory_quantity(amount) if flag == "memory" else parse_quantity(amount)
            if found.nanos < 0:
                fail(f"--{flag}: {amount!r} is negative; use 0 or more")
        except QuantityError as error:
            fail(f"--{flag}: {error}")
    requests: Tree = {**asked}
    limits: Tree = {name: amount for name, amount in requests.items() if name == "memory"}
    if gpu:
        requests[GPU] = limits[GPU] = str(gpu)
    if gpu_share is not None:
        requests[GPU_SHARE] = limits[GPU_SHARE] = str(round(gpu_share * 1000))
    return {"requests": requests, **({"limits": limits} if limits else {})}


def seconds(timeout: str | None) -> int | None:
    """The value of --timeout in seconds."""
    if timeout is None:
        return None
    try:
        found = duration_of(timeout)
    except DurationError as error:
        fail(f"--timeout: {error}")
    if found < MICROS:
        fail(f"--timeout: {timeout!r} is too short; use 1s or more")
    return found // MICROS


def environment(
    given: Sequence[str],
    here: Mapping[str, str],
    *,
    interactive: bool = False,
    whole: bool = False,
    cluster: bool = False,
) -> dict[str, str]:
    """The environment of the command: inherited variables, or all of them if `whole`, then those of --env.

    On a cluster, those that describe this machine are inherited only if `whole`: the image has its own.
    """
    taken = frozenset() if cluster else TAKEN_ALONG
    taken |= TAKEN_TO_TERMINALS if interactive else frozenset()
    prefixes = () if cluster else TAKEN_ALONG_TOO
    made = {
        name: value
        for name, value in here.items()
        if name in taken
        or name.startswith(prefixes)
        or (whole and name not in OF_THE_SHELL and VARIABLE.fullmatch(name))
    }
    made[UNBUFFERED] = here.get(UNBUFFERED, "1")
    for one in given:
        name, equals, value = one.partition("=")
        if not VARIABLE.fullmatch(name):
            fail(f"--env: {one!r} does not start with a valid variable name; use NAME=VALUE")
        if not equals and name not in here:
            fail(f"--env: {name} is not set in this environment; use {name}=VALUE")
        made[name] = value if equals else here[name]
    return made


def labels_of(given: Sequence[str]) -> dict[str, str]:
    """The labels of --label."""
    made: dict[str, str] = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not key or not equals:
            fail(f"--label: {one!r} is not a label; use KEY=VALUE, e.g. sweep=7")
        if (option := OWN_OPTIONS.get(key)) is not None:
            fail(f"--label: {key} is set by {option}; use that option")
        made[key] = value
    return made


def per_core(memory: str, cpu: str) -> str:
    """The memory for this many cores, each with this much."""
    try:
        total = parse_quantity(memory).nanos * parse_quantity(cpu).nanos
    except QuantityError as error:
        fail(f"--mem-per-cpu: {error}")
    return f"{-(-total // (NANO * NANO * 2**20))}Mi"


def limit(timeout: str | None, time: str | None) -> int | None:
    """The time limit in seconds, from --timeout or from --time, which is read as Slurm reads it."""
    if timeout is not None and time is not None:
        fail("--time: cannot be combined with --timeout; use one of them")
    if time is None:
        return seconds(timeout)
    from pykueue.cli.run.times import TimeError, limit_seconds

    try:
        return limit_seconds(time)
    except TimeError as error:
        fail(f"--time: {error}")


def array(tasks: str | None) -> "Array | None":
    """The value of --array."""
    if tasks is None:
        return None
    from pykueue.cli.arrays import ArrayError, array_of

    try:
        return array_of(tasks)
    except ArrayError as error:
        fail(f"--array: {error}")


def needs(after: Sequence[str], after_ok: Sequence[str], begin: str | None, now: Instant) -> "Needs | None":
    """What the Job waits for; None if nothing."""
    if not after and not after_ok and begin is None:
        return None
    from pykueue.cli.run.times import TimeError, begin_time
    from pykueue.jobs.dependencies import NAMES_MAX, Needs

    try:
        due = None if begin is None else begin_time(begin, datetime.fromtimestamp(now / MICROS, UTC).astimezone())
    except TimeError as error:
        fail(f"--begin: {error}")
    for flag, names in (("--after", after), ("--after-ok", after_ok)):
        for name in names:
            if not is_job_name(name):
                fail(f"{flag}: {name!r} is not the name of a Job")
    found = Needs(tuple(dict.fromkeys(after)), tuple(dict.fromkeys(after_ok)), due)
    if len(found.jobs) > NAMES_MAX:
        fail(f"--after, --after-ok: {len(found.jobs)} Jobs; a Job can wait for at most {NAMES_MAX}")
    return found


def is_job_name(name: str) -> bool:
    """Whether a Job can have this name."""
    return len(name) <= JOB_NAME_MAX and JOB_NAME.fullmatch(name) is not None


def similar_name(name: str) -> str:
    """A name that a Job can have, as close to this one as possible."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    labels = (re.sub(r"[^a-z0-9]+", "-", label).strip("-") for label in plain.split("."))
    return ".".join(label for label in labels if label)[:JOB_NAME_MAX].rstrip("-.") or "job"


def job(
    command: Sequence[str],
    *,
    queue: str | None,
    resources: Tree,
    name: str | None,
    priority: str | None,
    environment: Mapping[str, str],
    image: str,
    seconds: int | None,
    umask: int,
    retries: int = 0,
    requeue: bool = True,
    array: "Array | None" = None,
    needs: "Needs | None" = None,
    typed: Sequence[str] = (),
    prefix: str = "",
    slurm: bool = False,
    interactive: bool = False,
    notify: Sequence[str] | None = None,
    cluster: bool = False,
    labels: Mapping[str, str] | None = None,
    output: str = "",
) -> Tree:
    """The Job that runs a command; without a queue, it gets its label when it is submitted.

    `output` is the file to which the command writes its output itself, for the annotation. `typed` is the command as
    the user typed it, if that differs; `slurm` is for a script that was written for Slurm. On
    a cluster, the command runs in the working directory of its image.
    """
    if name is not None and not is_job_name(name):
        fail(
            f"--name: {name!r} is not a valid Job name: use at most {JOB_NAME_MAX} lower-case letters, "
            f"digits, - and ., and begin and end with a letter or digit; for example {similar_name(name)}"
        )
    typed = typed or command
    metadata: Tree = {"name": name} if name else {"generateName": f"{stem(prefix or typed[0])}-"}
    marked: Tree = {**(labels or {})}
    if queue:
        marked[Label.QUEUE.value] = queue
    if priority:
        marked[Label.PRIORITY_CLASS.value] = priority
    annotations: Tree = {Annotation.COMMAND.value: shlex.join(typed)[:1000]}
    if output:
        annotations[Annotation.OUTPUT.value] = output
    if needs is not None:
        from pykueue.jobs.dependencies import annotations_for

        annotations |= annotations_for(needs)
    if array is not None:
        from pykueue.cli.arrays import numbered

        annotations[Annotation.ARRAY.value] = str(array)
        if array.at_once is None and array.count > 1:
            annotations[Annotation.JOB_MIN_PARALLELISM.value] = "1"
        command = numbered(command, array, (TASK_ID, "SLURM_ARRAY_TASK_ID") if slurm else (TASK_ID,))
    folder = "" if cluster else str(here())
    given = [*told(array), *(slurm_variables(array, resources, folder, title(name, prefix, typed)) if slurm else ())]
    set_by_user: list[Json] = [{"name": key, "value": literal(value)} for key, value in sorted(environment.items())]
    container: Tree = {
        "name": RUN_CONTAINER,
        "image": image,
        "command": [literal(word) for word in command],
        **({"workingDir": folder} if folder else {}),
        "env": [
            *(one for one in given if one["name"] not in environment),
            *set_by_user,
        ],
        "resources": resources,
    }
    pod: Tree = {"restartPolicy": "Never", "containers": [container]}
    if seconds is not None and array is not None:
        # Each task has this much time, not all of them together.
        pod["activeDeadlineSeconds"] = seconds
    marks: Tree = {Annotation.UMASK.value: f"{umask:04o}"}
    if interactive:
        container |= {"stdin": True, "stdinOnce": True, "tty": True}
        marks[Annotation.INTERACTIVE.value] = "true"
    if notify:
        marks[Annotation.NOTIFY.value] = json.dumps(notify)
    template: Tree = {"metadata": {"annotations": marks}, "spec": pod}
    spec: Tree = {**({"backoffLimit": retries} if array is None else array.fields(retries)), "template": template}
    if requeue:
        spec["podFailurePolicy"] = REQUEUED
    if seconds is not None and array is None:
        spec["activeDeadlineSeconds"] = seconds
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**metadata, "labels": marked, "annotations": annotations},
        "spec": spec,
    }


def told(array: "Array | None") -> list[Tree]:
    """The variables that each job gets about itself."""
    found = [from_field(NAME_VARIABLE, NAME_FIELD)]
    return [*found, from_field(TASK_ID, INDEX_FIELD)] if array is not None and array.plain else found


def title(name: str | None, prefix: str | None, typed: Sequence[str]) -> str:
    """What Slurm calls the name of a job: the one that was given, else that of the script or command."""
    return name or prefix or Path(typed[0]).name


def slurm_variables(array: "Array | None", resources: Tree, folder: str, title: str) -> list[Tree]:
    """The variables that scripts for Slurm read."""
    cores = parse_quantity(text(resources, "requests", "cpu"))
    found: list[Tree] = [
        {"name": "SLURM_JOB_NAME", "value": literal(title)},
        {"name": "SLURM_CPUS_PER_TASK", "value": str(max(1, cores.nanos // NANO))},
    ]
    if folder:
        found.append({"name": "SLURM_SUBMIT_DIR", "value": literal(folder)})
    if array is None:
        return [*found, from_field("SLURM_JOB_ID", UID_FIELD)]
    numbers = {"COUNT": array.count, "MIN": array.runs[0].first, "MAX": array.runs[-1].last}
    return [
        *found,
        from_field("SLURM_ARRAY_JOB_ID", UID_FIELD),
        *({"name": f"SLURM_ARRAY_TASK_{name}", "value": str(value)} for name, value in numbers.items()),
        *((from_field("SLURM_ARRAY_TASK_ID", INDEX_FIELD),) if array.plain else ()),
        from_field("PYKUEUE_ARRAY_INDEX", INDEX_FIELD),
        # In Slurm each task has an id of its own.
        {"name": "SLURM_JOB_ID", "value": "$(SLURM_ARRAY_JOB_ID)_$(PYKUEUE_ARRAY_INDEX)"},
    ]


def from_field(name: str, field: str) -> Tree:
    """A variable with the value of a field of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}}


def literal(value: str) -> str:
    """Escape dollar signs, which start variable references in a pod spec."""
    return value.replace("$", "$$")


def stem(command: str) -> str:
    """The name of a command as a prefix for the name of its Job."""
    plain = re.sub(r"[^a-z0-9]+", "-", Path(command).name.lower()).strip("-")
    return plain[:NAME_MAX].strip("-") or "run"
