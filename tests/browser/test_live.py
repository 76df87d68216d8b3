"""Does the page follow the server, say when it is stale, and return by itself?"""

import re

from playwright.sync_api import Browser, expect

from dashboard.dev.server import DevServer
from tests.browser.conftest import Open


def test_changes_arrive_without_a_reload(open_page: Open, server: DevServer) -> None:
    page = open_page("#/jobs")
    row = page.get_by_role("row").filter(has_text="pretrain-large")
    expect(row).to_contain_text("Pending")
    server.change(server.world.jobs["vision/pretrain-large"] | {"state": "RUNNING", "place": None, "reason": ""})
    expect(row).to_contain_text("Running")
    server.change(gone=("vision/pretrain-large",))
    expect(row).to_have_count(0)
    page.goto(server.url + "#/")
    expect(page.get_by_role("link", name="3 Pending")).to_be_visible()


def test_a_fresh_table_replaces_the_old_one(open_page: Open, server: DevServer) -> None:
    page = open_page("#/jobs")
    rows = page.get_by_role("grid", name="Jobs").locator("tbody").get_by_role("row")
    expect(rows).to_have_count(10)
    kept = server.world.jobs["vision/augment"]
    server.send("jobs", {"first": True, "rows": [kept], "more": True})
    server.send("jobs", {"first": False, "rows": [kept | {"name": "augment-2"}], "more": False})
    expect(rows).to_have_count(2)


def test_a_server_that_goes_away_and_returns(open_page: Open, server: DevServer) -> None:
    page = open_page()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    server.stop()
    banner = page.get_by_role("status").filter(has_text="Stale since")
    expect(banner).to_be_visible()
    expect(page.get_by_text("Stale", exact=True)).to_be_visible()
    expect(page.get_by_role("region", name="Is it full?")).to_contain_text("16.5 of 20")
    del server.world.jobs["vision/eval-nightly"]
    server.start()
    expect(banner).to_have_count(0)
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="3 Pending")).to_be_visible()


def test_a_page_is_live_only_once_it_has_the_data_of_its_new_connection(open_page: Open, server: DevServer) -> None:
    page = open_page()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    server.stop()
    expect(page.get_by_text("Stale", exact=True)).to_be_visible()
    server.unanswered.add("stream")
    with page.expect_response("**/ui/api/stream"):
        server.start()
    page.wait_for_timeout(500)
    expect(page.get_by_text("Stale", exact=True)).to_be_visible()
    server.unanswered.clear()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()


def test_nothing_can_be_done_while_the_page_is_out_of_date(open_page: Open, server: DevServer) -> None:
    page = open_page("#/job/vision/augment")
    button = page.get_by_role("button", name="Cancel…")
    expect(button).to_be_enabled()
    button.click()
    confirm = page.get_by_role("button", name="Cancel job")
    server.world.meta["stale"] = "the server does not respond; waiting for it"
    server.send("overview", server.world.overview())
    expect(confirm).to_be_disabled()
    page.keyboard.press("Escape")
    expect(button).to_be_disabled()
    page.goto(server.url + "#/whatif?set=clusterqueue%2Fvision.cpu%3D12")
    expect(page.get_by_text("1 would be evicted")).to_be_visible()
    expect(page.get_by_role("button", name="Review and apply…")).to_be_disabled()
    server.world.meta["stale"] = ""
    server.send("overview", server.world.overview())
    expect(page.get_by_role("button", name="Review and apply…")).to_be_enabled()
    page.goto(server.url + "#/job/vision/augment")
    expect(button).to_be_enabled()
    server.stop()
    expect(button).to_be_disabled()


def test_escape_ends_a_call_that_gets_no_answer(open_page: Open, server: DevServer) -> None:
    server.unanswered |= {"act", "apply"}
    page = open_page("#/job/vision/augment")
    page.get_by_role("button", name="Hold…").click()
    page.get_by_role("button", name="Hold job").click()
    expect(page.get_by_role("button", name="Working…")).to_be_visible()
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/act")):
        page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_text("Stopped waiting for the answer.")).to_be_visible()
    page.goto(server.url + "#/whatif?set=clusterqueue%2Fvision.cpu%3D12")
    page.get_by_role("button", name="Review and apply…").click()
    page.get_by_role("button", name="Apply change").click()
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/apply")):
        page.get_by_role("button", name="Stop waiting").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    server.unanswered.clear()


