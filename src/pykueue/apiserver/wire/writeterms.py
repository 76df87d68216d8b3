"""The terms of a write: who makes it, how strictly fields are checked, whether it is a dry run."""

from typing import Final, Literal, TypeAlias

import msgspec

from pykueue.apiserver.wire.identity import SYSTEM, Identity
from pykueue.base.struct import Frozen

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE"]
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
