"""Do the annotations for hold and requeue turn into `spec.active`, once, and never undo what others decided?"""

from collections.abc import Mapping

import pytest

from pykueue.api.core import Tree
from pykueue.api.workload import Workload
from pykueue.jobs.actions import CreateWorkload, Notice, PatchJob, UpdateWorkload
from pykueue.jobs.activation import HELD, RELEASED, REQUEUED, activation
from pykueue.jobs.batch import JobView
from pykueue.jobs.plan import plan
from tests.jobs.objects import ADMITTED, NOW, RESERVED, condition, evicted, job, seen, workload

HOLD = {"pykueue.io/hold": "true"}
FIRST, SECOND = {"pykueue.io/requeue": "2026-11-16T10:00:00Z"}, {"pykueue.io/requeue": "2026-11-16T11:00:00Z"}
BY, DONE = "pykueue.io/deactivated-by", "pykueue.io/requeued"
ONE = {DONE: "2026-11-16T10:00:00Z"}
RUNS = (RESERVED, ADMITTED)
GONE = evicted("Deactivated", "The workload is deactivated")


def marked(*conditions: Tree, active: bool = True, marks: Mapping[str, str] = {}) -> Workload:
    return workload(*conditions, metadata={"annotations": {**marks}}, active=active)


def step(
    marks: Mapping[str, str | None], active: bool | None, notice: Notice | None
) -> tuple[Tree, tuple[Notice, ...]]:
    spec: Tree = {} if active is None else {"spec": {"active": active}}
    return {"metadata": {"annotations": {**marks}}, **spec}, () if notice is None else (notice,)


@pytest.mark.parametrize(
    ("wants", "found", "then"),
    [
        pytest.param({}, marked(*RUNS), None, id="nobody asks for anything"),
        pytest.param(HOLD, marked(), step({BY: "hold"}, False, HELD), id="a pending job is held"),
        pytest.param(HOLD, marked(*RUNS), step({BY: "hold"}, False, HELD), id="a running job is held"),
        pytest.param(HOLD, marked(active=False, marks={BY: "hold"}), None, id="a held job stays held"),
        pytest.param({"pykueue.io/hold": "no"}, marked(), None, id="any other value holds nothing"),
        pytest.param(HOLD, marked(active=False), None, id="what another has deactivated is not ours by a hold"),
        pytest.param(
            HOLD, marked(condition("DeactivationTarget", True)), None, id="nor what the scheduler is deactivating"
        ),
        pytest.param({}, marked(active=False), None, id="and is not activated by a release"),
        pytest.param(
            {},
            marked(GONE, active=False, marks={BY: "hold"}),
            step({BY: None}, True, RELEASED),
            id="a held job is released",
        ),
        pytest.param(
            {},
            marked(*RUNS, GONE, active=False, marks={BY: "hold"}),
            None,
            id="a release waits until the quota is free",
        ),
        pytest.param({}, marked(marks={BY: "hold"}), step({BY: None}, None, None), id="another has activated it"),
        pytest.param(HOLD, marked(marks={BY: "hold"}), step({BY: "hold"}, False, HELD), id="the owner still holds it"),
        pytest.param(
            FIRST, marked(*RUNS), step({**ONE, BY: "requeue"}, False, REQUEUED), id="a running job is requeued"
        ),
        pytest.param(FIRST, marked(*RUNS, marks=ONE), None, id="once for each value"),
        pytest.param(
            SECOND,
            marked(*RUNS, marks=ONE),
            step({DONE: "2026-11-16T11:00:00Z", BY: "requeue"}, False, REQUEUED),
            id="again for another value",
        ),
        pytest.param(
            FIRST,
            marked(*RUNS, active=False, marks={**ONE, BY: "requeue"}),
            None,
            id="it waits until the quota is free",
        ),
        pytest.param(
            FIRST,
            marked(GONE, active=False, marks={**ONE, BY: "requeue"}),
            step({BY: None}, True, None),
            id="then it is queued again",
        ),
        pytest.param(FIRST, marked(), step(ONE, None, None), id="a pending job is queued already"),
        pytest.param(FIRST, marked(*RUNS, evicted()), step(ONE, None, None), id="so is one that is being preempted"),
        pytest.param(FIRST, marked(active=False), step(ONE, None, None), id="a deactivated job is not queued again"),
        pytest.param(
            HOLD | FIRST,
            marked(active=False, marks={**ONE, BY: "requeue"}),
            step({BY: "hold"}, None, None),
            id="a hold during a requeue lasts",
        ),
        pytest.param(
            HOLD | FIRST, marked(*RUNS), step({**ONE, BY: "hold"}, False, HELD), id="a hold includes a requeue"
        ),
        pytest.param({"pykueue.io/requeue": "x" * 65}, marked(*RUNS), None, id="a value that is too long"),
    ],
)
def test_a_job_is(wants: dict[str, str], found: Workload, then: tuple[Tree, tuple[Notice, ...]] | None) -> None:
    expected = () if then is None else (UpdateWorkload(found, *then),)
    assert activation(job(annotations=wants), found) == expected


def after(found: Workload, *conditions: Tree, annotations: Tree, active: bool) -> Workload:
    kept = {**found.metadata.annotations, **{key: str(text) for key, text in annotations.items() if text is not None}}
    for key, text in annotations.items():
        if text is None:
            kept.pop(key, None)
    return marked(*conditions, active=active, marks=kept)


def test_a_requeue_that_is_interrupted_anywhere_evicts_once() -> None:
    asks, found = job(annotations=FIRST), marked(*RUNS)
    deactivated = 0
    # The engine evicts, then releases the quota, then admits again; each plan runs twice, as after a kill.
    for conditions in (RUNS, RUNS, (*RUNS, GONE), (*RUNS, GONE), (GONE,), (GONE,), RUNS, RUNS, RUNS):
        found = after(found, *conditions, annotations={}, active=found.spec.active)
        repeated = activation(asks, found)
        assert repeated == activation(asks, found)
        for one in repeated:
            assert isinstance(one, UpdateWorkload)
            spec, metadata = one.body.get("spec"), one.body["metadata"]
            assert isinstance(metadata, dict)
            marks = metadata["annotations"]
            assert isinstance(marks, dict)
            active = found.spec.active if not isinstance(spec, dict) else bool(spec["active"])
            deactivated += found.spec.active and not active
            found = after(found, *conditions, annotations=marks, active=active)
    assert deactivated == 1
    assert found.spec.active
    assert BY not in found.metadata.annotations


def test_a_job_that_is_submitted_held_has_an_inactive_workload_from_the_start() -> None:
    (action,) = plan(seen(job(annotations=HOLD | FIRST)), NOW)
    assert isinstance(action, CreateWorkload)
    spec, metadata = action.tree["spec"], action.tree["metadata"]
    assert isinstance(spec, dict)
    assert isinstance(metadata, dict)
    assert spec["active"] is False
    assert metadata["annotations"] == {BY: "hold", **ONE}


def test_an_admitted_job_is_held_before_it_starts() -> None:
    (action,) = plan(seen(job(annotations=HOLD), marked(*RUNS)), NOW)
    assert isinstance(action, UpdateWorkload)


def test_an_evicted_job_is_stopped_before_anything_else() -> None:
    running: JobView = job(annotations=FIRST, suspend=False, status={"startTime": "2026-01-01T11:30:00Z", "active": 3})
    first, *_ = plan(seen(running, marked(*RUNS, evicted())), NOW)
    assert isinstance(first, PatchJob)
