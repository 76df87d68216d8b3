"""Time as the auditor counts it: microseconds since the Unix epoch."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, TypeAlias

Instant: TypeAlias = int
"""Microseconds since the Unix epoch."""
MICROS: Final = 1_000_000
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=4096)
def parse_instant(text: str) -> Instant:
    """Parse an RFC 3339 text; one without a time zone is in UTC."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // timedelta(microseconds=1)
