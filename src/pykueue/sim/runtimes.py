"""Draws how long jobs run: from those like it that have finished, from its limit, or from a broad guess.

The draws of one run share what is uncertain about all jobs of a kind, so that runs differ as much as the truth may.
"""

import random
from collections.abc import Callable
from typing import Final, TypeAlias

from pykueue.bridge.runtimes import JobKind, RunTimesTable

GUESS_SHORT_SECONDS: Final = 60
GUESS_LONG_SECONDS: Final = 24 * 3600
"""Between these is the usual run time of a kind of job of which nothing is known."""
TAIL_MAX: Final = 10
"""How many times as long as the longest known run another may take."""
TRIES: Final = 20
ENOUGH: Final = 5
"""How many known run times are relied on; with fewer, some runs guess instead, the more the fewer there are."""
Streams: TypeAlias = Callable[[str], random.Random]
"""Returns the random numbers for a name."""


def shared_stream(rng: random.Random) -> Streams:
    """One stream for all names, so that a draw depends on those before it."""
    return lambda _: rng


def named_streams(seed: str) -> Streams:
    """A stream for each name, so that a draw does not depend on what else is drawn, nor on the order."""
    return lambda name: random.Random(f"{seed}/{name}")


class Draws:
    """The run times of one run."""

    def __init__(self, known: RunTimesTable, streams: Streams) -> None:
        self.known = known
        self.streams = streams
        self.samples: dict[JobKind, list[int]] = {}
        """Run times of each kind, chosen for this run from those that are known."""
        self.scales: dict[str, float] = {}
        """A number from 0 to 1 by queue: where in the range of what is possible its jobs are in this run."""

    def seconds(self, kind: JobKind, limit: int | None, elapsed: int, name: str = "") -> int:
        """How long a job of this name runs in total that has run for `elapsed` seconds, at most its limit."""
        samples = self.samples_of(kind)
        scale = 0.0 if samples else self.scale(kind.queue)
        rng = self.streams(f"job {name}")
        if samples:
            found = from_samples(samples, elapsed, rng)
        elif limit is not None:
            found = max(elapsed, round(limit * min(1.0, scale * rng.uniform(0.5, 1.5))))
        else:
            usual = GUESS_SHORT_SECONDS * (GUESS_LONG_SECONDS / GUESS_SHORT_SECONDS) ** scale
            found = round(usual * rng.uniform(0.5, 1.5))
            if found <= elapsed:
                found = beyond(elapsed, rng)
        return found if limit is None else max(min(found, limit), min(elapsed, limit))

    def samples_of(self, kind: JobKind) -> list[int]:
        """The run times to draw from in this run: as many as are known, drawn from those, in order; empty to guess."""
        found = self.samples.get(kind)
        if found is None:
            known = self.known.find(kind).seconds
            rng = self.streams(f"kind {kind.queue} {kind.requests}")
            if 0 < len(known) < ENOUGH and rng.random() * (len(known) + 1) < 1:
                known = ()
            found = self.samples[kind] = sorted(rng.choices(known, k=len(known))) if known else []
        return found

    def scale(self, queue: str) -> float:
        """Where in the range of what is possible the jobs of a queue are in this run."""
        if queue not in self.scales:
            self.scales[queue] = self.streams(f"queue {queue}").random()
        return self.scales[queue]


def from_samples(samples: list[int], elapsed: int, rng: random.Random) -> int:
    """A run time between those that are known, or, as rarely as is likely, outside of them."""
    for _ in range(TRIES):
        found = one_of(samples, rng)
        if found > elapsed:
            return found
    return beyond(elapsed, rng)


def one_of(samples: list[int], rng: random.Random) -> int:
    """A run time; each gap between those that are known is equally likely, and so are both ends."""
    place = rng.random() * (len(samples) + 1)
    index, share = int(place), place % 1
    if index == 0:
        return round(samples[0] * share)
    if index >= len(samples):
        return round(min(samples[-1] / (1 - share), samples[-1] * TAIL_MAX))
    return round(samples[index - 1] + (samples[index] - samples[index - 1]) * share)


def beyond(elapsed: int, rng: random.Random) -> int:
    """A run time of a job that has run for longer than all like it: it is half done, give or take."""
    return round(min(elapsed / (1 - rng.random()), elapsed * TAIL_MAX)) + 1
