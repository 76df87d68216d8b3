"""Does the first screen answer its three questions, at 3 queues and at 1,000?"""

import re

import pytest
from playwright.sync_api import Page, expect

from dashboard.dev.server import DevServer
from tests.browser.conftest import Open


def panel(page: Page, title: str) -> str:
    return page.get_by_role("region", name=title, exact=True).inner_text()


def test_three_questions_are_answered_without_a_click(open_page: Open) -> None:
    page = open_page()
    full = panel(page, "Is it full?")
    assert "GPU is full; CPU and memory are free." in full
    assert "16.5 of 20" in full
    longest = panel(page, "Who waits longest, and why?")
    assert longest.index("pretrain-large") < longest.index("eval-nightly")
    assert "needs 5 more cpu in flavor default" in longest
    assert "3 h 13 min" in longest
    soon = page.get_by_role("region", name="What starts next?", exact=True)
    expect(soon).to_contain_text("train-b")
    # Each time has its day in front if that is not today.
    instant = r"(\d+ \w+ )?\d\d:\d\d"
    expect(soon.get_by_text(re.compile(rf"^{instant} \W {instant}$")).first).to_be_visible()


def test_the_tree_shows_nominal_used_borrowed_and_lent(open_page: Open) -> None:
    page = open_page()
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="vision", exact=True)).first
    cells = row.get_by_role("gridcell").all_inner_texts()
    assert cells == ["vision", "default", "cpu", "", "10", "8", "2", "", "3", "2"]
    cohort = page.get_by_role("row").filter(has=page.get_by_role("button", name="lab"))
    assert cohort.get_by_role("gridcell").all_inner_texts()[4:8] == ["15", "16", "", "2"]
    own, borrowed = (row.locator(f".bar-{part}").bounding_box() for part in ("own", "borrowed"))
    assert own is not None
    assert borrowed is not None
    assert own["width"] == pytest.approx(4 * borrowed["width"], rel=0.05)


def test_a_cohort_closes_and_opens(open_page: Open) -> None:
    page = open_page()
    table = page.get_by_role("grid", name="Cohorts and queues with their quotas")
    expect(table.get_by_role("link", name="vision")).to_have_count(1)
    page.get_by_role("button", name="lab").click()
    expect(table.get_by_role("link", name="vision")).to_have_count(0)
    expect(table.get_by_role("link", name="teaching")).to_have_count(1)


def test_counts_lead_to_the_jobs_they_count(open_page: Open) -> None:
    page = open_page()
    page.get_by_role("link", name="4 Pending").click()
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="4 jobs")).to_be_visible()


def test_changes_of_the_last_hour_are_listed(open_page: Open, server: DevServer) -> None:
    page = open_page()
    items = page.get_by_role("region", name="Changes in the last hour").first.locator("li")
    expect(items).to_have_count(len(server.world.changes))
    expect(items.first).to_contain_text(server.world.changes[0]["kind"])
    expect(items.first).to_contain_text(server.world.changes[0]["job"])


def test_notes_of_the_server_are_shown(open_page: Open, server: DevServer) -> None:
    server.world.meta["notes"] = ["you may not read ClusterQueues: their quotas are not shown"]
    page = open_page()
    expect(page.get_by_text("you may not read ClusterQueues")).to_be_visible()


def test_an_empty_server_says_what_to_do(open_page: Open, server: DevServer) -> None:
    server.world.jobs, server.world.queues, server.world.changes = {}, [], []
    page = open_page()
    expect(page.get_by_text("There are no queues yet")).to_be_visible()
    expect(page.get_by_text("No job waits.")).to_be_visible()
    expect(page.get_by_text("Nothing has changed in the last hour.")).to_be_visible()


JOBS_DENIED = "You may not list jobs in namespace default; choose another with `pykueue dashboard -n NAMESPACE`."
QUEUES_DENIED = JOBS_DENIED.replace("jobs", "LocalQueues")


def test_who_may_list_nothing_is_told_no_falsehoods(open_page: Open, server: DevServer) -> None:
    server.world.jobs, server.world.queues, server.world.policies, server.world.changes = {}, [], {}, []
    server.world.meta |= {"jobsDenied": JOBS_DENIED, "queuesDenied": QUEUES_DENIED, "readsQuotas": False}
    page = open_page()
    for title in ("Who waits longest, and why?", "What starts next?", "Changes in the last hour"):
        expect(page.get_by_role("region", name=title)).to_contain_text(JOBS_DENIED.replace("`", ""))
    expect(page.get_by_role("region", name="Quota")).to_contain_text(QUEUES_DENIED.replace("`", ""))
    expect(page.locator("code").filter(has_text="pykueue dashboard -n NAMESPACE").first).to_be_visible()
    expect(page.locator(".live")).to_have_text("No access")
    expect(page.get_by_role("list", name="Jobs by state")).to_have_count(0)
    text = page.locator("main").inner_text()
    for falsehood in ("No job waits", "Nothing waits", "no queues yet", "Nothing has changed"):
        assert falsehood not in text
    page.goto(server.url + "#/jobs")
    expect(page.locator("main")).to_contain_text("You may not list jobs in namespace default")
    page.goto(server.url + "#/queue/vision")
    expect(page.locator("main")).to_contain_text("You may not list LocalQueues in namespace default")
    expect(page.get_by_role("heading", name="No queue")).to_have_count(0)


def test_queues_without_quota_are_those_of_a_user_without_rights(open_page: Open, server: DevServer) -> None:
    row = server.world.queues[3]
    server.world.queues = [{**row, "kind": "localqueue", "name": "main", "nominal": None, "lent": None, "depth": 0}]
    server.world.policies = {}
    page = open_page()
    cells = (
        page.get_by_role("row").filter(has=page.get_by_role("link", name="main", exact=True)).get_by_role("gridcell")
    )
    assert cells.all_inner_texts()[4:6] == ["10", "\u2013"]
    assert "No quotas are known." in panel(page, "Is it full?")
    assert "10 in use" in panel(page, "Is it full?")
    assert "of 0" not in panel(page, "Is it full?")


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "From the jobs that exist;"), (1, "and the last finished job;"), (2, "and the last 2 finished jobs;")],
)
def test_the_plot_says_from_which_jobs_it_is(open_page: Open, server: DevServer, count: int, words: str) -> None:
    server.world.finished = server.world.finished[:count]
    expect(open_page().get_by_role("region", name="Running and waiting jobs over time")).to_contain_text(words)


@pytest.mark.parametrize("server", ["large"], indirect=True)
def test_a_thousand_queues_are_found(open_page: Open) -> None:
    page = open_page()
    table = page.get_by_role("grid", name="Cohorts and queues with their quotas")
    expect(page.get_by_text("1,000 queues in 40 cohorts")).to_be_visible()
    expect(table).to_have_attribute("aria-rowcount", "81")
    assert table.get_by_role("row").count() < 80, "only the visible rows exist"
    page.get_by_role("searchbox", name="Find").fill("team-0777")
    expect(table.get_by_role("link", name="team-0777")).to_be_visible()
    expect(table).to_have_attribute("aria-rowcount", "5")
    page.get_by_role("searchbox", name="Find").fill("")
    page.get_by_role("combobox", name="Order").select_option("most pending first")
    page.get_by_role("button", name="division-").first.click()
    expect(table.get_by_role("link", name="team-").first).to_be_visible()
    page.get_by_role("combobox", name="Resource").select_option("cpu")
    expect(table).to_have_attribute("aria-rowcount", "66")
