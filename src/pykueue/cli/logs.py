"""In which form does a server say what it does? Lines for people, or one JSON object per line for programs."""

import logging
import sys
from datetime import timedelta
from typing import Final

import msgspec

from pykueue.base.units import EPOCH

LEVELS: Final = ("debug", "info", "warning", "error")


class TextLine(logging.Formatter):
    """Time, level, what happened, and to which object."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        about = getattr(record, "object", "")
        text = f"{moment(record)} {record.levelname.lower():7} {record.getMessage()}"
        return with_trace(record, f"{text} [{about}]" if about else text)


class JsonLine(logging.Formatter):
    """The same as JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        said = {
            "ts": moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        about = getattr(record, "object", "")
        if about:
            said["object"] = str(about)
        if record.exc_info:
            said["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(said).decode()


def moment(record: logging.LogRecord) -> str:
    """When it was said, in UTC with milliseconds."""
    return (EPOCH + timedelta(seconds=record.created)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def with_trace(record: logging.LogRecord, text: str) -> str:
    """The line with the error that it is about, if there is one."""
    if not record.exc_info:
        return text
    return f"{text}\n{logging.Formatter().formatException(record.exc_info)}"


def begin(form: str, level: str) -> None:
    """Say everything from now on in this form, on the standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLine() if form == "json" else TextLine())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # What its users send is our business; what the server library thinks of their connections is not.
    logging.getLogger("aiohttp").setLevel(logging.ERROR)
