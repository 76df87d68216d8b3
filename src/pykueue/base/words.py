"""Enumerations of texts."""

from enum import StrEnum


class Word(StrEnum):
    """A text out of a fixed set.

    It is hashed as the text that it is: the hash of other enumerations is computed by Python code, which makes every
    lookup in a dictionary several times slower.
    """

    __hash__ = str.__hash__
