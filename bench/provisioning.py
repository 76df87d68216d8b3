"""Measure the cost of waiting for capacity: workloads with a provisioning check, under Kueue and under ours.

`python -m bench.provisioning` starts a control plane of its own for each manager in turn, creates Workloads whose
queues ask for a ProvisioningRequest each, answers every request at once as an autoscaler would, and stops the clock
when the last Workload is admitted. Each manager runs by its own manifests and CustomResourceDefinitions, with the
rights of its service account; webhooks are off, as in `bench.race`. Kueue's part in that race, its minimal manager, has
no provisioning controller, so this is the one that it ships: with the client limits of its manifests, and without any.

Noise only ever makes a run slower: when a floor is missed everybody runs again, and the best run of each counts.
"""

import asyncio
import contextlib
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, Final

import msgspec
import uvloop

from bench.machine import at_once
from bench.race import processes
from bench.race.requests import StatusSeen, counted, writes
from pykueue.base.clock import SystemClock
from pykueue.base.struct import Frozen
from pykueue.base.units import format_instant
from pykueue.kube.client.http import HttpKube
from pykueue.kube.client.kubeconfig import connection
from pykueue.kube.port import PROVISIONING_REQUESTS, WORKLOADS, Kube, Patch, Resource, UnansweredError
from tests.outcome import Outcome
from tests.plane.autoscaler import define_requests
from tests.plane.plane import Plane
from tests.plane.programs import ManagerProcess, Site, ours, theirs

WORKLOADS_COUNT: Final = 1_000
QUEUES: Final = 10
CREATES: Final = 16
ANSWERS: Final = 16
"""Calls of the harness in flight."""
PATIENCE_SECONDS: Final = 600.0
QUIET_SECONDS: Final = 3.0
NAMESPACE: Final = "default"
KUEUE: Final = "kueue.x-k8s.io/v1beta2"
PYKUEUE, LIMITED, UNLIMITED = "pykueue", "kueue", "kueue-unlimited"
CLIENTS: Final = {LIMITED: {"qps": 300, "burst": 500}, UNLIMITED: {"qps": 100_000, "burst": 100_000}}
ORDER: Final = (PYKUEUE, LIMITED, UNLIMITED)
ROUNDS: Final = 3


class Figures(Frozen):
    """The figures of one run, or the best of several."""

    name: str
    wall: float
    """Seconds from the first create to the last admission."""
    writes: float
    """API writes per Workload, without those of the harness and of leases."""
    manager: float
    """CPU seconds of the manager until it is idle again."""
    memory: float
    """Its peak resident memory in megabytes."""
    apiserver: float
    by_kind: Mapping[str, float] = {}


class Floor(Frozen):
    """The most of Kueue's figure that ours may be."""

    name: str
    at_most: float
    timed: bool = True
    """Whether it compares time, which a busy machine stretches, rather than a count."""


WRITES: Final = Floor("writes", 1.0, timed=False)
WALL: Final = Floor("wall", 0.8)


class NameSeen(msgspec.Struct):
    """The fields of the metadata that are read here."""

    name: str


class ObjectSeen(msgspec.Struct):
    """The fields of an object that are read here."""

    metadata: NameSeen
    status: StatusSeen = msgspec.field(default_factory=StatusSeen)


class EventSeen(msgspec.Struct):
    """A line of a watch."""

    type: str
    object: msgspec.Raw


EVENT: Final = msgspec.json.Decoder(EventSeen)
OBJECT: Final = msgspec.json.Decoder(ObjectSeen)


def named(kind: str, name: str, spec: Mapping[str, Any], namespace: str = "") -> dict[str, Any]:
    """One of Kueue's objects."""
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": KUEUE, "kind": kind, "metadata": {"name": name, **place}, "spec": spec}


def surroundings(count: int) -> list[dict[str, Any]]:
    """Queues with enough quota, and the check that they all require."""
    quota = {"name": "capacity", "resources": [{"name": "cpu", "nominalQuota": str(count)}]}
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "capacity"}
    found = [
        named("ResourceFlavor", "capacity", {"nodeLabels": {"pool": "batch"}}),
        named("ProvisioningRequestConfig", "capacity", {"provisioningClassName": "bench.pykueue.io"}),
        named(
            "AdmissionCheck",
            "capacity",
            {"controllerName": "kueue.x-k8s.io/provisioning-request", "parameters": parameters},
        ),
    ]
    for number in range(QUEUES):
        queue = {
            "namespaceSelector": {},
            "admissionChecksStrategy": {"admissionChecks": [{"name": "capacity"}]},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}],
        }
        found.append(named("ClusterQueue", f"queue-{number}", queue))
        found.append(named("LocalQueue", f"queue-{number}", {"clusterQueue": f"queue-{number}"}, NAMESPACE))
    return found


