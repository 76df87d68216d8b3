"""Does docs/provisioning.md work on one machine, word by word?"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GUIDE = ROOT / "docs" / "provisioning.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)

TOLD = (
    "waiting for admission checks: room: Capacity is not found, CA will try to find it later.",
    "capacity found",
    "Admission check cloud updated state from Pending to Retry with message: Retrying after failure: Attempt 1 fails",
    "on the second try",
    '"kubernetes.io/os":"linux"',
    '"autoscaling.x-k8s.io/provisioning-class-name":"scripted.pykueue.io"',
    'false: The workload is deactivated due to AdmissionCheck in Rejected state: "cloud" (Capacity is revoked,',
    'false: The workload is deactivated due to AdmissionCheck in Rejected state: "cloud" (no capacity within 3 s)',
    "10 of 10 workloads finished",
)


def test_the_guide_to_provisioning_shows_every_stage(tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    blocks = BLOCK.findall(GUIDE.read_text())
    assert len(blocks) > 6, "the guide shows how to do things in blocks marked sh"
    environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    environment |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    try:
        done = subprocess.run(
            ["bash", "-eu", "-c", "\n".join(blocks)],
            check=False,
            env=environment,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=180,
        )
    finally:
        with contextlib.suppress(FileNotFoundError):
            subprocess.run(
                ["pykueue", "down", "--data", str(tmp_path / "try")], env=environment, check=False, capture_output=True
            )
    assert done.returncode == 0, done.stdout[-6000:]
    for text in TOLD:
        assert text in done.stdout, f"not told: {text}\n{done.stdout[-6000:]}"
