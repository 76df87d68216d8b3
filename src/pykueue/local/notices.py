"""What do people hear of? Notices: what happened to an object, why, and who says so; they become Events."""

from collections.abc import Callable
from typing import TypeAlias

from pykueue.base.struct import Frozen


class About(Frozen):
    """The object that a notice is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    version: str = ""


class Notice(Frozen):
    """Something that happened to an object."""

    about: About
    reason: str
    note: str
    reporter: str
    warning: bool = False
    action: str = ""


Tell: TypeAlias = Callable[[Notice], None]
"""Where notices go; it neither waits nor fails."""
