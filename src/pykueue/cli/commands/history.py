"""`pykueue history`: what was decided about a job, and when."""

from typing import TYPE_CHECKING

import click

from pykueue.cli import completion
from pykueue.cli.flags import choosing_server, namespaced

if TYPE_CHECKING:
    from pykueue.api.explanations import PastDecision


@click.command()
@click.argument("job", metavar="JOB|WORKLOAD", shell_complete=completion.jobs)
@choosing_server
@namespaced
@click.option(
    "--journal",
    "journals",
    multiple=True,
    metavar="FILE",
    help="Read this journal instead of contacting a server. Repeatable.",
    shell_complete=completion.files,
)
@click.option("-o", "--output", type=click.Choice(("json", "yaml")), metavar="FORMAT", help="Print json or yaml.")
def history(
    job: str,
    kubeconfig: str | None,
    context: str | None,
    data: str | None,
    namespace: str | None,
    journals: tuple[str, ...],
    output: str | None,
) -> None:
    """List the decisions about a job.

    Decisions are listed with their times, and the end of the job is last. A server keeps the last eight decisions for
    each recently considered workload; a line on standard error shows if there were more. With --journal, all decisions
    in journals of `pykueue up` or `pykueue manager` (option --journal) are listed, including rotated files; no server
    is contacted, and without -n the workloads of all namespaces are searched.

    \b
    Example:
      pykueue history train
      pykueue history train --journal journal.jsonl.1 --journal journal.jsonl

    Exit codes: 0, success; 1, the server rejected the request or does not respond, or no object has this name; 2,
    invalid input, or a file is not a journal.
    """
    # Imported here so that help and usage errors are fast.
    from pykueue.base.text import printable
    from pykueue.cli.explain.lines import decision_lines
    from pykueue.cli.explain.subject import JOB, WORKLOAD, parsed
    from pykueue.cli.formats import echo, json_text, yaml_text
    from pykueue.cli.serverstate import fail

    kinds, name = parsed(job)
    if JOB not in kinds and WORKLOAD not in kinds:
        fail(f"{job!r} is a queue; specify a job")
    found: dict[str, list[PastDecision]]
    if journals:
        from pykueue.cli.explain.journals import found_in
        from pykueue.engine.record.journal import JournalError

        try:
            found = found_in(journals, name, namespace)
        except OSError as error:
            fail(f"{error.filename}: {error.strerror}")
        except JournalError as error:
            fail(str(error))
        if not found:
            fail(f"no decision about {name!r} in {', '.join(journals)}; older decisions are in rotated files", 1)
    else:
        found = live(job, kubeconfig, context, data, namespace)
    if output:
        document = [{"workload": key, "decisions": rows} for key, rows in found.items()]
        echo([json_text(document) if output == "json" else yaml_text(document)])
        return
    for key, rows in found.items():
        if len(found) > 1:
            click.echo(printable(f"Workload {key}:"))
        echo(list(decision_lines(rows)))


def live(
    job: str, kubeconfig: str | None, context: str | None, data: str | None, namespace: str | None
) -> "dict[str, list[PastDecision]]":
    """The decisions that a server remembers, by workload; exits if there is no such job."""
    from pykueue.cli.explain.answer import Explained, explained
    from pykueue.cli.explain.subject import CLUSTER_QUEUE, LOCAL_QUEUE, Subject, SubjectError, subject
    from pykueue.cli.messages import tell
    from pykueue.cli.serverstate import fail
    from pykueue.cli.session import asked
    from pykueue.cli.target import chosen
    from pykueue.engine.record.recent import DECISIONS_MAX
    from pykueue.kube.client.http import HttpKube

    target = chosen(kubeconfig, context, data)

    async def ask(kube: HttpKube) -> tuple[Subject, Explained]:
        found = await subject(kube, namespace or target.connection.namespace, job)
        return found, await explained(kube, found)

    try:
        about, answer = asked(target, "history", ask)
    except SubjectError as error:
        fail(str(error), error.code)
    if about.kind in (LOCAL_QUEUE, CLUSTER_QUEUE):
        fail(f"{job!r} is a queue; specify a job")
    if answer.note:
        tell(answer.note)
    if answer.told.older_decisions:
        tell(f"the server keeps the last {DECISIONS_MAX} decisions; use --journal for older ones")
    if not answer.told.decisions:
        tell(f"the only known decision is that it waits: {answer.told.tree.text}; use --journal for older ones")
    return {f"{about.namespace}/{about.workload_name or about.name}": list(answer.told.decisions)}
