"""Write objects as kueuectl does: with a dry run, and one line about each object."""

from collections.abc import Callable
from typing import Final

import click
import msgspec

from pykueue.api.trees import Tree, mapping, text
from pykueue.base.text import printable
from pykueue.cli.formats import echo, printed
from pykueue.kube.client.http import Call, HttpKube, called, collection, path_of, query
from pykueue.kube.port import Patch, Resource

SUFFIXES: Final = {"none": "", "client": " (client dry run)", "server": " (server dry run)"}
"""What follows the line about an object, by the value of --dry-run."""
ALL: Final = "All"
"""The value of the parameter dryRun."""


def terms(dry_run: str) -> str:
    """The query string of a write."""
    return query(dryRun=ALL if dry_run == "server" else "")


async def create(kube: HttpKube, resource: Resource, tree: Tree, namespace: str = "", *, dry_run: str) -> Tree:
    """Create an object, and return it as the server shows it; a dry run of the client returns it as it is."""
    if dry_run == "client":
        return tree
    name = text(tree, "metadata", "name")
    call = Call(
        "POST",
        collection(resource, namespace) + terms(dry_run),
        called("create", resource, namespace, name),
        msgspec.json.encode(tree),
    )
    return decoded(await kube.call(call))


async def merge(
    kube: HttpKube, resource: Resource, name: str, change: Tree, namespace: str = "", *, dry_run: str
) -> Tree:
    """Merge a change into the spec of an object, and return the object."""
    found = decoded(await kube.get(resource, name, namespace))
    if dry_run == "client":
        return {**found, "spec": {**mapping(found, "spec"), **change}}
    call = Call(
        "PATCH",
        path_of(resource, namespace, name) + terms(dry_run),
        called("patch", resource, namespace, name),
        msgspec.json.encode({"spec": change}),
        Patch.MERGE.value,
    )
    return decoded(await kube.call(call))


async def delete(kube: HttpKube, resource: Resource, name: str, namespace: str = "", *, dry_run: str) -> None:
    """Delete an object."""
    if dry_run == "client":
        return
    options: dict[str, object] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
    if dry_run == "server":
        options["dryRun"] = [ALL]
    call = Call(
        "DELETE",
        path_of(resource, namespace, name),
        called("delete", resource, namespace, name),
        msgspec.json.encode(options),
    )
    await kube.call(call)


def decoded(body: bytes) -> Tree:
    """The object in a response."""
    found: Tree = msgspec.json.decode(body)
    return found


def reference(resource: Resource, name: str) -> str:
    """An object as kubectl names it: `clusterqueue.kueue.x-k8s.io/main`."""
    group = f".{resource.group}" if resource.group else ""
    return f"{resource.kind.lower()}{group}/{name}"


def report(tree: Tree, resource: Resource, verb: str, *, dry_run: str, output: str | None) -> None:
    """Print the line about an object that was written, or the object itself in the format of -o."""
    name = reference(resource, text(tree, "metadata", "name"))
    if output is None:
        # Without a verb kueuectl prints two spaces before the suffix.
        done = f"{verb}{SUFFIXES[dry_run]}"
        click.echo(printable(f"{name} {done}" if done else name))
        return
    shown: Callable[[], object] = lambda: {"apiVersion": resource.api_version, "kind": resource.kind, **bare(tree)}  # noqa: E731
    echo(printed([tree], (), output, name=lambda _: name, document=shown))


def bare(tree: Tree) -> Tree:
    """The object without `managedFields`, as kubectl shows it."""
    metadata = {key: value for key, value in mapping(tree, "metadata").items() if key != "managedFields"}
    return {**tree, "metadata": metadata}
