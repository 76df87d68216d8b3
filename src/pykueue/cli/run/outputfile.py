"""The file of --output where the job itself writes it: with --detach, in an array, and with a pattern in its name."""

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

PATTERN: Final = re.compile(r"%(.)", re.DOTALL)
VARIABLES: Final = {"j": '"$PYKUEUE_JOB_NAME"', "A": '"$PYKUEUE_JOB_NAME"', "a": '"$PYKUEUE_ARRAY_TASK_ID"'}
"""What patterns stand for that are known only when the job runs; a job has a name in place of Slurm's number."""
KNOWN: Final = frozenset((*VARIABLES, "x", "u", "%"))
PATTERNS: Final = "%x (name given with --name or --job-name), %j and %A (name of the Job), %a (task), %u (user), %%"


def unknown_patterns(file: str) -> list[str]:
    """The patterns in the name of a file that have no meaning here."""
    return [f"%{one}" for one in PATTERN.findall(file) if one not in KNOWN]


def has_patterns(file: str) -> bool:
    """Whether the name of a file has patterns."""
    return PATTERN.search(file) is not None


def file_problem(file: str) -> str:
    """Why a job cannot write this file in the current directory; empty if it can, or that is not known."""
    folder, name = os.path.split(file)
    if has_patterns(folder):
        return ""
    if not Path(folder or ".").is_dir():
        return f"{file}: directory {folder} does not exist; create it first"
    if not has_patterns(name) and Path(file).exists():
        if Path(file).is_dir():
            return f"{file}: Is a directory"
        return "" if os.access(file, os.W_OK) else f"{file}: Permission denied"
    return "" if os.access(folder or ".", os.W_OK | os.X_OK) else f"{file}: no permission to write in {folder or '.'}"


def recorded(file: str, *, title: str, user: str, folder: str) -> str:
    """The file as the annotation of a Job has it: in its directory, and with patterns only that its tasks replace."""
    known = {"x": title.replace("%", "%%"), "u": user.replace("%", "%%")}
    return os.path.join(folder.replace("%", "%%"), PATTERN.sub(lambda found: known.get(found[1], found[0]), file))


def writing(command: Sequence[str], file: str, *, title: str, user: str, errors: bool) -> list[str]:
    """The command with its standard output in a file, and its standard error too with `errors`.

    `title` is what %x stands for, `user` what %u does.
    """
    literal = {"x": title, "u": user, "%": "%"}
    parts: list[str] = []
    at = 0
    for found in PATTERN.finditer(file):
        parts += [quoted(file[at : found.start()]), VARIABLES.get(found[1], quoted(literal.get(found[1], "")))]
        at = found.end()
    name = "".join((*parts, quoted(file[at:])))
    return ["/bin/sh", "-c", f'exec "$@" > {name}{" 2>&1" if errors else ""}', "pykueue-output", *command]


def quoted(text: str) -> str:
    """A text as a part of a word of `sh`."""
    return shlex.quote(text) if text else ""
