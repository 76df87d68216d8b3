"""`python -m pykueue.audit --kubeconfig FILE`: follow a cluster and print violations of the rules."""

import gzip
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack

import click

from pykueue.audit.auditor import Auditor
from pykueue.audit.follow import Follower, FollowError, Server, follow
from pykueue.audit.history import Line, encode, events
from pykueue.audit.world import FINAL, INITIAL, Finding, Settings, ShareStrategy
from pykueue.base.clock import SystemClock


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False), help="Cluster to follow.")
@click.option("--history", type=click.Path(exists=True, dir_okay=False), help="Recorded history to check instead.")
@click.option("--record", type=click.Path(dir_okay=False), help="File in which to record all events (gzip).")
@click.option("--lease", default="", help="NAMESPACE/NAME of the manager's Lease: waiting counts while it is held.")
@click.option("--people", is_flag=True, help="Users also start Jobs and delete Workloads by hand.")
@click.option("--plain-resources", is_flag=True, help="No configuration excludes or transforms resources.")
@click.option("--block-admission", is_flag=True, help="The manager admits nothing while admitted pods are not ready.")
@click.option("--keep-requests", is_flag=True, help="The manager keeps ProvisioningRequests of evicted Workloads.")
@click.option(
    "--fair-sharing",
    multiple=True,
    type=click.Choice((FINAL, INITIAL)),
    help="Fair sharing is on, with this preemption strategy; give it twice for both.",
)
@click.option("--shares-first", is_flag=True, help="The gate FairSharingPrioritizeNonBorrowing is off.")
@click.option("--seconds", type=float, help="Stop after this many seconds; without it, when interrupted.")
def main(
    kubeconfig: str | None,
    history: str | None,
    record: str | None,
    lease: str,
    people: bool,
    plain_resources: bool,
    block_admission: bool,
    keep_requests: bool,
    fair_sharing: tuple[ShareStrategy, ...],
    shares_first: bool,
    seconds: float | None,
) -> None:
    """Follow a cluster and print violations: exceeded quota, jobs without admission, work lost or stuck.

    It only reads, and computes independently what is right. Ctrl-C ends it.

    \b
    Example:
      python -m pykueue.audit --kubeconfig ~/.kube/config --people --lease kueue-system/c1f6bfd2.kueue.x-k8s.io
      python -m pykueue.audit --kubeconfig ~/.kube/config --seconds 600 --record heard.jsonl.gz
      python -m pykueue.audit --history heard.jsonl.gz

    Exit codes: 0, no violations; 1, violations, or the cluster cannot be followed; 2, the flags are wrong.
    """
    settings = Settings(
        lease=lease,
        alone=not people,
        plain_resources=plain_resources,
        block_admission=block_admission,
        cleans_up=not keep_requests,
        fair_sharing=fair_sharing,
        nominal_first=not shares_first,
    )
    auditor = Auditor(settings)
    if history:
        with gzip.open(history, "rb") as lines:
            for event in events(lines):
                show(auditor.observe(event))
    elif kubeconfig:
        with ExitStack() as files:
            keep: Callable[[bytes], object] | None = None
            if record:
                keep = files.enter_context(gzip.open(record, "wb", compresslevel=1)).write
            watch(auditor, kubeconfig, keep, seconds)
    else:
        raise click.UsageError("give --kubeconfig to follow a cluster, or --history to check a recording")
    click.echo(f"{auditor.events} events, {len(auditor.findings)} findings")
    sys.exit(1 if auditor.findings else 0)


def watch(auditor: Auditor, kubeconfig: str, keep: Callable[[bytes], object] | None, seconds: float | None) -> None:
    """Follow a cluster until the time is up or the process is interrupted."""

    def observed(line: Line, found: Iterable[Finding]) -> None:
        if keep is not None:
            keep(encode(line))
        show(found)

    try:
        follow(Follower(Server.of(kubeconfig), auditor, SystemClock(), observed=observed, late=show), seconds)
    except FollowError as error:
        raise click.ClickException(str(error)) from error


def show(found: Iterable[Finding]) -> None:
    """Print findings, one a line."""
    for finding in found:
        click.echo(str(finding))


if __name__ == "__main__":
    main()
