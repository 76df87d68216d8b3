"""How are the files of pods removed? In a copy of the fork server, so that nobody waits for the disk.

Part of what is removed belongs to users, who could put a link in the way of a folder at any moment; so nothing here
follows a link, and everything is reached from the folder above it. It imports next to nothing.
"""

import contextlib
import os
from typing import Final

OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(name: str) -> None:
    """Remove a folder and all that is in it, as far as possible."""
    with contextlib.suppress(OSError):
        top = os.open(name, OPEN)
        try:
            empty(top)
        finally:
            os.close(top)
        os.rmdir(name)


def empty(top: int) -> None:
    """Empty a folder; what lies deeper is first moved up to it, so that at any depth only two folders are open."""
    left = remove_flat(top)
    moved = 0
    while left:
        inner = left.pop()
        with contextlib.suppress(OSError):
            folder = os.open(inner, OPEN, dir_fd=top)
            try:
                for deeper in remove_flat(folder):
                    moved += 1
                    # By our number it is unlike what another of us may have left there.
                    name = f".{os.getpid()}-{moved}"
                    with contextlib.suppress(OSError):
                        os.rename(deeper, name, src_dir_fd=folder, dst_dir_fd=top)
                        left.append(name)
            finally:
                os.close(folder)
            os.rmdir(inner, dir_fd=top)


def remove_flat(folder: int) -> list[str]:
    """Remove the files and empty folders in a folder: the folders that are left."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    left = []
    for name, is_folder in found:
        try:
            if is_folder:
                os.rmdir(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)
        except OSError:
            if is_folder:
                left.append(name)
    return left


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
