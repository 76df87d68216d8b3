"""How are the files of pods removed? In a copy of the fork server, so that nobody waits for the disk.

Part of what is removed belongs to users, who could put a link in the way of a folder at any moment; so nothing here
follows a link, and everything is reached from the folder above it. It imports next to nothing.
"""

import contextlib
import os
from typing import Final

OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(name: str, above: int | None = None) -> None:
    """Remove a folder and all that is in it, as far as possible."""
    try:
        folder = os.open(name, OPEN, dir_fd=above)
    except OSError:
        return
    try:
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for inner, is_folder in found:
            if is_folder:
                remove_tree(inner, folder)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(inner, dir_fd=folder)
    finally:
        os.close(folder)
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=above)


def printed(pod: str) -> bool:
    """Whether a pod has left output in its folder of attempts."""
    with contextlib.suppress(OSError):
        for container in os.listdir(pod):
            with contextlib.suppress(NotADirectoryError):
                for attempt in os.listdir(f"{pod}/{container}"):
                    if any(name.endswith(".log") for name in os.listdir(f"{pod}/{container}/{attempt}")):
                        return True
    return False


def clean(folder: str, scratch: str, over: list[str], gone: list[str]) -> None:
    """Keep only the output of pods that are over, and nothing of pods that are gone."""
    for uid in over:
        if not printed(f"{folder}/{uid}"):
            remove_tree(f"{folder}/{uid}")
    for uid in gone:
        remove_tree(f"{folder}/{uid}")
        remove_tree(f"{scratch}/{uid}")
