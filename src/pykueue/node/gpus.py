"""Assign GPUs to containers, each exclusively, for the lifetime of the pod.

The assignment is written beside the pod's attempts before anything starts, so that a restarted server finds it again.
"""

import asyncio
import logging
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from pykueue.base.struct import Frozen
from pykueue.base.timers import timeout

LOG: Final = logging.getLogger(__name__)

RESOURCE: Final = "nvidia.com/gpu"
FILE: Final = "gpus.json"
QUERY: Final = ("--query-gpu=index,uuid,name", "--format=csv,noheader")
QUERY_SECONDS: Final = 20


class Gpu(Frozen):
    """A GPU of this machine."""

    index: int
    uuid: str = ""
    name: str = ""


def parse_gpus(listing: str) -> tuple[Gpu, ...]:
    """The GPUs in the output of nvidia-smi."""
    found = []
    for line in listing.splitlines():
        index, _, rest = line.partition(",")
        uuid, _, name = rest.partition(",")
        if index.strip().isdecimal():
            found.append(Gpu(int(index), uuid.strip(), name.strip()))
    return tuple(found)


async def find_gpus() -> tuple[Gpu, ...]:
    """The GPUs that nvidia-smi finds; none if there is no such program."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *QUERY,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as error:
        LOG.warning("gpus: query failed, set their number with --gpus program=%s error=%s", program, error)
        return ()
    try:
        async with timeout(QUERY_SECONDS):
            listing, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        LOG.warning("gpus: query timed out, set their number with --gpus program=%s", program)
        return ()
    return parse_gpus(listing.decode(errors="replace"))


class Shares:
    """The assignment of GPUs."""

    def __init__(self, folder: Path, gpus: Iterable[Gpu]) -> None:
        self.folder = folder
        self.gpus = tuple(gpus)
        self.held: dict[str, dict[str, tuple[int, ...]]] = {}
        """Indices by pod and container."""

    def restore(self, uid: str) -> None:
        """Restore the assignment of a pod from an earlier server."""
        try:
            found = msgspec.json.decode((self.folder / uid / FILE).read_bytes(), type=dict[str, tuple[int, ...]])
        except (OSError, msgspec.DecodeError):
            return
        self.held[uid] = found

    def free(self) -> list[int]:
        """The unassigned indices."""
        taken = {index for shares in self.held.values() for indices in shares.values() for index in indices}
        return [gpu.index for gpu in self.gpus if gpu.index not in taken]

    def take(self, uid: str, wanted: Mapping[str, int]) -> Mapping[str, tuple[int, ...]] | None:
        """The GPUs of each container of a pod, the same as before if it has any; None if there are too few."""
        if uid in self.held:
            return self.held[uid]
        if not any(wanted.values()):
            return {}
        free = self.free()
        if sum(wanted.values()) > len(free):
            return None
        shares = {}
        for container, count in wanted.items():
            shares[container], free = tuple(free[:count]), free[count:]
        folder = self.folder / uid
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = folder / f"{FILE}.new"
        partial.write_bytes(msgspec.json.encode(shares))
        partial.rename(folder / FILE)
        self.held[uid] = shares
        return shares

    def release(self, uid: str) -> None:
        """Release the GPUs of a pod."""
        if self.held.pop(uid, None) is not None:
            (self.folder / uid / FILE).unlink(missing_ok=True)

    def variables(self, indices: Iterable[int]) -> dict[str, str]:
        """The environment variables for a container's GPUs; empty on a machine without GPUs."""
        if not self.gpus:
            return {}
        shown = ",".join(str(index) for index in indices)
        # CUDA's default order differs from that of nvidia-smi.
        return {
            "CUDA_VISIBLE_DEVICES": shown,
            "NVIDIA_VISIBLE_DEVICES": shown or "void",
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        }
