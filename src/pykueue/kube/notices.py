"""Notices: what happened to an object, why, and who reports it; they become Events."""

from collections.abc import Callable
from typing import TypeAlias

from pykueue.base.struct import Frozen
from pykueue.kube.port import Ref


class Notice(Frozen):
    """Something that happened to an object."""

    about: Ref
    reason: str
    note: str
    reporter: str
    warning: bool = False
    action: str = ""


Tell: TypeAlias = Callable[[Notice], None]
"""A sink for notices; it neither blocks nor fails."""
