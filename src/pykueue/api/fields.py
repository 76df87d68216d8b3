"""Field errors: one mistake of a user, with its path, in Kubernetes' wording."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final, Literal

import msgspec

from pykueue.base.struct import Frozen

Code = Literal[
    "Invalid",
    "Required",
    "Forbidden",
    "Duplicate",
    "NotFound",
    "NotSupported",
    "TooMany",
    "TooLong",
    "TypeInvalid",
    "Unknown",
]

TITLES: Final[dict[Code, str]] = {
    "Invalid": "Invalid value",
    "Required": "Required value",
    "Forbidden": "Forbidden",
    "Duplicate": "Duplicate value",
    "NotFound": "Not found",
    "NotSupported": "Unsupported value",
    "TooMany": "Too many",
    "TooLong": "Too long",
    "TypeInvalid": "Invalid value",
    "Unknown": "unknown field",
}
VALUELESS: Final = frozenset({"Required", "Forbidden", "TooLong", "Unknown"})
"""Codes whose text omits the value: it is absent, not allowed, or too long to print."""

IMMUTABLE: Final = "field is immutable"
NEGATIVE: Final = "must be greater than or equal to 0"
NAME_MAX: Final = 80
"""Names longer than this get no suggestion."""
SHOWN_MAX: Final = 1024
"""A message shows at most this many characters of a value."""


class FieldError(Frozen):
    """One mistake: where, of what type, the value found there, and what to do."""

    path: str
    code: Code
    value: object | None = None
    detail: str = ""

    def __str__(self) -> str:
        text = TITLES[self.code]
        if self.code not in VALUELESS:
            text += f": {shown(self.value)}"
        if self.detail:
            # Kubernetes has no such message, since it drops unknown fields; this is ours.
            text += f"{'; ' if self.code == 'Unknown' else ': '}{self.detail}"
        return f"{self.path}: {text}" if self.path else text


def shown(value: object) -> str:
    """The value as Kubernetes prints it in a message: JSON, with an absent value as `"null"`."""
    if value is None:
        return '"null"'
    try:
        text = msgspec.json.encode(value, order="deterministic").decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        text = msgspec.json.encode(type(value).__name__).decode()
    if len(text) <= SHOWN_MAX:
        return text
    ending = '..."' if text.startswith('"') else "..."
    return text[:SHOWN_MAX] + ending


def invalid(path: str, value: object, detail: str) -> FieldError:
    """The value breaks a rule, which the detail states."""
    return FieldError(path, "Invalid", value, detail)


def required(path: str, detail: str = "") -> FieldError:
    """The field is required."""
    return FieldError(path, "Required", None, detail)


def forbidden(path: str, detail: str) -> FieldError:
    """The field may not be set here."""
    return FieldError(path, "Forbidden", None, detail)


def duplicate(path: str, value: object) -> FieldError:
    """The value occurs twice."""
    return FieldError(path, "Duplicate", value)


def not_found(path: str, value: object) -> FieldError:
    """The value names something that does not exist."""
    return FieldError(path, "NotFound", value)


def not_supported(path: str, value: object, supported: Iterable[str]) -> FieldError:
    """The value is not among the supported ones."""
    offer = ", ".join(msgspec.json.encode(one).decode() for one in supported)
    return FieldError(path, "NotSupported", value, f"supported values: {offer}")


def too_many(path: str, count: int, most: int) -> FieldError:
    """The list or map has too many entries."""
    return FieldError(path, "TooMany", count, f"must have at most {most} items")


def too_long(path: str, most: int) -> FieldError:
    """The text is too long."""
    return FieldError(path, "TooLong", None, f"may not be more than {most} bytes")


def wrong_type(path: str, *, wanted: str, found: str) -> FieldError:
    """The value is not of the JSON type that the schema requires."""
    return FieldError(path, "TypeInvalid", found, f'{body(path)} must be of type {wanted}: "{found}"')


def unknown(path: str, name: str, known: Iterable[str]) -> FieldError:
    """The field is unknown; suggests the nearest known name."""
    near = nearest(name, known)
    return FieldError(path, "Unknown", None, f"did you mean {near}?" if near else "correct its name or remove it")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a mistyped one was probably meant to be."""
    folded = {one.lower(): one for one in known}
    found = get_close_matches(name.lower(), folded, n=1) if len(name) <= NAME_MAX else []
    return folded[found[0]] if found else None


def located(error: msgspec.ValidationError) -> tuple[str, str]:
    """Where a decoder stopped, as a path in Kubernetes' form, and its message."""
    before, found, after = str(error).rpartition(" - at `$")
    return (after.rstrip("`").lstrip("."), before) if found else ("", after)


def body(path: str) -> str:
    """The name of a field in the details of schema errors: `spec.x in body`."""
    return f"{path} in body" if path else "body"


def aggregate(errors: Iterable[FieldError | str]) -> str:
    """All mistakes as one text, without duplicates: a single one bare, several as `[a, b]`."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
