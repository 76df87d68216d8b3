"""Measure the page of the dashboard: `python -m bench.page` loads 1,000 queues and 50,000 jobs in a real browser.

What counts is the CPU time of the page's own thread, which does not depend on the server: it serves made-up data.
"""

import gzip
import sys
from collections.abc import Callable
from typing import Any, Final

from playwright.sync_api import CDPSession, Page

from bench import kernel
from bench.floors import Floor, Result, run
from dashboard.dev.server import KEY, STATIC, WORLDS, DevServer, now
from tests.browser.chromium import chromium

CHANGES_PER_SECOND: Final = 100
SECONDS: Final = 10
PAUSE_MILLIS: Final = 700
LOADED_MILLIS: Final = 120_000

OVERVIEW: Final = Floor(
    "overview", "CPU s", 1, "the overview with its figures, 1,000 queues and 50,000 jobs", scales=True
)
INTERACTION: Final = Floor(
    "interaction", "CPU ms", 100, "the slowest of filter, sort and scroll of 50,000 rows", scales=True
)
LIVE: Final = Floor(
    "live", "% of a core", 20, f"the table of 50,000 jobs at {CHANGES_PER_SECOND} changes a second", scales=True
)
BUNDLE: Final = Floor("bundle", "KB", 150, "all files of the page, compressed", timed=False)

TYPED: Final = """(text) => {
  const field = document.querySelector(".filters input");
  field.value = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
}"""
SCROLLED: Final = "(top) => { document.querySelector('.table-box').scrollTop = top; }"
CLICKED: Final = "(index) => document.querySelectorAll('button.sort')[index].click()"
DRAWN: Final = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
ACTIONS: Final[dict[str, tuple[str, Any]]] = {
    "sort by job": (CLICKED, 1),
    "sort by queue": (CLICKED, 2),
    "sort by time": (CLICKED, 5),
    "filter": (TYPED, "job-01"),
    "clear": (TYPED, ""),
    "scroll": (SCROLLED, 500_000),
}


def cpu_seconds(session: CDPSession) -> float:
    """CPU seconds of the page's thread since it began."""
    found = session.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in found if one["name"] == "TaskDuration"))


def spent(page: Page, session: CDPSession, work: str, argument: object) -> float:
    """CPU seconds of an interaction, until its result is drawn."""
    page.wait_for_timeout(PAUSE_MILLIS)
    before = cpu_seconds(session)
    page.evaluate(work, argument)
    page.evaluate(DRAWN)
    return cpu_seconds(session) - before


def changed(server: DevServer, page: Page, session: CDPSession) -> float:
    """The share of a core that the page takes while jobs change."""
    keys = [*server.world.jobs]
    before = cpu_seconds(session)
    for step in range(SECONDS * 10):
        some = keys[step * 10 : step * 10 + CHANGES_PER_SECOND // 10]
        rows = [server.world.jobs[key] | {"since": server.world.ago(0)} for key in some]
        server.send("delta", {"set": rows, "del": []})
        page.wait_for_timeout(100)
    return (cpu_seconds(session) - before) / SECONDS * 100


def browser() -> list[Result]:
    """How long the page keeps its reader waiting."""
    before = kernel.seconds()
    server = DevServer(WORLDS["large"](now()))
    with chromium() as found:
        context = found.new_context(locale="en-US", viewport={"width": 1280, "height": 800})
        context.add_init_script(f"localStorage.setItem('pykueue-key', {KEY!r})")
        page = context.new_page()
        session = context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.goto(server.url)
        page.wait_for_selector(".quota-table td")
        shown = cpu_seconds(session)
        page.evaluate("location.hash = '#/jobs'")
        page.get_by_text("50,000 jobs", exact=True).wait_for(timeout=LOADED_MILLIS)
        loaded = cpu_seconds(session)
        # The first of each is slower, because nothing is compiled yet: it counts like the others.
        times = {name: spent(page, session, *action) * 1000 for name, action in ACTIONS.items()}
        live = changed(server, page, session)
        context.close()
    server.finish()
    slow = kernel.slowness(before)
    note = ", ".join(f"{name} {time:.0f}" for name, time in times.items())
    return [
        Result(OVERVIEW, shown, slow, f"{loaded:.2f} s until all jobs were loaded and listed"),
        Result(INTERACTION, max(times.values()), slow, note),
        Result(LIVE, live, slow, f"over {SECONDS} s"),
    ]


def bundle() -> list[Result]:
    """How large the page is."""
    sizes = [len(gzip.compress(path.read_bytes())) for path in STATIC.rglob("*") if path.is_file()]
    return [Result(BUNDLE, sum(sizes) / 1000, 1, f"{len(sizes)} files")]


MEASURES: Final[dict[str, Callable[[], list[Result]]]] = {"bundle": bundle, "browser": browser}


if __name__ == "__main__":
    sys.exit(run("bench.page", "Time the page of the dashboard against its floors.", MEASURES, sys.argv[1:]))
