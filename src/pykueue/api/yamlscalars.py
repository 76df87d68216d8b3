"""Resolves unquoted YAML words to JSON values, as `sigs.k8s.io/yaml` does."""

import re
from typing import Final

from pykueue.api.core import Json

NUMBER_MAX: Final = 40
"""Digits that a number may have; a longer one stays a text, which no field of a number accepts."""
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
"""How a number begins."""
DECIMAL: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
BASED: Final = re.compile(r"[-+]?0(?:x[0-9a-fA-F]+|o?[0-7]+|b[01]+)")
FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


def plain_value(text: str) -> Json:
    """What an unquoted YAML word means in JSON."""
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
    """A whole number, as a float where 64 bits do not hold it."""
    return number if INT_MIN <= number <= UINT_MAX else float(number)


def key_text(text: str) -> str:
    """An unquoted key as JSON has it: a whole number or truth value in JSON's spelling."""
    value = plain_value(text)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else text
