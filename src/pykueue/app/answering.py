"""The child process that answers an expensive question: standard input to standard output.

It lowers its own priority and bounds its own memory first. A question is the name of its kind on the first line, and
what that kind reads after it.
"""

import os
import resource
import sys
from collections.abc import Callable, Mapping
from typing import BinaryIO, Final, TypeAlias

from pykueue.bridge import estimates, previews
from pykueue.sim import preview
from pykueue.sim.estimates import answer as estimate
from pykueue.sim.refusal import RefusedError

NICE: Final = 19
MEMORY_MAX: Final = 1024 * 1024 * 1024
REFUSED: Final = 3
"""The exit code if a question is refused; the output is the sentence that says why."""
Answering: TypeAlias = Callable[[BinaryIO], bytes]
"""The answer to what is read; raises `RefusedError`."""
KINDS: Final[Mapping[str, Answering]] = {
    estimates.KIND: estimate,
    previews.KIND: preview.answer,
}


def main() -> int:
    """Answer one question; returns the exit code."""
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    kind = sys.stdin.buffer.readline().decode().strip()
    try:
        answer, code = KINDS[kind](sys.stdin.buffer), 0
    except RefusedError as error:
        answer, code = str(error).encode(), REFUSED
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()
    return code


if __name__ == "__main__":
    sys.exit(main())
