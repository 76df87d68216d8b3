"""Resolves unquoted YAML words to JSON values, as `sigs.k8s.io/yaml` does."""

import re
from typing import Final

from pykueue.api.core import Json

NUMBER_MAX: Final = 40
"""The most digits of a number; a longer one stays a text, which no numeric field accepts."""
NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
TRUES: Final = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
FALSES: Final = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(NULLS),
    **dict.fromkeys(TRUES, True),
    **dict.fromkeys(FALSES, False),
}
INT_MIN: Final = -(1 << 63)
UINT_MAX: Final = (1 << 64) - 1
NUMERIC: Final = frozenset("+-.0123456789")
"""The first characters of a number."""
DECIMAL: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
BASED: Final = re.compile(r"[-+]?0(?:x[0-9a-fA-F]+|o?[0-7]+|b[01]+)")
FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


def plain_value(text: str) -> Json:
    """The JSON value of an unquoted YAML word."""
    if text in WORDS:
        return WORDS[text]
    if text[0] not in NUMERIC or len(text) > NUMBER_MAX:
        return text
    digits = text.replace("_", "") if "_" in text else text
    if DECIMAL.fullmatch(digits):
        return sized(int(digits))
    if BASED.fullmatch(digits):
        return sized(int(digits if re.search("[xob]", digits) else digits.replace("0", "0o", 1), 0))
    number = float(digits) if FLOAT.fullmatch(digits) else None
    return number if number is not None and abs(number) != float("inf") else text


def sized(number: int) -> int | float:
    """A whole number; a float if it exceeds 64 bits."""
    return number if INT_MIN <= number <= UINT_MAX else float(number)


def key_text(text: str) -> str:
    """An unquoted key in JSON's spelling, for whole numbers and booleans."""
    value = plain_value(text)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else text
