"""Does the page work where users meet it: `pykueue up` with real jobs, opened by `pykueue dashboard`?"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import commandpage
from tests.browser.chromium import PATIENCE_MILLIS
from tests.browser.commandpage import apply_quota, base
from tests.cli.machine import Machine, machine_in


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with machine_in(tmp_path_factory.mktemp("page")) as made:
        made.up()
        yield made


@contextmanager
def opened(machine: Machine, browser: Browser, *flags: str) -> Iterator[Page]:
    with commandpage.opened(machine.start("dashboard", "--no-browser", *flags), browser) as page:
        yield page


def submit(machine: Machine, name: str, *words: str, cpu: str = "1") -> None:
    done = machine.run("run", "--detach", "-q", "team-a", "--cpu", cpu, "--name", name, "--", *words)
    assert done.returncode == 0, done.stderr


def test_a_job_from_its_submission_to_its_end(machine: Machine, browser: Browser) -> None:
    with opened(machine, browser) as page:
        submit(machine, "real", "sh", "-c", "echo '<b>hello</b>'; sleep 600")
        expect(page.get_by_role("region", name="Changes in the last hour")).to_contain_text("real")
        page.goto(f"{base(page)}#/job/default/real")
        expect(page.locator(".title-line")).to_contain_text("Running")
        page.get_by_role("tab", name="Logs").click()
        expect(page.get_by_role("region", name="Output of the job")).to_contain_text("<b>hello</b>")
        for verb, state in (("Hold", "Held"), ("Release", "Running"), ("Cancel", "Cancelled")):
            page.get_by_role("button", name=f"{verb}…").click()
            page.get_by_role("button", name=f"{verb} job").click()
            expect(page.locator(".title-line")).to_contain_text(state)


def test_a_larger_quota_is_previewed_and_applied(machine: Machine, browser: Browser) -> None:
    submit(machine, "large", "sleep", "600", cpu="6")
    with opened(machine, browser) as page:
        page.goto(f"{base(page)}#/job/default/large")
        why = page.get_by_role("region", name="Why", exact=True)
        expect(why).to_contain_text("asks for 6 cpu, this queue can have 4 at most")
        apply_quota(page, "team-a", 8)
        page.goto(f"{base(page)}#/queue/team-a")
        # Whether the machine has room for its pod is another question: it has its quota.
        expect(page.get_by_role("grid", name="Running jobs")).to_contain_text("large")
    assert machine.run("cancel", "large").returncode == 0


@pytest.mark.slow("restarts a server")
def test_a_session_that_can_only_look_and_a_server_that_returns(machine: Machine, browser: Browser) -> None:
    submit(machine, "looked-at", "sleep", "600", cpu="100")
    with opened(machine, browser, "--view-only") as page:
        page.goto(f"{base(page)}#/job/default/looked-at")
        expect(page.locator(".title-line")).to_contain_text("Pending")
        expect(page.get_by_text("view only")).to_be_visible()
        assert page.get_by_role("button", name="…").count() == 0
        assert machine.run("down").returncode == 0
        expect(page.get_by_role("status").filter(has_text="Stale since")).to_be_visible()
        machine.up()
        expect(page.get_by_text("Live", exact=True)).to_be_visible(timeout=2 * PATIENCE_MILLIS)
    assert machine.run("cancel", "looked-at").returncode == 0
