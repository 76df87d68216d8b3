"""`pykueue up`: run queues, a Kubernetes API and jobs on this machine, in one process."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, Literal, cast

import click
from click.core import ParameterSource

from pykueue.api.config.file import MINIMAL
from pykueue.api.config.unbuilt import read_built
from pykueue.api.core import Tree
from pykueue.base.text import printable
from pykueue.base.units import QuantityError
from pykueue.cli.amounts import memory_quantity
from pykueue.cli.flags import CORES, Count, tolerating_unknown_gates
from pykueue.cli.localserver import bootunit
from pykueue.cli.localserver.report import Report
from pykueue.cli.logsetup import LEVELS
from pykueue.cli.manifestfiles import content, unreadable
from pykueue.cli.serverstate import data_folder, data_option, fail, made, read_record
from pykueue.kubecontrollers.finishedretention import JOBS_KEPT

LOG_FILE: Final = "up.log"
PATHS: Final = ("manifests", "file", "scratch", "journal", "log_file")
"""The parameters that are paths, beside the data directory."""
OnStop = Literal["keep", "terminate"]
Runtime = Literal["podman", "docker"]
ShowJobs = Literal["own", "everyone"]


@click.command()
@click.option("--data", metavar="DIR", help="Data directory; see above for the default.")
@click.option(
    "--port", type=Count(0, 65535), metavar="N", help="Port of the API; default: that of the previous run, or 7443."
)
@click.option(
    "--listen",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; a non-loopback address allows access from other machines, with a token.",
)
@click.option(
    "--detach",
    is_flag=True,
    help="Run in the background and return when the server is running; stop it with `pykueue down`.",
)
@click.option(
    "--example",
    is_flag=True,
    help="Create queues for two teams that share this machine; existing objects are not changed.",
)
@click.option(
    "--apply",
    "manifests",
    multiple=True,
    metavar="FILE",
    help="Manifest file or directory to apply at startup, such as your queues; repeatable.",
)
@click.option("--cpus", type=CORES, metavar="N", help="Cores for jobs; default: all.")
@click.option("--memory", metavar="QUANTITY", help="Memory for jobs, e.g. 24Gi; default: all.")
@click.option("--gpus", type=Count(0, 1024), metavar="N", help="GPUs for jobs; default: all that are detected.")
@click.option(
    "--shared-gpus",
    type=Count(0, 1024),
    default=0,
    show_default=True,
    metavar="N",
    help="How many of these GPUs are allocated in shares (pykueue.io/gpu-share), never as a whole.",
)
@click.option("--config", "file", metavar="FILE", help="Kueue Configuration file; defaults apply without it.")
@click.option(
    "--feature-gates",
    metavar="NAME=BOOL,...",
    default="",
    help="Feature gates; cannot be combined with `featureGates` in the file.",
)
@tolerating_unknown_gates
@click.option(
    "--on-stop",
    type=click.Choice(["keep", "terminate"]),
    default="keep",
    show_default=True,
    help="When the server stops: keep jobs running for the next start to pick up, or terminate them.",
)
@click.option(
    "--container-runtime",
    "runtime",
    type=click.Choice(["podman", "docker"]),
    help="Run images in containers; without it, images are ignored and commands run as processes.",
)
@click.option(
    "--keep-jobs",
    type=Count(0),
    default=JOBS_KEPT,
    show_default=True,
    metavar="N",
    help="Number of finished Jobs to keep; older ones are deleted.",
)
@click.option(
    "--show-jobs",
    type=click.Choice(["own", "everyone"]),
    default="own",
    show_default=True,
    help="Jobs that `pykueue jobs -A` shows to users: those of their own namespace, or those of all users with "
    "name, owner, queue, requests, state and start time.",
)
@click.option(
    "--scratch",
    metavar="DIR",
    help="Directory for the working directories and emptyDir volumes of pods, for example on another disk; "
    "default: in the data directory, or next to it for root.",
)
@click.option("--journal", metavar="FILE", help="Record every decision and its input in FILE, for `pykueue replay`.")
@click.option("--log-file", metavar="FILE", help="Log file; default: standard error, or up.log with --detach.")
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Log format."
)
@click.option(
    "--log-level", type=click.Choice(LEVELS), help="Lowest level to log; default: warning, or info in a file."
)
@click.option(
    "--install",
    is_flag=True,
    help="Instead of starting, install a systemd unit that starts the server with these options at boot.",
)
@click.option("--uninstall", is_flag=True, help="Remove that unit; a running server continues.")
@click.option("--dry-run", is_flag=True, help="With --install: only print the unit.")
@click.option("--report-to", type=int, hidden=True)
@click.pass_context
def up(
    ctx: click.Context,
    data: str | None,
    port: int | None,
    listen: str,
    detach: bool,
    example: bool,
    manifests: tuple[str, ...],
    cpus: float | None,
    memory: str | None,
    gpus: int | None,
    shared_gpus: int,
    file: str | None,
    feature_gates: str,
    tolerate_unknown_gates: bool,
    on_stop: str,
    runtime: str | None,
    keep_jobs: int,
    show_jobs: str,
    scratch: str | None,
    journal: str | None,
    log_file: str | None,
    log_format: str,
    log_level: str | None,
    install: bool,
    uninstall: bool,
    dry_run: bool,
    report_to: int | None,
) -> None:
    """Run queues, an API and jobs on this machine.

    The server offers a Kubernetes API with Kueue's queues; use kubectl and the same manifests as on a cluster. The
    containers of a pod run as processes of this machine. All data is in one directory: /var/lib/pykueue for root,
    otherwise $XDG_DATA_HOME/pykueue or ~/.local/share/pykueue.

    \b
    Example:
      pykueue up --example
      pykueue up --detach --data ~/queues --port 7443 --gpus 2
      pykueue up --config config.yaml --apply /etc/pykueue/queues.yaml

    \b
    Then, in another terminal:
      pykueue run -q team-a --cpu 2 -- python train.py
      pykueue status
      export KUBECONFIG=~/.local/share/pykueue/kubeconfig
      kubectl get clusterqueues

    A server started by root can serve all users of the machine (see `pykueue user add`); each job runs as the user who
    submitted it. A server started by another user runs everything as that user and does not accept other users.

    To start the server at boot, install a systemd unit: a system unit for root, otherwise a unit of `systemd --user`.
    It uses the other options that you give, such as --data and --apply. A restart of the service does not affect
    running jobs.

    \b
      pykueue up --install --apply /etc/pykueue/queues.yaml
      pykueue up --uninstall

    Exit codes: 0, stopped by Ctrl-C or `pykueue down`; 1, already running, stopped by an internal error, or the unit
    could not be installed or removed; 2, cannot start.
    """
    check_unit_options(install=install, uninstall=uninstall, dry_run=dry_run, detach=detach, manifests=manifests)
    if uninstall:
        click.echo(bootunit.uninstall(bootunit.own_place()))
        return
    report = Report(report_to)
    folder = data_folder(data)
    standing = read_record(folder)
    if standing is not None and standing.runs and not install:
        report.fail(
            f"{folder}: a server is already running: {standing.server}, process {standing.pid}; stop it with "
            f"`pykueue down{data_option(folder)}`, or choose another directory with --data",
            1,
        )
    # Everything that can be rejected is, before the data directory is created.
    bytes_offered = offered(memory, report)
    check_places(runtime, journal, scratch, folder, report)
    loaded, mistakes = read_built(
        read_file(file, report), feature_gates=feature_gates, tolerate_unknown_gates=tolerate_unknown_gates
    )
    source = file or "default Configuration"
    if loaded is None or mistakes:
        report.fail("\n".join(f"{source}: {mistake}" for mistake in mistakes))
    objects = given(manifests, report)
    if not dry_run:
        made(folder)
    if detach:
        sys.exit(detached(ctx, folder))
    for warning in loaded.warnings:
        click.echo(printable(f"{source}: warning: {warning}"), err=True)
    if install:
        where = bootunit.own_place()
        text = bootunit.unit(unit_command(ctx, folder), data=folder, root=where.root, terminates=on_stop == "terminate")
        click.echo(text if dry_run else bootunit.install(where, text, standing), nl=not dry_run)
        return
    # Imported here so that other commands start faster.
    from pykueue.cli import logsetup
    from pykueue.cli.localserver.server import UpOptions, serve

    logsetup.begin(log_format, log_level or ("info" if log_file else "warning"), log_file)
    wanted = UpOptions(
        loaded=loaded,
        data=folder,
        host=listen,
        port=port,
        port_before=0 if standing is None else standing.port,
        example=example,
        objects=objects,
        cpus=cpus,
        memory=bytes_offered,
        gpus=gpus,
        shared_gpus=shared_gpus,
        on_stop=cast("OnStop", on_stop),
        runtime=cast("Runtime | None", runtime),
        jobs_kept=keep_jobs,
        show_jobs=cast("ShowJobs", show_jobs),
        scratch=None if scratch is None else data_folder(scratch),
        journal=None if journal is None else Path(journal),
        detached=report_to is not None,
    )
    sys.exit(serve(wanted, report))


def offered(memory: str | None, report: Report) -> int | None:
    """The memory that --memory names, in bytes."""
    try:
        return None if memory is None else memory_quantity(memory).whole()
    except QuantityError as error:
        report.fail(f"--memory: {error}")


def check_places(runtime: str | None, journal: str | None, scratch: str | None, folder: Path, report: Report) -> None:
    """Report a container runtime that is not installed, and directories that are not writable."""
    if runtime and shutil.which(runtime) is None:
        report.fail(f"--container-runtime: {runtime} not found in PATH; install it, or omit the option")
    if journal is not None and not writable(parent := data_folder(journal).parent, folder):
        report.fail(f"--journal: {parent} is not a writable directory; create it, or choose another path")
    if scratch is not None and not writable(chosen := data_folder(scratch), folder):
        report.fail(f"--scratch: {chosen} is not a writable directory; create it, or choose another one")


def writable(directory: Path, folder: Path) -> bool:
    """Whether a directory can be written; the data directory is created if need be."""
    return directory == folder or (directory.is_dir() and os.access(directory, os.W_OK | os.X_OK))


def read_file(file: str | None, report: Report) -> bytes:
    """The content of the Configuration file."""
    if file is None:
        return MINIMAL.encode()
    try:
        return content(file)
    except (OSError, ValueError) as error:
        report.fail(f"{file}: {unreadable(error)}")


def given(names: tuple[str, ...], report: Report) -> tuple[tuple[str, Tree], ...]:
    """The objects in these manifests, each with its file and position."""
    from pykueue.cli.manifestfiles import contents
    from pykueue.sim.manifests import Mistake, documents

    mistakes: list[Mistake] = []
    objects: list[tuple[str, Tree]] = []
    for name in names:
        for file, raw in contents(name, mistakes):
            found, wrong = documents(file, raw)
            mistakes += wrong
            objects += [(one.where, one.tree) for one in found]
    if mistakes:
        report.fail("\n".join(map(str, mistakes)))
    return tuple(objects)


def detached(ctx: click.Context, folder: Path) -> int:
    """Start the server in the background, wait until it is ready or has failed, and return the exit code."""
    log = folder / LOG_FILE
    reading, writing = os.pipe()
    # -P: modules in the current directory, perhaps another user's, are not imported.
    command = [sys.executable, "-P", "-m", "pykueue", "up", *arguments(ctx), "--report-to", str(writing)]
    if ctx.params["log_file"] is None:
        command += ["--log-file", str(log)]
    trouble = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        # It keeps the current directory, so that relative paths in options stay valid.
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=trouble,
            stderr=trouble,
            start_new_session=True,
            pass_fds=(writing,),
        )
    finally:
        os.close(writing)
        os.close(trouble)
    with open(reading, "rb") as answers:
        told = answers.read()
    if not told:
        fail(f"the server exited before it was ready; check the log: {log}", child.wait() or 1)
    said = json.loads(told)
    click.echo(printable(said["text"]) if said["code"] else said["text"], err=bool(said["code"]))
    if not said["code"]:
        # The child outlives this process; suppress the ResourceWarning.
        child.returncode = 0
    return int(said["code"])


def check_unit_options(
    *, install: bool, uninstall: bool, dry_run: bool, detach: bool, manifests: tuple[str, ...]
) -> None:
    """Exit if the options about the unit contradict each other."""
    if install and uninstall:
        fail("--install and --uninstall cannot be combined; to change the options, uninstall first, then install")
    if dry_run and not install:
        fail("--dry-run: requires --install")
    if install and detach:
        fail("--detach: cannot be combined with --install; systemd runs the server in the background")
    if install and "-" in manifests:
        fail("--apply: with --install, specify a file: standard input cannot be read again at boot")


def unit_command(ctx: click.Context, folder: Path) -> list[str]:
    """The command of the unit: the options that were given, with absolute paths, since its directory is another."""
    for name in PATHS:
        value = ctx.params[name]
        if isinstance(value, tuple):
            ctx.params[name] = tuple(str(data_folder(one)) for one in value)
        elif value is not None:
            ctx.params[name] = str(data_folder(value))
    # The default directory depends on the environment.
    ctx.params["data"] = None
    # Without -P, a folder named pykueue in the home directory would be imported.
    return [sys.executable, "-P", "-m", "pykueue", "up", "--data", str(folder), *arguments(ctx, given_only=True)]


def arguments(ctx: click.Context, *, given_only: bool = False) -> list[str]:
    """The command-line options, without those that say how to start; on request without defaults."""
    made: list[str] = []
    for option in ctx.command.params:
        value = ctx.params.get(option.name or "")
        if option.name in ("detach", "install", "dry_run", "report_to") or value is None or value is False:
            continue
        if given_only and ctx.get_parameter_source(option.name or "") is ParameterSource.DEFAULT:
            continue
        values = value if isinstance(value, tuple) else (value,)
        made += [option.opts[0]] if value is True else [word for one in values for word in (option.opts[0], str(one))]
    return made
