"""This machine as a Kubernetes Node: its cores, memory and GPUs, and its heartbeat."""

import contextlib
import logging
import os
import platform
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.api.names import GPU, GPU_SHARE, SERVER_VERSION
from pykueue.api.trees import mapping, text
from pykueue.base.clock import Clock
from pykueue.base.datafolder import FOLDER_MODE, put
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, NANO, Instant, Quantity, format_instant, micro_time
from pykueue.kube.informer import PAGE
from pykueue.kube.port import LEASES, NAMESPACES, NODES, ExistsError, Kube, KubeError, NotFoundError, Patch
from pykueue.node.podstatus import LOCALHOST
from pykueue.node.setup.gpus import WHOLE, Gpu, find_gpus

LOG: Final = logging.getLogger(__name__)

LEASE_NAMESPACE: Final = "kube-node-lease"
LEASE_SECONDS: Final = 40
BEAT_MICROS: Final = 20 * MICROS
"""Half of the lease's duration: each renewal is a durable write, and nothing waits for this node to fail.

A deleted Node is back after one beat, before its pods count as lost."""
RETRY_MICROS: Final = 2 * MICROS
PODS_MAX: Final = 1000
LIMITS: Final = "pykueue.io/limits"
"""The annotation that says how limits of containers are enforced."""
MAKERS: Final = ("+pykueue", "-pykueue")
"""How the version of a Node of ours ends; the second one until 0.1.0."""
NAME_FILE: Final = "node"
"""The file of the data folder that holds the name of the Node."""
NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


class Machine(Frozen):
    """The resources of this machine."""

    cpus_milli: int
    memory_bytes: int
    gpus: tuple[Gpu, ...] = ()
    disk_bytes: int = 0
    pods: int = PODS_MAX
    shared_gpus: int = 0
    """The number of GPUs, the last ones, that are given out in shares."""

    def resources(self) -> dict[str, Quantity]:
        """The resources as a Node's capacity."""
        found = {
            "cpu": Quantity(self.cpus_milli * 1_000_000),
            "ephemeral-storage": Quantity(self.disk_bytes * NANO, "BinarySI"),
            "memory": Quantity(self.memory_bytes * NANO, "BinarySI"),
            "pods": Quantity(self.pods * NANO),
        }
        return found | {name: Quantity(count * NANO) for name, count in self.devices().items()}

    def devices(self) -> dict[str, int]:
        """The GPUs by resource."""
        found = {GPU: len(self.gpus) - self.shared_gpus, GPU_SHARE: self.shared_gpus * WHOLE}
        return {name: count for name, count in found.items() if count}


async def find_machine(
    *, cpus: float | None = None, memory: int | None = None, gpus: int | None = None, shared_gpus: int = 0
) -> Machine:
    """This machine, with the given values in place of the detected ones; raises `ValueError` if it has fewer GPUs."""
    found = () if gpus == 0 else await find_gpus()
    if gpus is not None:
        # A count alone also creates GPUs, so that queues can be tried on machines without any.
        found = tuple(found[index] if index < len(found) else Gpu(index) for index in range(gpus))
    if shared_gpus > len(found):
        raise ValueError(f"{shared_gpus} GPUs cannot be shared: there are {len(found)}")
    disk = os.statvfs("/")
    return Machine(
        round(cpus * 1000) if cpus is not None else present_cpus() * 1000,
        memory if memory is not None else present_memory(),
        found,
        disk.f_blocks * disk.f_frsize,
        shared_gpus=shared_gpus,
    )


def present_cpus() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def present_memory() -> int:
    """The bytes of memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def node_name() -> str:
    """The name of this machine's Node: its host name as a valid name."""
    spelled = "".join(one if one.isascii() and one.isalnum() else "-" for one in socket.gethostname().lower())
    return spelled[:63].strip("-") or "localhost"


def kept_name(data: Path) -> str:
    """The name of the Node in this data folder: pods are bound to it, so it survives a rename of the machine."""
    path = data / NAME_FILE
    try:
        name = path.read_text(encoding="ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        name = ""
    if NAME.fullmatch(name):
        return name
    name = node_name()
    data.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    put(path, f"{name}\n".encode())
    return name


def architecture() -> str:
    """The architecture of this machine in Kubernetes' terms."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def os_image() -> str:
    """The name of the operating system."""
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


def first_line(path: str) -> str:
    """The first line of a file; empty if there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().strip()
    except OSError:
        return ""


def node_tree(name: str, machine: Machine, now: Instant, *, annotations: Mapping[str, str] | None = None) -> Tree:
    """The Node object of a machine."""
    labels: Tree = {
        "kubernetes.io/arch": architecture(),
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
    }
    notes: Tree = dict(annotations or {})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": notes},
        "spec": {},
        "status": node_status(name, machine, now),
    }


