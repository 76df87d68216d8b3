"""What if jobs fill the disk? A real `pykueue up` on a small disk: objects can be deleted, and all works again."""

import contextlib
import json
import os
import re
import tempfile
from pathlib import Path
from time import sleep

import pytest

from tests.cli.machine import machine_in
from tests.cli.test_up_faults import JOBS, MAPS, Site, config, job, mounted
from tests.patience import soon
from tests.plane.client import Tree

HOG = 'pwd > "$0"; while :; do cat /dev/zero >> filler 2> /dev/null; sleep 0.01; done'
"""Takes all the room there is, and whatever becomes free."""


def hog(name: str, where: Path) -> Tree:
    """A Job that fills the disk of its working directory, and says where that is."""
    made = job(name, "sh", "-c", HOG, str(where))
    del made["spec"]["template"]["spec"]["containers"][0]["workingDir"]
    return made


def created(site: Site, name: str) -> tuple[int, Tree]:
    return site.call("POST", MAPS, json.dumps(config(name)).encode())


def test_a_job_that_fills_the_disk_can_be_deleted(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "64m"), machine_in(tmp_path / "disk") as machine:
        machine.up("--on-stop", "terminate")
        site = Site(machine)
        for number in range(10):
            site.keep(f"map-{number}", 1000)
        site.client.create(hog("hog", tmp_path / "where"))
        assert soon(lambda: created(site, f"more-{os.urandom(4).hex()}")[0] == 503)
        code, said = created(site, "refused")
        assert (code, said["reason"]) == (503, "ServiceUnavailable")
        assert "is full but for a reserve that is kept for the database; delete objects or files" in said["message"]
        replaced = config("map-1", "y")
        assert site.call("PUT", f"{MAPS}/map-1", json.dumps(replaced).encode())[0] == 503
        with tempfile.TemporaryDirectory() as everybodys:
            Path(everybodys).chmod(0o777)
            for words in (("add", "nobody", "--out", f"{everybodys}/kubeconfig"), ("rotate", "admin")):
                done = machine.run("user", *words)
                assert done.returncode == 2
                assert re.search("full but for a reserve|cannot be written as this user: No space left", done.stderr)
                assert "Traceback" not in done.stderr
        for number in range(10):
            assert site.call("DELETE", f"{MAPS}/map-{number}")[0] == 200
        code, _ = site.call("DELETE", f"{JOBS}/hog?propagationPolicy=Background")
        assert code == 200
        assert soon(lambda: not site.pods("hog"))
        assert soon(lambda: created(site, f"again-{os.urandom(4).hex()}")[0] == 201)
        assert site.lives()
        site.client.close()


def test_jobs_on_a_disk_of_their_own_take_nothing_from_the_database(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    with mounted(scratch, "8m"), machine_in(tmp_path) as machine:
        scratch.chmod(0o755)
        machine.up("--on-stop", "terminate", "--scratch", str(scratch))
        site = Site(machine)
        site.client.create(hog("hog", tmp_path / "where"))
        assert soon((tmp_path / "where").exists)
        assert (tmp_path / "where").read_text().startswith(f"{scratch}/pykueue-")
        assert soon(lambda: os.statvfs(scratch).f_bavail == 0)
        assert created(site, "fine")[0] == 201
        assert site.call("DELETE", f"{JOBS}/hog?propagationPolicy=Background")[0] == 200
        assert soon(lambda: os.statvfs(scratch).f_bavail * os.statvfs(scratch).f_frsize > 7 << 20)
        site.client.close()
        machine.run("down")


@pytest.mark.parametrize("made", [False, True])
def test_a_folder_for_scratch_that_is_none(tmp_path: Path, made: bool) -> None:
    if made:
        (tmp_path / "none").touch()
    with machine_in(tmp_path) as machine:
        done = machine.run("up", "--port", "0", "--scratch", str(tmp_path / "none"))
    assert done.returncode == 2
    assert f"--scratch: {tmp_path}/none is not a writable directory; create it, or choose another" in done.stderr


def fat(name: str, namespace: str = "default") -> Tree:
    """A Job of half a megabyte that no scheduler takes, with more pods than the disk has room for."""
    made = job(name, "true", "x" * 100_000)
    containers = made["spec"]["template"]["spec"]["containers"]
    made["spec"]["template"]["spec"] |= {
        "schedulerName": "nobody",
        "containers": [{**containers[0], "name": f"c{number}"} for number in range(5)],
    }
    made["spec"] |= {"parallelism": 200, "completions": 200, "suspend": False}
    made["metadata"] |= {"namespace": namespace, "labels": {}}
    return made


def refused_pod(site: Site, name: str) -> bool:
    events = site.client.objects("Event", "default")
    return any(
        event["regarding"].get("name") == name
        and event["reason"] == "FailedCreate"
        and "is full but for a reserve" in event["note"]
        for event in events
    )


def some_pods(site: Site, name: str) -> list[Tree]:
    """One of the pods of a Job, if there are any: on a full disk, a long list breaks off if much changes meanwhile."""
    code, answer = site.call("GET", f"/api/v1/namespaces/default/pods?limit=1&labelSelector=job-name%3D{name}")
    found: list[Tree] = answer["items"] if code == 200 else [answer]
    return found


def filled(path: Path) -> None:
    """Let a file take the whole disk, and what supervisors that end give back a moment later."""
    with path.open("ab", buffering=0) as file:
        for _ in range(3):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(4096))
            sleep(0.5)


def test_a_job_whose_pods_fill_the_database_is_stopped_in_time_and_can_be_deleted(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "64m"), machine_in(tmp_path / "disk") as machine:
        machine.up("--on-stop", "terminate")
        site = Site(machine)
        for number in range(10):
            site.keep(f"map-{number}", 1000)
        site.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "crowd"}})
        site.client.create({**config("map"), "metadata": {"name": "map", "namespace": "crowd"}})
        site.client.create(fat("fat"))
        assert soon(lambda: refused_pod(site, "fat"))
        assert soon(lambda: created(site, f"more-{os.urandom(4).hex()}")[0] == 503)
        assert some_pods(site, "fat")
        site.client.close()
        # Whatever is left, somebody takes: a start needs the space that is kept for it.
        machine.run("down")
        filled(tmp_path / "disk" / "filler")
        done = machine.up("--on-stop", "terminate")
        assert "Note: the disk of the data directory is full except for the space reserved" in done.stdout
        site = Site(machine)
        assert created(site, "refused")[0] == 503
        for number in range(10):
            assert site.call("DELETE", f"{MAPS}/map-{number}")[0] == 200
        assert site.call("DELETE", "/api/v1/namespaces/crowd")[0] == 200
        assert soon(lambda: site.call("GET", "/api/v1/namespaces/crowd")[0] == 404)
        assert site.call("DELETE", f"{JOBS}/fat?propagationPolicy=Foreground")[0] == 200
        assert soon(lambda: not some_pods(site, "fat"), seconds=120)
        # Pages of the database are free again, though the disk is not.
        assert soon(lambda: created(site, f"again-{os.urandom(4).hex()}")[0] == 201)
        assert site.lives()
        site.client.close()
