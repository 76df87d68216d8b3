"""`pykueue run`: submit a command as a Job, stream its output, and exit with its exit code."""

import asyncio
import os
import re
import select
import shlex
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from pykueue.api.core import Tree
from pykueue.api.durations import DurationError
from pykueue.api.names import RUN_CONTAINER, Annotation, Label
from pykueue.base.units import MICROS, QuantityError, parse_quantity
from pykueue.cli.amounts import duration_of, memory_quantity
from pykueue.cli.serverstate import fail, here

GPU: Final = "nvidia.com/gpu"
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
TAKEN_ALONG_TOO: Final = ("LC_", "CONDA_")
"""Environment variables, and prefixes of their names, that are passed on to the command."""
UNBUFFERED: Final = "PYTHONUNBUFFERED"
"""Set unless the user has set it: Python buffers output that does not go to a terminal."""
REQUEUED: Final[Tree] = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
"""The podFailurePolicy of a Job that runs again if its machine went down: such a failure does not count."""
RETRIES_MAX: Final = 2**31 - 1


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option(
    "-q", "--queue", metavar="QUEUE", help="LocalQueue to submit to; default: the one named `default`, or the only one."
)
@click.option(
    "-c",
    "--cpu",
    "--cpus",
    "cpu",
    metavar="QUANTITY",
    default="1",
    show_default=True,
    help="Cores to request, e.g. 2 or 500m.",
)
@click.option("--memory", metavar="QUANTITY", help="Memory to request, and the limit, e.g. 8Gi.")
@click.option("--gpu", type=click.IntRange(min=0), default=0, metavar="N", help="GPUs to request.")
@click.option("--name", metavar="NAME", help="Name of the Job; default: the name of the command and a random suffix.")
@click.option("--priority", metavar="CLASS", help="WorkloadPriorityClass of the Job.")
@click.option("-n", "--namespace", metavar="NAME", help="Namespace of the Job; default: that of the kubeconfig.")
@click.option(
    "--env",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Environment variable; without =VALUE, its current value. Repeatable.",
)
@click.option("--image", metavar="IMAGE", help="Container image; ignored by a server without a container runtime.")
@click.option("--timeout", metavar="DURATION", help="Fail the Job after it has run this long, e.g. 2h30m.")
@click.option(
    "--retries",
    type=click.IntRange(0, RETRIES_MAX),
    default=0,
    show_default=True,
    metavar="N",
    help="Run COMMAND again if it fails, up to N times; the delay starts at 10 s and doubles.",
)
@click.option(
    "--no-requeue", is_flag=True, help="Fail the Job if its machine goes down; by default, COMMAND is run again."
)
@click.option("--detach", is_flag=True, help="Exit after submitting the Job.")
@click.option("--output", metavar="FILE", help="Write the standard output of the command to FILE.")
@click.option("--kubeconfig", metavar="FILE", help="Kubeconfig of the server; see above for the default.")
@click.option("--context", metavar="NAME", help="Context in that kubeconfig, or in kubectl's.")
@click.option(
    "--data", metavar="DIR", help="Data directory of the local server; see `pykueue up --help` for the default."
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    queue: str | None,
    cpu: str,
    memory: str | None,
    gpu: int,
    name: str | None,
    priority: str | None,
    namespace: str | None,
    env: tuple[str, ...],
    image: str | None,
    timeout: str | None,
    retries: int,
    no_requeue: bool,
    detach: bool,
    output: str | None,
    kubeconfig: str | None,
    context: str | None,
    data: str | None,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND as a Job and follow its output.

    The command runs in the current directory. While the Job is pending, the reason is printed whenever it changes; then
    the output is streamed, and `pykueue run` exits with the exit code of COMMAND. Ctrl-C deletes the Job. If
    `pykueue run` ends in any other way, the Job continues. Standard input is not passed on: COMMAND reads an empty one.

    Standard output and standard error stay separate and complete: a command that prints faster than its output is read
    blocks, as in a pipe. It does not block with --detach, or once `pykueue run` has been gone for 30 seconds; output
    that exceeds the log is then dropped, and a line in the log says how much. On a cluster the kubelet merges the two
    streams and may drop output that was not read in time.

    \b
    Example:
      pykueue run -q team-a -- make test
      pykueue run -q team-a --cpu 2 --memory 8Gi --gpu 1 --name train -- python train.py --epochs 3
      pykueue run -q team-b --priority urgent --timeout 2h --env SEED=7 -- ./simulate
      pykueue run -q team-a --output result.csv -- ./simulate --format csv
      pykueue run -q team-a --detach -- sh -c 'make all && make report'
      pykueue run -q team-a --retries 2 -- ./download.sh

    The first line of output names the server. It is the one given by --kubeconfig, --context or --data; else the local
    server of your data directory or of the kubeconfig from `pykueue user add`; else, if no local server was set up, the
    one in KUBECONFIG. COMMAND inherits the umask, and PATH, HOME, SHELL and similar variables; pass others with --env.
    PYTHONUNBUFFERED is 1 unless you have set it, so that the output of Python programs appears at once.

    Exit codes: 0, success, or detached; the exit code of COMMAND; 1, the Job was deleted or failed without an exit
    code, or part of its output is missing; 2, the Job could not be submitted; 130, Ctrl-C.
    """
    wanted = job(
        command,
        queue=queue,
        resources=resources(cpu, memory, gpu),
        name=name,
        priority=priority,
        environment=environment(env, os.environ),
        image=image or IMAGE,
        seconds=seconds(timeout),
        umask=umask(),
        retries=retries,
        requeue=not no_requeue,
    )
    # Imported here so that invalid options are reported faster.
    from pykueue.cli.followjob import Following
    from pykueue.cli.messages import tell
    from pykueue.cli.submission import MISUSED, Submission
    from pykueue.cli.target import chosen

    target = chosen(kubeconfig, context, data)
    within = namespace or target.connection.namespace
    tell(f"submitting to {target.described()}, namespace {within}")
    if has_input(sys.stdin.fileno() if sys.stdin is not None else -1):
        tell("standard input is not passed on: the command reads an empty one")
    into = None if output is None else opened(output, detach=detach)
    following = Following(target, within, command="run", deletes=True, output=into)
    wanted = wanted if detach else following.output.announced(wanted)
    submission = Submission(target, within, wanted, detach=detach)
    sys.exit(asyncio.run(following.run(submission.submit, failing=MISUSED)))


def opened(file: str, *, detach: bool) -> int:
    """Open the output file; it is truncated only once the Job is submitted."""
    if detach:
        fail("--output: cannot be combined with --detach; redirect inside the command: sh -c 'COMMAND > FILE'")
    try:
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        fail(f"--output: {file}: {error.strerror}")


def resources(cpu: str, memory: str | None, gpu: int) -> Tree:
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


def environment(given: Sequence[str], here: Mapping[str, str]) -> dict[str, str]:
    """The environment of the command: inherited variables, then those of --env."""
    made = {name: value for name, value in here.items() if name in TAKEN_ALONG or name.startswith(TAKEN_ALONG_TOO)}
    made[UNBUFFERED] = here.get(UNBUFFERED, "1")
    for one in given:
        name, equals, value = one.partition("=")
        if not re.fullmatch(r"[-._a-zA-Z][-._a-zA-Z0-9]*", name):
            fail(f"--env: {one!r} does not start with a valid variable name; use NAME=VALUE")
        if not equals and name not in here:
            fail(f"--env: {name} is not set in this environment; use {name}=VALUE")
        made[name] = value if equals else here[name]
    return made


def umask() -> int:
    """The umask of this process, which can only be read by setting it."""
    found = os.umask(0o077)
    os.umask(found)
    return found


def has_input(fd: int) -> bool:
    """Whether a file or pipe with something to read is connected to this descriptor; False for a terminal."""
    try:
        found = os.fstat(fd)
        if stat.S_ISREG(found.st_mode):
            return found.st_size > os.lseek(fd, 0, os.SEEK_CUR)
        if stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode):
            poller = select.poll()
            poller.register(fd, select.POLLIN)
            return any(event & select.POLLIN for _, event in poller.poll(0))
    except OSError:
        pass
    return False


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
) -> Tree:
    """The Job that runs a command; without a queue, it gets its label when it is submitted."""
    metadata: Tree = {"name": name} if name else {"generateName": f"{stem(command[0])}-"}
    labels: Tree = {Label.QUEUE.value: queue} if queue else {}
    if priority:
        labels[Label.PRIORITY_CLASS.value] = priority
    container: Tree = {
        "name": RUN_CONTAINER,
        "image": image,
        "command": [literal(word) for word in command],
        "workingDir": str(here()),
        "env": [{"name": key, "value": literal(value)} for key, value in sorted(environment.items())],
        "resources": resources,
    }
    template: Tree = {
        "metadata": {"annotations": {Annotation.UMASK.value: f"{umask:04o}"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    spec: Tree = {"backoffLimit": retries, "template": template}
    if requeue:
        spec["podFailurePolicy"] = REQUEUED
    if seconds is not None:
        spec["activeDeadlineSeconds"] = seconds
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            **metadata,
            "labels": labels,
            "annotations": {Annotation.COMMAND.value: shlex.join(command)[:1000]},
        },
        "spec": spec,
    }


def literal(text: str) -> str:
    """Escape dollar signs, which start variable references in a pod spec."""
    return text.replace("$", "$$")


def stem(command: str) -> str:
    """The name of a command as a prefix for the name of its Job."""
    plain = re.sub(r"[^a-z0-9]+", "-", Path(command).name.lower()).strip("-")
    return plain[:NAME_MAX].strip("-") or "run"
