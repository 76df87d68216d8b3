"""`pykueue attach`: follow a Job that was submitted before."""

import asyncio
import sys

import click

from pykueue.cli import completion
from pykueue.cli.flags import choosing_server, namespaced


@click.command()
@click.argument("name", metavar="NAME[:INDEX]", shell_complete=completion.jobs)
@click.option("--no-stdin", is_flag=True, help="Do not pass standard input to the job.")
@namespaced
@choosing_server
def attach(
    name: str,
    no_stdin: bool,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
    data: str | None,
) -> None:
    """Follow a job as `pykueue run` does.

    While the job is pending, the reason is printed whenever it changes; then its output is shown from the beginning and
    streamed, and `pykueue attach` exits with the exit code of the job. Ctrl-C detaches: the job continues. A restart of
    the server does not interrupt it. For an array, follow a single task with NAME:N, numbered as in `--array`.

    Standard input is passed to a job if its container has `stdin: true`; with `stdinOnce: true`, the job's standard
    input ends with yours, or when you detach. If the container also has `tty: true`, as with
    `pykueue run --interactive`, and you are on a terminal, the terminals are connected: the output starts with what has
    not been shown yet, all keys are sent to the job, including Ctrl-C, and closing the terminal detaches. --no-stdin
    only shows the output.

    \b
    Example:
      pykueue attach train-x7k2p
      pykueue attach sweep:3
      pykueue attach calculator < tasks.txt

    A job that prints faster than its output is read waits for the `pykueue run` that started it, but not for
    `pykueue attach`: output that exceeds the log is dropped, and a line shows how much.

    Exit codes: 0, success; the exit code of the job, 124 if it reached its time limit; 1, the job does not exist, was
    deleted or failed without an exit code, or part of its output is missing; 2, invalid input; 130, Ctrl-C; 141, the
    reader of the output exited.
    """
    from pykueue.api.core import Tree
    from pykueue.api.trees import mappings, member
    from pykueue.cli.follow.interactive import FollowingTerminal
    from pykueue.cli.follow.job import Following
    from pykueue.cli.follow.terminal import warn_of_input
    from pykueue.cli.jobs.chosen import ERROR, Missing, check_one_task, found, named, report
    from pykueue.cli.target import chosen
    from pykueue.kube.port import Kube

    wanted = named(name)
    target = chosen(kubeconfig, context, data)
    within = namespace or target.connection.namespace

    async def start(kube: Kube) -> Tree | int:
        try:
            job = await found(kube, within, wanted)
            check_one_task(job)
        except Missing as error:
            return report(error)
        tree = job.tree
        # Known by its index from here on.
        following.index = job.index
        containers = mappings(tree, "spec", "template", "spec", "containers")
        if not no_stdin and not any(member(one, "stdin") is True for _, one in containers):
            warn_of_input()
        return tree

    kind = Following if no_stdin else FollowingTerminal
    following: Following = kind(target, within, command="attach")
    sys.exit(asyncio.run(following.run(start, failing=ERROR)))
