"""Exit codes as shells report them, where Kubernetes has others or none."""

import re
from typing import Final

TIMED_OUT: Final = 124
"""As timeout(1) exits: the time limit was reached."""
DEADLINE: Final = "DeadlineExceeded"
"""The reason of Jobs and pods that reached their time limit."""
NOT_EXECUTED: Final = re.compile(r'exec: ".*": (.*)', re.DOTALL)
"""What container runtimes say of a command that they cannot execute."""
ABSENT: Final = ("executable file not found", "no such file or directory")
NOT_FOUND, NOT_EXECUTABLE = 127, 126


def shell_code(code: int, reason: str, message: str) -> int:
    """The exit code of a container, given its reason and message: 127 and 126 if its command cannot be executed."""
    if reason == "StartError" and (why := NOT_EXECUTED.search(message)):
        return NOT_FOUND if any(words in why[1] for words in ABSENT) else NOT_EXECUTABLE
    return code
