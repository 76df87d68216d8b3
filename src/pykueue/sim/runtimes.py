"""Draws how long jobs run: from those like it that have finished, from its limit, or from a broad guess.

The draws of one run share what is uncertain about all jobs of a kind, so that runs differ as much as the truth may.
"""

import random
from typing import Final

from pykueue.bridge.runtimes import JobKind, RunTimesTable

GUESS_SHORT_SECONDS: Final = 60
GUESS_LONG_SECONDS: Final = 24 * 3600
"""Between these is the usual run time of a kind of job of which nothing is known."""
TAIL_MAX: Final = 10
"""How many times as long as the longest known run another may take."""
TRIES: Final = 20
ENOUGH: Final = 5
"""How many known run times are relied on; with fewer, some runs guess instead, the more the fewer there are."""


class Draws:
    """The run times of one run."""

    def __init__(self, known: RunTimesTable, rng: random.Random) -> None:
        self.known = known
        self.rng = rng
        self.samples: dict[JobKind, list[int]] = {}
        """Run times of each kind, chosen for this run from those that are known."""
        self.scales: dict[str, float] = {}
        """A number from 0 to 1 by queue: where in the range of what is possible its jobs are in this run."""

    def seconds(self, kind: JobKind, limit: int | None, elapsed: int) -> int:
        """How long a job runs in total that has run for `elapsed` seconds, at most its limit."""
        samples = self.samples_of(kind)
        if samples:
            found = self.from_samples(samples, elapsed)
        elif limit is not None:
            share = self.scale(kind.queue) * self.rng.uniform(0.5, 1.5)
            found = max(elapsed, round(limit * min(1.0, share)))
        else:
            usual = GUESS_SHORT_SECONDS * (GUESS_LONG_SECONDS / GUESS_SHORT_SECONDS) ** self.scale(kind.queue)
            found = round(usual * self.rng.uniform(0.5, 1.5))
            if found <= elapsed:
                found = self.beyond(elapsed)
        return found if limit is None else max(min(found, limit), min(elapsed, limit))

    def samples_of(self, kind: JobKind) -> list[int]:
        """The run times to draw from in this run: as many as are known, drawn from those, in order; empty to guess."""
        found = self.samples.get(kind)
        if found is None:
            known = self.known.find(kind).seconds
            if 0 < len(known) < ENOUGH and self.rng.random() * (len(known) + 1) < 1:
                known = ()
            found = self.samples[kind] = sorted(self.rng.choices(known, k=len(known))) if known else []
        return found

    def from_samples(self, samples: list[int], elapsed: int) -> int:
        """A run time between those that are known, or, as rarely as is likely, outside of them."""
        for _ in range(TRIES):
            found = self.one_of(samples)
            if found > elapsed:
                return found
        return self.beyond(elapsed)

    def one_of(self, samples: list[int]) -> int:
        """A run time; each gap between those that are known is equally likely, and so are both ends."""
        place = self.rng.random() * (len(samples) + 1)
        index, share = int(place), place % 1
        if index == 0:
            return round(samples[0] * share)
        if index >= len(samples):
            return round(min(samples[-1] / (1 - share), samples[-1] * TAIL_MAX))
        return round(samples[index - 1] + (samples[index] - samples[index - 1]) * share)

    def beyond(self, elapsed: int) -> int:
        """A run time of a job that has run for longer than all like it: it is half done, give or take."""
        return round(min(elapsed / (1 - self.rng.random()), elapsed * TAIL_MAX)) + 1

    def scale(self, queue: str) -> float:
        """Where in the range of what is possible the jobs of a queue are in this run."""
        if queue not in self.scales:
            self.scales[queue] = self.rng.random()
        return self.scales[queue]