def workload(name: str, queue: str) -> bytes:
    """A Workload of one pod."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    pods = {"restartPolicy": "Never", "containers": [container]}
    spec = {
        "queueName": queue,
        "active": True,
        "priority": 0,
        "podSets": [{"name": "main", "count": 1, "template": {"spec": pods}}],
    }
    return msgspec.json.encode(named("Workload", name, spec, NAMESPACE))


def numbered(number: int) -> bytes:
    """One of the Workloads, in one of the queues."""
    return workload(f"workload-{number}", f"queue-{number % QUEUES}")


def granted() -> bytes:
    """The status that an autoscaler writes after it found capacity."""
    now = format_instant(SystemClock().now())
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "message": "granted at once", "lastTransitionTime": now}
        for kind in ("Accepted", "Provisioned")
    ]
    return msgspec.json.encode({"status": {"conditions": conditions}})


async def followed(kube: Kube, resource: Resource) -> AsyncGenerator[EventSeen, None]:
    """All objects of a kind and their changes; watches again when the server ends one after a definition is edited.

    The server also ends one whose first version its cache has not reached within three seconds.
    """
    while True:
        with contextlib.suppress(UnansweredError):
            async for line in kube.watch(resource, NAMESPACE):
                yield EVENT.decode(line)


async def autoscale(kube: Kube) -> None:
    """Answer every ProvisioningRequest once, with one write."""
    asked: asyncio.Queue[str] = asyncio.Queue()

    async def answer() -> None:
        while True:
            name = await asked.get()
            await kube.patch(
                PROVISIONING_REQUESTS,
                name,
                granted(),
                NAMESPACE,
                how=Patch.MERGE,
                subresource="status",
                manager="bench",
            )

    async with asyncio.TaskGroup() as tasks:
        for _ in range(ANSWERS):
            tasks.create_task(answer())
        known: set[str] = set()
        async for event in followed(kube, PROVISIONING_REQUESTS):
            name = OBJECT.decode(event.object).metadata.name if event.type == "ADDED" else ""
            if name and name not in known:
                known.add(name)
                asked.put_nowait(name)


def admitted_by(event: EventSeen) -> str:
    """The name of the Workload that an event shows as admitted; empty for any other event."""
    if event.type not in ("ADDED", "MODIFIED"):
        return ""
    seen = OBJECT.decode(event.object)
    is_admitted = any(one.type == "Admitted" and one.status == "True" for one in seen.status.conditions)
    return seen.metadata.name if is_admitted else ""


async def admitted(kube: Kube, count: int) -> None:
    """Return when this many Workloads are admitted."""
    done: set[str] = set()
    async for event in followed(kube, WORKLOADS):
        name = admitted_by(event)
        if name:
            done.add(name)
            if len(done) == count:
                return


async def race(kubeconfig: Path, count: int) -> float:
    """Seconds from the first create to the last admission."""
    kube = HttpKube(connection(str(kubeconfig)), SystemClock(), agent="bench")
    try:
        async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as tasks:
            answers = tasks.create_task(autoscale(kube))
            ends = tasks.create_task(admitted(kube, count))
            await asyncio.sleep(1.0)
            begin = perf_counter()
            await at_once(count, lambda number: kube.create(WORKLOADS, numbered(number), NAMESPACE), CREATES)
            await ends
            took = perf_counter() - begin
            answers.cancel()
        return took
    finally:
        await kube.close()


def asked_of(plane: Plane) -> Counter[str]:
    """The write requests that the API server received so far, except for leases, which depend on time only."""
    found = counted(plane.client.text("/metrics"))
    return Counter({asked: number for asked, number in found.items() if not asked.endswith("leases")})


def quiet(plane: Plane) -> Counter[str]:
    """The count of requests once no more writes arrive."""
    last, since = asked_of(plane), perf_counter()
    while perf_counter() - since < QUIET_SECONDS:
        sleep(0.5)
        now = asked_of(plane)
        if writes(now) != writes(last):
            last, since = now, perf_counter()
    return last


def start(site: Site, name: str) -> ManagerProcess:
    """A manager that is ready and leads, with its webhooks removed."""
    manager = site.ours() if name == PYKUEUE else site.kueue({"clientConnection": CLIENTS[name]})
    site.set_webhooks(False)
    site.await_webhooks(False)
    return manager


def opened(plane: Plane, count: int) -> None:
    """Create the queues, and return when they admit."""
    plane.apply_all(surroundings(count))
    for number in range(QUEUES):
        plane.client.wait_for(
            "ClusterQueue",
            f"queue-{number}",
            until=lambda tree: any(
                one["type"] == "Active" and one["status"] == "True"
                for one in tree.get("status", {}).get("conditions", ())
            ),
            timeout=60,
        )


def measured(name: str, count: int) -> Figures:
    """One run, on a control plane of its own."""
    with Plane.start(pods=False) as plane:
        define_requests(plane)
        with Site.on(plane, ours() if name == PYKUEUE else theirs()) as site, start(site, name) as manager:
            opened(plane, count)
            before = quiet(plane)
            server = plane.programs["kube-apiserver"].pid
            cpu, served = spent(manager.pid), spent(server)
            wall = uvloop.run(race(plane.kubeconfig, count))
            after = quiet(plane)
            found = Counter({asked: number - before[asked] for asked, number in after.items()})
            made = len(plane.client.objects("ProvisioningRequest", NAMESPACE))
            assert made == count, f"{name}: {made} ProvisioningRequests for {count} Workloads"
            # The harness creates each Workload and answers each request.
            own = 2 * count
            by_kind = {asked: number / count for asked, number in found.items() if number and is_write(asked)}
            return Figures(
                name,
                wall,
                (writes(found) - own) / count,
                spent(manager.pid) - cpu,
                processes.peak(manager.pid) / 2**20,
                spent(server) - served,
                by_kind,
            )


def is_write(asked: str) -> bool:
    """Whether a request of this kind changes something."""
    return writes({asked: 1}) > 0


def spent(pid: int) -> float:
    """CPU seconds of a process so far."""
    found = processes.stat(pid)
    assert found is not None, f"process {pid} has ended"
    return found.seconds


def best(runs: list[Figures]) -> Figures:
    """The best of each figure."""
    return Figures(
        runs[0].name,
        min(one.wall for one in runs),
        min(one.writes for one in runs),
        min(one.manager for one in runs),
        min(one.memory for one in runs),
        min(one.apiserver for one in runs),
        runs[-1].by_kind,
    )


def line(found: Figures) -> str:
    """A run for the terminal."""
    return (
        f"{found.name:<17} {found.wall:6.1f} s, {found.writes:.2f} writes a workload; manager {found.manager:.1f} CPU s"
        f" and {found.memory:.0f} MB, kube-apiserver {found.apiserver:.1f} CPU s"
    )


def judged(floor: Floor, mine: float, rivals: Mapping[str, float]) -> tuple[Outcome, str]:
    """Whether a floor is met against the better rival, and a line that says so."""
    whose, theirs_is = min(rivals.items(), key=lambda rival: rival[1])
    ratio = mine / theirs_is
    ok = ratio <= floor.at_most
    name = f"provisioning, {floor.name}"
    text = f"{name:<20} <= {floor.at_most:<4} {ratio:6.3f} {'ok' if ok else 'MISSED':<6} "
    outcome = Outcome.PASSED if ok else Outcome.LATE if floor.timed else Outcome.FAILED
    return outcome, f"{text} {mine:.2f} against {theirs_is:.2f} ({whose})"


def main(arguments: list[str]) -> int:
    """Measure, print, and exit with an error if a floor is missed."""
    parser = ArgumentParser(prog="python -m bench.provisioning", description="Provisioning checks beside Kueue's.")
    parser.add_argument("--workloads", type=int, default=WORKLOADS_COUNT, help="how many")
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help="run everybody so often, at most, to keep the floors"
    )
    parser.add_argument("--only", action="append", choices=ORDER, help="run this one alone; can be repeated")
    parser.add_argument("--requests", action="store_true", help="show who was asked to write what")
    options = parser.parse_args(arguments)
    runs: dict[str, list[Figures]] = {}
    for _ in range(options.rounds):
        for name in options.only or ORDER:
            found = measured(name, options.workloads)
            print(line(found), flush=True)
            if options.requests:
                for asked, number in sorted(found.by_kind.items(), key=lambda pair: -pair[1]):
                    print(f"    {number:6.2f} {asked}")
            runs.setdefault(name, []).append(found)
        verdicts = kept({name: best(found) for name, found in runs.items()})
        if all(outcome is Outcome.PASSED for outcome, _ in verdicts):
            break
    for _, text in verdicts:
        print(text)
    return Outcome.of(outcome for outcome, _ in verdicts)


def kept(figures: Mapping[str, Figures]) -> list[tuple[Outcome, str]]:
    """Whether each floor is met, and a line that says so."""
    mine, rivals = figures.get(PYKUEUE), {name: one for name, one in figures.items() if name != PYKUEUE}
    if mine is None or not rivals:
        return [(Outcome.PASSED, "no floor was judged: that takes ours and one of Kueue's")]
    return [
        judged(WRITES, mine.writes, {name: one.writes for name, one in rivals.items()}),
        judged(WALL, mine.wall, {name: one.wall for name, one in rivals.items()}),
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
