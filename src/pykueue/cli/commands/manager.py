"""How do I run it on a cluster? `pykueue manager`: queues, scheduler and webhooks on any Kubernetes API server."""

import os
import socket
import sys
from pathlib import Path
from typing import Final, NoReturn

import click

from pykueue.api.config.file import MINIMAL
from pykueue.api.config.unbuilt import read_built
from pykueue.base.text import printable
from pykueue.cli.flags import tolerating_unknown_gates
from pykueue.cli.logsetup import LEVELS
from pykueue.cli.manifestfiles import content, unreadable

NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@click.command()
@click.option("--config", "file", metavar="FILE", help="Kueue's Configuration file; without it, the defaults.")
@click.option("--kubeconfig", metavar="FILE", help="How to reach the cluster; by default as kubectl, or from within.")
@click.option("--context", metavar="NAME", help="Which context of the kubeconfig; by default the current one.")
@click.option("--feature-gates", metavar="NAME=BOOL,...", default="", help="Feature gates; not with those of the file.")
@tolerating_unknown_gates
@click.option(
    "--controllers",
    metavar="LIST",
    default="*",
    show_default=True,
    help="Which parts run, as in '*,-webhooks': scheduling (admission and preemption alone), jobs, workloads, checks,"
    " status, pods, webhooks.",
)
@click.option(
    "--journal", metavar="FILE", help="Write every decision and its grounds here; `pykueue replay` re-runs it."
)
@click.option(
    "--metrics-secure/--no-metrics-secure",
    default=True,
    help="Serve /metrics over https to those with a token that may read it, or over http to anyone.",
)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
@click.option("--identity", metavar="NAME", help="Name in the leader election; by default the host and a number.")
def manager(
    file: str | None,
    kubeconfig: str | None,
    context: str | None,
    feature_gates: str,
    tolerate_unknown_gates: bool,
    controllers: str,
    journal: str | None,
    metrics_secure: bool,
    log_format: str,
    log_level: str,
    identity: str | None,
) -> None:
    """Decide which jobs of a cluster may start.

    Takes the place of Kueue's manager: same kinds, labels, conditions, events and metrics, same Configuration file,
    same Lease, so that the two never act at the same time. Several replicas may run; one leads, the others stand by.

    In a cluster, `pykueue manifests` installs it. On your own machine, where no API server can reach its webhooks,
    install the rest, and leave those out here too:

    \b
    Example:
      pykueue manifests --only namespace --only crds --only rbac --only flow --only config |
        kubectl apply --server-side -f -
      pykueue manager --kubeconfig ~/.kube/config --controllers '*,-webhooks'

    Exit codes: 0, stopped by SIGTERM or Ctrl-C; 1, the lease was lost, or a port could not be had; 2, something is
    wrong with the flags or the Configuration.
    """
    # What a server needs is read only when one is started.
    from pykueue.app.manager import ManagerPlan, serve
    from pykueue.cli import logsetup
    from pykueue.kube.client.kubeconfig import KubeconfigError, connection

    chosen, unknown = choose(controllers)
    if unknown:
        fail(f"--controllers: {unknown}")
    loaded, mistakes = read_built(
        read_file(file),
        feature_gates=feature_gates,
        namespace=own_namespace(),
        tolerate_unknown_gates=tolerate_unknown_gates,
    )
    source = file or "the defaults"
    for mistake in mistakes:
        click.echo(printable(f"{source}: {mistake}"), err=True)
    if loaded is None or mistakes:
        sys.exit(2)
    try:
        reached = connection(kubeconfig, context)
    except KubeconfigError as error:
        fail(str(error))
    logsetup.begin(log_format, log_level)
    for warning in loaded.warnings:
        click.echo(printable(f"{source}: warning: {warning}"), err=True)
    plan = ManagerPlan(
        loaded,
        reached,
        chosen,
        None if journal is None else Path(journal),
        metrics_secure,
        # Two replicas of one name would both believe that they lead.
        identity or f"{socket.gethostname()}_{os.urandom(8).hex()}",
        int.from_bytes(os.urandom(4)),
    )
    sys.exit(serve(plan))


def choose(text: str) -> tuple[frozenset[str], str]:
    """The parts that a list names, `*` being all and a leading dash meaning not; and what is wrong with the list."""
    from pykueue.app.controllers import CONTROLLERS

    chosen: set[str] = set()
    for word in [word.strip() for word in text.split(",") if word.strip()]:
        name = word.removeprefix("-")
        if name != "*" and name not in CONTROLLERS:
            return frozenset(), f"{name!r} is no part of the manager; write one of: *, {', '.join(CONTROLLERS)}"
        named = set(CONTROLLERS) if name == "*" else {name}
        chosen = chosen - named if word.startswith("-") else chosen | named
    if not chosen:
        return frozenset(), "nothing is left to run; begin with '*' and leave out what you do not want"
    return frozenset(chosen), ""


def read_file(file: str | None) -> bytes:
    """The text of the Configuration."""
    if file is None:
        return MINIMAL.encode()
    try:
        return content(file)
    except (OSError, ValueError) as error:
        fail(f"{file}: {unreadable(error)}")


def own_namespace() -> str:
    """The namespace that this process runs in, if it runs in a cluster."""
    try:
        return NAMESPACE_FILE.read_text().strip()
    except OSError:
        return ""


def fail(text: str) -> NoReturn:
    """Say what is wrong with the input, and end."""
    click.echo(printable(text), err=True)
    sys.exit(2)
