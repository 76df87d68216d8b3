"""Does a played pod do what its annotations say?"""

import pytest

from pykueue.api.core import ObjectMeta
from pykueue.testing.script import (
    PREFIX,
    ConditionSeen,
    ContainerSeen,
    NextState,
    PodSeen,
    PodSpecSeen,
    PodStatusSeen,
    State,
    mistake,
    next_step,
    state_of,
    status_of,
)

SECOND = 1_000_000


def pod(state: State = State.NEW, *, deleted: bool = False, **said: str) -> PodSeen:
    annotations = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in said.items()}
    metadata = ObjectMeta(
        name="p", uid="u-1", annotations=annotations, deletion_timestamp="2027-01-15T08:00:00Z" if deleted else None
    )
    status = PodStatusSeen()
    if state in (State.SUCCEEDED, State.FAILED):
        status = PodStatusSeen(phase=state.value, pod_ip="10.0.0.1")
    elif state is not State.NEW:
        status = PodStatusSeen("Running", "10.0.0.1", None, (ConditionSeen("Ready", state.value),))
    return PodSeen(metadata=metadata, spec=PodSpecSeen("node", (ContainerSeen("main", "none"),)), status=status)


@pytest.mark.parametrize(
    ("seen", "then"),
    [
        pytest.param(pod(), NextState(State.STARTED), id="it is ready at once"),
        pytest.param(pod(ready_after="2s"), NextState(State.STARTING), id="it starts unready"),
        pytest.param(
            pod(State.STARTING, ready_after="2s"), NextState(State.STARTED, 2 * SECOND), id="and becomes ready"
        ),
        pytest.param(pod(State.STARTING, ready_after="never"), None, id="or never"),
        pytest.param(pod(State.STARTED), None, id="it runs until it is told otherwise"),
        pytest.param(pod(State.STARTED, run_for="3s"), NextState(State.SUCCEEDED, 3 * SECOND), id="it ends by itself"),
        pytest.param(pod(State.STARTED, run_for="3s", fail="true"), NextState(State.FAILED, 3 * SECOND), id="badly"),
        pytest.param(pod(State.STARTED, unready_after="1s"), NextState(State.LOST, SECOND), id="it stops being ready"),
        pytest.param(pod(State.LOST, unready_after="1s"), None, id="for good"),
        pytest.param(pod(State.LOST, recover_after="4s"), NextState(State.RECOVERED, 4 * SECOND), id="or for a while"),
        pytest.param(pod(State.RECOVERED, unready_after="1s", run_for="9s"), None, id="and does not succeed then"),
        pytest.param(pod(State.STARTED, now="succeeded"), NextState(State.SUCCEEDED), id="told to succeed"),
        pytest.param(
            pod(State.STARTING, ready_after="never", now="failed"), NextState(State.FAILED), id="told to fail"
        ),
        pytest.param(pod(State.STARTED, now="unready"), NextState(State.LOST), id="told not to be ready"),
        pytest.param(pod(State.LOST, now="unready"), None, id="told what it is already"),
        pytest.param(pod(State.LOST, now="ready"), NextState(State.RECOVERED), id="told to be ready"),
        pytest.param(pod(State.SUCCEEDED, now="failed"), None, id="what is over stays so"),
        pytest.param(pod(State.STARTED, deleted=True), NextState(State.GONE), id="deleted, it goes at once"),
        pytest.param(
            pod(State.STARTED, deleted=True, stop_for="5s"), NextState(State.GONE, 5 * SECOND), id="or slowly"
        ),
        pytest.param(pod(State.STARTED, run_for="soon"), None, id="what cannot be read is not there"),
    ],
)
def test_the_next_step_is(seen: PodSeen, then: NextState | None) -> None:
    assert next_step(seen) == then


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        pytest.param({"run-for": "3s", "fail": "true", "exit-code": "3", "ready-after": "never"}, "", id="nothing"),
        pytest.param({"run_for": "3s"}, "unknown script key 'run_for'", id="a word"),
        pytest.param({"stop-for": "bar"}, "stop-for: 'bar' is not a duration", id="a duration"),
        pytest.param({"run-for": 3}, "run-for: 3 is not a string", id="a number"),
        pytest.param({"now": "over"}, "now: unknown value 'over'", id="a command"),
        pytest.param({"fail": "false"}, "fail: 'false' is not 'true'", id="a switch"),
        pytest.param({"exit-code": "-1"}, "exit-code: '-1' is not a number", id="a code"),
    ],
)
def test_what_is_wrong_with_a_script(said: dict[str, str], wrong: str) -> None:
    assert mistake(said).startswith(wrong)
    assert bool(mistake(said)) == bool(wrong)


def test_another_prefix_speaks_of_other_pods() -> None:
    assert next_step(pod(State.STARTED, run_for="3s"), "e2e.pykueue.io/") is None


@pytest.mark.parametrize("state", [state for state in State if state not in (State.NEW, State.GONE)])
def test_a_status_says_the_state_that_it_was_made_for(state: State) -> None:
    before = pod(State.NEW, exit_code="3")
    status = status_of(before, state, "2027-01-15T08:00:00Z")
    conditions = status["conditions"]
    assert isinstance(conditions, list)
    seen = PodStatusSeen(
        str(status["phase"]),
        str(status["podIP"]),
        None,
        tuple(
            ConditionSeen(str(one["type"]), str(one.get("reason", ""))) for one in conditions if isinstance(one, dict)
        ),
    )
    assert state_of(PodSeen(status=seen)) is state
    containers = status["containerStatuses"]
    assert isinstance(containers, list)
    assert isinstance(containers[0], dict)
    running = containers[0]["state"]
    assert isinstance(running, dict)
    ended = running.get("terminated")
    code = ended["exitCode"] if isinstance(ended, dict) else None
    assert code == {State.SUCCEEDED: 0, State.FAILED: 3}.get(state)
