"""`pykueue preview`: what a new job or a change of queues would do, before it is made."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypedDict

import click

from pykueue.cli.flags import choosing_format, choosing_server, namespaced
from pykueue.cli.serverstate import fail

if TYPE_CHECKING:
    from pykueue.api.previews import PreviewSpec, PreviewStatus
    from pykueue.sim.manifests import Document, Mistake

BODY_MAX: Final = 1024 * 1024
MISTAKES_SHOWN_MAX: Final = 50
NOT_FOUND: Final = 404
INVALID: Final = 422


class SpecOptions(TypedDict):
    """The options that are part of the question."""

    set_: tuple[str, ...]
    delete: tuple[str, ...]
    drain: tuple[str, ...]
    waits: bool


@click.command()
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    help="Manifests of new jobs or changed objects; - is stdin.",
)
@click.option("--set", "set_", multiple=True, metavar="KIND/NAME.FIELD=VALUE", help="Set a field of an object.")
@click.option("--delete", multiple=True, metavar="KIND/NAME", help="Delete an object.")
@click.option(
    "--drain", multiple=True, metavar="KIND/NAME", help="Stop a ClusterQueue or LocalQueue with HoldAndDrain."
)
@click.option("--waits", is_flag=True, help="Also estimate how the starts of pending jobs change.")
@click.option("--from", "dump", metavar="FILE", help="Start from manifests or a journal instead of a server.")
@click.option("--config", metavar="FILE", help="Configuration for --from; may also be among its manifests.")
@click.option("--exit-code", is_flag=True, help="Say with the exit code what would change.")
@namespaced
@choosing_format
@choosing_server
def preview(
    files: tuple[str, ...],
    set_: tuple[str, ...],
    delete: tuple[str, ...],
    drain: tuple[str, ...],
    waits: bool,
    dump: str | None,
    config: str | None,
    exit_code: bool,
    namespace: str | None,
    output: str | None,
    no_headers: bool,
    kubeconfig: str | None,
    context: str | None,
    data: str | None,
) -> None:
    """Show what a new job or a change would do, without doing it.

    A Job or Workload in FILE is one that would be created: it starts now, waits at some place, or can never start, and
    workloads that would have to leave for it are listed. Any other object in FILE replaces the one of its name. All
    changes of a command are made together, and everything is settled at once: what is stopped has stopped, and no job
    has finished.

    With --waits, both sides are then run forward up to 20 times, with the same run times on both, drawn as for
    `pykueue eta`. The answer has the median start of each affected workload before and after, also of those that only
    start earlier or later, and the median wait in each ClusterQueue. The runs assume that no quota changes and that no
    other job arrives.

    \b
    --set takes the quota of a resource, its limits, and some fields of spec:
      clusterqueue/main.cpu=64
      clusterqueue/main.nvidia.com/gpu.borrowingLimit=8
      clusterqueue/main.flavor/spot.cpu.lendingLimit=0
      clusterqueue/main.cohortName=research
      cohort/research.cpu=100
      localqueue/team-a/main.stopPolicy=Hold
    An empty value removes a limit or a field.

    New jobs of one namespace need the right to create `previews` there, everything else that to create
    `clusterpreviews`. Workloads in namespaces that you may not read are counted, not named.

    \b
    Example:
      pykueue preview -f job.yaml
      pykueue preview --set clusterqueue/team-a.cpu=64 --waits
      pykueue preview --drain clusterqueue/team-a -o json
      pykueue preview --from dump/ -f queues/ --exit-code

    Exit codes: 0, success; 1, the server refused it or does not respond; 2, invalid input. With --exit-code also: 0,
    the same workloads run; 3, a workload is worse off: evicted, restarted, not started, blocked, or can never start;
    4, no workload is worse off, and at least one starts, gets quota or is deleted. A later start does not count.
    """
    from pykueue.cli.formats import echo, printed
    from pykueue.cli.queues import whatif

    if not (files or set_ or delete or drain):
        fail(
            "nothing to preview; name a change with -f, --set, --delete or --drain, e.g. --set clusterqueue/main.cpu=64"
        )
    mistakes: list[Mistake] = []
    found = whatif.manifests(files, mistakes)
    if mistakes:
        complain(mistakes)
    changes: SpecOptions = {"set_": set_, "delete": delete, "drain": drain, "waits": waits}
    typed = (*set_, *delete, *drain)
    if dump is not None:
        spec = whatif.spec_of(found, namespace or "default", **changes)
        status = from_dump(dump, config, spec, found, lambda said: whatif.as_typed(said, typed, namespace or "default"))
    else:
        status = from_server(found, namespace, changes, (kubeconfig, context, data))
    if output in ("json", "yaml", "csv", "name"):
        echo(
            list(
                printed(
                    status.affected,
                    whatif.columns(status),
                    output,
                    name=lambda one: one.workload,
                    document=lambda: status,
                    no_headers=no_headers,
                )
            )
        )
    else:
        echo(list(whatif.rendered(status, output, no_headers=no_headers)))
    if exit_code:
        sys.exit(whatif.exit_code(status))


def complain(mistakes: "list[Mistake]") -> None:
    """Print what is wrong with the input, and exit."""
    lines = [str(one) for one in mistakes[:MISTAKES_SHOWN_MAX]]
    rest = len(mistakes) - MISTAKES_SHOWN_MAX
    fail_lines([*lines, f"and {rest} more"] if rest > 0 else lines)


def fail_lines(lines: list[str]) -> None:
    """Print several errors, and exit."""
    from pykueue.base.text import printable

    for line in lines[:-1]:
        click.echo(printable(line), err=True)
    fail(lines[-1])


def from_dump(
    file: str, config: str | None, spec: "PreviewSpec", found: "list[Document]", as_typed: Callable[[str], str]
) -> "PreviewStatus":
    """What the changes would do to the state in a dump; exits if they or the dump are invalid."""
    from pykueue.cli.queues import whatif
    from pykueue.sim.preview import answered
    from pykueue.sim.refusal import RefusedError
    from pykueue.sim.trace import Invalid

    try:
        status = answered(*whatif.dumped(file, config, spec, []))
    except Invalid as error:
        complain(list(error.mistakes))
    except RefusedError as error:
        fail_lines(as_typed(whatif.with_positions(str(error), found)).splitlines())
    return whatif.positioned(status, found)


def from_server(
    found: "list[Document]",
    namespace: str | None,
    changes: SpecOptions,
    server: tuple[str | None, str | None, str | None],
) -> "PreviewStatus":
    """What the changes would do to the live state; exits if the server refuses them."""
    import msgspec

    from pykueue.api.previews import CLUSTER_PREVIEW, PREVIEW, Preview
    from pykueue.api.query import CLUSTER_PREVIEWS, PREVIEWS, QUERY_GROUP, QUERY_VERSION
    from pykueue.cli.queues import whatif
    from pykueue.cli.session import asked
    from pykueue.cli.target import chosen
    from pykueue.kube.client.http import HttpKube
    from pykueue.kube.port import KubeError, Resource

    target = chosen(*server)
    space = namespace or target.connection.namespace or "default"
    spec = whatif.spec_of(found, space, **changes)
    within = whatif.own_namespace(spec)
    plural, kind = (PREVIEWS, PREVIEW) if within else (CLUSTER_PREVIEWS, CLUSTER_PREVIEW)
    resource = Resource(QUERY_GROUP, QUERY_VERSION, plural, kind, bool(within))
    body = msgspec.json.encode(Preview(kind=kind, spec=spec))
    if len(body) > BODY_MAX:
        fail(f"the changes have {len(body) >> 10} KiB, more than {BODY_MAX >> 10} KiB; split them, or use --from")

    async def question(kube: HttpKube) -> bytes:
        try:
            return await kube.create(resource, body, within)
        except KubeError as error:
            if error.code == NOT_FOUND:
                fail(
                    f"{target.connection.server}: there is no {plural}.{QUERY_GROUP}; the server is no pykueue, or an "
                    "older one; --from previews a dump of its objects",
                    1,
                )
            if error.code == INVALID:
                typed = (*changes["set_"], *changes["delete"], *changes["drain"])
                said = whatif.as_typed(whatif.with_positions(error.message, found), typed, space)
                fail_lines(said.splitlines())
            raise

    answer = msgspec.json.decode(asked(target, "preview", question), type=Preview)
    if answer.status is None:
        fail(f"{target.connection.server}: the answer has no status", 1)
    status = whatif.positioned(answer.status, found)
    return whatif.noting_an_older_server(status, spec, answer.spec)
