"""Does an attempt survive a kill between any two of its writes? `python -m tests.crash.attempts` tries them all.

For each n, a server dies at its n-th write (`mortal`), right before it is sent or right after it was answered, and a
healthy one goes on. Each time the same must come of the Job: the same requests, each once, none left behind.
"""

import contextlib
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import click

from pykueue.audit.follow import Server
from pykueue.audit.world import Finding, Settings
from pykueue.base.clock import SystemClock
from pykueue.base.units import format_instant
from tests import builders
from tests.crash.embedded_machine import FLAGS, Machine
from tests.crash.load import checking, spec_of, thing
from tests.crash.provider import Provider, Script, define
from tests.crash.run import late_exits, say
from tests.crash.watchman import LAG_SECONDS, Watchman
from tests.plane.client import Client, Late, Tree, condition
from tests.plane.plane import ROOT, Plane
from tests.plane.process import Program, stop_on_signals
from tests.plane.programs import ManagerProcess, Site, ours

NAMESPACE = "attempts"
WRITES_MOST = 60
END_SECONDS = 60
MORE_SECONDS = 1.5
"""How long after the end another write may still come."""
HOLD_SECONDS = 5
CALM_SECONDS = 27
"""Longer than the auditor lets anything be late, and lags behind."""


class Story(NamedTuple):
    """What the autoscaler says, and what must come of a Job."""

    limit: int
    fails: int
    """How many attempts come to nothing."""
    attempts: tuple[int, ...]
    admitted: bool


STORIES = {
    "found": Story(limit=1, fails=0, attempts=(1,), admitted=True),
    "failed-first": Story(limit=1, fails=1, attempts=(1, 2), admitted=True),
    "refused": Story(limit=1, fails=9, attempts=(1, 2), admitted=False),
}


def script(request: Tree) -> Script:
    """What is said of a request: its class names the story, its name ends with the attempt."""
    story = STORIES[request["spec"]["provisioningClassName"].partition(".")[0]]
    attempt = number(request["metadata"]["name"])
    return [(0.0, "Failed" if attempt <= story.fails else "Provisioned")]


def furniture() -> list[Tree]:
    """A queue for each story, with a check of its own."""
    return [
        thing("ResourceFlavor", "default"),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        *(
            tree
            for name, story in STORIES.items()
            for tree in (
                *checking(name, f"{name}.example.com", story.limit),
                thing(
                    "ClusterQueue",
                    name,
                    spec={
                        "namespaceSelector": {},
                        **spec_of({"cpu": {"default": {"nominalQuota": 1}}}),
                        "admissionChecksStrategy": {"admissionChecks": [{"name": name}]},
                    },
                ),
                thing("LocalQueue", name, NAMESPACE, spec={"clusterQueue": name}),
            )
        ),
    ]


def job(name: str, story: str) -> Tree:
    """A Job that runs until it is deleted."""
    pod = builders.pod_spec("1", {"terminationGracePeriodSeconds": 0}, command=["sleep", "600"])
    return builders.job(name, story, NAMESPACE, suspend=True, template={"spec": pod})


class Ground(ABC):
    """Where it happens."""

    client: Client
    kubeconfig: Path

    @abstractmethod
    def start(self, when: str = "", number: int = 0) -> Program:
        """A server that is up, and that dies at this write if one is given."""


class OnPlane(Ground):
    """A real control plane. Nobody else leads, so no server waits for a lease to run out."""

    def __init__(self, site: Site) -> None:
        self.site, self.client, self.kubeconfig = site, site.plane.client, site.plane.kubeconfig
        self.starts = 0

    def start(self, when: str = "", number: int = 0) -> Program:
        self.starts += 1
        name = f"manager-{self.starts}"
        file, ports = self.site.settings(self.site.plane.folder / "managers", {}, {"leaderElect": False})
        launcher = ["tests.crash.mortal", when, str(number)] if when else ["pykueue"]
        told = ["manager", f"--config={file}", f"--kubeconfig={self.site.kubeconfig}", f"--identity={name}"]
        return ManagerProcess(self.site, name, [sys.executable, "-m", *launcher, *told], ports, timeout=60)


