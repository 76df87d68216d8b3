"""`pykueue wait`: wait until Jobs have ended."""

import sys

import click

from pykueue.cli import completion
from pykueue.cli.flags import choosing_server, namespaced, selecting


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME[:INDEX]]...", shell_complete=completion.jobs)
@selecting
@click.option("--index", type=click.IntRange(min=0), metavar="N", help="Wait only for this task, as NAME:N.")
@click.option("--timeout", metavar="DURATION", help="Give up after this long, e.g. 30s or 2h30m.")
@click.option("--any", "first", is_flag=True, help="Wait only until one of the jobs has ended.")
@namespaced
@choosing_server
def wait(
    names: tuple[str, ...],
    selector: str | None,
    index: int | None,
    timeout: str | None,
    first: bool,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
    data: str | None,
) -> None:
    """Wait for jobs to end, and exit with their exit code.

    With several jobs, the exit code is that of the first job that failed, in the given order; with labels, in the order
    of their creation. With --any, it is that of the job that ended first. A restart of the server does not interrupt
    it. A job that is deleted in the meantime, for example by `pykueue cancel`, counts as failed with exit code 1.
    NAME:N is task N of an array, numbered as in `--array`, or index N of another Indexed Job.

    \b
    Example:
      pykueue wait train-x7k2p && ./publish.sh
      pykueue wait prepare-1 prepare-2 --timeout 2h
      pykueue wait sweep:3
      pykueue wait -l sweep=7 --any

    Exit codes: 0, all succeeded; the exit code of the job; 1, a job does not exist, was deleted, or failed without an
    exit code; 2, invalid input; 124, --timeout, or the job reached its time limit; 130, Ctrl-C.
    """
    from pykueue.cli.amounts import duration_of
    from pykueue.cli.groups import INTERRUPTED
    from pykueue.cli.jobs.chosen import names_of
    from pykueue.cli.jobs.waits import Waiting
    from pykueue.cli.serverstate import fail
    from pykueue.cli.session import asked
    from pykueue.cli.target import chosen

    wanted = names_of(names, selector, index)
    try:
        micros = None if timeout is None else duration_of(timeout)
    except ValueError as error:
        fail(f"--timeout: {error}")
    target = chosen(kubeconfig, context, data)
    within = namespace or target.connection.namespace
    waiting = Waiting(within, wanted, selector, index=index, first=first, micros=micros)
    try:
        sys.exit(asked(target, "wait", waiting.run))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
