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
    help="Whether to simulate new jobs: none (ignored, the default), or at the rate observed so far (learned).",
)
@click.option("--runs", type=Count(20, 200), default=40, metavar="N", help="Number of simulations; default: 40.")
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

    The server simulates its queues many times, starting from their current state, and prints the range in which the job
    starts in nine of ten runs. Jobs run for at most their limit (`pykueue run --time`, activeDeadlineSeconds, or the
    label kueue.x-k8s.io/max-exec-time-seconds), and about as long as earlier jobs of the same queue with the same
    requests. The output shows how many jobs ahead declare no limit, and how often earlier estimates were right. For a
    job that is held, or that waits for another job or a start time, there is no estimate; the output shows what it is
    waiting for.

    \b
    Example:
      pykueue eta train-x7k2p
      pykueue eta train-1 train-2 --arrivals learned
      pykueue eta train-x7k2p -o json

    Exit codes: 0, there is a result for each job, including "does not start"; 1, a job does not exist or has no
    Workload yet, you may not read it, or the server has no estimate; 2, invalid input.
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
