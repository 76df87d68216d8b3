"""Assign GPUs to containers for the lifetime of the pod: whole ones exclusively, or shares of those set apart for it.

The assignment is written beside the pod's attempts before anything starts, so that a restarted server finds it again.
"""

import asyncio
import logging
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from pykueue.api.fields import FieldError, forbidden
from pykueue.api.names import GPU, GPU_SHARE
from pykueue.api.trees import amount, mappings, member
from pykueue.base.struct import Frozen
from pykueue.base.timers import timeout

LOG: Final = logging.getLogger(__name__)

WHOLE: Final = 1000
FILE: Final = "gpus.json"
SHARES_FILE: Final = "gpushares.json"
QUERY: Final = ("--query-gpu=index,uuid,name,memory.total", "--format=csv,noheader,nounits")
QUERY_SECONDS: Final = 20
NONE: Final[Mapping[str, int]] = {}


class Gpu(Frozen):
    """A GPU of this machine."""

    index: int
    uuid: str = ""
    name: str = ""
    memory_mib: int = 0
    """0 if it is unknown."""


def parse_gpus(listing: str) -> tuple[Gpu, ...]:
    """The GPUs in the output of nvidia-smi."""
    found = []
    for line in listing.splitlines():
        index, uuid, *name, memory = [part.strip() for part in line.split(",")] if line.count(",") > 2 else ["", "", ""]
        if index.isdecimal():
            found.append(Gpu(int(index), uuid, ", ".join(name), int(memory) if memory.isdecimal() else 0))
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
    """The assignment of GPUs; the last `shared` of them are given out in shares, never whole."""

    def __init__(self, folder: Path, gpus: Iterable[Gpu], shared: int = 0) -> None:
        self.folder = folder
        self.gpus = tuple(gpus)
        indices = [gpu.index for gpu in self.gpus]
        self.whole = indices[: len(indices) - shared]
        self.split = indices[len(indices) - shared :]
        self.held: dict[str, dict[str, tuple[int, ...]]] = {}
        """Indices by pod and container; that of a share comes last."""
        self.parts: dict[str, dict[str, int]] = {}
        """Thousandths by pod and container, of those that have a share."""

    def restore(self, uid: str) -> None:
        """Restore the assignment of a pod from an earlier server."""
        try:
            found = msgspec.json.decode((self.folder / uid / FILE).read_bytes(), type=dict[str, tuple[int, ...]])
        except (OSError, msgspec.DecodeError):
            return
        self.held[uid] = found
        try:
            parts = msgspec.json.decode((self.folder / uid / SHARES_FILE).read_bytes(), type=dict[str, int])
        except (OSError, msgspec.DecodeError):
            return
        self.parts[uid] = parts

    def used(self) -> dict[int, int]:
        """Thousandths in use by index."""
        found: dict[int, int] = {}
        for uid, containers in self.held.items():
            for container, indices in containers.items():
                part = self.parts.get(uid, {}).get(container, 0)
                for index in indices:
                    taken = part if part and index == indices[-1] else WHOLE
                    found[index] = found.get(index, 0) + taken
        return found

    def free(self) -> list[int]:
        """The unassigned indices among those that are given out whole."""
        used = self.used()
        return [index for index in self.whole if index not in used]

    def room(self) -> int:
        """The largest share that is free, in thousandths."""
        used = self.used()
        return max((WHOLE - used.get(index, 0) for index in self.split), default=0)

    def take(
        self, uid: str, wanted: Mapping[str, int], parts: Mapping[str, int] = NONE
    ) -> Mapping[str, tuple[int, ...]] | None:
        """The GPUs of each container of a pod, the same as before if it has any; None if there are too few.

        `wanted` are whole GPUs, `parts` thousandths of one, by container.
        """
        if uid in self.held:
            return self.held[uid]
        if not any(wanted.values()) and not any(parts.values()):
            return {}
        free, used = self.free(), self.used()
        if sum(wanted.values()) > len(free):
            return None
        shares: dict[str, tuple[int, ...]] = {}
        for container, count in wanted.items():
            shares[container], free = tuple(free[:count]), free[count:]
        for container, part in parts.items():
            # The fullest that still has room, so that large shares find one.
            fitting = [index for index in self.split if used.get(index, 0) + part <= WHOLE]
            if not fitting:
                return None
            index = max(fitting, key=lambda one: used.get(one, 0))
            used[index] = used.get(index, 0) + part
            shares[container] = (*shares.get(container, ()), index)
        self.store(uid, shares, parts)
        self.held[uid] = shares
        if parts:
            self.parts[uid] = dict(parts)
        return shares

    def store(self, uid: str, shares: Mapping[str, tuple[int, ...]], parts: Mapping[str, int]) -> None:
        """Write an assignment; the file that a restart looks for comes last."""
        folder = self.folder / uid
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, content in ((SHARES_FILE, parts), (FILE, shares)):
            if content:
                partial = folder / f"{name}.new"
                partial.write_bytes(msgspec.json.encode(content))
                partial.rename(folder / name)

    def release(self, uid: str) -> None:
        """Release the GPUs of a pod."""
        if self.held.pop(uid, None) is not None:
            (self.folder / uid / FILE).unlink(missing_ok=True)
        if self.parts.pop(uid, None) is not None:
            (self.folder / uid / SHARES_FILE).unlink(missing_ok=True)

    def variables(self, indices: Iterable[int], part: int = 0) -> dict[str, str]:
        """The environment variables for a container's GPUs; empty on a machine without GPUs.

        With a share, they also say how much of the GPU and of its memory the container may use; nothing enforces it.
        """
        if not self.gpus:
            return {}
        held = tuple(indices)
        shown = ",".join(str(index) for index in held)
        # CUDA's default order differs from that of nvidia-smi.
        found = {
            "CUDA_VISIBLE_DEVICES": shown,
            "NVIDIA_VISIBLE_DEVICES": shown or "void",
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        }
        if part and held:
            memory = next((gpu.memory_mib for gpu in self.gpus if gpu.index == held[-1]), 0)
            found["PYKUEUE_GPU_SHARE"] = f"{part / WHOLE:g}"
            if memory:
                found["PYKUEUE_GPU_MEMORY_MIB"] = str(memory * part // WHOLE)
        return found


def share_errors(spec: Mapping[str, object], path: str) -> list[FieldError]:
    """Errors about shares that no GPU has: a share is of one GPU."""
    found = []
    for field in ("initContainers", "containers"):
        for index, container in mappings(spec, field):
            for part in ("limits", "requests"):
                asked = amount(member(container, "resources", part, GPU_SHARE))
                if asked is not None and asked.whole() > WHOLE:
                    at = f"{path}.{field}[{index}].resources.{part}[{GPU_SHARE}]"
                    found.append(forbidden(at, f"a share is at most {WHOLE}, one GPU; ask for {GPU} instead"))
                    break
    return found
