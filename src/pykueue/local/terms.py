"""On what terms is something asked? Who asks, how strictly, whether in earnest, and who judges it."""

from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from pykueue.api.core import Tree
from pykueue.base.struct import Frozen
from pykueue.local.identity import SYSTEM, Identity
from pykueue.local.served import Served

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE"]
Stage: TypeAlias = Literal["mutate", "validate"]
Strictness: TypeAlias = Literal["Ignore", "Warn", "Strict"]
WARNINGS_MAX: Final = 80
"""Warnings of one response; each is a header, of which many clients take no more than 100."""
WARNING_MAX: Final = 4096
"""Characters of a warning; clients refuse headers that are much longer."""
Propagation: TypeAlias = Literal["", "Orphan", "Background", "Foreground"]


class Terms(Frozen):
    """How a write is meant."""

    who: Identity = SYSTEM
    dry_run: bool = False
    """Whether everything is done but for the storing."""
    manager: str = "unknown"
    """The field manager; `options.manager_of` finds it."""
    force: bool = False
    """Whether an apply takes over what others own."""
    validation: Strictness = "Warn"
    """What becomes of fields that no schema knows."""
    warnings: list[str] = msgspec.field(default_factory=list)
    """Collects what the caller should be told, for the answer's Warning headers."""

    told: set[str] = msgspec.field(default_factory=set)
    """The same, to be looked up: there may be as many as a body has fields."""

    def warn(self, text: str) -> None:
        """Tell the caller something, once, up to as many things as a response can hold."""
        if text not in self.told and len(self.told) < WARNINGS_MAX:
            self.told.add(text)
            self.warnings.append(text if len(text) <= WARNING_MAX else f"{text[:WARNING_MAX]}...")


class DeleteOptions(Frozen):
    """How an object is to be deleted."""

    grace: int | None = None
    propagation: Propagation = ""
    uid: str = ""
    version: str = ""
    """Preconditions: the identity and the version that the object must have."""
    orphan_dependents: bool | None = None
    """The older way to say Orphan."""


class Admit(Protocol):
    """Who completes (stage `mutate`) and judges (stage `validate`) what is written.

    At `mutate` the object comes back as it is to be, at `validate` what comes back is passed over; either may bring
    warnings. A refusal is a `StatusError`. Trees are of the version in which the kind is stored; they may not be
    altered in place.
    """

    async def __call__(
        self,
        stage: Stage,
        operation: Operation,
        served: Served,
        new: Tree,
        old: Tree | None,
        subresource: str,
        who: Identity,
    ) -> tuple[Tree, tuple[str, ...]]:
        """The object, and warnings."""


async def admit_all(
    stage: Stage,
    operation: Operation,
    served: Served,
    new: Tree,
    old: Tree | None,
    subresource: str,
    who: Identity,
) -> tuple[Tree, tuple[str, ...]]:
    """Everything, as it is."""
    return new, ()
