"""Is the owner found that a job belongs to, and is the way up never endless?"""

import msgspec
import pytest

from pykueue.api.core import Tree
from pykueue.base.clock import ManualClock
from pykueue.controllers.ancestors import Ancestors, known_kinds
from pykueue.jobs.batch import JobView, read_job
from pykueue.jobs.seen import Ancestor, Ancestry
from pykueue.kube.port import DeniedError, KubeError, Resource
from tests.fakes.faulty import Faulty, settle

JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", True)
QUEUE = "kueue.x-k8s.io/queue-name"


def owner(name: str, kind: str = "Job", version: str = "batch/v1") -> Tree:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


def tree(name: str, above: Tree | None = None, queue: str = "") -> Tree:
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "labels": {QUEUE: queue} if queue else {},
            "ownerReferences": [above] if above else [],
        }
    }


def job(name: str, above: Tree | None = None, queue: str = "") -> JobView:
    return read_job(msgspec.json.encode(tree(name, above, queue)))


def cluster(*trees: Tree) -> Faulty:
    """An API with JobSets."""
    api = Faulty(ManualClock())
    api.serve(JOB_SETS)
    for one in trees:
        api.store(JOB_SETS, one)
    return api


async def found(
    one: JobView, *jobs: JobView, api: Faulty | None = None, queueless: bool = False, admitted: bool = False
) -> Ancestry:
    held = {f"team/{each.name}": each for each in jobs}
    ancestors = Ancestors(
        api or cluster(),
        {("batch", "Job"): held.get},
        lambda _kind, _key: admitted,
        external=("Flow.v1.example.com",),
        queueless=queueless,
    )
    await settle()
    return await ancestors.of(one)


@pytest.mark.parametrize(
    ("one", "jobs", "top"),
    [
        pytest.param(job("a"), (), None, id="no owner"),
        pytest.param(job("a", owner("c", "CronJob")), (), None, id="an owner of a kind that is not looked at"),
        pytest.param(job("a", owner("b")), (job("b"),), None, id="an owner without a queue"),
        pytest.param(job("a", owner("b")), (job("b", queue="q"),), "q", id="an owner with a queue"),
        pytest.param(
            job("a", owner("b")), (job("b", owner("c"), "q"), job("c", queue="top")), "top", id="the topmost of two"
        ),
        pytest.param(
            job("a", owner("b")), (job("b", owner("c")), job("c", queue="top")), "top", id="above one without a queue"
        ),
        pytest.param(job("a", owner("b")), (job("b", owner("c"), "q"), job("c")), "q", id="below one without a queue"),
    ],
)
async def test_the_owner_that_counts_is(one: JobView, jobs: tuple[JobView, ...], top: str | None) -> None:
    assert await found(one, *jobs) == Ancestry(None if top is None else Ancestor(top, admitted=False))


async def test_every_owner_counts_when_jobs_without_a_queue_are_ours() -> None:
    assert await found(job("a", owner("b")), job("b"), queueless=True, admitted=True) == Ancestry(Ancestor("", True))


async def test_an_owner_of_the_same_name_that_is_another_does_not_count() -> None:
    reference = {**owner("b"), "uid": "older"}
    assert await found(job("a", reference), job("b", queue="q")) == Ancestry()


async def test_an_owner_that_is_gone_is_missing() -> None:
    assert await found(job("a", owner("b"))) == Ancestry(missing=True)


async def test_the_way_up_has_ten_steps() -> None:
    chain = [job(f"j{n}", owner(f"j{n + 1}") if n < 12 else None, "q") for n in range(1, 13)]
    assert (await found(job("a", owner("j2")), *chain)).too_deep
    assert await found(job("a", owner("j3")), *chain) == Ancestry(Ancestor("q", admitted=False))


async def test_a_circle_is_no_way_up() -> None:
    circle = [job("b", owner("c"), "q"), job("c", owner("b"), "q")]
    assert (await found(job("a", owner("b")), *circle)).too_deep


async def test_the_way_leads_through_kinds_that_are_not_queued_here_and_is_remembered() -> None:
    api = cluster(tree("set", owner("top")))
    above = owner("set", "JobSet", "jobset.x-k8s.io/v1alpha2")
    ancestors = Ancestors(
        api,
        {("batch", "Job"): {"team/top": job("top", queue="q")}.get},
        lambda _kind, _key: True,
    )
    await settle()
    for _ in range(2):
        assert await ancestors.of(job("a", above)) == Ancestry(Ancestor("q", admitted=True))
    assert api.calls == ["get jobsets set"]


@pytest.mark.parametrize(
    "fails",
    [
        pytest.param(None, id="is gone"),
        pytest.param(DeniedError("get", 403, "Forbidden", "may not"), id="may not be looked at"),
    ],
)
async def test_the_way_ends_at_an_owner_of_another_kind_that(fails: KubeError | None) -> None:
    above = owner("set", "JobSet", "jobset.x-k8s.io/v1alpha2")
    api = cluster()

    def before(what: str) -> None:
        if fails is not None:
            raise fails

    api.before = before
    assert await found(job("a", above), api=api) == Ancestry()
    assert api.calls == ["get jobsets set"]


def test_kinds_are_known_by_group_and_name() -> None:
    known = known_kinds(("Flow.v1.example.com",))
    assert {("batch", "Job"), ("", "Pod"), ("apps", "ReplicaSet"), ("example.com", "Flow")} <= known
    assert ("batch", "CronJob") not in known
