"""What a shell offers for a word: names of queues, jobs and other objects, for `shell_complete=` of an option.

Each function asks the server that the words before it choose, for as many pages as it needs and for at most
`WAIT_SECONDS`. If the server does not answer, nothing is offered, and nothing is printed.
"""

import contextlib
import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from pykueue.api.names import Annotation
from pykueue.api.trees import Tree, mappings, member, text

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Completer = Callable[[click.Context, click.Parameter, str], list[str]]
Keep = Callable[[Tree], bool]

OFFERED_MAX: Final = 100
PAGE_ITEMS: Final = 500
WAIT_SECONDS: Final = 2.0


def names(resource: str, keep: Keep | None = None) -> Completer:
    """A function that offers the names of objects; `resource` is the name of a constant of `kube.port`."""

    def offer(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        given = ctx.params.get(param.name or "")
        typed = given if isinstance(given, tuple) else ()

        def wanted(tree: Tree) -> bool:
            name = text(tree, "metadata", "name")
            return name.startswith(incomplete) and name not in typed and (keep is None or keep(tree))

        return list(dict.fromkeys(text(one, "metadata", "name") for one in asked(ctx, resource, wanted)))[:OFFERED_MAX]

    return offer


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """The names of files, which the shell itself completes."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def one_of(*words: str) -> Completer:
    """A function that offers these words."""
    return lambda ctx, param, incomplete: [word for word in words if word.startswith(incomplete)]


def asked(ctx: click.Context, resource: str, wanted: Keep) -> list[Tree]:
    """Objects of the server and the namespace that the command line chooses; none if it does not answer in time."""
    params = {key: value for one in chain(ctx) for key, value in one.params.items()}
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            return first_of(params, resource, wanted)
    except (Exception, SystemExit):
        # Whatever goes wrong, a shell that waits for words must not get an error message.
        return []


def chain(ctx: click.Context) -> list[click.Context]:
    """The context and those above it, from the top."""
    found = [ctx]
    while found[0].parent is not None:
        found.insert(0, found[0].parent)
    return found


def first_of(params: dict[str, object], resource: str, wanted: Keep) -> list[Tree]:
    """The first wanted objects, as many as are offered, or as come in time."""
    import asyncio

    import msgspec

    from pykueue.base.clock import SystemClock
    from pykueue.base.timers import timeout
    from pykueue.cli.target import chosen
    from pykueue.kube import port
    from pykueue.kube.client.http import Call, HttpKube, collection, query

    kubeconfig, context, data = (
        str(params[name]) if params.get(name) else None for name in ("kubeconfig", "context", "data")
    )
    target = chosen(kubeconfig, context, data)
    namespace = "" if params.get("all_namespaces") else str(params.get("namespace") or target.connection.namespace)
    kind = getattr(port, resource)

    async def ask() -> list[Tree]:
        kube = HttpKube(target.connection, SystemClock(), agent="pykueue-completion")
        found: list[Tree] = []
        terms = {"limit": str(PAGE_ITEMS)}
        try:
            with contextlib.suppress(TimeoutError):
                async with timeout(WAIT_SECONDS):
                    while len(found) < OFFERED_MAX:
                        path = collection(kind, namespace) + query(**terms)
                        page = msgspec.json.decode((await kube.exchange(Call("GET", path, f"list {kind}"))).body)
                        found += (one for _, one in mappings(page, "items") if wanted(one))
                        terms["continue"] = text(page, "metadata", "continue")
                        if not terms["continue"]:
                            break
        finally:
            await kube.close()
        return found

    return asyncio.run(ask())


def is_stopped(queue: Tree) -> bool:
    """Whether a ClusterQueue or LocalQueue is stopped."""
    return (text(queue, "spec", "stopPolicy") or "None") != "None"


def is_active(workload: Tree) -> bool:
    """Whether a Workload is active."""
    return member(workload, "spec", "active") is not False


def is_unfinished(job: Tree) -> bool:
    """Whether a Job has not ended."""
    from pykueue.cli.jobend import end_of

    return end_of(job) is None


def is_held(job: Tree) -> bool:
    """Whether a Job is held."""
    return text(job, "metadata", "annotations", Annotation.HOLD) == "true"


def contexts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The contexts of the kubeconfig that is used."""
    import os

    import yaml

    from pykueue.cli.target import default_kubeconfig, exported

    found: list[str] = []
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            given = ctx.params.get("kubeconfig")
            files = (str(given),) if given else exported(os.environ) or default_kubeconfig(os.environ)
        for file in files:
            with open(file, encoding="utf-8") as text_file:
                found += (text(one, "name") for _, one in mappings(yaml.safe_load(text_file), "contexts"))
    except (Exception, SystemExit):
        return []
    return [name for name in dict.fromkeys(found) if name.startswith(incomplete)][:OFFERED_MAX]


namespaces: Final = names("NAMESPACES")
jobs: Final = names("JOBS")
unfinished_jobs: Final = names("JOBS", is_unfinished)
held_jobs: Final = names("JOBS", is_held)
local_queues: Final = names("LOCAL_QUEUES")
running_local_queues: Final = names("LOCAL_QUEUES", lambda queue: not is_stopped(queue))
stopped_local_queues: Final = names("LOCAL_QUEUES", is_stopped)
cluster_queues: Final = names("CLUSTER_QUEUES")
running_cluster_queues: Final = names("CLUSTER_QUEUES", lambda queue: not is_stopped(queue))
stopped_cluster_queues: Final = names("CLUSTER_QUEUES", is_stopped)
workloads: Final = names("WORKLOADS")
active_workloads: Final = names("WORKLOADS", is_active)
inactive_workloads: Final = names("WORKLOADS", lambda workload: not is_active(workload))
priority_classes: Final = names("WORKLOAD_PRIORITY_CLASSES")
