"""What is wrong with a field? One mistake of a user, with its path, worded as Kubernetes words it."""

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
"""Codes whose text leaves the value out: it is absent, unwelcome, or too long to print."""

IMMUTABLE: Final = "field is immutable"
NEGATIVE: Final = "must be greater than or equal to 0"
NAME_MAX: Final = 80
"""Characters of a name up to which a nearest one is looked for."""
SHOWN_MAX: Final = 1024
"""Characters of a value that a message shows; a message with a megabyte in it helps nobody."""


class FieldError(Frozen):
    """One mistake: where, of what sort, the value found there, and what to do about it."""

    path: str
    code: Code
    value: object | None = None
    detail: str = ""

    def __str__(self) -> str:
        text = TITLES[self.code]
        if self.code not in VALUELESS:
            text += f": {shown(self.value)}"
        if self.detail:
            # A server has no word for an unknown field, which it drops; this is our own.
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
    """The field must be there."""
    return FieldError(path, "Required", None, detail)


def forbidden(path: str, detail: str) -> FieldError:
    """The field may not be set here."""
    return FieldError(path, "Forbidden", None, detail)


def duplicate(path: str, value: object) -> FieldError:
    """The value is there twice."""
    return FieldError(path, "Duplicate", value)


def not_found(path: str, value: object) -> FieldError:
    """The value names something that does not exist."""
    return FieldError(path, "NotFound", value)


def not_supported(path: str, value: object, supported: Iterable[str]) -> FieldError:
    """The value is none of those on offer."""
    offer = ", ".join(msgspec.json.encode(one).decode() for one in supported)
    return FieldError(path, "NotSupported", value, f"supported values: {offer}")


def too_many(path: str, count: int, most: int) -> FieldError:
    """The list or mapping has more entries than fit."""
    return FieldError(path, "TooMany", count, f"must have at most {most} items")


def too_long(path: str, most: int) -> FieldError:
    """The text is longer than fits."""
    return FieldError(path, "TooLong", None, f"may not be more than {most} bytes")


def wrong_type(path: str, *, wanted: str, found: str) -> FieldError:
    """The value is of another JSON type than the schema says."""
    return FieldError(path, "TypeInvalid", found, f'{body(path)} must be of type {wanted}: "{found}"')


def unknown(path: str, name: str, known: Iterable[str]) -> FieldError:
    """There is no field of this name; the nearest of those that there are is offered."""
    near = nearest(name, known)
    return FieldError(path, "Unknown", None, f"did you mean {near}?" if near else "correct its name or remove it")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one of the known names that somebody who wrote this name may have meant."""
    folded = {one.lower(): one for one in known}
    found = get_close_matches(name.lower(), folded, n=1) if len(name) <= NAME_MAX else []
    return folded[found[0]] if found else None


def located(error: msgspec.ValidationError) -> tuple[str, str]:
    """Where a decoder stopped, as a path that Kubernetes would write, and what it says."""
    before, found, after = str(error).rpartition(" - at `$")
    return (after.rstrip("`").lstrip("."), before) if found else ("", after)


def body(path: str) -> str:
    """How the details of schema errors name a field: `spec.x in body`."""
    return f"{path} in body" if path else "body"


def aggregate(errors: Iterable[FieldError | str]) -> str:
    """All the mistakes as one text: a single one bare, several as `[a, b]`, each once."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
