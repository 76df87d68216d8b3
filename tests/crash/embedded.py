"""Does `pykueue up` survive being killed at any moment? `python -m tests.crash.embedded`: kills under load, a witness.

The server of one machine is killed outright again and again while Jobs preempt each other, and started anew on the same
data. The auditor watches all along. In the end nothing that was acknowledged is lost, every Job has ended, no attempt
ran twice, and nothing runs any more. With `--kept 100000` as many finished Jobs are stored from the beginning.
"""

import contextlib
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import click
import uvloop

from bench.keptjobs import LISTED, fill
from pykueue.audit.follow import Server
from pykueue.audit.world import Finding, Settings
from pykueue.base.clock import SystemClock
from pykueue.base.units import format_instant
from pykueue.kubecontrollers.finishedretention import JOBS_KEPT
from tests.crash.embedded_load import BUSY, NAMESPACE, Diary, Work, job
from tests.crash.embedded_machine import Machine, left, living
from tests.crash.provider import Provider, by_luck
from tests.crash.run import late_exits, say
from tests.crash.watchman import ANSWERS, LAG_SECONDS, Watchman
from tests.outcome import Outcome
from tests.plane.client import Client, Late, Tree, condition
from tests.plane.plane import ROOT
from tests.plane.process import stop_on_signals

HOLD_SECONDS = 2
"""How long the auditor holds events back; all come from one process, in order."""
CALM_SECONDS = 14
"""Longer than the auditor lets anything be late, and lags behind."""
LATE_SECONDS = 10
"""How long the auditor lets anything wait that could go on."""
READING_SECONDS = 300
"""How long a server may read many kept Jobs before it decides anything: on a busy machine, for minutes."""
START_SECONDS = 1.5
"""A kill while it starts comes within this time; with many kept Jobs, within ten times of it, while it reads."""
CALM_EVERY = 50
"""So many kills, and it is left alone for once, so that what is stuck is seen."""
DRAIN_SECONDS = 120
LINES_MOST = 12
LINE_BYTES = 50
WORK_SECONDS = 2.5
LONG_JOBS = 3
SHOWN = 20


class Row(NamedTuple):
    """A line of the summary."""

    name: str
    says: str
    wrong: list[str]
    late: list[str] = []
    """What did not come in time: wrong only if it happens twice."""


