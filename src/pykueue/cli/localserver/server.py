"""Run the server of `pykueue up`: detect the machine, start, print the next commands, and serve until stopped."""

import asyncio
import contextlib
import logging
import os
import shlex
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import uvloop

from pykueue.api.config.file import Loaded
from pykueue.api.core import Tree
from pykueue.api.names import GPU
from pykueue.api.trees import text
from pykueue.apiserver.auth.authority import LOOPBACK
from pykueue.apiserver.auth.users import UsersError
from pykueue.apiserver.http.server import ListenError, bind
from pykueue.apiserver.storage.store import StoreError
from pykueue.app.machine import ApplyError, Up, UpPlan
from pykueue.base.clock import SystemClock
from pykueue.base.struct import Frozen
from pykueue.cli.amounts import readable
from pykueue.cli.localserver.pagemount import PageMount
from pykueue.cli.localserver.report import Report
from pykueue.cli.queues.examples import TEAMS, example
from pykueue.cli.queues.quotas import nominal
from pykueue.cli.serverstate import ServerRecord, data_option, write_record
from pykueue.kube.client.connection import DEFAULT_NAMESPACE
from pykueue.kube.port import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES
from pykueue.kube.tls import TlsError
from pykueue.node.machine import Machine, find_machine, present_cpus, present_memory
from pykueue.node.setup.containerruntime import Runtime
from pykueue.node.spawn import SpawnError
from pykueue.node.supervision.processes import process_start

LOG: Final = logging.getLogger(__name__)

PORT: Final = 7443
SWITCH_SECONDS: Final = 0.0005
QUOTA_FLAGS: Final = {"cpu": "--cpu", "memory": "--memory", GPU: "--gpu"}
"""The options of `pykueue queue set`."""
READING: Final = "Note: stored objects are still being loaded; jobs are accepted, and start when that is complete."
FULL: Final = (
    "Note: the disk of the data directory is full except for the space reserved for the database; new "
    "objects are rejected until objects or files are deleted."
)


class UpOptions(Frozen):
    """The options of `pykueue up`."""

    loaded: Loaded
    data: Path
    host: str
    port: int | None
    port_before: int
    """The port of the previous run; 0 if there was none."""
    example: bool
    objects: tuple[tuple[str, Tree], ...]
    """Objects to apply at startup, each with its file and position."""
    cpus: float | None
    memory: int | None
    """In bytes."""
    gpus: int | None
    shared_gpus: int
    on_stop: Literal["keep", "terminate"]
    runtime: Runtime | None
    jobs_kept: int
    show_jobs: Literal["own", "everyone"]
    scratch: Path | None
    journal: Path | None
    detached: bool


