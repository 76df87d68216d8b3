"""`pykueue hold`, `release` and `requeue`: keep jobs from running, let them run, and start them over."""

import sys
from collections.abc import Callable

import click

from pykueue.cli import completion
from pykueue.cli.flags import Command, choosing_server, namespaced, selecting


def on_jobs(offered: completion.Completer) -> Callable[[Command], Command]:
    """Add the arguments of a verb on jobs; `offered` completes their names."""
    names = click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=offered)

    def add(command: Command) -> Command:
        for option in (choosing_server, namespaced, selecting, names):
            command = option(command)
        return command

    return add


@click.command()
@on_jobs(completion.unfinished_jobs)
def hold(names: tuple[str, ...], selector: str | None, namespace: str | None, **server: str | None) -> None:
    """Prevent jobs from running until they are released.

    A pending job is not admitted, and keeps its queue position, which depends on its creation time. A running job is
    stopped, releases its quota, and starts over when it is released; the output of the current run is deleted. A hold
    is the annotation `pykueue.io/hold: "true"` on the Job, so you can also submit a Job with it.

    \b
    Example:
      pykueue hold train-x7k2p
      pykueue hold -l sweep=7

    On a cluster this requires `pykueue manager`: Kueue itself ignores the annotation, which the command reports.

    Exit codes: 0, held; 1, a job does not exist, has ended, belongs to another user, or the hold had no effect; 2,
    invalid input.
    """
    verb("hold", names, selector, namespace, **server)


@click.command()
@on_jobs(completion.held_jobs)
def release(names: tuple[str, ...], selector: str | None, namespace: str | None, **server: str | None) -> None:
    """Release held jobs.

    A release only reverts a hold: jobs that were deactivated by an administrator or a retry limit stay deactivated.

    \b
    Example:
      pykueue release train-x7k2p
      pykueue release -l sweep=7

    Exit codes: 0, released, or was not held; 1, a job does not exist, has ended, belongs to another user, was
    deactivated in another way, or the release had no effect; 2, invalid input.
    """
    verb("release", names, selector, namespace, **server)


@click.command()
@on_jobs(completion.unfinished_jobs)
def requeue(names: tuple[str, ...], selector: str | None, namespace: str | None, **server: str | None) -> None:
    """Stop running jobs and queue them again.

    A requeued job starts over, with a queue position that depends on its creation time: it may be admitted again
    immediately. The output of the current run is deleted. Pending jobs are not changed. A requeue is the annotation
    `pykueue.io/requeue` on the Job, and each value takes effect once.

    \b
    Example:
      pykueue requeue train-x7k2p
      pykueue requeue -l sweep=7

    On a cluster this requires `pykueue manager`: Kueue itself ignores the annotation, which the command reports.

    Exit codes: 0, requeued, or was pending; 1, a job does not exist, has ended, is held, belongs to another user, or
    the requeue had no effect; 2, invalid input.
    """
    verb("requeue", names, selector, namespace, **server)


def verb(
    what: str,
    names: tuple[str, ...],
    selector: str | None,
    namespace: str | None,
    *,
    kubeconfig: str | None,
    context: str | None,
    data: str | None,
) -> None:
    """Carry out a verb on the chosen jobs and exit."""
    from pykueue.cli.jobs.chosen import names_of
    from pykueue.cli.jobs.verbs import VERBS, done_to_jobs
    from pykueue.cli.serverstate import fail
    from pykueue.cli.session import asked
    from pykueue.cli.target import chosen

    wanted = names_of(names, selector)
    if one := next((one for one in wanted if one.index is not None), None):
        fail(f"{one.name}:{one.index}: all indexes of a job are admitted together; use `pykueue {what} {one.name}`")
    target = chosen(kubeconfig, context, data)
    within = namespace or target.connection.namespace
    sys.exit(asked(target, what, lambda kube: done_to_jobs(kube, VERBS[what], within, wanted, selector)))
