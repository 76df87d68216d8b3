"""Results kept between runs, so that one contender can run alone."""

from pathlib import Path
from typing import Final

import msgspec

from bench.race.contenders import WORK
from bench.race.result import Result

RESULTS: Final = WORK / "results"


def place(shape: str, contender: str) -> Path:
    """The file of a contender's last result under a load."""
    return RESULTS / shape / f"{contender}.json"


def save(result: Result) -> None:
    """Store a result in place of the contender's last one."""
    path = place(result.shape, result.contender)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(result)))


def load(shape: str, contender: str) -> Result | None:
    """A contender's last result under a load; None if there is none that can be read."""
    try:
        return msgspec.json.decode(place(shape, contender).read_bytes(), type=Result)
    except (OSError, msgspec.MsgspecError):
        return None