def node_status(name: str, machine: Machine, now: Instant) -> Tree:
    """The status of a healthy Node."""
    amounts: Tree = {resource: str(quantity) for resource, quantity in machine.resources().items()}
    return {
        "addresses": [{"type": "InternalIP", "address": LOCALHOST}, {"type": "Hostname", "address": name}],
        "allocatable": amounts,
        "capacity": dict(amounts),
        "conditions": conditions(now),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
        "nodeInfo": {
            "architecture": architecture(),
            "bootID": first_line("/proc/sys/kernel/random/boot_id"),
            "containerRuntimeVersion": "process://1",
            "kernelVersion": platform.release(),
            "kubeProxyVersion": "",
            "kubeletVersion": SERVER_VERSION,
            "machineID": first_line("/etc/machine-id"),
            "operatingSystem": "linux",
            "osImage": os_image(),
            "systemUUID": "",
        },
    }


def merging(status: Mapping[str, object]) -> Tree:
    """A status as a merge patch, which keeps what it does not name: GPUs that are gone are set to null."""
    amounts = {name: {GPU: None, GPU_SHARE: None, **mapping(status, name)} for name in ("allocatable", "capacity")}
    return {**status, **amounts}  # type: ignore[dict-item]  # parts of a Tree are Json


def conditions(now: Instant) -> list[Json]:
    """The conditions of a healthy Node."""
    moment = format_instant(now)
    rows = (
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    )
    return [
        {
            "type": kind,
            "status": status,
            "lastHeartbeatTime": moment,
            "lastTransitionTime": moment,
            "reason": reason,
            "message": message,
        }
        for kind, status, reason, message in rows
    ]


class NodeRegistration:
    """Maintains the Node object of this machine and its heartbeat."""

    def __init__(self, kube: Kube, clock: Clock, name: str, machine: Machine, limits: str) -> None:
        self.kube = kube
        self.clock = clock
        self.name = name
        self.machine = machine
        self.annotations = {LIMITS: limits}

    async def register(self) -> None:
        """Create or update the Node with the present resources; fields of other writers stay."""
        tree = node_tree(self.name, self.machine, self.clock.now(), annotations=self.annotations)
        status: Json = {"status": merging(mapping(tree, "status"))}
        del tree["status"]
        try:
            await self.kube.create(NODES, msgspec.json.encode(tree))
        except ExistsError:
            mine: Json = {"metadata": tree["metadata"]}
            await self.kube.patch(NODES, self.name, msgspec.json.encode(mine), how=Patch.MERGE)
        body = msgspec.json.encode(status)
        await self.kube.patch(NODES, self.name, body, how=Patch.MERGE, subresource="status")
        await self.replace_others()

    async def replace_others(self) -> None:
        """Delete Nodes of ours with another name, such as from copied data: their pods would never run."""
        async for raw in self.kube.pages(NODES):
            for item in PAGE.decode(raw).items or ():
                found: Json = msgspec.json.decode(item)
                name = text(found, "metadata", "name")
                if name != self.name and text(found, "status", "nodeInfo", "kubeletVersion").endswith(MAKERS):
                    LOG.warning("node: deleted a Node of another name deleted=%s name=%s", name, self.name)
                    with contextlib.suppress(NotFoundError):
                        await self.kube.delete(NODES, name)
                    with contextlib.suppress(NotFoundError):
                        await self.kube.delete(LEASES, name, LEASE_NAMESPACE)

    async def run(self) -> None:
        """Keep the Node and its Lease until cancelled."""
        registered = False
        while True:
            delay = BEAT_MICROS
            try:
                if not registered:
                    await self.register()
                    registered = True
                await self.beat()
            except NotFoundError:
                # The Node was deleted, or its Lease with the namespace.
                LOG.warning("node: deleted by another client, registering again name=%s", self.name)
                registered = False
                delay = RETRY_MICROS
            except KubeError as error:
                LOG.warning("node: heartbeat failed name=%s error=%s", self.name, error)
                delay = RETRY_MICROS
            await self.clock.sleep(delay)

    async def beat(self) -> None:
        """Renew the Lease; raises `NotFoundError` if the Node was deleted."""
        await self.kube.get(NODES, self.name)
        now = micro_time(self.clock.now())
        renewed: Json = {"spec": {"renewTime": now}}
        try:
            await self.kube.patch(LEASES, self.name, msgspec.json.encode(renewed), LEASE_NAMESPACE, how=Patch.MERGE)
        except NotFoundError:
            await self.lease(now)

    async def lease(self, now: str) -> None:
        """Create the Lease, and its namespace if necessary."""
        namespace: Tree = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASE_NAMESPACE}}
        try:
            await self.kube.create(NAMESPACES, msgspec.json.encode(namespace))
        except ExistsError:
            LOG.debug("node: namespace exists name=%s", LEASE_NAMESPACE)
        lease: Tree = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self.name, "namespace": LEASE_NAMESPACE},
            "spec": {"holderIdentity": self.name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now},
        }
        await self.kube.create(LEASES, msgspec.json.encode(lease), LEASE_NAMESPACE)
