"""`pykueue explain`: why a job waits or was evicted, and who holds the quota of a queue."""

import click

from pykueue.cli import completion
from pykueue.cli.flags import choosing_server, namespaced


@click.command()
@click.argument("what", metavar="JOB|WORKLOAD|QUEUE", shell_complete=completion.unfinished_jobs)
@choosing_server
@namespaced
@click.option("-o", "--output", type=click.Choice(("json", "yaml")), metavar="FORMAT", help="Print json or yaml.")
def explain(
    what: str, kubeconfig: str | None, context: str | None, data: str | None, namespace: str | None, output: str | None
) -> None:
    """Explain why a job is pending or was evicted, or who uses a queue.

    For a job: whether its queue is active, its position in the queue, which jobs are ahead and which were admitted
    first, what each flavor has and how much is missing, which limit applies, its admission checks, its last eviction,
    which jobs were spared then and why, and what would let it start, easiest first. If it can never start, the first
    line shows it. For a queue: which jobs hold its quota, which queues borrow, and what would happen to a new job of
    one cpu or one GPU.

    The argument is the name of a Job, Workload or queue. If several objects have the same name, use job/NAME,
    workload/NAME, localqueue/NAME or clusterqueue/NAME; queue/NAME is either kind of queue.

    \b
    Example:
      pykueue explain train
      pykueue explain queue/team-a
      pykueue explain train -o json

    Workloads in namespaces that you may not list are counted, but not named. On a server without query.pykueue.io, such
    as Kueue, the explanation is based on the object alone, with a note on standard error.

    Exit codes: 0, success; 1, the server rejected the request or does not respond, or no object has this name; 2,
    invalid input, or several objects have this name.
    """
    # Imported here so that help and usage errors are fast.
    from pykueue.cli.explain.answer import Explained, explained
    from pykueue.cli.explain.lines import tree_lines
    from pykueue.cli.explain.subject import Subject, SubjectError, parsed, subject
    from pykueue.cli.formats import echo, json_text, yaml_text
    from pykueue.cli.messages import tell
    from pykueue.cli.serverstate import fail
    from pykueue.cli.session import asked
    from pykueue.cli.target import chosen
    from pykueue.kube.client.http import HttpKube

    parsed(what)
    target = chosen(kubeconfig, context, data)

    async def ask(kube: HttpKube) -> tuple[Subject, Explained]:
        found = await subject(kube, namespace or target.connection.namespace, what)
        return found, await explained(kube, found)

    try:
        about, answer = asked(target, "explain", ask)
    except SubjectError as error:
        fail(str(error), error.code)
    if answer.note:
        tell(answer.note)
    match output:
        case "json":
            echo([json_text(answer.document)])
        case "yaml":
            echo([yaml_text(answer.document)])
        case _:
            echo(list(tree_lines(about.title, answer.told.tree)))
