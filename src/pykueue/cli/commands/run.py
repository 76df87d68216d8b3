"""`pykueue run`: submit a command as a Job, stream its output, and exit with its exit code."""

import asyncio
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

from pykueue.base.clock import SystemClock
from pykueue.cli import completion
from pykueue.cli.flags import Count
from pykueue.cli.run.job import (
    IMAGE,
    RETRIES_MAX,
    array,
    environment,
    job,
    labels_of,
    limit,
    needs,
    per_core,
    resources,
    title,
)
from pykueue.cli.run.notification import check_notifiable, notification
from pykueue.cli.run.outputfile import PATTERNS, file_problem, has_patterns, recorded, unknown_patterns, writing
from pykueue.cli.run.scripts import META, Script, ScriptCommand, is_missing, unrunnable
from pykueue.cli.serverstate import fail, here

NO_COMMAND: Final = 127
"""The exit code of shells for a command that does not exist."""

if TYPE_CHECKING:
    from pykueue.cli.target import Target


@click.command(cls=ScriptCommand, context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option(
    "-q",
    "--queue",
    metavar="QUEUE",
    help="LocalQueue to submit to; default: the one named `default`, or the only one.",
    shell_complete=completion.local_queues,
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
@click.option("--memory-per-cpu", hidden=True)
@click.option("--gpu", "--gpus", "gpu", type=Count(0), default=0, metavar="N", help="GPUs to request.")
@click.option(
    "--gpu-share",
    type=click.FloatRange(min=0.001, max=1),
    metavar="PART",
    help="Part of one shared GPU to request, e.g. 0.5; see `pykueue up --shared-gpus`.",
)
@click.option("--name", metavar="NAME", help="Name of the Job; default: the name of the command and a random suffix.")
@click.option("--name-prefix", hidden=True)
@click.option(
    "--priority",
    metavar="CLASS",
    help="WorkloadPriorityClass of the Job.",
    shell_complete=completion.priority_classes,
)
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    help="Namespace of the Job; default: that of the kubeconfig.",
    shell_complete=completion.namespaces,
)
@click.option(
    "--env",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Environment variable; without =VALUE, its current value. Repeatable.",
)
@click.option("--env-all", is_flag=True, help="Pass all environment variables, as sbatch does.")
@click.option(
    "--label", multiple=True, metavar="KEY=VALUE", help="Label of the Job, for selecting it later. Repeatable."
)
@click.option(
    "--image",
    metavar="IMAGE",
    help="Container image; required on a cluster, ignored by a server without a container runtime.",
)
@click.option("--timeout", metavar="DURATION", help="Fail the Job after it has run this long, e.g. 2h30m.")
@click.option("--time", metavar="LIMIT", help="The same in Slurm's notation: 10 is ten minutes; HH:MM:SS, D-HH.")
@click.option(
    "--array", "tasks", metavar="TASKS", help="Run COMMAND once per task, e.g. 0-99, or 0-99%4 for four at a time."
)
@click.option(
    "--after",
    multiple=True,
    metavar="JOB",
    help="Start after JOB has ended. Repeatable.",
    shell_complete=completion.unfinished_jobs,
)
@click.option(
    "--after-ok",
    multiple=True,
    metavar="JOB",
    help="Start after JOB has succeeded. Repeatable.",
    shell_complete=completion.unfinished_jobs,
)
@click.option("--begin", metavar="TIME", help="Start at TIME or later, e.g. now+1hour, 16:00, 2027-01-31T12:00.")
@click.option(
    "--retries",
    type=Count(0, RETRIES_MAX),
    default=0,
    show_default=True,
    metavar="N",
    help="Run COMMAND again if it fails, up to N times; the delay starts at 10 s and doubles.",
)
@click.option(
    "--no-requeue",
    is_flag=True,
    help="Fail the Job if its machine crashes or is restarted; by default, COMMAND is run again.",
)
@click.option(
    "--notify",
    metavar="COMMAND|URL",
    help="Run COMMAND, or post to URL, when the Job starts, ends or is preempted; not on a cluster.",
)
@click.option("--detach", is_flag=True, help="Exit after submitting the Job.")
@click.option(
    "-i",
    "--interactive",
    "--pty",
    "interactive",
    is_flag=True,
    help="Connect the terminal to COMMAND; Ctrl-C is sent to COMMAND while it is running.",
)
@click.option(
    "--output",
    metavar="FILE",
    help="Write the standard output of the command to FILE; %x, %j and %a are replaced with names and tasks.",
    shell_complete=completion.files,
)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Kubeconfig of the server; see above for the default.",
    shell_complete=completion.files,
)
@click.option(
    "--context",
    metavar="NAME",
    help="Context in that kubeconfig, or in kubectl's.",
    shell_complete=completion.contexts,
)
@click.option(
    "--data", metavar="DIR", help="Data directory of the local server; see `pykueue up --help` for the default."
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=completion.files)
@click.pass_context
def run(
    ctx: click.Context,
    queue: str | None,
    cpu: str,
    memory: str | None,
    memory_per_cpu: str | None,
    gpu: int,
    gpu_share: float | None,
    name: str | None,
    name_prefix: str | None,
    priority: str | None,
    namespace: str | None,
    env: tuple[str, ...],
    env_all: bool,
    label: tuple[str, ...],
    image: str | None,
    timeout: str | None,
    time: str | None,
    tasks: str | None,
    after: tuple[str, ...],
    after_ok: tuple[str, ...],
    begin: str | None,
    retries: int,
    no_requeue: bool,
    notify: str | None,
    detach: bool,
    interactive: bool,
    output: str | None,
    kubeconfig: str | None,
    context: str | None,
    data: str | None,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND as a Job and follow its output.

    The command runs in the current directory; on a cluster, in the working directory of its image. While the Job is
    pending, the reason is printed whenever it changes; then the output is streamed, and `pykueue run` exits with the
    exit code of COMMAND. Ctrl-C deletes the Job. If `pykueue run` ends in any other way, for example because the reader
    of its output exited, the Job continues. Standard input is not passed to COMMAND.

    Standard output and standard error stay separate and complete: a command that prints faster than its output is read
    blocks, as in a pipe. It does not block with --detach, or after `pykueue run` has been gone for 30 seconds; output
    that exceeds the log is then dropped, and a line in the log shows how much. On a cluster the kubelet merges the two
    streams and may drop output that was not read in time.

    With --interactive, COMMAND runs on its own terminal, which is connected to yours: a shell, a debugger, an editor.
    While the Job is pending, Ctrl-C deletes it; afterwards all keys are sent to COMMAND. The Job ends with its
    terminal: 30 seconds after yours is closed, or `pykueue run` is killed, COMMAND gets SIGHUP, and SIGKILL five
    seconds after that. It is not run again if its machine crashes.

    \b
    Example:
      pykueue run -q team-a -- make test
      pykueue run -q team-a --cpu 2 --memory 8Gi --gpu 1 --name train -- python train.py --epochs 3
      pykueue run -q team-b --priority urgent --timeout 2h --env SEED=7 -- ./simulate
      pykueue run -q team-a --output result.csv -- ./simulate --format csv
      pykueue run -q team-a --detach -- sh -c 'make all && make report'
      pykueue run -q team-a --retries 2 -- ./download.sh
      pykueue run -q team-a --array 0-99%4 --time 30 -- sh -c './simulate --seed $PYKUEUE_ARRAY_TASK_ID'
      pykueue run -q team-a --after-ok train -- python evaluate.py
      pykueue run -q team-a --begin 22:00 -- make nightly
      pykueue run --cpu 4 job.sh input.csv
      pykueue run -q team-a --gpu 1 --interactive -- bash
      pykueue run -q team-a --notify https://example.org/hook --detach -- python train.py

    --array runs COMMAND once per task: 0-99, 1,3,5-7 or 0-30:10, at most 100,000 tasks, as one Indexed Job. Each task
    finds its number in PYKUEUE_ARRAY_TASK_ID, has the resources and time limit of these options, and is retried
    separately. The number after % is the number of tasks that run at a time; without it, as many as the quota allows
    when the array starts. Progress is printed instead of output; `pykueue logs NAME:N` shows the output of a task.

    The file of --output is written by `pykueue run` itself. With --detach, with --array, or if its name contains one of
    these patterns, the job writes it, so that it is kept even if the job is stopped: %x is the name given with --name,
    or the name of the command; %j and %A the name of the Job; %a the number of the task; %u your user name; %% is %.
    `pykueue logs` shows its path.

    On a single machine, a COMMAND that does not exist, or a file that cannot be written, is rejected before the Job is
    submitted, unless the Job waits for another Job or for a start time.

    --after and --after-ok name Jobs of the same namespace. A deleted Job counts as ended for --after; after a failed or
    deleted Job, --after-ok never starts. The Job keeps the queue position of its submission.

    If COMMAND is a script that starts with #! and has `#PYKUEUE OPTIONS` lines in the comments at the top, these
    options apply too; options on the command line take precedence. `#SBATCH OPTIONS` lines are read as Slurm options,
    and a script with such lines finds SLURM_JOB_ID, SLURM_JOB_NAME, SLURM_ARRAY_TASK_ID, SLURM_CPUS_PER_TASK and
    SLURM_SUBMIT_DIR.

    The first line of output names the server. It is the one given with --kubeconfig, --context or --data; otherwise the
    local server of your data directory or of the kubeconfig from `pykueue user add`; otherwise, if no local server was
    set up, the one in KUBECONFIG. COMMAND inherits the umask, and PATH, HOME, SHELL and similar variables; pass others
    with --env, or all with --env-all. They are stored in the Job, where other users of its namespace can read them. On
    a cluster COMMAND inherits none of them unless you pass them, and finds only the files of its image; --image is
    required. PYTHONUNBUFFERED is 1 unless you have set it, so that the output of Python programs appears immediately.

    --notify runs a command without a shell, as your user and with the environment of COMMAND, for at most 30 seconds.
    It finds PYKUEUE_EVENT (started, ended or preempted), PYKUEUE_JOB, PYKUEUE_NAMESPACE and PYKUEUE_EXIT_CODE. A URL
    receives them as JSON.

    Exit codes: 0, success, or detached; the exit code of COMMAND, 127 if it does not exist, 126 if it cannot be
    executed; 124, the Job reached its time limit; 1, the Job was deleted or failed without an exit code, a task of an
    array failed, or part of the output is missing; 2, the Job could not be submitted; 130, Ctrl-C; 129 and 143, the
    terminal of an interactive run was closed, or `pykueue run` got SIGTERM; 141, the reader of the output exited.
    """
    if output == "--":
        fail("--output: the name of the file is missing; write --output FILE -- COMMAND")
    if interactive:
        check_interactive(detach=detach, output=output, retries=retries, array=tasks)
    script: Script | None = ctx.meta.get(META)
    wanted_tasks = array(tasks)
    if memory is None and memory_per_cpu is not None:
        memory = per_core(memory_per_cpu, cpu)
    slurm = script is not None and script.slurm
    executed = command if script is None else script.command(command)
    in_image = command if script is None else (*script.interpreter, *command)
    if output is not None and wanted_tasks is not None and "%a" not in output:
        for_one_task(ctx)
        output = None
    by_job, called = "", title(name, name_prefix, command)
    if output is not None and (detach or wanted_tasks is not None or has_patterns(output)):
        executed, in_image = (written(ctx, words, output, called, slurm=slurm) for words in (executed, in_image))
        by_job, output = output, None
    made = partial(
        job,
        queue=queue,
        resources=resources(cpu, memory, gpu, gpu_share),
        name=name,
        priority=priority,
        labels=labels_of(label),
        image=image or IMAGE,
        seconds=limit(timeout, time),
        umask=umask(),
        retries=retries,
        requeue=not no_requeue and not interactive,
        interactive=interactive,
        array=wanted_tasks,
        needs=needs(after, after_ok, begin, SystemClock().now()),
        typed=command,
        prefix=name_prefix or "",
        slurm=slurm,
        notify=None if notify is None else notification(notify),
    )
    variables = environment(env, os.environ, interactive=interactive, whole=env_all)
    wanted = made(executed, environment=variables, output=kept(by_job, called, str(here())))
    # Imported here so that invalid options are reported faster.
    from pykueue.cli.follow.interactive import FollowingTerminal
    from pykueue.cli.follow.job import Following
    from pykueue.cli.follow.terminal import warn_of_input
    from pykueue.cli.messages import tell
    from pykueue.cli.run.followarray import FollowingArray
    from pykueue.cli.run.submission import MISUSED, Submission
    from pykueue.cli.target import chosen

    target = chosen(kubeconfig, context, data)
    if notify is not None:
        check_notifiable(local=target.local)
    within = namespace or target.connection.namespace
    tell(f"submitting to {target.described()}, namespace {within}")
    cluster = is_cluster(target)
    if cluster:
        if image is None:
            fail("--image: this server is a cluster, where COMMAND runs in a container; specify its image", MISUSED)
        variables = environment(env, os.environ, interactive=interactive, whole=env_all, cluster=True)
        wanted = made(in_image, environment=variables, cluster=True, output=kept(by_job, called, ""))
    if target.local:
        # What it waits for may make the command, or the directory.
        waits = bool(after or after_ok or begin)
        hint = "" if script is not None else unrunnable(command[0])
        if script is None and not waits and is_missing(command[0], variables.get("PATH")):
            fail(hint or f"{command[0]}: no such {'file' if '/' in command[0] else 'command'}", NO_COMMAND)
        if hint:
            tell(hint)
        if by_job and not waits and (problem := file_problem(by_job)):
            fail(f"--output: {problem}")
    if not interactive:
        warn_of_input()
    into = None if output is None else opened(output)
    if wanted_tasks is not None:
        following: Following = FollowingArray(target, within, wanted_tasks)
    elif interactive:
        following = FollowingTerminal(target, within, command="run", deletes=True)
    else:
        following = Following(target, within, command="run", deletes=True, output=into)
        wanted = wanted if detach else following.output.announced(wanted)
    submission = Submission(target, within, wanted, detach=detach, array=wanted_tasks is not None, cluster=cluster)
    sys.exit(asyncio.run(following.run(submission.submit, failing=MISUSED)))


def is_cluster(target: "Target") -> bool:
    """Whether a server is not the embedded one, which runs commands on its own machine."""
    if target.local:
        return False
    from pykueue.cli.run.submission import MISUSED, is_embedded
    from pykueue.cli.session import asked

    return not asked(target, "run", is_embedded, code=MISUSED)


def check_interactive(**others: object) -> None:
    """Exit with an error if --interactive cannot be combined with the other options, or there is no terminal."""
    for name, given in others.items():
        if given:
            fail(f"--interactive: cannot be combined with --{name}; omit one of them")
    if sys.stdin is None or not sys.stdin.isatty() or not sys.stdout.isatty():
        fail("--interactive: standard input and output must be a terminal; omit it to run in a pipeline or script")


def for_one_task(ctx: click.Context) -> None:
    """Exit because all tasks of an array would write one file; only warn if --output is from a script."""
    problem = "all tasks would write to the same file; put %a, the number of the task, in its name"
    if ctx.get_parameter_source("output") is ParameterSource.COMMANDLINE:
        fail(f"--output: {problem}")
    click.echo(f"--output: ignored with --array: {problem}", err=True)


def written(ctx: click.Context, command: Sequence[str], file: str, title: str, *, slurm: bool) -> tuple[str, ...]:
    """The command that writes its output to a file; as in Slurm, both streams if #SBATCH lines ask for it."""
    if unknown := unknown_patterns(file):
        fail(f"--output: {unknown[0]} is not supported; use {PATTERNS}")
    errors = slurm and ctx.get_parameter_source("output") is not ParameterSource.COMMANDLINE
    return (*writing(command, file, title=title, user=user_name(), errors=errors),)


def kept(file: str, title: str, folder: str) -> str:
    """The file that a job writes, as its annotation has it; empty without one."""
    return recorded(file, title=title, user=user_name(), folder=folder) if file else ""


def user_name() -> str:
    """The name of the user who submits."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return os.environ.get("USER", "")


def opened(file: str) -> int:
    """Open the output file; it is truncated only once the Job is submitted."""
    try:
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        fail(f"--output: {file}: {error.strerror}")


def umask() -> int:
    """The umask of this process, which can only be read by setting it."""
    found = os.umask(0o077)
    os.umask(found)
    return found
