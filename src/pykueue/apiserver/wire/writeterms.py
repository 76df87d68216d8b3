"""The terms of a write: its caller, how strictly fields are checked, whether it is a dry run."""

from typing import Final, Literal, TypeAlias

import msgspec

from pykueue.apiserver.wire.identity import SYSTEM, Identity
from pykueue.base.struct import Frozen

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE"]
Strictness: TypeAlias = Literal["Ignore", "Warn", "Strict"]
WARNINGS_MAX: Final = 80
"""The most warnings of one response; each is a header, and many clients accept at most 100."""
WARNING_MAX: Final = 4096
"""The most characters of a warning; clients refuse headers that are much longer."""
Propagation: TypeAlias = Literal["", "Orphan", "Background", "Foreground"]


class Terms(Frozen):
    """The options of a write."""

    who: Identity = SYSTEM
    dry_run: bool = False
    """Whether the write is a dry run: everything but storing."""
    manager: str = "unknown"
    """The field manager; `options.manager_of` finds it."""
    force: bool = False
    """Whether an apply takes over fields of other managers."""
    validation: Strictness = "Warn"
    """How unknown fields are treated."""
    warnings: list[str] = msgspec.field(default_factory=list)
    """Warnings for the caller, sent as Warning headers."""

    told: set[str] = msgspec.field(default_factory=set)
    """The same as a set, for lookups: there may be as many as a body has fields."""

    def warn(self, text: str) -> None:
        """Add a warning for the caller, once, up to the number that a response can hold."""
        if text not in self.told and len(self.told) < WARNINGS_MAX:
            self.told.add(text)
            self.warnings.append(text if len(text) <= WARNING_MAX else f"{text[:WARNING_MAX]}...")


class DeleteOptions(Frozen):
    """The options of a delete."""

    grace: int | None = None
    propagation: Propagation = ""
    uid: str = ""
    version: str = ""
    """Preconditions: the uid and resourceVersion that the object must have."""
    orphan_dependents: bool | None = None
    """The older form of the Orphan policy."""
