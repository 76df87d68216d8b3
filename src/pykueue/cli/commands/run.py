"""How do I submit a command? `pykueue run`: a Job in a queue, followed to its end, with its output and exit code."""

import asyncio
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from pykueue.api.core import Tree
from pykueue.api.durations import DurationError, parse_duration
from pykueue.api.names import RUN_CONTAINER, Label
from pykueue.base.units import MICROS, QuantityError, parse_quantity
from pykueue.cli.serverstate import fail, here

GPU: Final = "nvidia.com/gpu"
IMAGE: Final = "local"
"""Recorded and ignored, as long as no container runtime is asked for."""
NAME_MAX: Final = 40
"""Characters that are left of a command's name in the name of its Job."""
TAKEN_ALONG: Final = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH", "CUDA_HOME"}
)
TAKEN_ALONG_TOO: Final = ("LC_", "CONDA_")
"""Variables, and beginnings of their names, that a command has from the terminal it was submitted in."""


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option("-q", "--queue", required=True, metavar="QUEUE", help="The LocalQueue to wait in.")
@click.option("--cpu", metavar="QUANTITY", default="1", show_default=True, help="Cores, as in 2 or 500m.")
@click.option("--memory", metavar="QUANTITY", help="Memory, as in 8Gi.")
@click.option("--gpu", type=click.IntRange(min=0), default=0, metavar="N", help="GPUs.")
@click.option("--name", metavar="NAME", help="Of the Job; by default from the command, with something random.")
@click.option("--priority", metavar="CLASS", help="A WorkloadPriorityClass.")
@click.option("-n", "--namespace", metavar="NAME", help="By default the kubeconfig's.")
@click.option("--env", multiple=True, metavar="NAME[=VALUE]", help="A variable; without a value, as it is here.")
@click.option("--image", metavar="IMAGE", help="For a server with a container runtime; else it is only recorded.")
@click.option("--timeout", metavar="DURATION", help="End it, failed, when it has run so long, as in 2h30m.")
@click.option("--detach", is_flag=True, help="Do not follow it.")
@click.option("--output", metavar="FILE", help="Write the command's standard output there, whole.")
@click.option("--kubeconfig", metavar="FILE", help="Submit to the server of this kubeconfig; see below.")
@click.option("--context", metavar="NAME", help="Submit to this context of the kubeconfig, or of kubectl's own.")
@click.option("--data", metavar="DIR", help="The data folder of the server on this machine, if not the usual one.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    queue: str,
    cpu: str,
    memory: str | None,
    gpu: int,
    name: str | None,
    priority: str | None,
    namespace: str | None,
    env: tuple[str, ...],
    image: str | None,
    timeout: str | None,
    detach: bool,
    output: str | None,
    kubeconfig: str | None,
    context: str | None,
    data: str | None,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND as a Job in a queue, in this folder, and follow it.

    Says why it waits whenever that changes, then shows its output as it comes, and ends with its exit code. Ctrl-C
    deletes the Job and shows no more of it; any other end of this command leaves it.

    The command's standard output and standard error stay apart, and no byte of either is lost: a command that prints
    faster than its output is read here waits, as in a pipe. It does not wait with --detach, nor when this command is
    gone for 30 seconds; output that its log has no room for is then removed, and a line says how much. On a cluster the
    kubelet merges the two streams and may remove output that was not read in time.

    \b
    Example:
      pykueue run -q team-a -- make test
      pykueue run -q team-a --cpu 2 --memory 8Gi --gpu 1 --name train -- python train.py --epochs 3
      pykueue run -q team-b --priority urgent --timeout 2h --env SEED=7 -- ./simulate
      pykueue run -q team-a --output result.csv -- ./simulate --format csv
      pykueue run -q team-a --detach -- sh -c 'make all && make report'

    The first line says which server the Job goes to: the one that --kubeconfig, --context or --data name; else the
    local one, of your data folder or of the kubeconfig that `pykueue user add` gave you; else, where no local server
    was set up, the one that KUBECONFIG names. The command gets PATH, HOME and the like from here; name others with
    --env.

    Exit codes: 0, done, or detached; the command's own; 1, the Job was deleted, or failed without one, or part of its
    output is missing; 2, it could not be submitted; 130, Ctrl-C.
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
    )
    # What a client needs is read only when the flags are right.
    from pykueue.cli.followjob import Following, tell
    from pykueue.cli.target import chosen

    target = chosen(kubeconfig, context, data)
    within = namespace or target.connection.namespace
    tell(f"submits to {target.described()}, namespace {within}")
    into = None if output is None else opened(output, detach=detach)
    following = Following(target, within, wanted, detach=detach, output=into)
    sys.exit(asyncio.run(following.run()))


