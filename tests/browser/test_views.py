"""Do the views of a queue, of a job and of the machine show what the server knows?"""

import pytest
from playwright.sync_api import expect

from dashboard.dev import answers
from dashboard.dev.server import DevServer
from dashboard.dev.world import HOSTILE
from tests.browser.conftest import Open


def test_a_queue_shows_its_line_in_order_with_reasons_and_estimates(open_page: Open) -> None:
    page = open_page("#/queue/vision")
    rows = page.get_by_role("grid", name="Waiting jobs in order").locator("tbody").get_by_role("row")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("vision/pretrain-large")
    expect(rows.nth(0)).to_contain_text("needs 5 more cpu in flavor default")
    expect(rows.nth(1)).to_contain_text("vision/eval-nightly")
    expect(rows.nth(1).get_by_role("gridcell").nth(5)).to_contain_text(":")
    expect(page.get_by_role("grid", name="Running jobs").locator("tbody").get_by_role("row")).to_have_count(3)
    expect(page.get_by_text("speech leaves unused 1 cpu of flavor default")).to_be_visible()
    expect(page.get_by_text("takes its own quota back from those that borrow it")).to_be_visible()
    quota = page.get_by_role("region", name="Quota").get_by_role("row").nth(1).get_by_role("cell").all_inner_texts()
    assert quota == ["default", "cpu", "", "10", "8", "2", "8", "none"]


def test_no_estimate_is_asked_of_a_job_that_can_never_start(open_page: Open, server: DevServer) -> None:
    server.world.jobs["vision/pretrain-large"]["reason"] = "can never start: it asks for 64 cpu"
    page = open_page("#/queue/vision")
    rows = page.get_by_role("grid", name="Waiting jobs in order").locator("tbody").get_by_role("row")
    expect(rows.nth(1).get_by_role("gridcell").nth(5)).to_contain_text(":")
    expect(rows.nth(0).get_by_role("gridcell").nth(5)).to_have_text("never")
    assert [body["name"] for name, body in server.asked if name == "eta"] == ["eval-nightly"]


