"""What would happen? `pykueue preview` says it before it does, on one machine and on a cluster, and then it does."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders import cluster_queue, job, local_queue, pod_spec
from tests.e2e.aggregation import NAMESPACES, people, questioned
from tests.e2e.backend import on_plane
from tests.e2e.embedded import KUBECONFIG, InProcess
from tests.e2e.switchboard import Wanted
from tests.plane.client import Calls, Client

# The tests share a plane of their own, so one worker takes them all.
pytestmark = pytest.mark.xdist_group("preview")

FLAVOR = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "default"}}
HIGH = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "WorkloadPriorityClass",
    "value": 5,
    "metadata": {"name": "high"},
}


class Place:
    """Where commands are asked, and by whom."""

    def __init__(self, client: Calls, asks: Callable[[str, list[str]], tuple[int, str, str]], users: list[str]) -> None:
        self.client = client
        self.asks = asks
        self.users = users
        self.log: Callable[[], str] = str

    def preview(self, *words: str | Path, who: str = "admin", code: int = 0) -> str:
        """What a preview prints, errors included."""
        found, out, err = self.asks(who, ["preview", *map(str, words)])
        assert found == code, f"code {found}: {out}{err}{self.log()}"
        return out + err

    def status(self, *words: str | Path, who: str = "admin") -> Any:
        return json.loads(self.preview(*words, "-o", "json", who=who))

    def effects(self, *words: str | Path, who: str = "admin") -> list[tuple[str, str]]:
        found = self.status(*words, who=who).get("affected", [])
        return sorted((one.get("job") or one["workload"], one["effect"]) for one in found)


@contextlib.contextmanager
def on_a_cluster() -> Iterator[Place]:
    with questioned() as (plane, manager):
        files = people(plane)

        def asks(who: str, words: list[str]) -> tuple[int, str, str]:
            line = [sys.executable, "-m", "pykueue", *words, "--kubeconfig", str(files[who])]
            done = subprocess.run(line, check=False, capture_output=True, text=True)
            return done.returncode, done.stdout, done.stderr

        made = Place(plane.client, asks, [*files])
        made.log = lambda: "\n".join(manager.log.read_text(errors="replace").splitlines()[-30:])
        yield made


@contextlib.contextmanager
def on_one_machine() -> Iterator[Place]:
    with InProcess.started(Wanted("ours", "{}", "{}", (), False, True)) as backend:
        for name in NAMESPACES:
            backend.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

        def asks(_who: str, words: list[str]) -> tuple[int, str, str]:
            return backend.command([sys.executable, "-m", "pykueue", *words, "--kubeconfig", KUBECONFIG])

        yield Place(backend.client, asks, ["admin"])


def submit(client: Calls, name: str, namespace: str) -> None:
    client.create(job(name, "main", namespace, template={"spec": pod_spec("1")}, suspend=True))


def suspended(client: Calls, name: str, namespace: str) -> bool:
    return bool(client.get("Job", name, namespace)["spec"].get("suspend"))


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """Two jobs run, of two namespaces, and one waits."""
    with on_a_cluster() if on_plane() else on_one_machine() as found:
        client = found.client
        policy = {"withinClusterQueue": "LowerPriority"}
        for tree in (FLAVOR, HIGH, cluster_queue(cpu="2", preemption=policy)):
            client.create(tree)
        for name in NAMESPACES:
            client.create(local_queue("main", name))
        for name, namespace in (("a", "red"), ("b", "blue")):
            submit(client, name, namespace)
            assert client.soon(lambda: not suspended(client, name, namespace))  # noqa: B023
        # Creation has whole seconds, and decides who is first in line.
        client.sleep(1.1)
        submit(client, "c", "blue")
        assert client.soon(lambda: found.effects("--set", "cq/main.cpu=3") == [("c", "Starts")])
        yield found


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """A job of high priority that needs the whole queue."""
    tree = job("new", "main", template={"spec": pod_spec("2")})
    tree["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "high"
    file = tmp_path / "new.yaml"
    file.write_text(json.dumps(tree))
    return file


def test_a_job_says_who_would_leave_for_it(place: Place, new: Path) -> None:
    assert place.effects("-n", "red", "-f", new) == [
        ("a", "Evicted"),
        ("b", "Evicted"),
        ("c", "Moves"),
        ("new", "Starts"),
    ]
    told = place.preview("-n", "red", "-f", new, "--exit-code", code=3)
    assert "red/new goes before it in the same ClusterQueue and needs its room" in told
    assert "takes 2 cpu of flavor default in ClusterQueue main" in told


def test_a_job_that_can_never_start_says_so(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    file.write_text(json.dumps(job("large", "main", template={"spec": pod_spec("9")})))
    told = place.preview("-n", "red", "-f", file, "--exit-code", code=3)
    assert "can never start: asks for 9 cpu, this queue can have 2 at most" in told


def test_a_change_of_queues_says_who_would_run(place: Place, tmp_path: Path) -> None:
    assert "red/a" not in place.preview("--set", "clusterqueue/main.cpu=3", "--exit-code", code=4)
    assert "Nothing changes" in place.preview("--set", "clusterqueue/main.cpu=2", "--exit-code")
    assert place.effects("--drain", "clusterqueue/main") == [("a", "Evicted"), ("b", "Evicted"), ("c", "Blocked")]
    assert place.effects("--delete", "job/red/a") == [("a", "Deleted"), ("c", "Starts")]
    file = tmp_path / "queues.yaml"
    file.write_text(json.dumps(cluster_queue(cpu="4")))
    assert place.effects("-f", file) == [("c", "Starts")]
    # Nothing was changed.
    assert place.client.get("ClusterQueue", "main")["spec"].get("stopPolicy", "None") == "None"
    assert not suspended(place.client, "a", "red")


def test_waits_are_estimated(place: Place) -> None:
    assert "runs" not in place.status("--set", "clusterqueue/main.cpu=3")
    found = place.status("--set", "clusterqueue/main.cpu=3", "--waits")
    assert found["runs"] == 20
    [one] = found["affected"]
    assert (one["effect"], one["start"], one["waitSeconds"]) == ("Starts", found["at"], 0)
    assert one["waitSecondsBefore"] > 0
    assert "3 of 3 workloads declare no time limit" in found["notes"][-1]


def test_nonsense_is_refused_with_what_to_write(place: Place, tmp_path: Path) -> None:
    assert "did you mean main?" in place.preview("--set", "clusterqueue/mian.cpu=3", code=2)
    assert "did you mean cpu?" in place.preview("--set", "clusterqueue/main.cpus=3", code=2)
    assert "nominalQuota" in place.preview("--set", "clusterqueue/main.cpu=lots", code=2)
    file = tmp_path / "pod.yaml"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}))
    assert f"{file}: document 1: Pod p: kind: 'Pod' is not simulated" in place.preview("-f", file, code=2)
    file.write_text(json.dumps(job("j", "main", metadata={"annotations": {"x": "y" * 10_000_000}})))
    assert "more than 1024 KiB" in place.preview("-n", "red", "-f", file, code=2)


def test_a_user_sees_names_of_the_own_namespace_and_counts_of_others(place: Place, new: Path) -> None:
    if "user" not in place.users:
        pytest.skip("there is only one user here; tests/controllers/test_previews.py has others")
    # The roles of users are put together by a controller.
    assert Client.soon(lambda: place.asks("user", ["preview", "-n", "red", "-f", str(new)])[0] == 0)
    found = place.status("-n", "red", "-f", new, who="user")
    assert [(one["job"], one["effect"]) for one in found["affected"]] == [("a", "Evicted"), ("new", "Starts")]
    assert found["hidden"] == {"Evicted": 1, "Moves": 1}
    text = place.preview("-n", "red", "-f", new, who="user")
    assert "blue" not in text
    assert "2 of them are not shown" in text
    for words in (("--set", "clusterqueue/main.cpu=3"), ("-n", "blue", "-f", str(new))):
        assert "forbidden" in place.preview(*words, who="user", code=1)


def test_the_preview_comes_true(place: Place, new: Path) -> None:
    expected = place.effects("-n", "red", "-f", new)
    tree = json.loads(new.read_text())
    tree["metadata"]["namespace"] = "red"
    place.client.create({**tree, "spec": {**tree["spec"], "suspend": True}})
    client = place.client
    assert client.soon(lambda: not suspended(client, "new", "red"))
    assert all(suspended(client, name, space) for name, space in (("a", "red"), ("b", "blue"), ("c", "blue")))
    assert [name for name, effect in expected if effect == "Starts"] == ["new"]