def serve(wanted: UpOptions, report: Report) -> int:
    """Run the server until a signal; return the exit code."""
    # A commit of the store waits for the GIL several times; the default of 5 ms each is too slow.
    sys.setswitchinterval(SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(attend(wanted, report))


async def attend(wanted: UpOptions, report: Report) -> int:
    """Start, print the next commands, and serve until a signal; return the exit code."""
    clock = SystemClock()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if wanted.detached:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        machine = await find_machine(
            cpus=wanted.cpus, memory=wanted.memory, gpus=wanted.gpus, shared_gpus=wanted.shared_gpus
        )
    except ValueError as error:
        report.fail(f"--shared-gpus: {error}")
    plan = UpPlan(
        loaded=wanted.loaded,
        data=wanted.data,
        machine=machine,
        host=wanted.host,
        names=() if wanted.host in LOOPBACK else (wanted.host, socket.gethostname(), socket.getfqdn()),
        on_stop=wanted.on_stop,
        runtime=wanted.runtime,
        journal=wanted.journal,
        scratch=wanted.scratch,
        jobs_kept=wanted.jobs_kept,
        show_jobs=wanted.show_jobs,
        seed=int.from_bytes(os.urandom(4)),
    )
    try:
        up = Up(plan, clock, listening(wanted))
    except (ListenError, StoreError, TlsError, UsersError) as error:
        report.fail(str(error))
    except OSError as error:
        report.fail(unwritable(error, wanted.data))
    up.server.pages = page = PageMount(up)
    try:
        try:
            await up.start()
            brought = example(amounts(machine)) if wanted.example else ()
            # Objects that exist are kept, so that edited quotas survive a restart.
            kept = await up.create_missing("the example", brought)
            await up.apply(wanted.objects)
            kubeconfig = up.admit_admin()
            standing = ServerRecord(os.getpid(), process_start(os.getpid()), up.address, up.port, clock.now())
            write_record(wanted.data, standing)
        except (StoreError, SpawnError, ApplyError) as error:
            report.fail(str(error))
        except OSError as error:
            report.fail(unwritable(error, wanted.data))
        notes = [f"Already existed and left unchanged: {', '.join(kept)}."] if kept else []
        owners, cohorts = await up.listed(CLUSTER_QUEUES), await up.listed(COHORTS)
        notes += unowned(owners, cohorts, amounts(machine), data_option(wanted.data))
        report.ready(greeting(up, wanted, kubeconfig, await up.listed(LOCAL_QUEUES), notes))
        await up.attend(stop)
    except Exception:
        LOG.exception("server: stopping after an internal error data=%s", wanted.data)
        return 1
    finally:
        page.close()
        await up.stop()
    LOG.info("server: stopped data=%s", wanted.data)
    return 0


def unwritable(error: OSError, folder: Path) -> str:
    """The error for a file of the data directory that cannot be written."""
    return (
        f"{error.filename or folder}: {error.strerror}; check that this user can write to {folder} and that the disk "
        "is not full, or choose another directory with --data"
    )


def listening(wanted: UpOptions) -> socket.socket:
    """The listening socket: on the given port, else the previous one, else the default one, else any free one."""
    if wanted.port is not None or wanted.port_before:
        return bind(wanted.host, wanted.port if wanted.port is not None else wanted.port_before)
    with contextlib.suppress(ListenError):
        return bind(wanted.host, PORT)
    return bind(wanted.host, 0)


def amounts(machine: Machine) -> dict[str, int]:
    """The capacity of the machine by resource."""
    return {"cpu": machine.cpus_milli, "memory": machine.memory_bytes, **machine.devices()}


def greeting(up: Up, wanted: UpOptions, kubeconfig: Path, queues: Sequence[Tree], notes: Sequence[str]) -> str:
    """The message after startup: the address, the capacity, these notes, and the next commands."""
    there = ", ".join(f"{readable(name, amount)} {name}" for name, amount in amounts(up.plan.machine).items())
    whose = "users added with `pykueue user add`" if os.geteuid() == 0 else "your user only"
    data = data_option(wanted.data)
    lines = [
        f"pykueue is running at {up.address} for {whose}; data directory: {wanted.data}",
        f"Capacity: {there}. Limits: {up.runner.limits.describe()}.",
        *overcommitted(up.plan.machine),
        *([READING] if any(up.missing()) else []),
        *([FULL] if up.local.store.is_short() else []),
        *notes,
        "",
        "Next steps:" if wanted.detached else "Next steps, in another terminal:",
        f"  export KUBECONFIG={shlex.quote(str(kubeconfig))}",
        "  kubectl get clusterqueues",
        f"  pykueue run{data} {queue_flags(queues)} --cpu 1 -- echo hello",
        f"  pykueue status{data}",
    ]
    if not queues:
        lines += ["", f"There are no queues yet. Create one with `pykueue queue add NAME{data} --share 50%`."]
    stays = "running jobs continue" if wanted.on_stop == "keep" else "running jobs are terminated"
    lines += ["", f"To stop: {f'`pykueue down{data}`' if wanted.detached else 'Ctrl-C'}; {stays}."]
    return "\n".join(lines)


def overcommitted(machine: Machine) -> list[str]:
    """Notes about capacity that is offered and does not exist."""
    present = {"cpu": present_cpus() * 1000, "memory": present_memory()}
    return [
        f"Note: {flag} sets {readable(name, offered)} {name}, more than the {readable(name, present[name])} of this "
        f"machine; {effect}."
        for flag, name, offered, effect in (
            ("--cpus", "cpu", machine.cpus_milli, "jobs will share them"),
            ("--memory", "memory", machine.memory_bytes, "jobs may run out of memory"),
        )
        if offered > present[name]
    ]


def unowned(owners: Sequence[Tree], cohorts: Sequence[Tree], present: Mapping[str, int], data: str) -> list[str]:
    """A note about capacity that no queue owns, and how to give it to one; none without queues."""
    if not owners:
        return []
    owned = nominal([*owners, *cohorts])
    # The example's queues own whole Mi.
    rounding = {"memory": len(owners) * 2**20}
    left = {
        name: amount - owned.get(name, 0)
        for name, amount in present.items()
        if amount - owned.get(name, 0) > rounding.get(name, 0)
    }
    if not left:
        return []
    queue = min(text(one, "metadata", "name") for one in owners)
    flags = "".join(f" {QUOTA_FLAGS[name]} N" for name in left)
    listed = ", ".join(f"{readable(name, amount)} {name}" for name, amount in left.items())
    return [
        f"Note: no queue has quota for {listed}; to assign it to a queue, set its total quota: "
        f"`pykueue queue set {queue}{flags}{data}`."
    ]


def queue_flags(queues: Sequence[Tree]) -> str:
    """The options that select one of these queues; prefers the example's, then those of the default namespace."""
    places = sorted((text(one, "metadata", "namespace"), text(one, "metadata", "name")) for one in queues)
    usual = [name for namespace, name in places if namespace == DEFAULT_NAMESPACE]
    if usual:
        return f"-q {TEAMS[0] if TEAMS[0] in usual else usual[0]}"
    return f"-n {places[0][0]} -q {places[0][1]}" if places else "-q QUEUE"
