"""What does it look like? `pykueue demo`: two teams share this machine for half a minute, with real processes."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import click
import msgspec

from pykueue.api.core import Tree
from pykueue.api.names import Label, WorkloadCondition
from pykueue.api.trees import mappings, text
from pykueue.base.clock import SystemClock
from pykueue.base.text import printable
from pykueue.base.timers import waited
from pykueue.base.units import MICROS
from pykueue.bridge.sentences import condition, in_short
from pykueue.cli.reasons import with_reason
from pykueue.cli.serverstate import fail
from pykueue.cli.tables import hanging, painted, wants_colour
from pykueue.engine.record.explain import preempted_for
from pykueue.engine.record.parsing import preemption
from pykueue.kube.client.http import Call, HttpKube, lines, path_of
from pykueue.kube.client.kubeconfig import connection
from pykueue.kube.port import JOBS, PODS, WORKLOADS, KubeError, Resource

NAMESPACE: Final = "default"
QUOTA: Final = 2
"""Cores that each team owns."""
COLOURS: Final = {"red": "red", "blue": "blue"}
PATIENCE_SECONDS: Final = 60
WIDTH: Final = 100

CONFIGURATION: Final = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
waitForPodsReady:
  timeout: 3s
  requeuingStrategy: {backoffBaseSeconds: 1, backoffLimitCount: 5}
"""
QUEUES: Final = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: machine}
"""
TEAM: Final = """\
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: TEAM}
spec:
  cohortName: lab
  namespaceSelector: {}
  preemption: {reclaimWithinCohort: Any}
  resourceGroups:
    - coveredResources: [cpu]
      flavors: [{name: machine, resources: [{name: cpu, nominalQuota: QUOTA}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: TEAM, namespace: default}
spec: {clusterQueue: TEAM}
"""
TRAIN: Final = """\
exec 2>/dev/null
step=$(cat "$WORK/step" 2>/dev/null || echo 0)
trap 'echo $step > "$WORK/step"; echo "saved at step $step, leaving"; exit 143' TERM
[ $step = 0 ] || echo "goes on from step $step"
while [ $step -lt 8 ]; do sleep 1 & wait $!; step=$((step + 1)); done
echo "trained, 8 steps"
"""
FLAKY: Final = """\
if [ -e "$WORK/tried" ]; then touch "$WORK/ready"; sleep 2; echo "serves after all"
else touch "$WORK/tried"; echo "hangs in its start"; sleep 60; fi
"""


@click.command()
def demo() -> None:
    """Show two teams sharing this machine, with real processes.

    Starts a server in a folder of its own with 4 cpu to share, submits jobs of two teams, and says what happens to each
    and why: one borrows, its neighbour takes its quota back, who had to leave comes back, what does not get ready is
    tried again, and what can never fit is told so. It takes half a minute, and nothing of it is left.

    \b
    Example:
      pykueue demo

    Exit codes: 0, all went as it should; 1, it did not; 2, the server could not be started.
    """
    with tempfile.TemporaryDirectory(prefix="pykueue-demo-") as folder:
        sys.exit(asyncio.run(Demo(Path(folder)).run()))


class Demo:
    """The server, the jobs, and what is told of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.clock = SystemClock()
        self.began = self.clock.moment()
        self.colour = wants_colour(sys.stdout, os.environ) or bool(os.environ.get("FORCE_COLOR"))
        self.teams: dict[str, str] = {}
        """Whose each job is."""
        self.names: dict[str, str] = {}
        """The jobs by the UIDs of their Workloads."""
        self.told: dict[str, str] = {}
        """What was said last of each job."""
        self.reached: dict[str, set[str]] = {}
        """What has happened to each job so far: `waits`, `runs`, `stopped`, `done`."""
        self.news = asyncio.Event()
        self.main: asyncio.Task[int] | None = None

    def start(self) -> None:
        """Start the server with the queues of both teams."""
        (self.folder / "queues.yaml").write_text(
            QUEUES + "".join(TEAM.replace("TEAM", team).replace("QUOTA", str(QUOTA)) for team in COLOURS)
        )
        (self.folder / "configuration.yaml").write_text(CONFIGURATION)
        done = self.command(
            "up",
            "--detach",
            *("--port", "0", "--cpus", "4", "--gpus", "0", "--on-stop", "terminate"),
            *("--config", str(self.folder / "configuration.yaml"), "--apply", str(self.folder / "queues.yaml")),
        )
        if done.returncode:
            fail(done.stderr.strip())
        self.say("", "pykueue is up: 4 cpu; team red and team blue own 2 each, and lend what is idle")

    def command(self, name: str, *flags: str) -> subprocess.CompletedProcess[str]:
        """Run a command of ours on the data of the demo."""
        words = [sys.executable, "-m", "pykueue", name, "--data", str(self.data), *flags]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    async def run(self) -> int:
        """Tell the story: the exit code."""
        self.main = asyncio.current_task()
        assert self.main is not None, "a coroutine runs in a task"
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.main.cancel)
        self.start()
        reached = connection(str(self.data / "kubeconfig"))
        kube = HttpKube(reached, self.clock, agent="pykueue-demo")
        tasks = [asyncio.create_task(self.watch(kube)), asyncio.create_task(self.story(kube))]
        try:
            done, _ = await waited(tasks, PATIENCE_SECONDS, first=True)
            for task in done:
                task.result()
            if not done:
                self.say("", f"it takes longer than {PATIENCE_SECONDS} s; {self.data}/up.log may say why")
            return 0 if done else 1
        except asyncio.CancelledError:
            return 1
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await kube.close()
            self.command("down")
            self.say("", "all is stopped and removed")

    async def story(self, kube: HttpKube) -> None:
        """Submit the jobs, each when it makes a difference, and wait for their ends."""
        await self.submit(kube, "red", "train", 4, TRAIN)
        await self.until("train", "runs")
        await self.pause(2)
        await self.submit(kube, "blue", "report", 2, "sleep 5; echo 'report is written'")
        await self.until("report", "runs")
        await self.submit(kube, "blue", "huge", 9, "true")
        probe: Tree = {"exec": {"command": ["test", "-e", f"{self.folder}/ready"]}, "periodSeconds": 1}
        await self.submit(kube, "red", "serve", 1, FLAKY, probe)
        await self.until("huge", "waits")
        for name in ("report", "serve", "train"):
            await self.until(name, "done")
        await self.pause(1)

    async def submit(
        self, kube: HttpKube, team: str, name: str, cpu: int, script: str, probe: Tree | None = None
    ) -> None:
        """Submit a job of a team."""
        self.teams[name] = team
        self.say(name, f"submitted by {team}: {cpu} cpu")
        container: Tree = {
            "name": "main",
            "image": "local",
            "command": ["sh", "-c", script.replace("$", "$$")],
            "env": [{"name": "WORK", "value": str(self.folder)}],
            "resources": {"requests": {"cpu": str(cpu)}},
        }
        if probe is not None:
            container["readinessProbe"] = probe
        job: Tree = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": {Label.QUEUE.value: team}},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
        }
        await kube.create(JOBS, msgspec.json.encode(job), NAMESPACE)

    async def watch(self, kube: HttpKube) -> None:
        """Say what happens to the jobs, as it happens."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.follow(kube, WORKLOADS, partial(self.workload_changed, kube, tasks)))
            tasks.create_task(self.follow(kube, PODS, partial(self.pod_changed, kube, tasks, set())))

    async def follow(self, kube: HttpKube, resource: Resource, hear: Callable[[Tree], None]) -> None:
        """Tell a function of every change of a kind."""
        version = ""
        while True:
            async for line in kube.watch(resource, NAMESPACE, version=version):
                event: Tree = msgspec.json.decode(line)
                tree = event["object"]
                assert isinstance(tree, dict), "an event is about an object"
                version = text(tree, "metadata", "resourceVersion") or version
                if event["type"] in ("ADDED", "MODIFIED"):
                    hear(tree)

    def workload_changed(self, kube: HttpKube, tasks: asyncio.TaskGroup, workload: Tree) -> None:
        """Say what changed for a job; why one waits is asked for before it is written."""
        uid = text(workload, "metadata", "uid")
        if uid not in self.names:
            tasks.create_task(self.ask_why(kube, text(workload, "metadata", "name")))
        self.say_of(workload)

    async def ask_why(self, kube: HttpKube, workload: str) -> None:
        """Say why a job waits that has just come."""
        found = await with_reason(kube, self.clock, workload, NAMESPACE)
        name = "" if found is None else self.names.get(text(found, "metadata", "uid"), "")
        if found is not None and name not in self.told:
            self.say_of(found)

    def say_of(self, workload: Mapping[str, object]) -> None:
        """Say how a job stands, if that is news."""
        owners = mappings(workload, "metadata", "ownerReferences")
        name = text(owners[0][1], "name") if owners else ""
        self.names[text(workload, "metadata", "uid")] = name

        def holds(kind: WorkloadCondition) -> bool:
            return text(condition(workload, kind), "status") == "True"

        if holds(WorkloadCondition.FINISHED):
            self.tell(name, "done", "done")
        elif holds(WorkloadCondition.ADMITTED):
            again = " again" if "stopped" in self.reached.get(name, ()) else ""
            self.tell(name, "runs", f"runs{again}{borrowed(workload)}")
        elif holds(WorkloadCondition.EVICTED) and "stopped" not in self.told.get(name, "stopped"):
            self.tell(name, "stopped", f"stopped: {self.plain(condition(workload, WorkloadCondition.EVICTED))}")
        else:
            reserved = condition(workload, WorkloadCondition.QUOTA_RESERVED)
            why = self.plain(reserved)
            # Right after it had to stop, why it waits is why it had to.
            if why and text(reserved, "message") != text(condition(workload, WorkloadCondition.EVICTED), "message"):
                self.tell(name, "waits", why if why.startswith("can never") else f"waits: {why}")

    def plain(self, condition: Mapping[str, object]) -> str:
        """What a condition says, in our words and with the names of the demo's jobs."""
        known = preemption(text(condition, "message"))
        by = "" if known is None else self.names.get(known.uid, "")
        return preempted_for(by, known.clause, known.queue) if known is not None and by else in_short(condition)

    def pod_changed(self, kube: HttpKube, tasks: asyncio.TaskGroup, known: set[str], pod: Tree) -> None:
        """Show the output of a pod once it runs."""
        uid, name = text(pod, "metadata", "uid"), text(pod, "metadata", "name")
        if text(pod, "status", "phase") in ("Running", "Succeeded", "Failed") and uid not in known:
            known.add(uid)
            tasks.create_task(self.show(kube, text(pod, "metadata", "labels", "job-name"), name))

    async def show(self, kube: HttpKube, job: str, pod: str) -> None:
        """Show the output of a pod, line by line."""
        call = Call("GET", f"{path_of(PODS, NAMESPACE, pod, 'log')}?follow=true", f"read the log of pod {pod}")
        with contextlib.suppress(KubeError):
            stream = await kube.open(call)
            try:
                async for line in lines(stream):
                    self.say(job, f"| {line.decode(errors='replace').rstrip()}")
            finally:
                stream.close()

    def tell(self, name: str, state: str, words: str) -> None:
        """Say something of a job, if it is news."""
        if self.told.get(name) != words:
            self.told[name] = words
            self.say(name, words)
        self.reached.setdefault(name, set()).add(state)
        self.news.set()

    def say(self, name: str, words: str) -> None:
        """A line for the terminal."""
        seconds = (self.clock.moment() - self.began) / MICROS
        lead = f"{seconds:5.1f}s  {name:7}"
        for line in hanging(f"{lead} ", printable(words), WIDTH):
            shown = line.replace(name, painted(name, COLOURS.get(self.teams.get(name, "")), on=self.colour), 1)
            try:
                click.echo(shown if name else line, color=self.colour)
            except BrokenPipeError:
                # Nobody listens any more: the rest is told to nobody, and all that was started is ended.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                if self.main is not None:
                    self.main.cancel()

    async def until(self, name: str, state: str) -> None:
        """Return when this has happened to a job."""
        while state not in self.reached.get(name, ()):
            self.news.clear()
            await self.news.wait()

    async def pause(self, seconds: int) -> None:
        """Let time pass."""
        await self.clock.sleep(seconds * MICROS)


def borrowed(workload: Mapping[str, object]) -> str:
    """How much of what a job runs on is lent."""
    assigned = mappings(workload, "status", "admission", "podSetAssignments")
    amount = sum(int(text(one, "resourceUsage", "cpu") or 0) for _, one in assigned)
    return f", {amount - QUOTA} of its {amount} cpu borrowed" if amount > QUOTA else ""
