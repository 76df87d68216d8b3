"""Does `pykueue resume` leave jobs alone that their owners hold?"""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.clusters import asked
from tests.fakes.tinyapi import in_background


@pytest.mark.parametrize("held", [True, False])
def test_a_workload_whose_job_is_held_is_released_not_resumed(tmp_path: Path, held: bool) -> None:
    workload: dict[str, Any] = {
        "metadata": {
            "name": "job-train-1",
            "namespace": "default",
            "annotations": {"pykueue.io/deactivated-by": "hold"} if held else {},
            "ownerReferences": [{"kind": "Job", "name": "train"}],
        },
        "spec": {"active": False},
    }
    with in_background() as api:
        api.objects["workloads"] = {"default/job-train-1": workload}
        done = asked(api, tmp_path, "resume workload job-train-1")
        active = api.objects["workloads"]["default/job-train-1"]["spec"]["active"]
    assert (done.exit_code, active) == ((1, False) if held else (0, True)), done.output
    if held:
        use = "`pykueue release train -n default`"
        assert done.stderr == f"workload job-train-1: its job is held by its owner; use {use}\n"
