"""`pykueue queue add`, `set` and `remove`: divide a machine between teams without writing YAML."""

from typing import TYPE_CHECKING, Any, Final

import click

from pykueue.api.core import Tree
from pykueue.api.names import GPU
from pykueue.api.trees import text, whole
from pykueue.base.units import QuantityError, parse_quantity
from pykueue.cli import completion
from pykueue.cli.amounts import memory_quantity
from pykueue.cli.flags import Command, Count, choosing_server
from pykueue.cli.groups import Group
from pykueue.cli.serverstate import fail

if TYPE_CHECKING:
    from pykueue.kube.client.http import HttpKube

ATTEMPTS: Final = 5
"""How often a change is retried that another client overtakes."""


def quota_options(command: Command) -> Command:
    """Add the options that name quotas."""
    for option in (
        click.option("--gpu", "--gpus", "gpu", type=Count(0), metavar="N", help="GPUs that the queue owns."),
        click.option("--memory", metavar="QUANTITY", help="Memory that it owns, e.g. 32Gi."),
        click.option("--cpu", "--cpus", "cpu", metavar="QUANTITY", help="Cores that it owns, e.g. 8 or 500m."),
        click.option(
            "--share",
            metavar="SHARE",
            help="Part of every resource of the machine that the queue owns, e.g. 25% or 1/4.",
        ),
    ):
        command = option(command)
    return command


dry_running: Final = click.option("--dry-run", is_flag=True, help="Print the objects as YAML instead of applying them.")


@click.group(cls=Group)
def queue() -> None:
    """Divide the machine between teams, without writing YAML.

    A queue is a ClusterQueue, which owns quota, and a LocalQueue of the same name in each namespace that submits to it.
    Queues of the same cohort lend each other unused quota, and reclaim it when they need it.

    \b
    Example:
      pykueue queue add vision --share 50% --namespace alice --namespace bob
      pykueue queue add scratch --share 0
      pykueue queue set vision --gpu 2
      pykueue queue add speech --cpu 8 --memory 32Gi --dry-run
      pykueue queue remove scratch

    Exit codes: 0, success; 1, the server rejected the request or does not respond; 2, invalid input.
    """


@queue.command()
@click.argument("name")
@quota_options
@click.option(
    "--cohort", metavar="NAME", default="machine", show_default=True, help="Cohort with which it shares idle quota."
)
@click.option("--flavor", metavar="NAME", help="ResourceFlavor of the quota; default: `machine`, or the only one.")
@click.option("--alone", is_flag=True, help="Do not share quota: no cohort.")
@click.option("--no-borrowing", is_flag=True, help="Never use idle quota of other queues.")
@click.option("--no-lending", is_flag=True, help="Never lend idle quota to other queues.")
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="NAME",
    help="Namespace that may submit to it; repeatable. Default: that of the kubeconfig.",
    shell_complete=completion.namespaces,
)
@dry_running
@choosing_server
def add(
    name: str,
    share: str | None,
    cpu: str | None,
    memory: str | None,
    gpu: int | None,
    cohort: str,
    flavor: str | None,
    alone: bool,
    no_borrowing: bool,
    no_lending: bool,
    namespaces: tuple[str, ...],
    dry_run: bool,
    kubeconfig: str | None,
    context: str | None,
    data: str | None,
) -> None:
    """Create queue NAME with a quota.

    The quota of a resource is the value of its option, otherwise the --share of the machine, otherwise 0, so that the
    queue only uses what it can borrow. Existing queues are not changed, so all queues together may own more than the
    machine has; in this case a warning is printed.

    \b
    Example:
      pykueue queue add vision --share 50% --namespace alice --namespace bob
      pykueue queue add speech --cpu 8 --memory 32Gi --gpu 1
      pykueue queue add scratch --share 0
      pykueue queue add exam --cpu 2 --alone --dry-run

    Exit codes: 0, success; 1, the server rejected the request or does not respond; 2, invalid input.
    """
    given = quotas_of(cpu, memory, gpu)
    if not given and share is None:
        fail("specify a quota: --share 25%, or --cpu, --memory and --gpu; --share 0 for a queue that only borrows")
    import msgspec

    from pykueue.cli.objects import everything
    from pykueue.cli.queues.examples import cluster_queue, named
    from pykueue.cli.queues.plans import LIMITS, PlanError, capacity, described, limited, overcommitted, quotas
    from pykueue.cli.queues.quotas import nominal
    from pykueue.cli.session import asked
    from pykueue.cli.target import chosen
    from pykueue.kube.port import CLUSTER_QUEUES, LOCAL_QUEUES, NODES, RESOURCE_FLAVORS

    target = chosen(kubeconfig, context, data)
    within = namespaces or (target.connection.namespace,)

    async def work(kube: "HttpKube") -> None:
        amounts = capacity(await everything(kube, NODES))
        used, missing = await flavor_of(kube, flavor)
        try:
            owned = quotas(given, share, amounts)
        except PlanError as error:
            fail(f"--share: {error}")
        made: Tree = cluster_queue(name, owned, "" if alone else cohort, used)
        fields = [LIMITS[flag] for flag, on in (("--no-borrowing", no_borrowing), ("--no-lending", no_lending)) if on]
        if fields and alone:
            fail(
                "--alone: cannot be combined with --no-borrowing or --no-lending; a queue without a cohort does neither"
            )
        if fields:
            made = limited(made, fields)
        others = await everything(kube, CLUSTER_QUEUES)
        # Check what can be refused before anything is created.
        if any(text(one, "metadata", "name") == name for one in others):
            fail(f"queue {name} already exists; change its quota with `pykueue queue set {name}`", 1)
        for one in within:
            await check_namespace(kube, one, name)
        trees = [
            *([(RESOURCE_FLAVORS, named("ResourceFlavor", used, {"spec": {}}))] if missing else []),
            (CLUSTER_QUEUES, made),
            *((LOCAL_QUEUES, named("LocalQueue", name, {"spec": {"clusterQueue": name}}, one)) for one in within),
        ]
        if dry_run:
            print_yaml([tree for _, tree in trees])
        else:
            for resource, tree in trees:
                await kube.create(resource, msgspec.json.encode(tree), text(tree, "metadata", "namespace"))
            click.echo(f"queue {name} created: {described(owned)}; submit from namespace {', '.join(within)}")
        warn(overcommitted(nominal([*others, made]), amounts))

    asked(target, "queue", work)


