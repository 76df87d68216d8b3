"""Does `pykueue eta` tell when a job starts, on a real server with real processes?"""

import json
from pathlib import Path

from tests.cli.machine import machine_in
from tests.patience import soon


def test_a_job_that_waits_is_estimated_and_one_that_runs_is_not(tmp_path: Path) -> None:
    with machine_in(tmp_path) as machine:
        machine.up()
        for name in ("first", "second"):
            flags = ("--name", name, "--cpus", "4", "--time", "10", "--detach")
            done = machine.run("run", "-q", "team-a", *flags, "--", "sleep", "600")
            assert done.returncode == 0, done.stderr
        assert soon(lambda: machine.run("eta", "first").stdout.startswith("first: has started at "))
        found = machine.run("eta", "second")
        assert found.returncode == 0, found.stderr
        assert found.stdout.startswith("second: starts "), found.stdout
        assert "time limit" not in found.stdout, "all declare one"
        status = json.loads(machine.run("eta", "second", "-o", "json").stdout)["items"][0]["status"]
        assert (status["state"], status["runs"], status["runsThatStart"], status["ahead"]) == ("Pending", 40, 40, 1)
        missing = machine.run("eta", "third")
        assert (missing.returncode, missing.stdout) == (1, "")
        assert "no job 'third'" in missing.stderr
