"""`pykueue export`: the queues, users and waiting Jobs of a machine as YAML for a cluster."""

import os
import sys
from typing import TYPE_CHECKING, Final

import click

from pykueue.base.text import printable
from pykueue.cli.flags import choosing_server
from pykueue.cli.serverstate import fail

if TYPE_CHECKING:
    from pathlib import Path

    from pykueue.cli.queues.exporting import Moved
    from pykueue.kube.client.http import HttpKube

PARTS: Final = ("queues", "users", "jobs")


@click.command()
@click.option(
    "--only", multiple=True, type=click.Choice(PARTS), help="Export only this part; repeatable. Default: everything."
)
@click.option("--file", metavar="FILE", help="Write the YAML to a new file with mode 0600 instead of standard output.")
@click.option("--strict", is_flag=True, help="Exit with code 1 if objects need manual changes.")
@choosing_server
def export(
    only: tuple[str, ...],
    file: str | None,
    strict: bool,
    kubeconfig: str | None,
    context: str | None,
    data: str | None,
) -> None:
    """Print queues, users and pending Jobs as YAML for a cluster.

    Queues are flavors, cohorts, ClusterQueues, LocalQueues with their namespaces, and priority classes. A user becomes
    a namespace and a RoleBinding to Kueue's role for users. Only pending Jobs are exported; they stay suspended until
    the queue of the cluster admits them. This machine is not changed.

    Objects that need changes, such as a Job without an image, are listed on standard error.

    \b
    Example:
      pykueue export > lab.yaml
      pykueue export --only queues | kubectl --context lab apply --server-side -f -
      pykueue export --file lab.yaml --strict

    Exit codes: 0, success; 1, the server rejected the request or does not respond, or --strict found objects that need
    changes; 2, invalid input.
    """
    from pykueue.api.install.manifests import rendered
    from pykueue.cli.queues.exporting import lint
    from pykueue.cli.session import asked
    from pykueue.cli.target import chosen

    target = chosen(kubeconfig, context, data)
    parts = only or PARTS
    objects = asked(target, "export", lambda kube: collected(kube, parts, target.folder))
    written(rendered([one.tree for one in objects]), file)
    problems = lint(objects)
    if "users" in parts and target.folder is None:
        click.echo("users are omitted: only the administrator can read them, on the machine itself", err=True)
    for one in problems:
        click.echo(printable(one), err=True)
    if strict and problems:
        sys.exit(1)


async def collected(kube: "HttpKube", parts: tuple[str, ...], folder: "Path | None") -> list["Moved"]:
    """The objects of these parts, in an order in which they can be applied."""
    from pykueue.api.trees import text
    from pykueue.cli.objects import everything
    from pykueue.cli.queues.exporting import Moved, cleaned, job, namespace, waits
    from pykueue.kube.port import (
        CLUSTER_QUEUES,
        COHORTS,
        JOBS,
        LOCAL_QUEUES,
        RESOURCE_FLAVORS,
        WORKLOAD_PRIORITY_CLASSES,
    )

    found: list[Moved] = []
    if "queues" in parts:
        for resource in (RESOURCE_FLAVORS, COHORTS, CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOAD_PRIORITY_CLASSES):
            found += [Moved(cleaned(one), []) for one in await everything(kube, resource)]
    if "users" in parts and folder is not None:
        found += users(folder)
    if "jobs" in parts:
        found += [job(one) for one in await everything(kube, JOBS) if waits(one)]
    needed = {text(one.tree, "metadata", "namespace") for one in found} - {"", "default"}
    return [*(namespace(name) for name in sorted(needed)), *found]


def users(folder: "Path") -> list["Moved"]:
    """The role bindings of the users of a data directory."""
    from pykueue.apiserver.auth.users import ADMIN, Users, UsersError
    from pykueue.cli.queues.exporting import binding

    try:
        known = Users(folder).all()
    except UsersError as error:
        fail(str(error))
    return [
        binding(one.name, one.namespace, admin=one.role == "admin")
        for one in sorted(known.values(), key=lambda one: one.name)
        if not one.revoked and one.name != ADMIN
    ]


def written(text: str, file: str | None) -> None:
    """Write the YAML; exits with an error if the file exists or cannot be written."""
    if file is None:
        click.echo(text, nl=False)
        return
    try:
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as opened:
            opened.write(text)
    except FileExistsError:
        fail(f"--file: {file} already exists; choose another name, or remove it")
    except OSError as error:
        fail(f"--file: {file}: {error.strerror}")
