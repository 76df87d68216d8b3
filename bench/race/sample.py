"""A sampling profiler for our manager: counts what is on the stack every few milliseconds of CPU time.

A tracing profiler makes small functions look large; looking now and then costs next to nothing and leaves the figures
as they are: `python -m bench.race.sample FILE manager …` is `python -m pykueue manager …`, and FILE tells of it.
"""

import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Final

EVERY: Final = 0.004
"""CPU seconds between two samples."""
SHOWN: Final = 80
HERE: Final = str(Path(__file__).resolve().parent.parent.parent)


class Samples:
    """The sampled functions."""

    def __init__(self) -> None:
        self.looks = 0
        self.own: Counter[str] = Counter()
        """How often a function was at the top of the stack."""
        self.within: Counter[str] = Counter()
        """How often a function was anywhere on the stack."""

    def look(self, number: int, frame: FrameType | None) -> None:
        """Count the functions on the stack now."""
        self.looks += 1
        seen: set[str] = set()
        while frame is not None:
            code = frame.f_code
            name = f"{code.co_filename}:{code.co_firstlineno} {code.co_qualname}"
            if not seen:
                self.own[name] += 1
            seen.add(name)
            frame = frame.f_back
        self.within.update(seen)

    def report(self) -> str:
        """Functions by their own time, and by their time with all callees."""
        parts = [f"{self.looks:,} looks, one every {EVERY * 1000:g} ms of CPU time\n"]
        for title, counts in (("own time", self.own), ("with all they call", self.within)):
            parts.append(f"\n{title}\n")
            parts += [f"{number / self.looks:7.1%}  {shorter(name)}\n" for name, number in counts.most_common(SHOWN)]
        return "".join(parts)


def shorter(name: str) -> str:
    """A function without the common folders in its path."""
    return name.removeprefix(f"{HERE}/").rpartition("site-packages/")[2]


def main(arguments: list[str]) -> int:
    """Run the manager under the profiler."""
    file, *sys.argv[1:] = arguments
    samples = Samples()
    signal.signal(signal.SIGPROF, samples.look)
    signal.setitimer(signal.ITIMER_PROF, EVERY, EVERY)
    from pykueue.cli.main import main as run

    try:
        run()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        Path(file).write_text(samples.report())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
