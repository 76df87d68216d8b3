"""Does moving a quota show what would happen, and change nothing unless it is applied after a diff?"""

from playwright.sync_api import expect

from dashboard.dev.server import DevServer
from tests.browser.conftest import Open
from tests.browser.test_jobs import asked
from tests.patience import soon


def test_a_slider_previews_and_applies_nothing(open_page: Open, server: DevServer) -> None:
    page = open_page("#/whatif")
    page.get_by_role("combobox", name="Queue").select_option("speech")
    slider = page.get_by_role("slider").first
    slider.focus()
    for _ in range(4):
        slider.press("ArrowRight")
    expect(page.get_by_text("1 would be evicted, 1 would start, 3 would move in line.")).to_be_visible()
    assert asked(server, "preview")[-1] == {"set": ["clusterqueue/speech.cpu=12"], "delete": []}
    assert len(asked(server, "preview")) < 4, "a value that does not stay is not asked about"
    expect(page.get_by_role("row").filter(has_text="is evicted")).to_contain_text("vision/augment")
    expect(page.get_by_text("2 more jobs of others, whose names you may not read.")).to_be_visible()
    assert page.url.endswith("set=clusterqueue%2Fspeech.cpu%3D12")
    assert asked(server, "apply") == []
    page.get_by_role("button", name="reset").click()
    expect(page.get_by_text("Change something, and this says at once")).to_be_visible()


def test_limits_rules_and_other_fields_are_changed(open_page: Open, server: DevServer) -> None:
    page = open_page("#/whatif?queue=vision")
    page.get_by_role("textbox", name="Borrowing limit").first.fill("2")
    page.get_by_role("textbox", name="Borrowing limit").first.press("Enter")
    page.get_by_text("Rules", exact=True).click()
    page.get_by_role("combobox", name="Stopped").select_option("Hold")
    other = page.get_by_role("textbox", name="Another change")
    other.fill("nonsense")
    other.press("Enter")
    expect(page.get_by_text("Write a field and a value")).to_be_visible()
    other.fill("cohort/lab.cpu=4")
    other.press("Enter")
    expect(page.get_by_text("of 3 changes")).to_be_visible()
    sets = ["clusterqueue/vision.cpu.borrowingLimit=2", "clusterqueue/vision.stopPolicy=Hold", "cohort/lab.cpu=4"]
    assert asked(server, "preview")[-1] == {"set": sets, "delete": []}
    page.get_by_role("button", name="Remove cohort/lab.cpu=4").click()
    expect(page.get_by_text("of 2 changes")).to_be_visible()


def test_a_change_is_applied_after_its_diff(open_page: Open, server: DevServer) -> None:
    page = open_page("#/whatif?set=clusterqueue%2Fvision.cpu%3D12")
    page.get_by_role("button", name="Review and apply…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("region", name="Changes of vision")).to_contain_text("+  clusterqueue/vision.cpu=12")
    server.refusals["apply"] = (409, "ClusterQueue vision was changed meanwhile")
    dialog.get_by_role("button", name="Apply change").click()
    expect(dialog.get_by_role("alert")).to_contain_text("changed meanwhile. The diff below is new")
    assert soon(lambda: len(asked(server, "diff")) == 2)
    server.refusals.clear()
    dialog.get_by_role("button", name="Apply change").click()
    expect(page.get_by_text("ClusterQueue vision is changed")).to_be_visible()
    seen = {"clusterqueue/vision": "41"}
    assert asked(server, "apply") == [{"set": ["clusterqueue/vision.cpu=12"], "seen": seen}]
    expect(dialog).to_have_count(0)


def test_who_may_not_apply_can_still_preview(open_page: Open, server: DevServer) -> None:
    server.world.meta["can"]["apply"] = False
    page = open_page("#/whatif?set=clusterqueue%2Fvision.cpu%3D12")
    expect(page.get_by_text("1 would be evicted")).to_be_visible()
    expect(page.get_by_text("You may not change these objects.")).to_be_visible()
    assert page.get_by_role("button", name="Review and apply…").count() == 0


def test_a_mistake_is_shown_in_the_words_of_the_server(open_page: Open, server: DevServer) -> None:
    server.refusals["preview"] = (422, "there is no cpus in it; did you mean cpu?")
    page = open_page("#/whatif?set=clusterqueue%2Fvision.cpus%3D12")
    expect(page.get_by_role("alert").filter(has_text="did you mean cpu?")).to_be_visible()
    expect(page.get_by_role("button", name="Review and apply…")).to_be_disabled()


def test_the_result_of_an_older_value_is_marked(open_page: Open, server: DevServer) -> None:
    page = open_page("#/whatif?queue=vision&set=clusterqueue%2Fvision.cpu%3D12")
    result = page.get_by_role("region", name="What would happen")
    button = page.get_by_role("button", name="Review and apply…")
    expect(result).to_contain_text("1 would be evicted")
    expect(button).to_be_enabled()
    server.unanswered.add("preview")
    field = page.get_by_role("textbox", name="Nominal").first
    field.fill("13")
    field.press("Enter")
    expect(result).to_contain_text("Below is the result before your last change.")
    expect(button).to_be_disabled()
    server.unanswered.clear()
    expect(button).to_be_enabled()
    expect(result).not_to_contain_text("before your last change")


def test_who_may_not_preview_reads_one_sentence(open_page: Open, server: DevServer) -> None:
    server.world.meta["can"]["apply"] = False
    server.refusals["preview"] = (403, 'clusterpreviews.query.pykueue.io is forbidden: User "ann" cannot create')
    page = open_page("#/whatif?set=clusterqueue%2Fvision.cpu%3D12")
    expect(page.get_by_text("Only administrators can preview changes.")).to_be_visible()
    assert "forbidden" not in page.locator("main").inner_text()