@queue.command(name="set")
@click.argument("name", shell_complete=completion.cluster_queues)
@quota_options
@dry_running
@choosing_server
def set_quota(
    name: str,
    share: str | None,
    cpu: str | None,
    memory: str | None,
    gpu: int | None,
    dry_run: bool,
    kubeconfig: str | None,
    context: str | None,
    data: str | None,
) -> None:
    """Change the quota of queue NAME.

    Other resources keep their quota. A smaller quota does not stop running jobs; new jobs wait until the queue uses
    less than it owns.

    \b
    Example:
      pykueue queue set vision --gpu 2
      pykueue queue set speech --cpu 12 --memory 48Gi --dry-run

    Exit codes: 0, success; 1, the server rejected the request or does not respond; 2, invalid input.
    """
    given = quotas_of(cpu, memory, gpu)
    if not given and share is None:
        fail("specify the quota to change: --share, --cpu, --memory or --gpu")
    import msgspec

    from pykueue.cli.objects import everything
    from pykueue.cli.queues.plans import PlanError, capacity, changed, described, overcommitted, owned_by, quotas
    from pykueue.cli.queues.quotas import nominal
    from pykueue.cli.session import asked
    from pykueue.cli.target import chosen
    from pykueue.kube.port import CLUSTER_QUEUES, NODES, ConflictError

    async def work(kube: "HttpKube") -> None:
        amounts = capacity(await everything(kube, NODES))
        for attempt in range(ATTEMPTS):
            before = await existing(kube, name)
            try:
                wanted = quotas(given, share, amounts) if share is not None else given
                made = changed(before, wanted)
            except PlanError as error:
                fail(str(error))
            if dry_run:
                print_yaml([stripped(made)])
                break
            try:
                await kube.replace(CLUSTER_QUEUES, name, msgspec.json.encode(made))
            except ConflictError:
                if attempt == ATTEMPTS - 1:
                    raise
                continue
            click.echo(f"queue {name} changed: {described(owned_by(made))}")
            break
        others = [one for one in await everything(kube, CLUSTER_QUEUES) if text(one, "metadata", "name") != name]
        warn(overcommitted(nominal([*others, made]), amounts))

    asked(chosen(kubeconfig, context, data), "queue", work)