class Run:
    """One run: a machine, the work on it, the auditor, and what came of it."""

    def __init__(
        self, machine: Machine, work: Work, watchman: Watchman, findings: list[Finding], kills: int, kept: int = 0
    ) -> None:
        self.machine, self.work, self.watchman, self.findings = machine, work, watchman, findings
        self.kills = kills
        self.kept = kept
        self.while_starting = 0
        self.ready_seconds: dict[int, float] = {}
        """How long it took until everything was read, by the number of the start."""
        self.doubled: list[str] = []
        self.start = time.monotonic()

    def kill(self, number: int, rng: random.Random) -> None:
        """Kill the server, mostly while it works, sometimes while it starts, and start it again."""
        self.watchman.check()
        self.work.check()
        self.machine.mend()
        if rng.random() < 0.8:
            self.await_ready()
            self.look()
            self.await_lines(rng.randrange(LINES_MOST))
            time.sleep(rng.uniform(0, 0.3))
        else:
            self.while_starting += 1
            time.sleep(rng.uniform(0, START_SECONDS * (10 if self.kept else 1)))
        self.machine.kill()
        self.machine.start()
        counts = self.watchman.tally.counts
        say(
            f"{number}/{self.kills} kill | {time.monotonic() - self.start:.0f} s, Jobs {self.work.made} taken, "
            f"{self.work.made - len(self.work.unfinished)} ended, counted to {self.work.counted}, "
            f"evictions {counts['Evicted']}, findings {len(self.findings)}"
        )

    def await_ready(self) -> None:
        """Wait until the server is up and has read all that is stored."""
        self.machine.await_up()

        def ready() -> bool:
            with contextlib.suppress(*BUSY):
                return self.work.client.text("/readyz") == "ok"
            return False

        # Nothing is decided before, and on a starved machine that takes longer than anything may be late.
        with self.watchman.excused():
            if not Client.soon(ready, READING_SECONDS):
                raise Late(f"it is not ready {READING_SECONDS} s after it was up:\n{self.machine.running().tail()}")
        self.ready_seconds.setdefault(self.machine.starts, time.monotonic() - self.machine.began)

    def await_lines(self, count: int) -> None:
        """Let processes start and end, so many times, so that there is something to lose."""
        diary = self.machine.diary
        size = diary.stat().st_size if diary.exists() else 0
        Client.soon(lambda: diary.exists() and diary.stat().st_size >= size + count * LINE_BYTES, WORK_SECONDS)

    def look(self) -> None:
        """See whether two processes of one attempt are alive."""
        for attempt, pids in living(self.machine.diary).items():
            if len(pids) > 1:
                self.doubled.append(f"{attempt} runs as {pids}")

    def calm(self) -> None:
        """Leave it alone for so long that the auditor would see what is stuck."""
        self.await_ready()
        time.sleep(HOLD_SECONDS + CALM_SECONDS)

    def drain(self) -> list[Tree]:
        """Have all Jobs ended: those that are there then."""
        self.work.stop()
        self.await_ready()
        say(f"no more Jobs; {len(self.work.unfinished)} are to be finished")
        client = self.work.client
        Client.soon(lambda: not self.work.unfinished, DRAIN_SECONDS)
        # There may be Jobs of which nobody was told that they were taken.
        Client.soon(lambda: all(ended(tree) for tree in client.objects("Job", NAMESPACE)), DRAIN_SECONDS / 4)
        return client.objects("Job", NAMESPACE)

    def lost(self) -> list[str]:
        """What is missing of the Jobs that were kept from the beginning, and of their Workloads."""
        if not self.kept:
            return []
        paths = {"Jobs": "/apis/batch/v1", "Workloads": "/apis/kueue.x-k8s.io/v1beta2"}
        namespaces = [f"kept-{number}" for number in range(-(-self.kept // LISTED))]
        wrong = []
        for kind, path in paths.items():
            lists = [
                self.work.client.request("GET", f"{path}/namespaces/{namespace}/{kind.lower()}?limit=1")
                for namespace in namespaces
            ]
            there = sum(len(one["items"]) + one["metadata"].get("remainingItemCount", 0) for one in lists)
            if there != self.kept:
                wrong.append(f"{there} of {self.kept} kept {kind} are there")
        return wrong

    def end(self, rng: random.Random) -> tuple[float, list[str]]:
        """Stop the server while Jobs run that would run for long: seconds it took, and what is left running."""
        for number in range(LONG_JOBS):
            tree = job(f"long-{number}", rng, self.machine.diary, 600.0)
            tree["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "left"
            tree["spec"]["parallelism"] = tree["spec"]["completions"] = 1
            tree["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
            self.work.client.create(tree)
        if not Client.soon(lambda: len(living(self.machine.diary)) == LONG_JOBS):
            raise Late(f"only {len(living(self.machine.diary))} of {LONG_JOBS} Jobs were started before the end")
        took = self.machine.down()
        Client.soon(lambda: not left(self.machine.data.parent), 5)
        return took, left(self.machine.data.parent)

    def rows(self, jobs: list[Tree], lost: list[str], idle: list[str], end: tuple[float, list[str]]) -> list[Row]:
        """What came of it."""
        work, counts, follower = self.work, self.watchman.tally.counts, self.watchman.follower
        assert follower is not None, "the auditor has begun"
        diary = Diary.read(self.machine.diary)
        there = {tree["metadata"]["uid"]: int(tree["metadata"]["resourceVersion"]) for tree in jobs}
        up, ready = self.machine.ready_seconds.values(), self.ready_seconds.values()
        unfinished = [tree["metadata"]["name"] for tree in jobs if not ended(tree)]
        failed = [tree["metadata"]["name"] for tree in jobs if condition(tree, "Failed").get("status") == "True"]
        evicted = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()) if name.startswith("Evicted "))
        crashes = self.machine.crashes()
        return [
            Row(
                "kills",
                f"{self.machine.starts - 1}, {self.while_starting} of them while it started; "
                f"up again after {min(up):.1f} to {max(up):.1f} s, ready after {min(ready):.1f} to {max(ready):.1f} s; "
                f"{len(self.machine.ended)} ended by themselves",
                self.machine.ended,
            ),
            Row("kept Jobs", str(self.kept), lost),
            Row(
                "acknowledged",
                f"{len(work.book.versions)} writes: {len(work.book.jobs)} Jobs, a count to {work.counted}, "
                f"{len(work.book.deleted)} deletions",
                [*work.book.wrong, *work.book.missing(there)],
            ),
            Row(
                "Jobs",
                f"{len(jobs)} there, {len(unfinished)} not finished, {len(failed)} failed",
                [f"failed: {name}" for name in failed],
                [f"not finished: {name}" for name in unfinished],
            ),
            Row("preemptions", evicted or "none", [] if counts["Evicted Preempted"] else ["nothing was preempted"]),
            Row(
                "capacity",
                f"asked for {counts['requests']} times; {', '.join(f'{counts[name]} {name}' for name in ANSWERS)}",
                [] if counts["Provisioned"] else ["no capacity was found"],
            ),
            Row(
                "processes",
                f"{len(diary.started)} attempts started, {sum(diary.ended.values())} ran to their end",
                [*diary.twice(), *self.doubled, *diary.unearned(jobs)],
            ),
            Row("left when idle", f"{len(idle)} processes", idle),
            Row("left at the end", f"{len(end[1])} processes; stopped within {end[0]:.1f} s", end[1]),
            Row("log", f"{len(crashes)} errors that nobody expected", crashes),
            Row(
                "auditor",
                f"{self.watchman.auditor.events} events, {follower.gaps} gaps, {follower.out_of_order} out of order; "
                f"no lateness was judged during {self.watchman.starvation.seconds:.0f} s without a processor",
                [f"the watch had to begin anew {follower.gaps} times"] if follower.gaps else [],
            ),
            Row("findings", str(len(self.findings)), [str(finding) for finding in self.findings]),
        ]


def ended(tree: Tree) -> bool:
    """Whether a Job has ended, well or not."""
    return any(condition(tree, type_).get("status") == "True" for type_ in ("Complete", "Failed"))


def summary(rows: list[Row]) -> tuple[str, Outcome]:
    """The rows as text, and how the run ended."""
    lines, outcomes = [], []
    for row in rows:
        outcomes.append(Outcome.FAILED if row.wrong else Outcome.LATE if row.late else Outcome.PASSED)
        mark = "ok" if outcomes[-1] is Outcome.PASSED else outcomes[-1].name
        lines.append(f"{mark:<6} {row.name:<16} {row.says}")
        lines += [f"{'':<24}{what}" for what in [*row.wrong[:SHOWN], *row.late[:SHOWN]]]
    return "\n".join(lines), Outcome.of(outcomes)


def run(folder: Path, logs: Path, kills: int, seed: int, kept: int = 0) -> list[Row]:
    """Kill so often, see all to its end: what came of it. Before, so many finished Jobs are stored."""
    rng = random.Random(seed)
    findings: list[Finding] = []

    def found(finding: Finding) -> None:
        findings.append(finding)
        say(f"FOUND {finding}")

    if kept:
        uvloop.run(fill(folder / "data", kept))
        say(f"stored {kept} finished Jobs")
    # None of them is deleted for those of the run.
    machine = Machine(folder, logs, ("--keep-jobs", str(kept + JOBS_KEPT)) if kept else ())
    machine.start()
    with late_exits(findings), contextlib.ExitStack() as ending:
        ending.callback(lambda: machine.running().kill())
        say(f"up after {machine.await_up():.1f} s")
        kubeconfig = machine.data / "kubeconfig"
        reached = Server.of(str(kubeconfig))
        authority = folder / "ca.pem"
        authority.write_text(reached.authority)
        client = Client(reached.url, reached.token, str(authority))
        work = Work(client, random.Random(rng.random()), machine.diary)
        work.prepare()
        # Nothing is decided while it reads.
        late = READING_SECONDS if kept else LATE_SECONDS
        settings = Settings(
            plain_resources=True, lag_seconds=LAG_SECONDS, stuck_seconds=late, lost_seconds=late, stop_seconds=late
        )
        with (
            Watchman(
                kubeconfig,
                logs / "history.jsonl.gz",
                settings,
                ended=work.ended,
                found=found,
                hold_seconds=HOLD_SECONDS,
            ) as watchman,
            Provider(client, by_luck(random.Random(rng.random()))),
        ):
            on = Run(machine, work, watchman, findings, kills, kept)
            work.start()
            time.sleep(2)
            for number in range(1, kills + 1):
                on.kill(number, rng)
                if number % CALM_EVERY == 0 and number < kills:
                    on.calm()
            jobs = on.drain()
            lost = on.lost()
            on.calm()
            idle = [f"{attempt}: {pids}" for attempt, pids in living(machine.diary).items()]
            watchman.check()
        return on.rows(jobs, lost, idle, on.end(rng))


@click.command()
@click.option("--kills", default=100, show_default=True, help="How often to kill the server.")
@click.option("--kept", default=0, show_default=True, help="How many finished Jobs are stored before the first start.")
@click.option("--seed", default=1, show_default=True, help="Where rng begins.")
def main(kills: int, kept: int, seed: int) -> None:
    """Kill `pykueue up` under load; the exit code is 0 if all was well, 75 if only a time bound was missed, else 1."""
    stop_on_signals()
    logs = ROOT / "build" / "crash" / f"embedded-{format_instant(SystemClock().now()).replace(':', '')}"
    logs.mkdir(parents=True)
    folder = Path(tempfile.mkdtemp(prefix="pykueue-crash-"))
    say(f"{kills} kills, {kept} kept Jobs, seed {seed}; logs and the history are in {logs}, the data in {folder}")
    start = time.monotonic()
    text, outcome = summary(run(folder, logs, kills, seed, kept))
    print(text)
    well = outcome is Outcome.PASSED
    say(
        f"{'all was well' if well else f'something was wrong; the data is kept in {folder}'} "
        f"({time.monotonic() - start:.0f} s)"
    )
    if well:
        shutil.rmtree(folder)
    sys.exit(outcome)


if __name__ == "__main__":
    main()