def test_nothing_is_claimed_about_quota_that_the_answer_does_not_mention(
    open_page: Open, server: DevServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    explained = answers.queue_explanation
    monkeypatch.setattr(answers, "queue_explanation", lambda name: {**explained(name), "borrowers": [], "lenders": []})
    page = open_page("#/queue/vision")
    borrows = page.get_by_role("region", name="Who borrows from whom")
    expect(borrows).to_contain_text("No other queue of its cohort borrows.")
    assert "unused" not in borrows.inner_text()
    page.goto(server.url + "#/queue/teaching")
    expect(borrows).to_contain_text("It is in no cohort")


def test_a_queue_that_does_not_exist_says_so(open_page: Open, server: DevServer) -> None:
    server.refusals["explain"] = (404, "there is no ClusterQueue nowhere")
    page = open_page("#/queue/nowhere")
    expect(page.get_by_role("heading", name="No queue nowhere")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("there is no ClusterQueue nowhere")
    assert "You may not read" not in page.locator("main").inner_text()
    server.world.meta |= {"readsQuotas": False, "home": "vision"}
    with page.expect_request("**/explain?kind=localqueue&namespace=vision&name=nowhere"):
        page.reload()
    expect(page.get_by_role("heading", name="No queue nowhere")).to_be_visible()


def test_a_job_that_has_quota_and_does_not_run_says_why(open_page: Open, server: DevServer) -> None:
    row = server.world.jobs["vision/augment"]
    assert row["state"] == "RUNNING"
    row["reason"] = "waits for a node: 1 Insufficient cpu"
    page = open_page("#/job/vision/augment")
    expect(page.locator(".facts")).to_contain_text("waits for a node: 1 Insufficient cpu")


def test_a_job_shows_why_it_waits_and_its_life(open_page: Open) -> None:
    page = open_page("#/job/vision/pretrain-large")
    why = page.get_by_role("region", name="Why", exact=True)
    expect(why).to_contain_text("Flavor default: it asks for 8 cpu, and 3 are free.")
    assert why.locator("li li li").inner_text().startswith("8 cpu are its own quota"), "a tree, not a list"
    expect(why).to_contain_text("nine of ten runs")
    life = page.get_by_role("region", name="Timeline", exact=True).locator("li strong")
    words = ["submitted", "queued", "quota reserved", "check", "started", "preempted", "queued again"]
    expect(life).to_have_text(words)
    expect(page.get_by_text("by Job speech/train-a")).to_be_visible()


def test_a_job_says_why_the_scheduler_did_not_answer(open_page: Open, server: DevServer) -> None:
    page = open_page("#/job/vision/pretrain-large")
    answer = {"lines": [], "object": {"tree": {"code": "x", "text": "PENDING: no room"}}}
    note = "the manager does not respond; showing the state of the object instead"
    page.route("**/explain?*", lambda route: route.fulfill(json=answer | {"note": note}))
    page.reload()
    why = page.get_by_role("region", name="Why", exact=True)
    expect(why).to_contain_text("PENDING: no room")
    expect(why).to_contain_text(note)


def test_a_job_shows_its_objects_and_its_output(open_page: Open) -> None:
    page = open_page("#/job/vision/augment")
    expect(page.get_by_role("tabpanel")).to_contain_text("augment-x7k2p")
    for tab, text in (
        ("Events", "Admitted by ClusterQueue vision"),
        ("Job", "kind: Job"),
        ("Workload", "kind: Workload"),
    ):
        page.get_by_role("tab", name=tab, exact=True).click()
        expect(page.get_by_role("tabpanel")).to_contain_text(text)
    page.get_by_role("tab", name="Logs").click()
    expect(page.get_by_role("region", name="Output of the job")).to_have_text("epoch 1 of augment\nloss 0.42 \n")


def test_logs_are_offered_only_where_they_can_be_read(open_page: Open, server: DevServer) -> None:
    server.world.meta["can"]["logs"] = False
    page = open_page("#/job/vision/augment")
    expect(page.get_by_role("tab", name="Pods")).to_be_visible()
    expect(page.get_by_role("tab", name="Logs")).to_have_count(0)


def test_a_finished_job_and_an_unknown_one(open_page: Open, server: DevServer) -> None:
    done = server.world.finished[0]
    page = open_page(f"#/job/{done['namespace']}/{done['name']}")
    expect(page.locator(".facts")).to_contain_text("Exit code")
    server.refusals["explain"] = (404, "there is no job gone")
    page.goto(server.url + "#/job/team/gone")
    expect(page.get_by_text("not among those that run or wait")).to_be_visible()
    expect(page.get_by_role("alert").first).to_contain_text("there is no job gone")


def test_the_machine_shows_who_uses_what(open_page: Open) -> None:
    page = open_page("#/machine")
    expect(page.get_by_role("heading", name="lab-1")).to_be_visible()
    expect(page.get_by_role("region", name="Cores")).to_contain_text("16.5 of 20 in use")
    expect(page.get_by_role("region", name="Disk")).to_contain_text("611Gi free")
    gpus = page.get_by_role("region", name="GPUs").get_by_role("listitem")
    expect(gpus.nth(1)).to_contain_text("bo vision/label-images")
    expect(gpus.nth(5)).to_contain_text("free")
    row = page.get_by_role("region", name="Users").get_by_role("row").filter(has_text="bo")
    assert row.get_by_role("cell").all_inner_texts() == ["bo", "2", "1", "6", "24Gi", "2"]


def test_a_cluster_has_no_view_of_a_machine(open_page: Open, server: DevServer) -> None:
    server.world.machine = None
    page = open_page("#/machine")
    expect(page.get_by_text("This page is of a cluster")).to_be_visible()
    expect(page.get_by_role("navigation").get_by_role("link", name="Machine")).to_have_count(0)


def test_an_address_that_leads_nowhere_says_so(open_page: Open) -> None:
    expect(open_page("#/nonsense").get_by_text("There is no such view")).to_be_visible()


@pytest.mark.parametrize("server", ["hostile"], indirect=True)
def test_names_from_data_stay_text(open_page: Open, server: DevServer) -> None:
    # `open_page` fails the test for dialogs, errors and violations of the Content-Security-Policy.
    page = open_page()
    views = ["", "#/jobs", "#/machine", "#/whatif"]
    views += [f"#/queue/{name}" for name in ("%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E", "abc%E2%80%AEgnp.exe")]
    views += ["#/job/team/0-%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E", f"#/job/team/4-{HOSTILE[4]}"]
    for view in views:
        page.goto(server.url + view)
        page.wait_for_timeout(400)
        counts = page.evaluate(
            "[...'img script iframe'.split(' ')].map((tag) => document.body.querySelectorAll(tag).length)"
        )
        assert counts == [0, 0, 0], view
        text = page.locator("body").inner_text()
        assert "\u202e" not in text, f"{view}: the direction of text is changed"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{view}: wider than the window"
        assert len(text) < 30_000, f"{view}: long names are cut"
    page.goto(server.url)
    expect(page.get_by_text("<img src=x onerror=alert(1)>").first).to_be_visible()
    expect(page.get_by_text("abc\\u202egnp.exe").first).to_be_visible()


def own_only(server: DevServer) -> None:
    """What a user gets who may list the jobs of one namespace only."""
    server.world.meta["namespace"] = "vision"
    for key in [key for key in server.world.jobs if not key.startswith("vision/")]:
        del server.world.jobs[key]


def test_a_machine_of_which_only_own_jobs_are_listed_claims_nothing_about_others(
    open_page: Open, server: DevServer
) -> None:
    own_only(server)
    machine = server.world.machine
    assert machine is not None
    machine["cpus"] = {"capacity": 20_000, "used": 16_500, "own": 10_000}
    machine["memory"] = {"capacity": 2**34, "used": None, "own": 2**33}
    machine |= {"gpus": machine["gpus"][:3] + machine["gpus"][4:], "gpusFree": None, "users": machine["users"][:2]}
    page = open_page("#/machine")
    cores = page.get_by_role("region", name="Cores")
    expect(cores).to_contain_text("16.5 of 20 in use")
    expect(cores).to_contain_text("3.5 free; 10 of what is in use is yours")
    memory = page.get_by_role("region", name="Memory")
    expect(memory).to_contain_text("Your jobs use 8Gi of 16Gi")
    expect(memory).not_to_contain_text("free")
    gpus = page.get_by_role("region", name="GPUs")
    expect(gpus).to_contain_text("3 of 5 yours")
    expect(gpus).not_to_contain_text("free")
    expect(page.get_by_role("region", name="Users")).to_contain_text("only those of namespace vision")


def test_a_queue_of_which_only_own_jobs_are_listed_counts_those_of_others(open_page: Open, server: DevServer) -> None:
    own_only(server)
    del server.world.jobs["vision/augment"]
    page = open_page("#/queue/vision")
    expect(page.get_by_role("region", name="Waiting, in order")).to_contain_text("2 of yours, 0 of others")
    expect(page.get_by_role("region", name="Running", exact=True)).to_contain_text("2 of yours, 1 of others")
    page.goto(server.url + "#/queue/speech")
    expect(page.get_by_text("None of your jobs waits in this queue; 2 jobs of others wait.")).to_be_visible()
