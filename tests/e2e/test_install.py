"""Does docs/install.md work, word by word, and do our manifests take the place of Kueue's?"""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pykueue.api.install.install import Install
from pykueue.api.install.manifests import manifests, rendered
from pykueue.kube.port import VALIDATING_WEBHOOKS, Resource
from tests.documents import commands
from tests.e2e.backend import only_on_plane
from tests.plane import stages
from tests.plane.plane import Plane, executables

GUIDE = "docs/install.md"
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True)

only_on_plane("it installs manifests on a cluster")


def sleeping() -> dict[str, object]:
    """The stage of a pod that ends when its `sleep` does, as it would on a real node."""
    container = ".spec.containers[0].command"
    made = stages.stage(
        "sleep", [stages.RUNNING, stages.reason("Started"), (f"{container}[0]", "In", ["sleep"])], stages.SUCCEEDED
    )
    made["spec"]["delay"] = {"durationFrom": {"expressionFrom": f"{container}[1]"}}
    return made


def test_the_guide_leads_from_nothing_to_a_job_that_came_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "STAGES", [*stages.STAGES, sleeping()])
    blocks = [block.text for block in commands(GUIDE) if block.language == "sh"]
    assert len(blocks) > 5, "the guide shows how to do things in blocks marked sh"
    with Plane.start() as plane:
        path = f"{Path(sys.executable).parent}:{plane.bin}:{os.environ['PATH']}"
        try:
            done = subprocess.run(
                ["bash", "-eux", "-c", "\n".join(blocks)],
                check=False,
                env={**os.environ, "PATH": path, "KUBECONFIG": str(plane.kubeconfig)},
                cwd=tmp_path,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=400,
            )
        finally:
            end(tmp_path / "pykueue.pid")
        told = done.stdout[-6000:] + (tmp_path / "pykueue.log").read_text()[-3000:]
        assert done.returncode == 0, told
        assert re.search(r"Preempted +workload/job-nightly-\S+ +Preempted to accommodate", done.stdout), told
        assert re.search(r"job.batch/nightly +Complete +4/4", done.stdout), told


def test_our_manifests_take_the_place_of_kueues_and_give_it_back() -> None:
    """Applied over one another, neither is in the other's way, and nothing of the other's manager is left."""
    built = executables("kueue")
    folder = built / "kueue" / "config" / "default"
    done = subprocess.run([built / "kubectl", "kustomize", folder], check=True, capture_output=True, text=True)
    theirs, ours = done.stdout, rendered(manifests(Install()))
    with Plane.start(pods=False) as plane:
        for text, command in ((theirs, ["/manager"]), (ours, ["pykueue"]), (theirs, ["/manager"]), (ours, ["pykueue"])):
            plane.kubectl("apply", "--server-side", "-f", "-", stdin=text)
            pod = plane.client.get(DEPLOYMENTS, "kueue-controller-manager", "kueue-system")["spec"]["template"]["spec"]
            (container,) = pod["containers"]
            assert container["command"] == command
        assert [volume["name"] for volume in pod["volumes"]] == ["manager-config", "tmp"]
        assert [port["name"] for port in container["ports"]] == ["webhook-server", "metrics", "visibility"]
        hooks = plane.client.get(VALIDATING_WEBHOOKS, "kueue-validating-webhook-configuration")["webhooks"]
        assert "vpod.kb.io" not in {hook["name"] for hook in hooks}


def end(file: Path) -> None:
    """End the manager that the guide has started, should it have been left running."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int(file.read_text()), signal.SIGKILL)