class OnMachine(Ground):
    """The system of one machine, on a folder of its own."""

    def __init__(self, folder: Path, logs: Path) -> None:
        self.machine = Machine(folder, logs)
        self.kubeconfig = self.machine.data / "kubeconfig"
        self.start().kill()
        reached = Server.of(str(self.kubeconfig))
        (folder / "ca.pem").write_text(reached.authority)
        self.client = Client(reached.url, reached.token, str(folder / "ca.pem"))

    def start(self, when: str = "", number: int = 0) -> Program:
        machine = self.machine
        launcher = ["tests.crash.mortal", when, str(number)] if when else ["pykueue"]
        port = () if (machine.data / "up.json").exists() else ("--port", "0")
        told = ["up", "--data", str(machine.data), "--log-file", str(machine.log), *FLAGS, *port]
        machine.server = Program("up", [sys.executable, "-m", *launcher, *told], machine.out)
        if not Client.soon(lambda: machine.up() or not machine.running().alive(), 60):
            raise Late(f"it is not up after 60 s:\n{machine.running().tail()}")
        return machine.running()


@contextlib.contextmanager
def plane_ground(_logs: Path) -> Iterator[Ground]:
    """A control plane with our manifests and the autoscaler's definitions."""
    with Plane.start() as plane, Site.on(plane, ours()) as site:
        define(plane)
        yield OnPlane(site)


@contextlib.contextmanager
def machine_ground(logs: Path) -> Iterator[Ground]:
    """A data folder that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="pykueue-attempts-") as folder:
        ground = OnMachine(Path(folder), logs)
        try:
            yield ground
        finally:
            ground.machine.running().kill()


GROUNDS: dict[str, Callable[[Path], contextlib.AbstractContextManager[Ground]]] = {
    "plane": plane_ground,
    "machine": machine_ground,
}


class Ledger:
    """All requests that were ever made, as the auditor hears of them."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str]] = []
        """Name and UID of each, in order."""

    def asked(self, name: str, uid: str) -> None:
        if (name, uid) not in self.made:
            self.made.append((name, uid))

    def attempts(self, job: str) -> list[int]:
        """The numbers of those of a Job, whose Workload's name has its name in it."""
        return [number(name) for name, _ in self.made if f"-{job}-" in name]


def number(request: str) -> int:
    """Which attempt a request of this name is."""
    return int(request.rpartition("-")[2])


class Trial:
    """One Job, and what comes of it."""

    def __init__(self, ground: Ground, ledger: Ledger, name: str, story: str) -> None:
        self.ground, self.client, self.ledger, self.name = ground, ground.client, ledger, name
        self.queue, self.story = story, STORIES[story]

    def workload(self) -> Tree:
        """The Job's Workload; empty while there is none."""
        for tree in self.client.objects("Workload", NAMESPACE):
            if any(owner["name"] == self.name for owner in tree["metadata"].get("ownerReferences", [])):
                return tree
        return {}

    def ended(self) -> bool:
        """Whether that has become of the Job which should."""
        tree = self.workload()
        if self.story.admitted:
            return condition(tree, "Admitted").get("status") == "True"
        return bool(tree) and tree["spec"].get("active") is False and condition(tree, "Evicted").get("status") == "True"

    def run(self, when: str, write: int) -> tuple[bool, list[str]]:
        """Whether the server died at that write, and what is wrong with what came of the Job."""
        mortal = self.ground.start(when, write)
        with contextlib.suppress(OSError):  # It may die before it answers, where it is the API server too.
            self.client.create(job(self.name, self.queue))
        Client.soon(lambda: not mortal.alive() or self.over(), END_SECONDS)
        if mortal.alive():
            Client.soon(lambda: not mortal.alive(), MORE_SECONDS)
        died = not mortal.alive()
        mortal.kill()
        healthy = self.ground.start()
        try:
            if self.client.find("Job", self.name, NAMESPACE) is None:
                self.client.create(job(self.name, self.queue))
            if not Client.soon(self.ended, END_SECONDS):
                wanted = "admitted" if self.story.admitted else "refused"
                raise Late(f"{self.name} is not {wanted} after {END_SECONDS} s")
            return died, [*self.kept(), *self.cleared()]
        finally:
            healthy.kill()

    def over(self) -> bool:
        """Whether the Job has come to its end; nobody can be asked while the server is dying."""
        with contextlib.suppress(OSError):
            return self.ended()
        return False

    def kept(self) -> list[str]:
        """What is wrong with the requests that were made, and with those that are there."""
        expected = list(self.story.attempts)
        wanted = expected[-1:] if self.story.admitted else []

        def there() -> list[int]:
            found = self.client.objects("ProvisioningRequest", NAMESPACE)
            return sorted(number(tree["metadata"]["name"]) for tree in found)

        Client.soon(lambda: there() == wanted and self.ledger.attempts(self.name) == expected, 10)
        made = self.ledger.attempts(self.name)
        return [
            *([f"made the attempts {made}, not {expected}"] if made != expected else []),
            *([f"has the attempts {there()} in the end, not {wanted}"] if there() != wanted else []),
        ]

    def cleared(self) -> list[str]:
        """Have the Job deleted: what is left of it then."""
        self.client.delete("Job", self.name, NAMESPACE)

        def left() -> list[str]:
            return [
                f"{kind} {tree['metadata']['name']} is left"
                for kind in ("Workload", "ProvisioningRequest", "PodTemplate")
                for tree in self.client.objects(kind, NAMESPACE)
            ]

        Client.soon(lambda: not left(), 30)
        return left()


