"""`pykueue jobs`: list the jobs that run or wait, or those that have finished."""

import click

from pykueue.cli import completion
from pykueue.cli.flags import choosing_format, choosing_server, namespaced


@click.command()
@choosing_server
@namespaced
@click.option("-A", "--all-namespaces", is_flag=True, help="Jobs of all namespaces that you may see.")
@click.option("--mine", is_flag=True, help="Only jobs that you created.")
@click.option(
    "-q",
    "--queue",
    metavar="NAME",
    default="",
    help="Only jobs of this LocalQueue.",
    shell_complete=completion.local_queues,
)
@click.option("-l", "--selector", metavar="LABELS", default="", help="Only jobs with these labels, e.g. app=train.")
@click.option("-w", "--watch", is_flag=True, help="Show changes until Ctrl-C; in a pipe, print the rows that change.")
@click.option("--finished", is_flag=True, help="Finished jobs, newest first.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    metavar="N",
    help="With --finished, the maximum number of jobs; 0 for all.",
)
@choosing_format
def jobs(
    kubeconfig: str | None,
    context: str | None,
    data: str | None,
    namespace: str | None,
    all_namespaces: bool,
    mine: bool,
    queue: str,
    selector: str,
    watch: bool,
    finished: bool,
    limit: int,
    output: str | None,
    no_headers: bool,
) -> None:
    """List running and pending jobs, or finished jobs.

    USES is what a job requests, or uses while it is running, with the numbers of its GPUs on a single machine. SINCE is
    how long it has been running or pending; LEFT is how long it may still run, if it has a time limit. PLACE is its
    position in the ClusterQueue; on a cluster, this requires access to the visibility API. REASON is why it is pending;
    `-o wide` shows it in full.

    States: PENDING; HELD, until it is released; RUNNING; FAILING, holds quota but its containers cannot start;
    STOPPING; and for finished jobs COMPLETED, FAILED and CANCELLED.

    With --finished, WAITED is the time without quota, RAN the time of the last run, PREEMPTED how often it was
    preempted, and LOST the time of runs that were evicted or failed because of a disruption. On a single machine these
    records are kept after the Jobs are deleted, for 90 days or 100,000 jobs.

    \b
    Example:
      pykueue jobs
      pykueue jobs --mine --watch
      pykueue jobs -A -q team-a -o wide
      pykueue jobs --finished -o csv --limit 0 > jobs.csv

    `pykueue run --help` explains how the server is selected. `pykueue squeue` is an alias of this command.

    Times are in your time zone; `-o json`, `yaml` and `csv` use UTC.

    Exit codes: 0, success; 1, the server rejected the request or does not respond, the queue of -q or the namespace of
    -n does not exist, or --mine was given and the server does not record owners, as on a cluster; 2, invalid input.
    """
    if finished and (watch or selector):
        raise click.UsageError(f"--finished cannot be combined with {'--watch' if watch else '--selector'}.")
    # Imported here so that help and usage errors are fast.
    from pykueue.cli.jobs.listing import Listing, show
    from pykueue.cli.jobs.source import Asked
    from pykueue.cli.session import asked
    from pykueue.cli.target import chosen

    target = chosen(kubeconfig, context, data)
    home = namespace or target.connection.namespace
    wanted = Listing(
        Asked("" if all_namespaces else home, home, selector, queue),
        mine=mine,
        watch=watch,
        finished=finished,
        limit=limit,
        output=output,
        no_headers=no_headers,
    )
    asked(target, "jobs", lambda kube: show(kube, wanted))
