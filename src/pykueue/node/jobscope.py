"""Start the fork server in a systemd scope of its own, so that jobs do not end with the service of the server.

The unit of `pykueue up --install` asks for it by naming a slice in an environment variable. Each fork server gets a new
scope in that slice; jobs of an earlier one continue in theirs.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Final

SLICE: Final = "PYKUEUE_JOBS_SLICE"
"""The environment variable that names the slice."""
PROPERTIES: Final = ("Delegate=yes", "TasksMax=infinity")
"""Containers have cgroups below that of the scope, with limits of their own."""


def scoped(
    command: Sequence[str], environment: Mapping[str, str] = os.environ, *, root: bool | None = None
) -> list[str]:
    """The command, to be executed in a new scope if the environment names a slice; its process stays the same."""
    slice_name = environment.get(SLICE)
    if not slice_name:
        return list(command)
    as_root = os.geteuid() == 0 if root is None else root
    return [
        "systemd-run",
        *([] if as_root else ["--user"]),
        "--scope",
        "--quiet",
        "--collect",
        f"--slice={slice_name}",
        f"--unit=pykueue-jobs-{os.urandom(4).hex()}",
        "--description=Jobs of pykueue",
        *(f"--property={one}" for one in PROPERTIES),
        "--",
        *command,
    ]
