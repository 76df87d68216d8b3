"""`pykueue get`, `describe`, `edit` and `patch`: kubectl's commands, against the server that pykueue chooses."""

import click

from pykueue.cli import completion
from pykueue.cli.kueuectl.kubectl import PassedOn, run
from pykueue.cli.kueuectl.typenames import ALIASES, full_name


def offered(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """What a shell offers: types, and after a type the names of its objects."""
    words = ctx.params.get("words") or ()
    if not words:
        return [name for name in ALIASES if name.startswith(incomplete)]
    known = {
        "clusterqueue": completion.cluster_queues,
        "localqueue": completion.local_queues,
        "workload": completion.workloads,
    }.get(full_name(words[0]))
    return known(ctx, param, incomplete) if known else []


def passed_on(verb: str, summary: str, *examples: str) -> click.Command:
    """A command that hands its words to kubectl's command of the same name."""
    lines = "\n".join(f"  pykueue {verb} {example}" for example in examples)
    text = f"""{summary}, with kubectl.

All arguments are passed to `kubectl {verb}`; --kubeconfig, --context and --data choose the server as in other commands.

\b
Example:
{lines}

Exit codes: 0, success; 1, kubectl failed, or is not installed; 2, invalid input.
"""

    @click.command(verb, cls=PassedOn, help=text)
    @click.argument("words", nargs=-1, type=click.UNPROCESSED, shell_complete=offered)
    def command(words: tuple[str, ...]) -> None:
        run(verb, words)

    return command


get = passed_on("get", "Show objects", "clusterqueue main -o yaml", "workload -n team-a")
describe = passed_on("describe", "Show details of an object", "workload job-train-1a2b3 -n team-a", "cq main")
edit = passed_on("edit", "Edit an object", "clusterqueue main")
patch = passed_on(
    "patch",
    "Change fields of an object",
    """clusterqueue main --type merge -p '{"spec":{"cohortName":"lab"}}'""",
)
