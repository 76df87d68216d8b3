"""Does the auditor's command say what it found, and end accordingly?"""

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pykueue.audit.__main__ import main
from tests.audit.test_mutants import HISTORY, LEASE, less_quota, lines


def test_a_history_without_fault_ends_well() -> None:
    found = CliRunner().invoke(main, ["--history", str(HISTORY), "--lease", LEASE])
    assert (found.exit_code, found.output) == (0, "2894 events, 0 findings\n")


def test_a_history_with_a_fault_is_told_and_ends_badly(tmp_path: Path) -> None:
    history = lines()
    less_quota(history)
    file = tmp_path / "history.gz"
    with gzip.open(file, "wb") as out:
        out.writelines(json.dumps(line).encode() + b"\n" for line in history)
    found = CliRunner().invoke(main, ["--history", str(file)])
    assert found.exit_code == 1
    assert (
        "overuse: ClusterQueue alone: holds 4 cpu of flavor default but may hold only 3; caused by Workload "
        in found.output
    )


@pytest.mark.parametrize(
    "strategies", [["LessThanInitialShare"], ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]]
)
def test_the_strategies_of_fair_sharing_are_told_one_by_one(strategies: list[str]) -> None:
    options = [option for strategy in strategies for option in ("--fair-sharing", strategy)]
    found = CliRunner().invoke(main, ["--history", str(HISTORY), "--lease", LEASE, "--shares-first", *options])
    # The manager of this history shared in the classic way; whom it preempted is not judged by shares.
    assert "tournament" not in found.output
    assert "2894 events" in found.output


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(None, "give --kubeconfig to follow a cluster, or --history to check a recording", id="nothing"),
        pytest.param("current-context: x\ncontexts: []\n", "kubeconfig: there is no 'x'", id="no such context"),
    ],
)
def test_what_cannot_be_followed_is_said(text: str | None, says: str, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(text or "")
    found = CliRunner().invoke(main, ["--kubeconfig", str(file)] if text else [])
    assert found.exit_code != 0
    assert says in found.output
