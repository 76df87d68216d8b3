"""`pykueue cancel`: delete Jobs that have not ended."""

import sys

import click

from pykueue.cli import completion
from pykueue.cli.flags import choosing_server, namespaced, selecting


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=completion.unfinished_jobs)
@selecting
@click.option("--all", "everything", is_flag=True, help="All of your jobs in the namespace that have not ended.")
@click.option("--ended", is_flag=True, help="Also delete jobs that have ended, with their output; frees their names.")
@namespaced
@choosing_server
def cancel(
    names: tuple[str, ...],
    selector: str | None,
    everything: bool,
    ended: bool,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
    data: str | None,
) -> None:
    """Cancel jobs, pending or running.

    The Job is deleted; its processes get SIGTERM, and SIGKILL after the grace period of their pod (30 s by default).
    `pykueue jobs` shows it as STOPPING until they have ended. Its output is deleted with its pods. A job that has
    already ended is not changed, keeps its output, and is not an error; --ended deletes it, so that its name can be
    used again. A single index of an array cannot be cancelled.

    \b
    Example:
      pykueue cancel train-x7k2p
      pykueue cancel train-1 train-2
      pykueue cancel -l sweep=7
      pykueue cancel --all
      pykueue cancel --ended train

    With --all, jobs of other users are not cancelled. A cluster does not record who created a Job, so there --all means
    all jobs of the namespace.

    Exit codes: 0, all of these jobs have ended or are being stopped; 1, a job does not exist, or you may not delete it;
    2, invalid input.
    """
    from pykueue.cli.jobs.chosen import names_of
    from pykueue.cli.jobs.verbs import cancelled
    from pykueue.cli.serverstate import fail
    from pykueue.cli.session import asked
    from pykueue.cli.target import chosen

    if everything and (names or selector):
        fail("--all: cannot be combined with names or --selector; use one of them")
    wanted = () if everything else names_of(names, selector)
    if one := next((one for one in wanted if one.index is not None), None):
        fail(
            f"{one.name}:{one.index}: one index of a job cannot be cancelled, because Kubernetes deletes a Job as a "
            f"whole; `pykueue cancel {one.name}` cancels all of it"
        )
    target = chosen(kubeconfig, context, data)
    within = namespace or target.connection.namespace
    sys.exit(asked(target, "cancel", lambda kube: cancelled(kube, within, wanted, selector, ended=ended)))
