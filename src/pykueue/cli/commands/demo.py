"""`pykueue demo`: two teams share this machine for half a minute, with real processes."""

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
from pykueue.cli.follow.reasons import with_reason
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
trap 'echo $step > "$WORK/step"; echo "checkpoint saved at step $step, exiting"; exit 143' TERM
[ $step = 0 ] || echo "resuming at step $step"
while [ $step -lt 8 ]; do sleep 1 & wait $!; step=$((step + 1)); done
echo "training done, 8 steps"
"""
FLAKY: Final = """\
if [ -e "$WORK/tried" ]; then touch "$WORK/ready"; sleep 2; echo "serving"
else touch "$WORK/tried"; echo "hanging during startup"; sleep 60; fi
"""


@click.command()
def demo() -> None:
    """Show two teams sharing this machine, with real processes.

    Starts a server in a temporary directory with 4 cpu, submits jobs of two teams, and explains what happens to each
    job: one borrows idle quota, the owner reclaims it, the preempted job resumes later, a job whose pods do not become
    ready is retried, and a job that can never fit is reported. It takes half a minute and removes everything it
    created.

    \b
    Example:
      pykueue demo

    Exit codes: 0, success; 1, the demo failed or was interrupted; 2, the server could not be started.
    """
    with tempfile.TemporaryDirectory(prefix="pykueue-demo-") as folder:
        sys.exit(asyncio.run(Demo(Path(folder)).run()))


class Demo:
    """Runs the demo and prints what happens."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.clock = SystemClock()
        self.began = self.clock.moment()
        self.colour = wants_colour(sys.stdout, os.environ) or bool(os.environ.get("FORCE_COLOR"))
        self.teams: dict[str, str] = {}
        """The team of each job."""
        self.names: dict[str, str] = {}
        """The jobs by the UIDs of their Workloads."""
        self.told: dict[str, str] = {}
        """The last line printed for each job."""
        self.reached: dict[str, set[str]] = {}
        """The states each job has been in: `pending`, `running`, `evicted`, `done`."""
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
        self.say("", "server started: 4 cpu; team red and team blue own 2 each and lend idle quota")

    def command(self, name: str, *flags: str) -> subprocess.CompletedProcess[str]:
        """Run a pykueue command on the data of the demo."""
        words = [sys.executable, "-P", "-m", "pykueue", name, "--data", str(self.data), *flags]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    async def run(self) -> int:
        """Run the demo; return the exit code."""
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
                self.say("", f"demo not finished after {PATIENCE_SECONDS} s; check the log: {self.data}/up.log")
            return 0 if done else 1
        except asyncio.CancelledError:
            return 1
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await kube.close()
            self.command("down")
            self.say("", "server stopped, temporary files removed")

    async def story(self, kube: HttpKube) -> None:
        """Submit the jobs one after another and wait until they end."""
        await self.submit(kube, "red", "train", 4, TRAIN)
        await self.until("train", "running")
        await self.pause(2)
        await self.submit(kube, "blue", "report", 2, "sleep 5; echo 'report written'")
        await self.until("report", "running")
        await self.submit(kube, "blue", "huge", 9, "true")
        probe: Tree = {"exec": {"command": ["test", "-e", f"{self.folder}/ready"]}, "periodSeconds": 1}
        await self.submit(kube, "red", "serve", 1, FLAKY, probe)
        await self.until("huge", "pending")
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
        """Print what happens to the jobs."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.follow(kube, WORKLOADS, partial(self.workload_changed, kube, tasks)))
            tasks.create_task(self.follow(kube, PODS, partial(self.pod_changed, kube, tasks, set())))

    async def follow(self, kube: HttpKube, resource: Resource, hear: Callable[[Tree], None]) -> None:
        """Call a function with every change of a kind."""
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
        """Print what changed for a job; fetch the pending reason before the status shows it."""
        uid = text(workload, "metadata", "uid")
        if uid not in self.names:
            tasks.create_task(self.ask_why(kube, text(workload, "metadata", "name")))
        self.say_of(workload)

    async def ask_why(self, kube: HttpKube, workload: str) -> None:
        """Print why a new job is pending."""
        found = await with_reason(kube, self.clock, workload, NAMESPACE)
        name = "" if found is None else self.names.get(text(found, "metadata", "uid"), "")
        if found is not None and name not in self.told:
            self.say_of(found)

    def say_of(self, workload: Mapping[str, object]) -> None:
        """Print the state of a job if it changed."""
        owners = mappings(workload, "metadata", "ownerReferences")
        name = text(owners[0][1], "name") if owners else ""
        self.names[text(workload, "metadata", "uid")] = name

        def holds(kind: WorkloadCondition) -> bool:
            return text(condition(workload, kind), "status") == "True"

        if holds(WorkloadCondition.FINISHED):
            self.tell(name, "done", "done")
        elif holds(WorkloadCondition.ADMITTED):
            again = " again" if "evicted" in self.reached.get(name, ()) else ""
            self.tell(name, "running", f"running{again}{borrowed(workload)}")
        elif holds(WorkloadCondition.EVICTED) and "evicted" not in self.told.get(name, "evicted"):
            self.tell(name, "evicted", f"evicted: {self.plain(condition(workload, WorkloadCondition.EVICTED))}")
        else:
            reserved = condition(workload, WorkloadCondition.QUOTA_RESERVED)
            why = self.plain(reserved)
            # Right after an eviction the pending reason repeats the eviction.
            if why and text(reserved, "message") != text(condition(workload, WorkloadCondition.EVICTED), "message"):
                self.tell(name, "pending", why if why.startswith("can never") else f"pending: {why}")

    def plain(self, condition: Mapping[str, object]) -> str:
        """The message of a condition in short, with the names of the demo's jobs."""
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
        """Print a line about a job unless it was the last one printed."""
        if self.told.get(name) != words:
            self.told[name] = words
            self.say(name, words)
        self.reached.setdefault(name, set()).add(state)
        self.news.set()

    def say(self, name: str, words: str) -> None:
        """Print a line with a timestamp."""
        seconds = (self.clock.moment() - self.began) / MICROS
        lead = f"{seconds:5.1f}s  {name:7}"
        for line in hanging(f"{lead} ", printable(words), WIDTH):
            shown = line.replace(name, painted(name, COLOURS.get(self.teams.get(name, "")), on=self.colour), 1)
            try:
                click.echo(shown if name else line, color=self.colour)
            except BrokenPipeError:
                # The reader has closed the pipe: discard further output and shut down.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                if self.main is not None:
                    self.main.cancel()

    async def until(self, name: str, state: str) -> None:
        """Return when a job has been in this state."""
        while state not in self.reached.get(name, ()):
            self.news.clear()
            await self.news.wait()

    async def pause(self, seconds: int) -> None:
        """Wait."""
        await self.clock.sleep(seconds * MICROS)


def borrowed(workload: Mapping[str, object]) -> str:
    """How much of its cpu a job borrows."""
    assigned = mappings(workload, "status", "admission", "podSetAssignments")
    amount = sum(int(text(one, "resourceUsage", "cpu") or 0) for _, one in assigned)
    return f", {amount - QUOTA} of its {amount} cpu borrowed" if amount > QUOTA else ""