def opened(file: str, *, detach: bool) -> int:
    """The file that the output goes to; it keeps what it has until the Job is submitted."""
    if detach:
        fail("--output: nobody writes the file with --detach; redirect inside the command: sh -c 'COMMAND > FILE'")
    try:
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        fail(f"--output: {file}: {error.strerror}")


def resources(cpu: str, memory: str | None, gpu: int) -> Tree:
    """What the command asks for."""
    asked: dict[str, str] = {"cpu": cpu} | ({"memory": memory} if memory else {})
    for flag, amount in asked.items():
        try:
            if parse_quantity(amount).nanos < 0:
                fail(f"--{flag}: {amount!r} is less than nothing")
        except QuantityError as error:
            fail(f"--{flag}: {error}")
    requests: Tree = {**asked}
    limits: Tree = {name: amount for name, amount in requests.items() if name == "memory"}
    if gpu:
        requests[GPU] = limits[GPU] = str(gpu)
    return {"requests": requests, **({"limits": limits} if limits else {})}


def seconds(timeout: str | None) -> int | None:
    """How long the command may run."""
    if timeout is None:
        return None
    try:
        found = parse_duration(timeout)
    except DurationError as error:
        fail(f"--timeout: {error}")
    if found < MICROS:
        fail(f"--timeout: {timeout!r} is shorter than a second")
    return found // MICROS


def environment(given: Sequence[str], here: Mapping[str, str]) -> dict[str, str]:
    """The variables of the command: those that are taken along, then those given."""
    made = {name: value for name, value in here.items() if name in TAKEN_ALONG or name.startswith(TAKEN_ALONG_TOO)}
    for one in given:
        name, equals, value = one.partition("=")
        if not re.fullmatch(r"[-._a-zA-Z][-._a-zA-Z0-9]*", name):
            fail(f"--env: {one!r} does not begin with the name of a variable; write NAME=VALUE")
        if not equals and name not in here:
            fail(f"--env: {name} is not set here; write {name}=VALUE")
        made[name] = value if equals else here[name]
    return made


def job(
    command: Sequence[str],
    *,
    queue: str,
    resources: Tree,
    name: str | None,
    priority: str | None,
    environment: Mapping[str, str],
    image: str,
    seconds: int | None,
) -> Tree:
    """The Job that runs a command once."""
    metadata: Tree = {"name": name} if name else {"generateName": f"{stem(command[0])}-"}
    labels: Tree = {Label.QUEUE.value: queue}
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
    template: Tree = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec: Tree = {"backoffLimit": 0, "template": template}
    if seconds is not None:
        spec["activeDeadlineSeconds"] = seconds
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**metadata, "labels": labels, "annotations": {"pykueue.io/command": shlex.join(command)[:1000]}},
        "spec": spec,
    }


def literal(text: str) -> str:
    """A text that stays as it is: in a pod's spec, two dollars stand for one, and one may begin a variable."""
    return text.replace("$", "$$")


def stem(command: str) -> str:
    """A command's name as the beginning of a Job's."""
    plain = re.sub(r"[^a-z0-9]+", "-", Path(command).name.lower()).strip("-")
    return plain[:NAME_MAX].strip("-") or "run"
