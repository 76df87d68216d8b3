"""`pykueue logs`: print the output of Jobs."""

import asyncio
import sys

import click

from pykueue.cli import completion
from pykueue.cli.flags import choosing_server, namespaced, selecting


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME[:INDEX]]...", shell_complete=completion.jobs)
@selecting
@click.option("-f", "--follow", is_flag=True, help="Wait for more output until the job ends.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines of each pod.")
@click.option("--index", type=click.IntRange(min=0), metavar="N", help="Only this task, as NAME:N.")
@namespaced
@choosing_server
def logs(
    names: tuple[str, ...],
    selector: str | None,
    follow: bool,
    tail: int | None,
    index: int | None,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
    data: str | None,
) -> None:
    """Print the output of jobs.

    All pods of a job are shown, by index and then in the order of their start; if there are several, a line on standard
    error names each. Standard output and standard error stay separate and unchanged; on a cluster the kubelet merges
    them. With --follow, jobs are shown one after the other, each until it ends, and a restart of the server does not
    interrupt it; Ctrl-C only stops the output. NAME:N is task N of an array, numbered as in `--array`, or index N of
    another Indexed Job.

    The output is deleted with its pods when a job reaches its time limit, or is cancelled, held, requeued or preempted;
    the command then shows what happened, and when. To keep it, write it to a file: `pykueue run --output FILE`, or
    redirect inside the command. If a job writes such a file itself, the command shows its name.

    \b
    Example:
      pykueue logs train-x7k2p
      pykueue logs -f --tail 20 train-x7k2p
      pykueue logs sweep:3
      pykueue logs -l sweep=7 > all.txt

    Exit codes: 0, printed, or the job has not started; 1, a job does not exist, its output cannot be read, or part of
    it is missing; 2, invalid input; 130, Ctrl-C; 141, the reader of the output exited.
    """
    from pykueue.cli.groups import INTERRUPTED
    from pykueue.cli.jobs.chosen import names_of
    from pykueue.cli.jobs.logs import Logs
    from pykueue.cli.session import answered
    from pykueue.cli.target import chosen

    wanted = names_of(names, selector, index)
    target = chosen(kubeconfig, context, data)
    within = namespace or target.connection.namespace
    shown = Logs(target, within, wanted, selector, follow=follow, tail=tail, index=index)
    try:
        sys.exit(asyncio.run(answered(target, "logs", shown.show)))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
