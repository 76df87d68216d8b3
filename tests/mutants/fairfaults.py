"""What may be wrong with fair sharing? One fault each, made by replacing functions of the product by name."""

from typing import Any

from pykueue.engine import fairsearch, shares, tournament
from tests.mutants.faults import Function, always, wrapped

# Shares.


def weightless() -> None:
    """Weights do not matter."""

    def around(real: Function) -> Function:
        return lambda share, ratio, _weight, *rest: real(share, ratio, 1.0, *rest)

    wrapped(shares.Share, "__init__", around)


# Preemption.


def reversed_sides() -> None:
    """The strategies compare the shares the wrong way round."""
    wrapped(fairsearch, "sides", lambda real: lambda one, other: real(one, other)[::-1])


def queue_level() -> None:
    """The strategies compare the shares of the queues, not those where their paths part."""
    wrapped(fairsearch, "sides", lambda _: lambda one, other: (one, other))


def before_only() -> None:
    """The final share of the victim's side is taken to be its initial one."""
    wrapped(fairsearch, "share_without", lambda _: lambda node, _queue, _usage: shares.share(node))


def entitled() -> None:
    """Every preemptor counts as within its nominal quota."""
    preempting: list[Any] = [None]

    def init(real: Function) -> Function:
        def remember(found: Any, search: Any, *rest: Any) -> None:
            preempting[0] = search.queue
            real(found, search, *rest)

        return remember

    wrapped(fairsearch.Found, "__init__", init)
    wrapped(fairsearch, "within_nominal", lambda real: lambda node, frs: node is preempting[0] or real(node, frs))


def taking_own() -> None:
    """Queues that borrow nothing are taken from."""

    def is_exhausted(targets: Any, node: Any) -> bool:
        return targets.lines[node].first is None if node.is_queue else not targets.children[node]

    always(fairsearch, "within_nominal", False)
    wrapped(fairsearch.Targets, "is_exhausted", lambda _: is_exhausted)


# The tournament.


def richest_first() -> None:
    """The head with the largest share goes first."""

    def around(real: Function) -> Function:
        def fair_key(*told: Any, **more: Any) -> tuple[Any, ...]:
            promised, borrows, used, (infinite, share), *rest = real(*told, **more)
            return (promised, borrows, used, (not infinite, -share), *rest)

        return fair_key

    wrapped(tournament, "fair_key", around)


def heads_by_queue() -> None:
    """Heads are compared by the shares of their queues at every level."""
    wrapped(
        tournament, "fair_key", lambda real: lambda entry, _side, *used, **more: real(entry, entry.queue, *used, **more)
    )