def test_a_command_that_was_ended_is_to_be_run_again(open_page: Open, server: DevServer) -> None:
    page = open_page()
    hint = page.get_by_text("If you ended pykueue dashboard, run it again.")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    server.stop()
    expect(page.get_by_text("Stale since")).to_be_visible()
    expect(hint).to_be_visible(timeout=60_000)
    server.start()
    page.get_by_role("button", name="Try now").click()
    expect(hint).to_have_count(0)


def test_the_reader_need_not_wait_for_the_next_attempt(open_page: Open, server: DevServer) -> None:
    page = open_page()
    server.refusals["stream"] = (503, "this replica does not lead")
    server.stop()
    server.start()
    expect(page.get_by_role("status").filter(has_text="this replica does not lead")).to_be_visible()
    server.refusals.clear()
    page.get_by_role("button", name="Try now").click()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()


def test_silence_is_a_lost_connection(open_page: Open, server: DevServer) -> None:
    page = open_page()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    page.clock.install()
    page.reload()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    server.refusals["stream"] = (503, "still starting")
    page.clock.run_for(41_000)
    expect(
        page.get_by_role("status").filter(has_text=re.compile("nothing for 40 seconds|still starting"))
    ).to_be_visible()


def test_a_server_that_has_lost_its_own_server_says_so(open_page: Open, server: DevServer) -> None:
    page = open_page()
    server.world.meta["stale"] = "the server does not respond; waiting for it"
    server.send("overview", server.world.overview())
    expect(page.get_by_role("status").filter(has_text="the server does not respond; waiting for it")).to_be_visible()


def test_a_manager_that_is_away_is_an_alert_and_nothing_can_be_applied(open_page: Open, server: DevServer) -> None:
    page = open_page("#/whatif?set=clusterqueue%2Fvision.cpu%3D12")
    button = page.get_by_role("button", name="Review and apply…")
    expect(button).to_be_enabled()
    server.world.meta["alert"] = "no manager is running: jobs are neither started nor stopped"
    server.send("overview", server.world.overview())
    expect(page.get_by_role("alert").filter(has_text="no manager is running")).to_be_visible()
    expect(button).to_be_disabled()
    server.world.meta["alert"] = ""
    server.send("overview", server.world.overview())
    expect(page.get_by_text("no manager is running")).to_have_count(0)
    expect(button).to_be_enabled()


def test_a_session_that_ends_says_how_to_open_another(open_page: Open, server: DevServer) -> None:
    page = open_page()
    server.refusals["stream"] = (401, "open the dashboard with `pykueue dashboard`")
    server.stop()
    server.start()
    expect(page.get_by_text("This session has ended")).to_be_visible()
    expect(page.get_by_text("Ended", exact=True)).to_be_visible()


def test_the_exchange_of_a_code_stores_the_key_and_opens_the_page(browser: Browser, server: DevServer) -> None:
    page = browser.new_page(locale="en-US")
    page.goto(server.url)
    expect(page.get_by_text("This session has ended")).to_be_visible()
    enter = "const form = document.createElement('form'); form.method = 'post'; form.action = '/ui/enter';"
    page.evaluate(f"{enter} document.body.append(form); form.submit();")
    expect(page.get_by_role("region", name="Is it full?")).to_be_visible()
    page.context.close()


def test_an_odd_locale_does_not_break_the_plot(browser: Browser, server: DevServer) -> None:
    # With LANG=C Chromium's language is `en-US@posix`, which Intl refuses.
    page = browser.new_page()
    page.add_init_script("Object.defineProperty(navigator, 'language', {get: () => 'en-US@posix'})")
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(server.url + "enter.css")
    page.evaluate("localStorage.setItem('pykueue-key', \"a key of the page's own storage\")")
    page.goto(server.url)
    expect(page.get_by_role("img", name="Plot of running and waiting jobs")).to_be_visible()
    expect(page.get_by_role("region", name="Is it full?")).to_be_visible()
    page.wait_for_timeout(500)
    assert problems == []
    page.context.close()
