"""Checks of jobs and Workloads."""

from collections.abc import Iterator
from typing import Final

from pykueue.base.units import MICROS
from pykueue.cli.doctor.inventory import Found, Inventory, Wait, every, listed
from pykueue.engine.decisions import Invalid
from pykueue.engine.record.explain import either, never, reason, what_helps

DAY: Final = 24 * 60 * 60 * MICROS


def request_never_fits(inventory: Inventory) -> Iterator[Found]:
    """Jobs that can never start; equal ones of one queue are one finding."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for wait in inventory.waits:
        said = hopeless(wait)
        if said and wait.why is not None:
            alike.setdefault((wait.queue, said, either(what_helps(wait.why))), []).append(wait.object)
    for (queue, said, helps), who in alike.items():
        more = f" (and {len(who) - 1} more of LocalQueue {queue})" if len(who) > 1 else ""
        yield Found(who[0], f"{said}{more}", helps)


def hopeless(wait: Wait) -> str:
    """Why a workload can never start as it is; empty if it can."""
    if wait.why is None:
        return ""
    return reason(wait.why) if isinstance(wait.why, Invalid) else never(wait.reason, wait.why, wait.shrinkable)


def localqueue_missing(inventory: Inventory) -> Iterator[Found]:
    """Jobs in LocalQueues that do not exist, as far as both were read."""
    if every("LocalQueue") in inventory.unread and every("Workload") not in inventory.unread:
        return
    lost: dict[str, list[str]] = {}
    for wait in inventory.waits:
        if not wait.queue.endswith("/") and not inventory.has("LocalQueue", wait.queue):
            lost.setdefault(wait.queue, []).append(wait.object)
    for queue, who in lost.items():
        namespace, _, name = queue.partition("/")
        more = f" (and {len(who) - 1} more)" if len(who) > 1 else ""
        yield Found(
            who[0],
            f"names LocalQueue {name}, which does not exist in namespace {namespace}: it stays pending{more}",
            f"create LocalQueue {name} in namespace {namespace}, or correct the label kueue.x-k8s.io/queue-name",
        )


def head_blocks(inventory: Inventory) -> Iterator[Found]:
    """Heads of StrictFIFO queues that have waited for a day or more while others wait behind them."""
    now = inventory.installation.there or inventory.installation.here
    for name, head in inventory.installation.heads.items():
        if head.since is None or now - head.since < DAY or inventory.pending.get(name, 0) < 2:
            continue
        days = (now - head.since) // DAY
        yield Found(
            f"ClusterQueue {name}",
            f"{head.object} has been the head for {days} day{'s' if days > 1 else ''}, and StrictFIFO blocks the "
            f"{inventory.pending[name] - 1} behind it: {head.message or 'the server gives no reason'}",
            "free quota for the head, cancel or hold it, or set queueingStrategy to BestEffortFIFO",
        )


def kind_not_queued(inventory: Inventory) -> Iterator[Found]:
    """Jobs that name a queue, of kinds that Kueue queues and we do not."""
    kinds: dict[str, list[str]] = {}
    for kind, key in inventory.others:
        kinds.setdefault(kind, []).append(key)
    for kind, keys in kinds.items():
        yield Found(
            f"{kind} {keys[0]}",
            f"pykueue does not support jobs of kind {kind} yet: they start immediately, without quota ({listed(keys)})",
            "keep Kueue for this kind, or submit a Job",
        )
