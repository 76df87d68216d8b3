"""What if jobs fill the disk? A real `pykueue up` on a small disk: objects can be deleted, and all works again."""

import json
import os
import re
import tempfile
from pathlib import Path

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
