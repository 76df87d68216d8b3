"""Text that is safe to print to a terminal."""


def printable(text: str) -> str:
    """The text with control and other unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
