"""Another configuration for the same jobs: which manifests of the first it replaces."""

from collections.abc import Sequence
from typing import Final

from pykueue.sim.manifests import Document, Mistake

QUOTAS: Final = "quotas"
TOGETHER: Final = {"ClusterQueue": QUOTAS, "Cohort": QUOTAS}
"""Kinds that are replaced together: a Cohort that is left over would still lend its quota."""
JOBS: Final = frozenset({"Job", "Workload"})
SAME: Final = "the jobs of both simulations are the same; leave it out, or write it into one of the FILEs"


def group_of(document: Document) -> str:
    """What a document is replaced with: everything of its kind."""
    kind = document.tree.get("kind")
    name = kind if isinstance(kind, str) else ""
    return TOGETHER.get(name, name)


def replaced(first: Sequence[Document], other: Sequence[Document], mistakes: list[Mistake]) -> list[Document]:
    """The first documents, with those of the kinds that the other ones have replaced by the other ones."""
    mistakes += (Mistake(one.where, SAME, one.called) for one in other if group_of(one) in JOBS)
    groups = {group_of(one) for one in other}
    return [*(one for one in first if group_of(one) not in groups), *other]
