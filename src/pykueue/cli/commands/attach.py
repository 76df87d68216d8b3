"""`pykueue attach`: follow a Job that was submitted before."""

import asyncio
import sys

import click

from pykueue.cli import completion
from pykueue.cli.flags import choosing_server, namespaced


@click.command()
@click.argument("name", metavar="NAME[:INDEX]", shell_complete=completion.jobs)
@namespaced
@choosing_server
def attach(name: str, namespace: str | None, kubeconfig: str | None, context: str | None, data: str | None) -> None:
    """Follow a job as `pykueue run` does.

    While the job is pending, the reason is printed whenever it changes; then its output is shown from the beginning and
    streamed, and `pykueue attach` exits with the exit code of the job. Ctrl-C detaches: the job continues. A restart of
    the server does not interrupt it. Standard input is not passed on.

    \b
    Example:
      pykueue attach train-x7k2p
      pykueue attach sweep:3

    A job that prints faster than its output is read does not wait for `pykueue attach`, as it does for the
    `pykueue run` that started it: output that exceeds the log is dropped, and a line says how much.

    Exit codes: 0, success; the exit code of the job; 1, the job does not exist, was deleted or failed without an exit
    code, or part of its output is missing; 2, invalid input; 130, Ctrl-C.
    """
    from pykueue.api.core import Tree
    from pykueue.cli.follow.job import Following
    from pykueue.cli.jobs.chosen import ERROR, Missing, found, named, report
    from pykueue.cli.target import chosen
    from pykueue.kube.port import Kube

    wanted = named(name)
    target = chosen(kubeconfig, context, data)
    within = namespace or target.connection.namespace

    async def start(kube: Kube) -> Tree | int:
        try:
            return (await found(kube, within, wanted)).tree
        except Missing as error:
            return report(error)

    following = Following(target, within, command="attach", index=wanted.index)
    sys.exit(asyncio.run(following.run(start, failing=ERROR)))
