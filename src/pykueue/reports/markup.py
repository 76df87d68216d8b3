"""Elements of HTML and SVG as text. Everything from data is escaped here: only `element` makes markup."""

import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import Final, TypeAlias

from pykueue.base.text import printable

NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9:-]*")
VOID: Final = frozenset({"meta", "br", "hr"})
"""Elements of HTML without an end tag."""
RAW: Final = frozenset({"script", "style"})
"""Elements whose content HTML does not unescape."""


class Markup:
    """Text that is markup already; there is no other way to it than `element` and `joined`."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


Child: TypeAlias = Markup | str
Attributes: TypeAlias = Mapping[str, str | float | None]


def safe(text: str) -> str:
    """A text as data within an element or a quoted attribute; invisible characters are made visible."""
    return escape(printable(text))


def figure(value: float) -> str:
    """A coordinate: two decimals are finer than any screen."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def element(tag: str, attributes: Attributes | None = None, *children: Child) -> Markup:
    """An element; children that are text are escaped, attributes that are None are left out."""
    assert NAME.fullmatch(tag), f"{tag!r} is no name of an element"
    assert tag not in RAW, f"the content of {tag} is not escaped; use `style_element`"
    parts = [f"<{tag}"]
    for name, value in (attributes or {}).items():
        assert NAME.fullmatch(name), f"{name!r} is no name of an attribute"
        assert not name.startswith("on"), f"{name} would be a script"
        if value is not None:
            parts.append(f' {name}="{safe(value) if isinstance(value, str) else figure(value)}"')
    if tag in VOID:
        assert not children, f"{tag} has no content"
        return Markup("".join((*parts, ">")))
    parts.append(">")
    parts += (one.text if isinstance(one, Markup) else safe(one) for one in children)
    return Markup("".join((*parts, f"</{tag}>")))


def style_element(css: str) -> Markup:
    """A style sheet of ours, as it is."""
    assert "<" not in css, "a style sheet cannot contain the end of its element"
    return Markup(f"<style>{css}</style>")


def joined(parts: Iterable[Markup]) -> Markup:
    """Elements one after the other."""
    return Markup("\n".join(one.text for one in parts))
