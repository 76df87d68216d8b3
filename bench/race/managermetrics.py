"""What our manager says of itself at the end of a run: the last page of metrics that the harness has stored."""

import tarfile
from pathlib import Path
from typing import Final

from bench.race.requests import series
from pykueue.base.struct import Frozen

DUMP: Final = "metricsDump.tgz"
LOST: Final = "pykueue_lost_work_seconds_total"
UNSERVED: Final = "pykueue_unserved_preemptions_total"
DROPPED: Final = "pykueue_events_dropped_total"


class Said(Frozen):
    """Figures that Kueue does not have."""

    lost_seconds: float
    """The run time that evictions cost."""
    unserved: float
    """Evictions whose preemptor did not start."""
    dropped_events: float
    """Kubernetes Events that were not written."""


def last_page(folder: Path) -> str:
    """The last metrics that the harness has read; empty if it has read none."""
    with tarfile.open(folder / DUMP) as dump:
        names = sorted(dump.getnames(), key=lambda name: int(Path(name).stem))
        found = dump.extractfile(names[-1]) if names else None
        return "" if found is None else found.read().decode()


def said(page: str) -> Said:
    """The figures on a page of metrics."""
    return Said(*(sum(value for _, value in series(page, family)) for family in (LOST, UNSERVED, DROPPED)))
