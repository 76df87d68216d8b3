"""Does `pykueue doctor` answer every input with findings or a clear sentence, and never with a traceback?"""

import csv
import io
import os
from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from pykueue.cli.main import cli
from tests.sim.builders import FLAVOR, job, queue
from tests.storyfile import ROOT

EXAMPLES = ROOT / "examples"
WRONG = FLAVOR + queue(cpu=0)
NOTED = FLAVOR + queue(cpu=4, cohortName="alone")


def doctor(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["doctor", *arguments], input=stdin)


def test_findings_fail_and_notes_do_not() -> None:
    found = doctor("-f", "-", stdin=WRONG)
    assert found.exit_code == 1
    assert "error  queue-nothing-fits  ClusterQueue main" in found.stdout
    assert "remedy: raise a nominalQuota" in found.stdout
    assert "see: docs/doctor.md#queue-nothing-fits" in found.stdout
    noted = doctor("-f", "-", stdin=NOTED)
    assert (noted.exit_code, "note  cohort-alone" in noted.stdout) == (0, True)
    clean = doctor("-f", "-", stdin=FLAVOR + queue())
    assert clean.exit_code == 0
    assert clean.stdout.startswith("Nothing found; ")


@pytest.mark.parametrize("folder", sorted(one.name for one in EXAMPLES.iterdir() if [*one.glob("*.yaml")]))
def test_the_examples_have_only_the_mistakes_that_they_show(folder: str) -> None:
    found = doctor("-f", str(EXAMPLES / folder), "-o", "name")
    meant = {"quickstart": ["request-never-fits"], "demo": ["request-never-fits"]}
    assert found.stdout.split() == meant.get(folder, [])
    assert found.stderr == ""


def test_every_format() -> None:
    tree = msgspec.json.decode(doctor("-f", "-", "-o", "json", stdin=WRONG).stdout)
    [item] = tree["items"]
    assert item.keys() == {"id", "severity", "object", "message", "remedy", "docs", "where"}
    assert (item["severity"], item["where"]) == ("error", "<stdin>: document 2")
    assert "clocks-apart" in [one["id"] for one in tree["notRun"]]
    assert yaml.safe_load(doctor("-f", "-", "-o", "yaml", stdin=WRONG).stdout) == tree
    [headers, row] = csv.reader(io.StringIO(doctor("-f", "-", "-o", "csv", stdin=WRONG).stdout))
    assert dict(zip(headers, row, strict=True))["ID"] == "queue-nothing-fits"
    wide = doctor("-f", "-", "-o", "wide", stdin=WRONG).stdout.splitlines()
    assert [line.split()[0] for line in wide] == ["SEVERITY", "error"]
    assert doctor("-f", "-", "-o", "name", stdin=WRONG).stdout == "queue-nothing-fits\n"


def test_a_skipped_check_finds_nothing() -> None:
    assert doctor("-f", "-", "--skip", "queue-nothing-fits", stdin=WRONG).exit_code == 0
    wrong = doctor("-f", "-", "--skip", "queue-nothing-fit", stdin=WRONG)
    assert wrong.exit_code == 2
    assert "did you mean queue-nothing-fits?" in wrong.stderr


def test_files_and_a_server_exclude_each_other() -> None:
    found = doctor("-f", "-", "--context", "lab", stdin=WRONG)
    assert found.exit_code == 2
    assert "without a server" in found.stderr


def test_what_is_taken_to_be_elsewhere_is_said() -> None:
    found = doctor("-f", "-", stdin=job("a"))
    assert found.exit_code == 0
    assert "not checked, because the manifests contain no LocalQueue: localqueue-missing" in found.stderr


def test_unreadable_files_are_named_and_the_others_examined(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(os.urandom(64) + b"\xff\xfe")
    (tmp_path / "values.yaml").write_text("replicas: 3\n")
    (tmp_path / "broken.yaml").write_text("a: [1\nb: 2\n")
    (tmp_path / "empty.yaml").write_text("")
    (tmp_path / "queues.yaml").write_text(WRONG)
    (tmp_path / "none").mkdir()
    found = doctor("-f", str(tmp_path), "-f", str(tmp_path / "none"), "-f", str(tmp_path / "missing.yaml"))
    assert found.exit_code == 2
    assert "queue-nothing-fits" in found.stdout
    lines = found.stderr.splitlines()
    for name, words in {
        "binary.yaml": "not UTF-8",
        "values.yaml": "apiVersion or kind is missing",
        "broken.yaml": "not YAML",
        "empty.yaml": "holds no object",
        "none": "contains no manifests",
        "missing.yaml": "No such file or directory",
    }.items():
        assert [line for line in lines if name in line and words in line], (name, found.stderr)
    assert all(line.startswith(("Error: ", "not checked, ")) for line in lines)


def test_ten_megabytes(tmp_path: Path) -> None:
    text = tmp_path / "text.json"
    text.write_text('{"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "' + "x" * 10_000_000 + '"}}')
    assert doctor("-f", str(text)).exit_code == 0
    deep = tmp_path / "deep.yaml"
    deep.write_text("a: " + "[" * 10_000_000)
    found = doctor("-f", str(deep))
    assert found.exit_code == 2
    assert found.stderr.startswith("Error: ")
    assert "Traceback" not in found.output


def test_other_kinds_are_passed_over() -> None:
    others = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Secret\n"
    found = doctor("-f", "-", stdin=others + "---\n" + FLAVOR + queue())
    assert (found.exit_code, found.stderr) == (0, "")


def test_hostile_names_are_escaped() -> None:
    hostile = FLAVOR + queue().replace("name: main", 'name: "a\\e[31mb"')
    for output in ((), ("-o", "wide"), ("-o", "csv"), ("-o", "json"), ("-o", "yaml")):
        found = doctor("-f", "-", *output, stdin=hostile)
        assert found.exit_code == 1
        assert "\x1b" not in found.output


def test_checks_that_were_not_run_are_named_with_the_reason() -> None:
    text = doctor("-f", "-", "--skip", "flavor-unused", stdin=WRONG).stdout
    told = dict(line.split(": ") for line in text.splitlines() if line.startswith("Not run, "))
    assert told["Not run, because of --skip"] == "flavor-unused."
    assert "clocks-apart" in told["Not run, because they require a cluster"]


def test_without_priority_classes_a_policy_about_priorities_is_no_mistake() -> None:
    text = FLAVOR + queue(preemption="{withinClusterQueue: LowerPriority}") + job("a")
    assert "priorities-equal" not in doctor("-f", "-", "-o", "name", stdin=text).stdout
