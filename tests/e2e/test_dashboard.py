"""Does `pykueue dashboard` show a real cluster, to each user what their rights allow, and do what they may do?"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import commandpage
from tests.browser.chromium import required
from tests.browser.commandpage import apply_quota, base
from tests.builders import cluster_queue, job, local_queue, pod_spec
from tests.e2e.aggregation import NAMESPACES, people, questioned
from tests.e2e.backend import only_on_plane
from tests.plane.plane import Plane

only_on_plane("the page of one machine has tests of its own, in tests/browser")

# The tests share a plane of their own, so one worker takes them all.
pytestmark = pytest.mark.xdist_group("dashboard")

FLAVOR = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "default"}}
ABSENT = "The job is not among those that run or wait"


class Cluster:
    """A cluster with an administrator, and a user who may use one of two namespaces."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.kubeconfigs = people(plane)
        bound = ("--clusterrole=edit", "--serviceaccount=red:user")
        plane.kubectl("-n", "red", "create", "rolebinding", "edit", *bound)
        user = self.kubeconfigs["user"]
        plane.kubectl("config", "set-context", "--current", "--namespace=red", f"--kubeconfig={user}")
        plane.apply_all([FLAVOR, cluster_queue(cpu="2")])
        plane.apply_all([local_queue("main", name) for name in NAMESPACES])

    def submit(self, name: str, namespace: str, cpu: str) -> None:
        self.plane.client.create(job(name, "main", namespace, template={"spec": pod_spec(cpu)}, suspend=True))

    def is_suspended(self, name: str, namespace: str) -> bool:
        return bool(self.plane.client.get("Job", name, namespace)["spec"].get("suspend"))

    @contextmanager
    def page(self, who: str, browser: Browser) -> Iterator[Page]:
        """The page as a user opens it."""
        line = [sys.executable, "-m", "pykueue", "dashboard", "--no-browser"]
        process = subprocess.Popen(
            [*line, "--kubeconfig", str(self.kubeconfigs[who])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        with commandpage.opened(process, browser) as page:
            yield page


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One job of another team runs, and two wait."""
    with questioned() as (plane, _):
        made = Cluster(plane)
        made.submit("confidential", "blue", "2")
        assert plane.client.soon(lambda: not made.is_suspended("confidential", "blue"))
        made.submit("mine", "red", "1")
        # Creation has whole seconds, and decides who is first in line.
        plane.client.sleep(1.1)
        made.submit("second", "red", "1")
        yield made


@pytest.fixture
def browser() -> Iterator[Browser]:
    with required() as found:
        yield found


def test_a_user_sees_their_own_jobs_and_only_counts_of_others(cluster: Cluster, browser: Browser) -> None:
    with cluster.page("user", browser) as page:
        expect(page.get_by_role("region", name="Who waits longest, and why?")).to_contain_text("mine")
        page.goto(f"{base(page)}#/job/red/mine")
        why = page.get_by_role("region", name="Why", exact=True)
        expect(why).to_contain_text("needs 1 more cpu")
        for view in ("#/", "#/jobs", "#/queue/main", "#/job/red/mine", "#/whatif?set=clusterqueue%2Fmain.cpu%3D3"):
            page.goto(base(page) + view)
            expect(page.locator("main h1")).to_be_visible()
            page.wait_for_timeout(1000)
            assert "confidential" not in page.content(), view
        expect(page.get_by_role("button", name="Review and apply…")).to_have_count(0)
        page.goto(f"{base(page)}#/job/blue/confidential")
        expect(page.locator("main")).to_contain_text(ABSENT)


def test_a_user_cancels_their_own_job(cluster: Cluster, browser: Browser) -> None:
    cluster.submit("third", "red", "1")
    with cluster.page("user", browser) as page:
        page.goto(f"{base(page)}#/job/red/third")
        expect(page.locator(".title-line")).to_contain_text("Pending")
        page.get_by_role("button", name="Cancel…").click()
        page.get_by_role("button", name="Cancel job").click()
        # A cluster keeps no record of a Job that was deleted.
        expect(page.locator("main")).to_contain_text(ABSENT)
    assert "third" not in cluster.plane.kubectl("-n", "red", "get", "jobs", "-o", "name")


def test_an_administrator_previews_a_quota_and_applies_it(cluster: Cluster, browser: Browser) -> None:
    with cluster.page("admin", browser) as page:
        expect(page.get_by_role("region", name="Who waits longest, and why?")).to_contain_text("mine")
        page.goto(f"{base(page)}#/queue/main")
        expect(page.get_by_role("grid", name="Running jobs")).to_contain_text("confidential")
        apply_quota(page, "main", 3)
        page.goto(f"{base(page)}#/job/red/mine")
        expect(page.locator(".title-line")).to_contain_text("Running")
    assert not cluster.is_suspended("mine", "red")
    assert cluster.is_suspended("second", "red")


def test_the_page_says_when_the_cluster_is_gone_and_goes_on_when_it_is_back(cluster: Cluster, browser: Browser) -> None:
    with cluster.page("admin", browser) as page:
        cluster.plane.stop_apiserver()
        try:
            expect(page.get_by_role("status").filter(has_text="Stale since")).to_be_visible()
        finally:
            cluster.plane.start_apiserver()
            cluster.plane.await_ready()
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        cluster.submit("newcomer", "red", "1")
        page.goto(f"{base(page)}#/jobs")
        expect(page.get_by_role("grid", name="Jobs")).to_contain_text("newcomer")
