"""What is in this file? Its bytes, no more than can be used, and what to say when it cannot be read."""

from pathlib import Path

from pykueue.api.yamltext import TEXT_MAX


def content(file: str | Path, most: int = TEXT_MAX) -> bytes:
    """The bytes of a file, and one more than the most that can be used where it is longer; raises as `open` does."""
    with Path(file).open("rb") as opened:
        return opened.read(most + 1)


def unreadable(error: OSError | ValueError) -> str:
    """What is wrong with a file that cannot be read, and what to do."""
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return f"cannot be read: {reason}; check the name and your rights to it"
