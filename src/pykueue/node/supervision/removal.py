"""Remove the files of pods in a fork of the fork server, so that the server does not wait for the disk.

Some of these files belong to users, who could replace a folder by a link at any moment; so nothing here follows links,
and everything is opened relative to its parent folder. It imports next to nothing.
"""

import contextlib
import os
from typing import Final

OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(name: str) -> None:
    """Remove a folder and its content, as far as possible."""
    with contextlib.suppress(OSError):
        top = os.open(name, OPEN)
        try:
            empty(top)
        finally:
            os.close(top)
        os.rmdir(name)


def empty(top: int) -> None:
    """Empty a folder; deeper folders are first moved up, so that at any depth only two folders are open."""
    left = remove_flat(top)
    moved = 0
    while left:
        inner = left.pop()
        with contextlib.suppress(OSError):
            folder = os.open(inner, OPEN, dir_fd=top)
            try:
                for deeper in remove_flat(folder):
                    moved += 1
                    # Our pid makes the name differ from what another process may have left there.
                    name = f".{os.getpid()}-{moved}"
                    with contextlib.suppress(OSError):
                        os.rename(deeper, name, src_dir_fd=folder, dst_dir_fd=top)
                        left.append(name)
            finally:
                os.close(folder)
            os.rmdir(inner, dir_fd=top)


def remove_flat(folder: int) -> list[str]:
    """Remove the files and empty folders in a folder; returns the folders that are left."""
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
    """Whether a pod has output in its folder of attempts."""
    with contextlib.suppress(OSError):
        for container in os.listdir(pod):
            with contextlib.suppress(NotADirectoryError):
                for attempt in os.listdir(f"{pod}/{container}"):
                    if any(name.endswith(".log") for name in os.listdir(f"{pod}/{container}/{attempt}")):
                        return True
    return False


def clean(folder: str, scratch: str, over: list[str], gone: list[str]) -> None:
    """Keep only the output of finished pods, and nothing of deleted pods."""
    for uid in over:
        if not printed(f"{folder}/{uid}"):
            remove_tree(f"{folder}/{uid}")
    for uid in gone:
        remove_tree(f"{folder}/{uid}")
        remove_tree(f"{scratch}/{uid}")
