"""Parts that several validation modules share: label selectors, and errors that do not show their value."""

from typing import Final

import msgspec

from pykueue.api.core import LabelSelector
from pykueue.api.fields import TITLES, FieldError


class ErrorWithoutValue(FieldError):
    """A field error whose message omits the value."""

    def __str__(self) -> str:
        return f"{self.path}: {TITLES[self.code]}: {self.detail}"


def selector_of(tree: object) -> LabelSelector | None:
    """A label selector, decoded; None if it is absent or invalid."""
    if tree is None:
        return None
    try:
        return msgspec.convert(tree, LabelSelector)
    except msgspec.ValidationError:
        return None


BLOCKING: Final = frozenset({"NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"})
"""Errors after which the rules of a schema are not evaluated."""
Unchecked: Final = FieldError(
    "<nil>",
    "Invalid",
    msgspec.Raw(b"null"),
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation",
)
