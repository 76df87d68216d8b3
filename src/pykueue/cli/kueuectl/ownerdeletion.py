"""Delete Workloads by deleting the jobs that own them; the words are kueuectl's."""

import contextlib
from collections.abc import Sequence

import click
import msgspec

from pykueue.api.trees import Tree, text
from pykueue.base.struct import Frozen
from pykueue.base.text import printable
from pykueue.cli.kueuectl.discovery import kinds_of
from pykueue.cli.kueuectl.listing import owners
from pykueue.cli.kueuectl.writes import SUFFIXES, delete, reference
from pykueue.cli.objects import everything
from pykueue.cli.serverstate import fail
from pykueue.kube.client.http import HttpKube
from pykueue.kube.port import WORKLOADS, NotFoundError, Resource


class Doomed(Frozen):
    """A Workload to delete, with the jobs that own it."""

    namespace: str
    name: str
    jobs: tuple[tuple[Resource, str], ...] = ()


async def planned(kube: HttpKube, names: Sequence[str], namespace: str) -> list[Doomed]:
    """The Workloads of these names, or all of the namespace without names; exits if the kind of a job is unknown."""
    trees = await found(kube, names, namespace)
    known = await kinds_of(kube, (text(one, "apiVersion") for tree in trees for one in owners(tree)))
    kinds = {(version, one.resource.kind): one.resource for version, served in known.items() for one in served}
    plan = []
    for tree in trees:
        jobs = []
        for owner in owners(tree):
            version, kind = text(owner, "apiVersion"), text(owner, "kind")
            if (version, kind) not in kinds:
                fail(f'no matches for kind "{kind}" in version "{version}"', 1)
            jobs.append((kinds[version, kind], text(owner, "name")))
        plan.append(Doomed(text(tree, "metadata", "namespace"), text(tree, "metadata", "name"), tuple(jobs)))
    return plan


async def found(kube: HttpKube, names: Sequence[str], namespace: str) -> list[Tree]:
    """The Workloads; a name that does not exist is reported."""
    trees: list[Tree] = [] if names else [*await everything(kube, WORKLOADS, namespace)]
    for name in names:
        try:
            trees.append(msgspec.json.decode(await kube.get(WORKLOADS, name, namespace)))
        except NotFoundError as error:
            click.echo(printable(error.message), err=True)
    return trees


def question(plan: Sequence[Doomed], *, everything: bool) -> str:
    """What to say before jobs are deleted; empty if there are none."""
    owned = [one for one in plan if one.jobs]
    if not owned:
        return ""
    if everything:
        return "This operation will also delete the jobs associated with these workloads.\n"
    lines = (
        f"  - {', '.join(f'{resource}/{name}' for resource, name in one.jobs)} associated with the "
        f"{one.namespace}/{one.name} workload\n"
        for one in owned
    )
    return f"This operation will also delete:\n{''.join(lines)}"


async def carried_out(kube: HttpKube, plan: Sequence[Doomed], *, dry_run: str) -> None:
    """Delete the jobs, or the Workloads that have none, and print a line about each."""
    for one in plan:
        targets = [(resource, name, f"{resource}/{name}") for resource, name in one.jobs]
        for resource, name, shown in targets or [(WORKLOADS, one.name, reference(WORKLOADS, one.name))]:
            with contextlib.suppress(NotFoundError):
                await delete(kube, resource, name, one.namespace, dry_run=dry_run)
            click.echo(printable(f"{shown} deleted{SUFFIXES[dry_run]}"))
