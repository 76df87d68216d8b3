"""What may be wrong with fair sharing? One fault each, made by replacing functions of the product by name.

The modules are imported when a fault is made, so that this file can be read where the product does not have them. The
faults replace, by name, in `pykueue.engine`: `shares.Share.__init__`, `fairsearch.sides`, `fairsearch.share_without`,
`fairsearch.within_nominal`, `fairsearch.Found.__init__`, `fairsearch.Targets.is_exhausted` and `tournament.fair_key`.
"""

from importlib import import_module
from typing import Any

from tests.mutants.faults import Function, always, wrapped


def engine(name: str) -> Any:
    """A module of the engine."""
    return import_module(f"pykueue.engine.{name}")


# Shares.


def weightless() -> None:
    """Weights do not matter."""

    def around(real: Function) -> Function:
        return lambda share, ratio, _weight, *rest: real(share, ratio, 1.0, *rest)

    wrapped(engine("shares").Share, "__init__", around)


# Preemption.


def reversed_sides() -> None:
    """The strategies compare the shares the wrong way round."""
    wrapped(engine("fairsearch"), "sides", lambda real: lambda one, other: real(one, other)[::-1])


def queue_level() -> None:
    """The strategies compare the shares of the queues, not those where their paths part."""
    wrapped(engine("fairsearch"), "sides", lambda _: lambda one, other: (one, other))


def before_only() -> None:
    """The final share of the victim's side is taken to be its initial one."""
    fairsearch = engine("fairsearch")
    wrapped(fairsearch, "share_without", lambda _: lambda node, _queue, _usage: fairsearch.share(node))


def entitled() -> None:
    """Every preemptor counts as within its nominal quota."""
    fairsearch = engine("fairsearch")
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
    fairsearch = engine("fairsearch")

    def is_exhausted(targets: Any, node: Any) -> bool:
        return targets.lines[node].first is None if node.is_queue else not targets.children[node]

    always(fairsearch, "within_nominal", False)
    wrapped(fairsearch.Targets, "is_exhausted", lambda _: is_exhausted)


# The tournament.


def richest_first() -> None:
    """The head with the largest share goes first."""

    def around(real: Function) -> Function:
        def fair_key(*told: Any, **more: Any) -> tuple[Any, ...]:
            promised, borrows, (infinite, share), *rest = real(*told, **more)
            return (promised, borrows, (not infinite, -share), *rest)

        return fair_key

    wrapped(engine("tournament"), "fair_key", around)


def heads_by_queue() -> None:
    """Heads are compared by the shares of their queues at every level."""
    wrapped(
        engine("tournament"), "fair_key", lambda real: lambda entry, _side, **more: real(entry, entry.queue, **more)
    )