@queue.command()
@click.argument("name", shell_complete=completion.cluster_queues)
@click.option(
    "--force", is_flag=True, help="Remove the queue even if it has pending or running jobs; they lose their queue."
)
@click.option("--dry-run", is_flag=True, help="Print what would be removed.")
@choosing_server
def remove(
    name: str, force: bool, dry_run: bool, kubeconfig: str | None, context: str | None, data: str | None
) -> None:
    """Remove queue NAME: its LocalQueues in all namespaces, and its ClusterQueue.

    A queue with pending or running jobs is only removed with --force: running jobs then finish, pending jobs wait until
    they are given another queue, and the ClusterQueue is deleted with its last job.

    \b
    Example:
      pykueue queue remove scratch
      pykueue queue remove scratch --dry-run

    Exit codes: 0, success; 1, jobs use it, or the server rejected the request or does not respond.
    """

    from pykueue.cli.objects import everything
    from pykueue.cli.session import asked
    from pykueue.cli.target import chosen
    from pykueue.kube.port import CLUSTER_QUEUES, LOCAL_QUEUES, NotFoundError

    async def work(kube: "HttpKube") -> None:
        found = await existing(kube, name)
        pending, reserving = (whole(found, "status", f"{one}Workloads") or 0 for one in ("pending", "reserving"))
        if (pending or reserving) and not force:
            fail(
                f"queue {name}: {pending} jobs are pending and {reserving} hold quota; wait until they have "
                "ended, cancel them, or add --force",
                1,
            )
        doors = [one for one in await everything(kube, LOCAL_QUEUES) if text(one, "spec", "clusterQueue") == name]
        for door in doors:
            namespace, local = text(door, "metadata", "namespace"), text(door, "metadata", "name")
            if not dry_run:
                try:
                    await kube.delete(LOCAL_QUEUES, local, namespace)
                except NotFoundError:
                    continue
            click.echo(f"LocalQueue {namespace}/{local} {'would be ' if dry_run else ''}removed")
        if not dry_run:
            await kube.delete(CLUSTER_QUEUES, name)
        click.echo(f"queue {name} {'would be ' if dry_run else ''}removed")

    asked(chosen(kubeconfig, context, data), "queue", work)


def quotas_of(cpu: str | None, memory: str | None, gpu: int | None) -> dict[str, str]:
    """The quotas that options name; exits with an error if one is malformed."""
    asked = {"cpu": cpu, "memory": memory, GPU: None if gpu is None else str(gpu)}
    for name, amount in asked.items():
        if amount is None:
            continue
        try:
            zero = name == "memory" and amount == "0"
            found = memory_quantity(amount) if name == "memory" and not zero else parse_quantity(amount)
        except QuantityError as error:
            fail(f"--{name}: {error}")
        if found.nanos < 0:
            fail(f"--{name}: {amount!r} is negative; use 0 or more")
    return {name: amount for name, amount in asked.items() if amount is not None}


async def flavor_of(kube: "HttpKube", wanted: str | None) -> tuple[str, bool]:
    """The ResourceFlavor for a new queue, and whether it has to be created; exits if several could be meant."""
    from pykueue.cli.objects import everything
    from pykueue.cli.queues.examples import FLAVOR
    from pykueue.kube.port import RESOURCE_FLAVORS

    names = sorted(text(one, "metadata", "name") for one in await everything(kube, RESOURCE_FLAVORS))
    if wanted is not None:
        if wanted not in names:
            fail(f"--flavor: no ResourceFlavor {wanted!r}; use one of: {', '.join(names) or 'none exists yet'}", 1)
        return wanted, False
    if FLAVOR in names or not names:
        return FLAVOR, not names
    if len(names) > 1:
        fail(f"--flavor: choose one of the ResourceFlavors: {', '.join(names)}")
    return names[0], False


async def existing(kube: "HttpKube", name: str) -> Tree:
    """A ClusterQueue; exits with an error if it does not exist."""
    import msgspec

    from pykueue.cli.objects import everything
    from pykueue.kube.port import CLUSTER_QUEUES, NotFoundError

    try:
        found: Tree = msgspec.json.decode(await kube.get(CLUSTER_QUEUES, name))
    except NotFoundError:
        names = sorted(text(one, "metadata", "name") for one in await everything(kube, CLUSTER_QUEUES))
        fail(f"no queue {name!r}; queues: {', '.join(names) or 'none yet'}", 1)
    return found


async def check_namespace(kube: "HttpKube", namespace: str, name: str) -> None:
    """Exit with an error if a namespace does not exist or has a LocalQueue of this name."""
    from pykueue.kube.port import LOCAL_QUEUES, NAMESPACES, NotFoundError

    try:
        await kube.get(NAMESPACES, namespace)
    except NotFoundError:
        fail(f"--namespace: no namespace {namespace!r}; create it, or add its user with `pykueue user add`", 1)
    try:
        await kube.get(LOCAL_QUEUES, name, namespace)
    except NotFoundError:
        return
    fail(f"namespace {namespace} already has a LocalQueue {name}; choose another name, or delete it first", 1)


def stripped(tree: Tree) -> dict[str, Any]:
    """An object without what the server adds."""
    metadata = tree["metadata"]
    assert isinstance(metadata, dict)
    return {
        "apiVersion": tree["apiVersion"],
        "kind": tree["kind"],
        "metadata": {key: metadata[key] for key in ("name", "namespace", "labels") if key in metadata},
        "spec": tree["spec"],
    }


def print_yaml(trees: list[Tree]) -> None:
    """Print objects as YAML documents."""
    from pykueue.api.install.manifests import rendered

    click.echo(rendered(trees), nl=False)


def warn(sentences: list[str]) -> None:
    """Print warnings to standard error."""
    for one in sentences:
        click.echo(f"warning: {one}", err=True)
