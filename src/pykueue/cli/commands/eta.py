"""`pykueue eta`: when jobs that wait will start."""

import sys

import click

from pykueue.cli import completion
from pykueue.cli.flags import Count, choosing_server, namespaced


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="JOB...", shell_complete=completion.unfinished_jobs)
@click.option(
    "--arrivals",
    type=click.Choice(["ignored", "learned"]),
    default="ignored",
    help="Whether other jobs arrive before it starts: none does (default), or as many as until now.",
)
@click.option("--runs", type=Count(20, 200), default=40, metavar="N", help="How often to run the queues forward; 40.")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), metavar="FORMAT", help="Print json or yaml.")
@namespaced
@choosing_server
def eta(
    names: tuple[str, ...],
    arrivals: str,
    runs: int,
    output: str | None,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
    data: str | None,
) -> None:
    """Estimate when jobs start.

    The server runs its queues forward many times, as they are now, and prints the times between which the job starts in
    nine of ten runs. Jobs run for at most their limit (`pykueue run --time`, activeDeadlineSeconds, or the label
    kueue.x-k8s.io/max-exec-time-seconds), and about as long as those of the same queue with the same requests did
    before. The answer says how many jobs ahead declare no limit, and how often earlier answers were right. A job that
    is held, or waits for another job or for a time, is not estimated; the answer says what it waits for.

    \b
    Example:
      pykueue eta train-x7k2p
      pykueue eta train-1 train-2 --arrivals learned
      pykueue eta train-x7k2p -o json

    Exit codes: 0, there is an answer for each job, and "does not start" is one; 1, a job does not exist or has no
    Workload yet, you may not read it, or the server cannot tell; 2, invalid input.
    """
    from pykueue.cli.jobs.chosen import names_of
    from pykueue.cli.jobs.estimates import printed
    from pykueue.cli.session import asked
    from pykueue.cli.target import chosen

    wanted = names_of(names, None)
    target = chosen(kubeconfig, context, data)
    within = namespace or target.connection.namespace
    sys.exit(
        asked(target, "eta", lambda kube: printed(kube, within, wanted, f"arrivals={arrivals}&runs={runs}", output))
    )
