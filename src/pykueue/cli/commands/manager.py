"""`pykueue manager`: run the scheduler, controllers and webhooks on a Kubernetes cluster."""

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
@click.option("--config", "file", metavar="FILE", help="Kueue Configuration file; defaults apply without it.")
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Kubeconfig of the cluster; default: as kubectl, or the in-cluster credentials.",
)
@click.option("--context", metavar="NAME", help="Kubeconfig context; default: the current one.")
@click.option(
    "--feature-gates",
    metavar="NAME=BOOL,...",
    default="",
    help="Feature gates; cannot be combined with `featureGates` in the file.",
)
@tolerating_unknown_gates
@click.option(
    "--controllers",
    metavar="LIST",
    default="*",
    show_default=True,
    help="Controllers to run, e.g. '*,-webhooks': scheduling (admission and preemption), jobs, workloads, checks,"
    " status, pods, webhooks.",
)
@click.option(
    "--merge-admission-events",
    "merged_events",
    is_flag=True,
    help="Write one Event instead of two when quota is reserved and the workload admitted in one step.",
)
@click.option("--journal", metavar="FILE", help="Record every decision and its input in FILE, for `pykueue replay`.")
@click.option(
    "--metrics-secure/--no-metrics-secure",
    default=True,
    help="Serve /metrics over https to authorized clients, or over http to everyone.",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Log format."
)
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True, help="Lowest level to log.")
@click.option(
    "--identity", metavar="NAME", help="Name for leader election; default: the host name and a random suffix."
)
def manager(
    file: str | None,
    kubeconfig: str | None,
    context: str | None,
    feature_gates: str,
    tolerate_unknown_gates: bool,
    controllers: str,
    merged_events: bool,
    journal: str | None,
    metrics_secure: bool,
    log_format: str,
    log_level: str,
    identity: str | None,
) -> None:
    """Run the controllers on a Kubernetes cluster.

    Replaces Kueue's manager: it has the same kinds, labels, conditions, events, metrics and Configuration file. It also
    uses the same Lease, so the two are never active at the same time. You can run several replicas; one of them is the
    leader.

    `pykueue manifests` installs it in a cluster. To run it on your own machine, where the API server cannot reach its
    webhooks, install everything except the webhooks and disable them here:

    \b
    Example:
      pykueue manifests --only namespace --only crds --only rbac --only flow --only config |
        kubectl apply --server-side -f -
      pykueue manager --kubeconfig ~/.kube/config --controllers '*,-webhooks'

    Exit codes: 0, stopped by SIGTERM or Ctrl-C; 1, lost the lease, or a port is not available; 2, invalid options or
    Configuration.
    """
    # Imported here so that other commands start faster.
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
    source = file or "default Configuration"
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
        # Two replicas with one name would both act as leader.
        identity or f"{socket.gethostname()}_{os.urandom(8).hex()}",
        int.from_bytes(os.urandom(4)),
        merged_events,
    )
    sys.exit(serve(plan))


def choose(text: str) -> tuple[frozenset[str], str]:
    """The controllers that a list selects (`*` is all, `-NAME` excludes one), and what is wrong with the list."""
    from pykueue.app.controllers import CONTROLLERS

    chosen: set[str] = set()
    for word in [word.strip() for word in text.split(",") if word.strip()]:
        name = word.removeprefix("-")
        if name != "*" and name not in CONTROLLERS:
            return frozenset(), f"unknown controller {name!r}; use one of: *, {', '.join(CONTROLLERS)}"
        named = set(CONTROLLERS) if name == "*" else {name}
        chosen = chosen - named if word.startswith("-") else chosen | named
    if not chosen:
        return frozenset(), "the list selects no controller; start it with '*' and exclude some, e.g. '*,-webhooks'"
    return frozenset(chosen), ""


def read_file(file: str | None) -> bytes:
    """The content of the Configuration file."""
    if file is None:
        return MINIMAL.encode()
    try:
        return content(file)
    except (OSError, ValueError) as error:
        fail(f"{file}: {unreadable(error)}")


def own_namespace() -> str:
    """The namespace of this pod; empty outside a cluster."""
    try:
        return NAMESPACE_FILE.read_text().strip()
    except OSError:
        return ""


def fail(text: str) -> NoReturn:
    """Print an error and exit."""
    click.echo(printable(text), err=True)
    sys.exit(2)
