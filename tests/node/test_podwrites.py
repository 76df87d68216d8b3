"""Is the status of a pod written when it has changed, and only then?"""

from typing import Any

import pytest

from pykueue.base.units import Instant, Moment
from pykueue.kube.port import PODS, ConflictError
from pykueue.node.containers import Ending, Sandbox
from pykueue.node.podstatus import ContainerStatus, Running
from pykueue.node.podwrites import PodWrites, bare
from tests.fakes.faulty import Faulty
from tests.node.podhost import pod_api

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "default", "uid": "u"},
    "spec": {"containers": [{"name": "main"}], "restartPolicy": "Never"},
    "status": {"phase": "Pending", "reason": "Unschedulable"},
}
RUNS = {"main": ContainerStatus(Running(Instant(0)), ready=True, started=True)}


def stored(api: Faulty) -> dict[str, Any]:
    return api.at(PODS, "p", "default")


def begun() -> tuple[Faulty, Sandbox, PodWrites]:
    api = pod_api()
    sandbox = Sandbox("u", api.store(PODS, POD))
    return api, sandbox, PodWrites(api, api.clock)


async def test_what_has_not_changed_is_not_written() -> None:
    api, sandbox, writes = begun()
    await writes.write(sandbox, RUNS)
    assert stored(api)["status"]["phase"] == "Running"
    assert "reason" not in stored(api)["status"]
    for _ in range(3):
        await writes.write(sandbox, RUNS)
    assert [str(write) for write in api.writes] == ["patch pods/status"]


async def test_a_server_that_leaves_out_what_is_empty_is_not_written_to_again() -> None:
    api, sandbox, writes = begun()
    await writes.write(sandbox, RUNS)
    lean = {**stored(api), "status": bare(stored(api)["status"])}
    sandbox.pod = api.store(PODS, lean)
    await writes.write(sandbox, RUNS)
    assert [str(write) for write in api.writes] == ["patch pods/status"]


async def test_who_was_slower_tries_again_on_what_is_stored() -> None:
    api, sandbox, writes = begun()
    api.store(PODS, {**stored(api), "status": {"phase": "Pending", "qosClass": "Burstable"}})
    with pytest.raises(ConflictError):
        await writes.write(sandbox, RUNS)
    await writes.write(sandbox, RUNS)
    assert stored(api)["status"]["qosClass"] == "Burstable"
    assert stored(api)["status"]["phase"] == "Running"


@pytest.mark.parametrize("another", [True, False], ids=["another of its name", "none of its name"])
async def test_a_pod_that_is_not_there_any_more_is_gone(another: bool) -> None:
    api, sandbox, writes = begun()
    api.drop(PODS, "p", "default")
    if another:
        api.store(PODS, {**POD, "metadata": {**POD["metadata"], "uid": "v"}})
    await writes.write(sandbox, RUNS)
    assert sandbox.gone
    await writes.remove(sandbox)
    assert another == bool(api.all(PODS))


async def test_an_end_is_written_with_its_reason() -> None:
    api, sandbox, writes = begun()
    await writes.write(sandbox, {}, Ending(Moment(0), "Failed", "Why", "because"))
    status = stored(api)["status"]
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", "Why", "because")
    await writes.remove(sandbox)
    assert api.all(PODS) == {}