def series(ground: Ground, ledger: Ledger, story: str, when: str, stride: int) -> tuple[int, list[str]]:
    """How many kills there were before no write was left at which to die, and what was wrong."""
    wrong: list[str] = []
    kills = 0
    for write in range(1, WRITES_MOST, stride):
        trial = Trial(ground, ledger, f"{story}-{when}-{write}", story)
        start = time.monotonic()
        died, found = trial.run(when, write)
        kills += died
        wrong += [f"{trial.name}: {one}" for one in found]
        say(f"{trial.name}: {'killed' if died else 'not killed'}, {found or 'well'} ({time.monotonic() - start:.1f} s)")
        if not died:
            return kills, wrong
    return kills, [*wrong, f"{story} {when}: there is no end to its writes"]


def tried(ground: Ground, logs: Path, stories: list[str], whens: list[str], stride: int) -> bool:
    """Whether all was well, whatever write it was."""
    findings: list[Finding] = []
    ledger = Ledger()

    def found(finding: Finding) -> None:
        findings.append(finding)
        say(f"FOUND {finding}")

    with late_exits(findings), contextlib.ExitStack() as all_along:
        server = ground.start()
        for tree in furniture():
            ground.client.apply(tree)
        # It takes a manager some time to be gone; the auditor counts it all the same.
        settings = Settings(
            plain_resources=True, lag_seconds=LAG_SECONDS, lost_seconds=20, stuck_seconds=20, stop_seconds=20
        )
        history = logs / "history.jsonl.gz"
        watchman = all_along.enter_context(
            Watchman(
                ground.kubeconfig,
                history,
                settings,
                ended=lambda uid: None,
                found=found,
                asked=ledger.asked,
                hold_seconds=HOLD_SECONDS,
            )
        )
        all_along.enter_context(Provider(ground.client, script, revives=False))
        server.kill()
        wrong: list[str] = []
        for story in stories:
            for when in whens:
                kills, amiss = series(ground, ledger, story, when, stride)
                watchman.check()
                say(f"{story}, {when} each write: {kills} kills, {len(amiss)} times wrong")
                wrong += amiss
        last = ground.start()
        time.sleep(HOLD_SECONDS + CALM_SECONDS)
        watchman.check()
        last.kill()
    for one in [*wrong, *map(str, findings)]:
        print(f"NO  {one}")
    counts = watchman.tally.counts
    say(
        f"{counts['requests']} requests, {counts['Provisioned']} provisioned, {counts['Failed']} failed; "
        f"{watchman.auditor.events} events, {len(wrong)} times wrong, {len(findings)} findings"
    )
    return not wrong and not findings


@click.command()
@click.option("--on", "grounds", type=click.Choice([*GROUNDS, "both"]), default="both", show_default=True)
@click.option("--stories", default=",".join(STORIES), show_default=True, help="What the autoscaler is to say.")
@click.option("--when", default="before,after", show_default=True, help="On which side of a write to die.")
@click.option("--stride", default=1, show_default=True, help="Try each n-th write alone.")
def main(grounds: str, stories: str, when: str, stride: int) -> None:
    """Kill a server at each write of an attempt; exit with 0 if all was well, 75 if one was only late, else 1."""
    if unknown := {*stories.split(","), *when.split(",")} - {*STORIES, "before", "after"}:
        raise click.UsageError(f"there is no {', '.join(sorted(unknown))}; see --help")
    stop_on_signals()
    well = True
    for name in GROUNDS if grounds == "both" else [grounds]:
        logs = ROOT / "build" / "crash" / f"attempts-{name}-{format_instant(SystemClock().now()).replace(':', '')}"
        logs.mkdir(parents=True)
        say(f"kills at each write of an attempt, on a {name}; the history is in {logs}")
        with GROUNDS[name](logs) as ground:
            well &= tried(ground, logs, stories.split(","), when.split(","), stride)
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
