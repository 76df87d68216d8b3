"""Is the table of jobs fast, filtered by its address, and does it act only after a confirmation?"""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from dashboard.dev.server import DevServer
from tests.browser.conftest import Open


def names(page: Page) -> Locator:
    return page.get_by_role("grid", name="Jobs").locator("tbody a.name")


def test_filters_are_part_of_the_address(open_page: Open, server: DevServer) -> None:
    page = open_page("#/jobs")
    expect(names(page)).to_have_count(10)
    page.get_by_role("combobox", name="State").select_option("Pending")
    expect(names(page)).to_have_count(4)
    page.get_by_role("combobox", name="Owner").fill("bo")
    expect(names(page)).to_have_text(["vision/eval-nightly"])
    assert page.url.endswith("#/jobs?state=PENDING&owner=bo")
    page.get_by_role("link", name="Clear filters").click()
    expect(names(page)).to_have_count(10)
    page.get_by_role("combobox", name="Reason").select_option(value="needs N more cpu in flavor default")
    expect(names(page)).to_have_count(2)
    shared = page.url
    other = open_page(shared.removeprefix(server.url))
    expect(names(other)).to_have_count(2)
    other.get_by_role("searchbox", name="Find").fill("NIGHTLY")
    expect(names(other)).to_have_text(["vision/eval-nightly"])
    other.get_by_role("searchbox", name="Find").fill("no such job")
    expect(other.get_by_text("No job matches these filters")).to_be_visible()


@pytest.mark.parametrize("width", [705, 780, 900, 1000, 1160])
def test_names_are_readable_in_a_window_of_any_width(open_page: Open, server: DevServer, width: int) -> None:
    page = open_page("#/jobs", viewport={"width": width, "height": 800})
    views = {"#/jobs": "Jobs", "#/queue/vision": "Running jobs", "#/": "Cohorts and queues with their quotas"}
    for address, table in views.items():
        page.goto(server.url + address)
        cell = page.get_by_role("grid", name=table).locator("td:has(a:not([href*=state]))").first
        expect(cell).to_be_visible()
        box = cell.bounding_box()
        assert box is not None
        assert box["width"] >= 130, f"{table}: {box['width']} px"


def test_columns_sort(open_page: Open) -> None:
    page = open_page("#/jobs?state=PENDING")
    page.get_by_role("button", name="Job", exact=True).click()
    expect(names(page).first).to_have_text("speech/decode")
    expect(page.get_by_role("columnheader", name="Job", exact=True)).to_have_attribute("aria-sort", "ascending")
    page.get_by_role("button", name="Job", exact=True).click()
    expect(names(page).first).to_have_text("vision/pretrain-large")
    assert page.url.endswith("sort=-name")


def test_finished_jobs_are_shown_on_request(open_page: Open, server: DevServer) -> None:
    page = open_page("#/jobs?state=COMPLETED,FAILED,CANCELLED")
    expect(page.get_by_text(f"{len(server.world.finished)} jobs", exact=True)).to_be_visible()


@pytest.mark.parametrize("server", ["large"], indirect=True)
def test_fifty_thousand_rows_are_scrolled_and_filtered(open_page: Open) -> None:
    page = open_page("#/jobs?sort=name")
    expect(page.get_by_text("50,000 jobs", exact=True)).to_be_visible(timeout=60_000)
    table = page.get_by_role("grid", name="Jobs")
    expect(table).to_have_attribute("aria-rowcount", "50001")
    assert table.get_by_role("row").count() < 60, "only the visible rows exist"
    first = names(page).first.inner_text()
    page.locator(".table-box").evaluate("(box) => { box.scrollTop = box.scrollHeight; }")
    expect(table.locator("tr[aria-rowindex='50001']")).to_be_visible()
    assert names(page).first.inner_text() > first
    page.get_by_role("searchbox", name="Find").fill("team-0500/")
    expect(page.get_by_text(re.compile(r"^\d\d jobs$"))).to_be_visible()


def asked(server: DevServer, name: str) -> list[object]:
    return [body for call, body in server.asked if call == name]


def test_a_job_is_held_released_and_cancelled_after_a_confirmation(open_page: Open, server: DevServer) -> None:
    page = open_page("#/job/vision/eval-nightly")
    page.get_by_role("button", name="Hold…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("vision/eval-nightly")
    dialog.get_by_role("button", name="Back").click()
    expect(dialog).to_have_count(0)
    assert asked(server, "act") == [], "nothing is done before it is confirmed"
    page.get_by_role("button", name="Hold…").click()
    page.get_by_role("button", name="Hold job").click()
    expect(page.get_by_text("hold: vision/eval-nightly")).to_be_visible()
    expect(page.locator(".title-line")).to_contain_text("Held")
    page.get_by_role("button", name="Release…").click()
    page.get_by_role("button", name="Release job").click()
    expect(page.locator(".title-line")).to_contain_text("Pending")
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("button", name="Cancel job").click()
    expect(page.get_by_role("button", name="Cancel…")).to_have_count(0)
    job = {"namespace": "vision", "name": "eval-nightly"}
    assert asked(server, "act") == [{"verb": verb, **job} for verb in ("hold", "release", "cancel")]


def test_several_jobs_are_cancelled_at_once(open_page: Open, server: DevServer) -> None:
    page = open_page("#/jobs?queue=speech&state=PENDING")
    page.get_by_role("checkbox", name="Select all jobs").check()
    expect(page.get_by_text("2 jobs selected")).to_be_visible()
    page.get_by_role("button", name="Cancel 2…").click()
    page.get_by_role("button", name="Cancel 2 jobs").click()
    expect(page.get_by_text("Cancel: done for 2 jobs.")).to_be_visible()
    expect(page.get_by_text("No job matches these filters")).to_be_visible()
    assert "speech/decode" not in server.world.jobs


def test_a_held_job_says_which_button_releases_it(open_page: Open) -> None:
    page = open_page("#/job/speech/sweep")
    why = page.get_by_role("region", name="Why", exact=True)
    expect(why).to_contain_text("Held. Press Release to queue it again.")
    assert "pykueue release" not in page.locator("main").inner_text()


def test_a_refused_act_says_why(open_page: Open, server: DevServer) -> None:
    server.refusals["act"] = (403, "user ann may not delete Jobs in namespace vision")
    page = open_page("#/job/vision/augment")
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("button", name="Cancel job").click()
    expect(page.get_by_text("Cancel failed for vision/augment: user ann may not delete")).to_be_visible()


@pytest.mark.parametrize(
    "part", [{"viewOnly": True}, {"can": {"cancel": False, "hold": False, "apply": False, "logs": True}}]
)
def test_nothing_is_offered_that_the_session_may_not_do(
    open_page: Open, server: DevServer, part: dict[str, object]
) -> None:
    server.world.meta |= part
    page = open_page("#/job/vision/augment")
    expect(page.get_by_role("region", name="Why", exact=True)).to_contain_text("It runs")
    assert page.get_by_role("button", name="…").count() == 0
    page.goto(server.url + "#/jobs")
    expect(names(page)).to_have_count(10)
    assert page.get_by_role("checkbox").count() == 0
