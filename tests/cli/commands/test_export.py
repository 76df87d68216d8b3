"""`pykueue export` moves a machine to another API server."""

import stat
from pathlib import Path

import yaml

from tests.cli.machine import machine_in


def test_what_is_exported_is_accepted_by_a_second_server(tmp_path: Path) -> None:
    lab = tmp_path / "lab.yaml"
    with machine_in(tmp_path / "one") as one:
        one.up()
        one.run("run", "-q", "team-a", "--cpu", "9", "--name", "waiting", "--detach", "--", "true")
        one.run("run", "-q", "team-a", "--name", "over", "--", "true")
        done = one.run("export", "--file", str(lab))
        assert done.returncode == 0, done.stderr
        assert "Job default/waiting: spec.template.spec.containers[0].image: 'local' is not an image; " in done.stderr
        assert one.run("export", "--file", str(lab)).returncode == 2
        strict = one.run("export", "--strict", "--only", "jobs")
        assert (strict.returncode, strict.stdout.count("kind: Job")) == (1, 1)
        assert one.run("export", "--strict", "--only", "queues").returncode == 0
    assert stat.S_IMODE(lab.stat().st_mode) == 0o600
    kinds = [(tree["kind"], tree["metadata"]["name"]) for tree in yaml.safe_load_all(lab.read_text())]
    assert ("ClusterQueue", "team-a") in kinds
    assert ("Job", "waiting") in kinds
    assert ("Job", "over") not in kinds
    with machine_in(tmp_path / "two") as two:
        done = two.run("up", "--detach", "--port", "0", "--cpus", "4", "--gpus", "0")
        assert done.returncode == 0, done.stderr
        two.kubectl("apply", "-f", str(lab))
        assert two.kubectl("get", "jobs", "-o", "name") == "job.batch/waiting\n"
        assert "waiting in team-a: can never start: asks for 9 cpu" in two.run("status").stdout
