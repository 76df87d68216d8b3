"""Can everybody use the page: by keyboard alone, with a screen reader, in the dark, on a phone?"""

from typing import Any, Final

import pytest
from playwright.sync_api import Page, expect

from dashboard.dev.server import DevServer
from tests.browser.conftest import PHONE, Open
from tests.lacking import lacking
from tests.storyfile import ROOT

AXE: Final = ROOT / "dashboard/node_modules/axe-core/axe.min.js"
RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
VIEWS: Final = {
    "overview": "",
    "queue": "#/queue/vision",
    "job": "#/job/vision/pretrain-large",
    "what-if": "#/whatif?set=clusterqueue%2Fvision.cpu%3D12",
    "machine": "#/machine",
    "jobs": "#/jobs",
}


def settled(page: Page) -> None:
    page.wait_for_timeout(600)


def violations(page: Page) -> list[str]:
    if not AXE.is_file():
        lacking("axe-core is not installed; `make browser` installs it")
    page.evaluate(AXE.read_text())
    found: dict[str, Any] = page.evaluate("(tags) => axe.run(document, {runOnly: tags})", RULES)
    return [f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}" for one in found["violations"]]


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow("visits every view again"))])
def test_axe_finds_nothing_in_any_view(open_page: Open, server: DevServer, scheme: str) -> None:
    page = open_page(color_scheme=scheme)
    found = {}
    for name, address in VIEWS.items():
        page.goto(server.url + address)
        settled(page)
        found[name] = violations(page)
    page.get_by_role("checkbox").nth(1).check()
    page.get_by_role("button", name="Cancel 1…").click()
    found["dialog"] = violations(page)
    assert {name: some for name, some in found.items() if some} == {}


@pytest.mark.slow("visits every view again")
def test_axe_finds_nothing_on_a_phone_or_when_stale(open_page: Open, server: DevServer) -> None:
    page = open_page(viewport=PHONE)
    found = {}
    for name, address in VIEWS.items():
        page.goto(server.url + address)
        settled(page)
        found[name] = violations(page)
    server.stop()
    expect(page.get_by_text("Stale since")).to_be_visible()
    found["stale"] = violations(page)
    server.start()
    assert {name: some for name, some in found.items() if some} == {}


@pytest.mark.parametrize(
    "server", ["small", pytest.param("large", marks=pytest.mark.slow("draws 50,000 jobs"))], indirect=True
)
def test_a_phone_shows_everything_without_scrolling_sideways(open_page: Open, server: DevServer) -> None:
    page = open_page(viewport=PHONE)
    for name, address in VIEWS.items():
        page.goto(server.url + address)
        settled(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], name
    page.goto(server.url + "#/jobs")
    expect(page.get_by_role("grid", name="Jobs").locator("tbody").get_by_role("row").first).to_be_visible()
    page.goto(server.url)
    expect(page.get_by_role("grid", name="Cohorts and queues").locator("tbody .bar").first).to_be_visible()


def test_the_theme_follows_the_system_unless_it_is_chosen(open_page: Open) -> None:
    page = open_page(color_scheme="dark")

    def background() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    dark = background()
    page.get_by_role("combobox", name="Theme").select_option("Light")
    light = background()
    assert light != dark
    page.reload()
    expect(page.get_by_role("combobox", name="Theme")).to_have_value("light")
    assert background() == light
    page.get_by_role("combobox", name="Theme").select_option("Auto")
    assert background() == dark


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.innerText || document.activeElement.tagName"))


def test_everything_is_reached_by_keyboard(open_page: Open, server: DevServer) -> None:
    page = open_page()
    page.keyboard.press("Tab")
    assert focused(page) == "Skip to the content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert "Running" in focused(page), "the first link of the content"
    page.goto(server.url + "#/jobs?state=PENDING&sort=name")
    rows = page.get_by_role("grid", name="Jobs").locator("tbody").get_by_role("row")
    expect(rows).to_have_count(4)
    rows.first.focus()
    page.keyboard.press("ArrowDown")
    assert "speech/train-b" in focused(page)
    page.keyboard.press("End")
    assert "vision/pretrain-large" in focused(page)
    page.keyboard.press("Space")
    expect(page.get_by_text("1 job selected")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="vision/pretrain-large")).to_be_visible()


def test_a_dialog_keeps_the_focus_and_returns_it(open_page: Open, server: DevServer) -> None:
    page = open_page("#/job/vision/augment")
    button = page.get_by_role("button", name="Cancel…")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    for _ in range(6):
        page.keyboard.press("Tab")
        assert page.evaluate("!document.activeElement.closest('main') || !!document.activeElement.closest('dialog')")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(button).to_be_focused()
    assert [call for call, _ in server.asked if call == "act"] == []


def test_tabs_and_cohorts_follow_the_arrow_keys(open_page: Open, server: DevServer) -> None:
    page = open_page("#/job/vision/augment")
    page.get_by_role("tab", name="Pods").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Events")).to_be_focused()
    expect(page.get_by_role("tab", name="Events")).to_have_attribute("aria-selected", "true")
    page.goto(server.url + "#/")
    page.get_by_role("row").filter(has_text="lab").first.focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("button", name="lab")).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("button", name="lab")).to_have_attribute("aria-expanded", "true")
