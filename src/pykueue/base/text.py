"""Text as a terminal may show it."""


def printable(text: str) -> str:
    """The text with everything escaped that a terminal could stumble over."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
