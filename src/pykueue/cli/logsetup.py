"""Configure logging: text lines, or one JSON object per line, to standard error or to a rotated file."""

import logging
import os
import sys
from datetime import timedelta
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from typing import Final

import msgspec

from pykueue.base.units import EPOCH

LEVELS: Final = ("debug", "info", "warning", "error")
FILE_BYTES: Final = 10 * 1024 * 1024
FILES_KEPT: Final = 3


class TextLine(logging.Formatter):
    """Formats a record as text: time, level, message and object."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        about = getattr(record, "object", "")
        text = f"{moment(record)} {record.levelname.lower():7} {record.getMessage()}"
        return with_trace(record, f"{text} [{about}]" if about else text)


class JsonLine(logging.Formatter):
    """Formats a record as a JSON object."""

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
    """The time of a record, in UTC with milliseconds."""
    return (EPOCH + timedelta(seconds=record.created)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def with_trace(record: logging.LogRecord, text: str) -> str:
    """The line, followed by the traceback of the record if it has one."""
    if not record.exc_info:
        return text
    return f"{text}\n{logging.Formatter().formatException(record.exc_info)}"


def begin(form: str, level: str, file: str | None = None) -> None:
    """Configure the root logger with this format and level, on standard error or in a rotated file."""
    handler = logging.StreamHandler(sys.stderr) if file is None else Rotated(file)
    handler.setFormatter(JsonLine() if form == "json" else TextLine())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # We report bad requests ourselves; what aiohttp logs about connections is noise.
    logging.getLogger("aiohttp").setLevel(logging.ERROR)


class Rotated(RotatingFileHandler):
    """A log file with mode 0600 that is rotated by size; standard output and error follow if they lead to it."""

    def __init__(self, file: str) -> None:
        super().__init__(file, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8")

    def _open(self) -> TextIOWrapper:
        handle = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        return open(handle, "a", encoding="utf-8")

    def doRollover(self) -> None:
        """Continue in a new file."""
        assert self.stream is not None, "only an open file is rotated"
        before = os.fstat(self.stream.fileno())
        super().doRollover()
        for handle in (1, 2):
            # A detached server has them in its log; they would fill a file that was removed long ago.
            if os.path.samestat(os.fstat(handle), before):
                os.dup2(self.stream.fileno(), handle)
