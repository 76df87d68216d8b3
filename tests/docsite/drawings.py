"""Draw the pictures of the concepts: `python -m tests.docsite.drawings` writes them into docs/images.

Those of borrowing and preemption show what the engine does with examples/borrowing, in a simulation; that of fairness
shows examples/fair-sharing.
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from html import escape
from pathlib import Path
from typing import Final

import yaml

from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Instant
from pykueue.sim.trace import read_trace
from pykueue.sim.world import World
from tests.storyfile import ROOT

IMAGES: Final = ROOT / "docs/images"
EXAMPLE: Final = ROOT / "examples/borrowing"
SHARING: Final = ROOT / "examples/fair-sharing"
TEAMS: Final = {"vision": "#0969da", "speech": "#bc4c00", "robots": "#1a7f37"}
"""The teams of that example, each with the colour of its line."""
MOMENT: Final = 5.0
"""When the picture of borrowing is taken, in seconds after the start of the example."""
STYLE: Final = """  <style>
    .box { fill: #f6f8fa; stroke: #57606a; stroke-width: 1.2; }
    .core { fill: #ddf4ff; stroke: #0969da; stroke-width: 1.6; }
    .group { fill: none; stroke: #57606a; stroke-width: 1.2; stroke-dasharray: 6 4; }
    .own { fill: #54aeff; stroke: #0969da; }
    .borrowed { fill: url(#hatch); stroke: #953800; }
    .wait { fill: #ffffff; stroke: #57606a; stroke-dasharray: 3 3; }
    .title { font-weight: 600; fill: #1f2328; }
    .small { font-size: 12px; fill: #57606a; }
    .line { stroke: #57606a; stroke-width: 1.2; fill: none; }
    .arrow { stroke: #57606a; stroke-width: 1.4; fill: none; marker-end: url(#tip); }
  </style>
  <defs>
    <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">
      <path d="M0,0 L8,4 L0,8 z" fill="#57606a"/>
    </marker>
    <pattern id="hatch" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
      <rect width="8" height="8" fill="#ffd8b5"/><line x1="0" y1="0" x2="0" y2="8" stroke="#bc4c00" stroke-width="3"/>
    </pattern>
  </defs>
"""
STOPS: Final = ("preempted", "finishes")


def text(x: float, y: float, words: str, sort: str = "small", anchor: str = "middle") -> str:
    """A line of text."""
    return f'  <text class="{sort}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>\n'


def rectangle(x: float, y: float, width: float, height: float, sort: str = "box") -> str:
    """A rectangle."""
    size = f'width="{width:g}" height="{height:g}"'
    return (
        f'  <rect class="{sort}" x="{x:g}" y="{y:g}" {size} rx="{0 if sort in ("own", "borrowed", "wait") else 8}"/>\n'
    )


def box(x: float, y: float, width: float, title: str, lines: Iterable[str] = (), sort: str = "box") -> str:
    """A box with a title and lines below it."""
    said = list(lines)
    middle = x + width / 2
    made = rectangle(x, y, width, 36 + 18 * len(said), sort) + text(middle, y + 23, title, "title")
    return made + "".join(text(middle, y + 43 + 18 * row, line) for row, line in enumerate(said))


def path(points: str, sort: str = "arrow") -> str:
    """A line or an arrow."""
    return f'  <path class="{sort}" d="{points}"/>\n'


def picture(width: int, height: int, *parts: str) -> str:
    """A whole picture."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif"'
    return f'{head} font-size="14">\n{STYLE}{"".join(parts)}</svg>\n'


class Run(Frozen):
    """A time during which a job held quota; it has one or more."""

    job: str
    queue: str
    cpu: int
    start: float
    end: float
    borrows: bool
    preempted: bool


class Story(Frozen):
    """What happened in the example."""

    runs: tuple[Run, ...]
    arrivals: dict[str, float]
    quotas: dict[str, int]
    """The cpu that each queue owns."""


@cache
def story() -> Story:
    """The example, simulated."""
    command = [sys.executable, "-m", "pykueue", "simulate", str(EXAMPLE), "-o", "json"]
    events = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["events"]
    asked = {event["name"]: int(event["why"].split()[1]) for event in events if event["what"] == "arrives"}
    runs = []
    for number, event in enumerate(events):
        if event["what"] == "starts":
            later = (one for one in events[number:] if one["name"] == event["name"] and one["what"] in STOPS)
            stop = next(later)
            name, borrows = event["name"], "borrowed" in event["why"]
            preempted = stop["what"] == "preempted"
            seconds = (event["seconds"], stop["seconds"])
            runs.append(Run(short(name), event["queue"], asked[name], *seconds, borrows, preempted))
    arrivals = {short(event["name"]): event["seconds"] for event in events if event["what"] == "arrives"}
    return Story(tuple(runs), arrivals, quotas())


def short(name: str) -> str:
    """The name of a job without its namespace."""
    return name.partition("/")[2]


def quotas() -> dict[str, int]:
    """The cpu that each ClusterQueue of the example owns."""
    objects = yaml.safe_load_all((EXAMPLE / "queues.yaml").read_text())
    return {
        tree["metadata"]["name"]: tree["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"]
        for tree in objects
        if tree["kind"] == "ClusterQueue"
    }


def queues() -> str:
    """How a job finds its quota."""
    return picture(
        860,
        250,
        box(20, 40, 140, "Job", ["queue-name: team-a"]),
        box(20, 150, 140, "Job", ["queue-name: team-b"]),
        box(205, 40, 175, "LocalQueue team-a", ["of a namespace"]),
        box(205, 150, 175, "LocalQueue team-b", ["of a namespace"]),
        rectangle(420, 12, 420, 226, "group"),
        text(830, 32, "Cohort", anchor="end"),
        box(440, 40, 240, "ClusterQueue vision", ["cpu 8, memory 32Gi", "GPU 2 of flavor a100"], "core"),
        box(440, 150, 240, "ClusterQueue speech", ["cpu 8, memory 32Gi", "GPU 2 of flavor a100"], "core"),
        path("M160,67 L201,67"),
        path("M160,177 L201,177"),
        path("M380,67 L436,67"),
        path("M380,177 L436,177"),
        path("M590,114 L590,146", "line"),
        text(604, 134, "unused quota is shared", anchor="start"),
        text(700, 82, "priority, then age,", anchor="start"),
        text(700, 98, "decide who is next", anchor="start"),
    )


def borrowing() -> str:
    """Who uses which quota at one moment of the example."""
    found = story()
    scale, left = 70, 140
    parts = [text(20, 24, f"use of cpu after {MOMENT:g} seconds", "title", "start")]
    used = {
        queue: sum(run.cpu for run in found.runs if run.queue == queue and run.start <= MOMENT < run.end)
        for queue in found.quotas
    }
    for row, (queue, owned) in enumerate(found.quotas.items()):
        top = 50 + 90 * row
        own, beyond = min(used[queue], owned), max(0, used[queue] - owned)
        lent = sum(max(0, used[other] - found.quotas[other]) for other in used if other != queue)
        parts.append(text(20, top + 24, queue, "title", "start"))
        parts.append(text(20, top + 42, f"owns {owned}, uses {used[queue]}", anchor="start"))
        parts.append(rectangle(left, top, owned * scale, 40, "wait"))
        if own:
            parts += [
                rectangle(left, top, own * scale, 40, "own"),
                text(left + own * scale / 2, top + 25, f"{own} own", "title"),
            ]
        if beyond:
            at = left + owned * scale
            parts.append(rectangle(at, top, beyond * scale, 40, "borrowed"))
            parts.append(text(at + beyond * scale / 2, top + 58, f"{beyond} borrowed"))
        if lent:
            parts.append(text(left + owned * scale / 2, top + 25, f"{lent} lent, and so not free"))
    return picture(860, 210, *parts)


def preemption() -> str:
    """When each job of the example waited and ran."""
    found = story()
    last = max(run.end for run in found.runs)
    scale, left = 680 / last, 120
    parts = []
    for row, (job, arrived) in enumerate(found.arrivals.items()):
        top = 30 + 56 * row
        parts.append(text(20, top + 22, job, "title", "start"))
        began = arrived
        for run in (run for run in found.runs if run.job == job):
            if run.start > began:
                parts.append(rectangle(left + began * scale, top + 8, (run.start - began) * scale, 18, "wait"))
            width = (run.end - run.start) * scale
            parts.append(rectangle(left + run.start * scale, top, width, 34, "borrowed" if run.borrows else "own"))
            if run.preempted:
                parts.append(
                    text(left + run.end * scale + 4, top + 48, "preempted; it waits, and starts over", anchor="start")
                )
            began = run.end
    bottom = 30 + 56 * len(found.arrivals)
    parts.append(path(f"M{left},{bottom} L{left + 700},{bottom}"))
    for minute in range(0, int(last // 60) + 1, 2):
        x = left + minute * 60 * scale
        parts += [path(f"M{x:g},{bottom - 4} L{x:g},{bottom + 4}", "line"), text(x, bottom + 20, f"{minute} min")]
    legend = (("own", "runs on own quota"), ("borrowed", "runs on borrowed quota"), ("wait", "waits"))
    for number, (sort, words) in enumerate(legend):
        x = left + 200 * number
        parts += [rectangle(x, bottom + 36, 26, 16, sort), text(x + 34, bottom + 49, words, anchor="start")]
    return picture(860, bottom + 66, *parts)


def shares(minutes: Iterable[int]) -> dict[str, list[float]]:
    """The share of each team of the example after so many minutes, per mille."""
    world = World(read_trace([(file.name, file.read_bytes()) for file in sorted(SHARING.glob("*.yaml"))]))
    found: dict[str, list[float]] = {team: [] for team in TEAMS}
    for minute in minutes:
        world.proceed(Instant(world.trace.start + minute * 60 * MICROS), bounded=False)
        for team, values in found.items():
            share = world.engine.share_of_queue(team)
            assert share is not None, "the example turns fair sharing on"
            values.append(share.value)
    return found


def fairness() -> str:
    """The shares of three teams over time."""
    left, bottom, scale, high = 70, 270, 4, 0.26
    parts = [
        text(
            20, 24, "borrowed GPUs per mille of those that the cohort can lend, divided by the weight", "title", "start"
        )
    ]
    for value in range(0, 1000, 200):
        y = bottom - value * high
        parts.append(f'  <path stroke="#d0d7de" d="M{left},{y:g} L{left + 740},{y:g}"/>\n')
        parts.append(text(left - 8, y + 4, str(value), anchor="end"))
    for minute in range(0, 181, 20):
        x = left + minute * scale
        parts += [path(f"M{x},{bottom} L{x},{bottom + 4}", "line"), text(x, bottom + 20, f"{minute} min")]
    minutes = range(185)
    for number, (team, values) in enumerate(shares(minutes).items()):
        # Lines of equal shares are drawn one above the other.
        heights = [bottom - value * high - 3 * number for value in values]
        changes = [at for at in minutes if at and (heights[at] != heights[at - 1] or at == minutes[-1])]
        drawn = f"M{left},{heights[0]:g}" + "".join(f" H{left + at * scale} V{heights[at]:g}" for at in changes)
        parts.append(f'  <path fill="none" stroke="{TEAMS[team]}" stroke-width="2.5" d="{drawn}"/>\n')
        x = left + 190 * number
        parts.append(f'  <rect x="{x}" y="{bottom + 38}" width="26" height="6" fill="{TEAMS[team]}"/>\n')
        parts.append(text(x + 34, bottom + 45, team, anchor="start"))
    return picture(860, bottom + 60, *parts)


def lifecycle() -> str:
    """The states of a workload."""
    return picture(
        860,
        270,
        box(20, 60, 140, "pending", ["waits for quota"], "core"),
        box(240, 60, 150, "quota reserved", ["waits for checks"], "core"),
        box(470, 60, 140, "admitted", ["its Job runs"], "core"),
        box(690, 60, 140, "finished", ["its quota is free"]),
        box(355, 190, 150, "evicted", ["its pods stop"]),
        box(20, 190, 140, "deactivated", ["spec.active: false"]),
        path("M160,87 L236,87"),
        path("M390,87 L466,87"),
        path("M610,87 L686,87"),
        text(648, 78, "Job ends"),
        path("M540,114 C540,150 500,160 480,186"),
        path("M315,114 C315,150 350,160 380,186"),
        text(550, 150, "preempted, queue stopped, not ready in time", anchor="start"),
        path("M355,205 C250,190 150,160 110,118"),
        text(258, 160, "queued again"),
        path("M355,222 L164,222"),
        text(258, 240, "too often, too long, held"),
        path("M60,186 L60,118"),
        text(68, 156, "released", anchor="start"),
    )


DRAWINGS: Final = {
    "queues": queues,
    "borrowing": borrowing,
    "preemption": preemption,
    "fairness": fairness,
    "lifecycle": lifecycle,
}


def files() -> dict[Path, str]:
    """Each drawing, by its file."""
    return {IMAGES / f"{name}.svg": draw() for name, draw in DRAWINGS.items()}


if __name__ == "__main__":
    for file, drawn in files().items():
        file.write_text(drawn)
