"""Who sees what of a preview? Names of workloads that the caller may list, and counts of the others."""

from collections.abc import AsyncIterable
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from pykueue.api.config.file import default_configuration
from pykueue.api.core import ObjectMeta
from pykueue.api.kueue import LocalQueue, LocalQueueSpec
from pykueue.api.previews import Affected, Effect, Preview, PreviewSpec, PreviewStatus, QueueChange
from pykueue.base.units import Instant
from pykueue.bridge.previews import Question
from pykueue.bridge.runtimes import JobKind, Learned, RunTimes
from pykueue.controllers.cluster import Cluster
from pykueue.controllers.queries.previews import BODY_MAX, Previews
from pykueue.controllers.queries.questions import Questions
from pykueue.controllers.queries.snapshots import framed
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Synced
from pykueue.jobs.batch import JobSpec, JobView
from pykueue.kube.aggregated import AggregatedCall, AggregatedError
from tests.controllers.queries.callers import Reader

ANSWER = PreviewStatus(
    affected=(
        Affected("red/a", Effect.EVICTED, clause="InClusterQueue", by="blue/b", reason="goes before it"),
        Affected("red/c", Effect.STARTS),
        Affected("blue/b", Effect.STARTS),
        Affected("blue/d", Effect.STARTS),
        Affected("green/e", Effect.MOVES),
        Affected("green/f", Effect.STARTS_LATER, start="2026-01-01T00:05:00Z", wait_seconds=300),
    ),
    more={"Moves": 3},
    queues=(QueueChange("main"), QueueChange("other")),
)


RUN_TIMES = RunTimes()
RUN_TIMES.add(JobKind("red/main", (("cpu", 1000),)), Instant(1), "uid", 30)


class Answered(Questions):
    """Has an answer, and keeps the question."""

    question: Question

    async def ask(self, user: str, question: AsyncIterable[bytes]) -> bytes:
        pieces = [piece async for piece in question]
        assert pieces[0] == b"preview\n"
        self.question = msgspec.msgpack.decode(pieces[1][len(framed(b"")) :], type=Question)
        return msgspec.json.encode(ANSWER)


class Kube:
    """Serves one ClusterQueue and nothing else."""

    async def get(self, resource: object, name: str, namespace: str = "") -> bytes:
        return msgspec.json.encode({"metadata": {"name": name}, "spec": {}})

    async def pages(self, resource: object, namespace: str = "") -> Any:
        yield b'{"items": [{"metadata": {"name": "high"}, "value": 3}]}' if namespace == "" else b'{"items": []}'


class Objects(dict[str, Any]):
    """What an informer knows."""

    @property
    def objects(self) -> "Objects":
        return self


def previews(asked: Questions) -> Previews:
    local = LocalQueue(metadata=ObjectMeta("main", "red"), spec=LocalQueueSpec(cluster_queue="main"))
    cluster = SimpleNamespace(
        reading=Kube(),
        settings=SimpleNamespace(loaded=default_configuration()),
        clock=SimpleNamespace(now=lambda: Instant(7)),
        workloads=Objects(),
        namespaces=Objects(),
        jobs=Objects(
            {
                "red/known": JobView(
                    metadata=ObjectMeta("known", "red", uid="1"), spec=JobSpec(active_deadline_seconds=60)
                )
            }
        ),
        run_times=RUN_TIMES,
        cohorts=Objects(),
        cluster_queues=Objects({"main": object(), "a": object(), "a.b": object()}),
        local_queues=Objects({"red/main": local}),
    )
    engine = Engine()
    engine.observe(Synced())
    return Previews(lambda: cast(Cluster, cluster), lambda: engine, asked, dict)


async def ask(user: Reader, spec: PreviewSpec, namespace: str = "red", asked: Questions | None = None) -> PreviewStatus:
    body = msgspec.json.encode(Preview(spec=spec))
    call = AggregatedCall("v1alpha1", "previews", namespace, "", user, {}, body)
    found = msgspec.json.decode(await previews(asked or Answered()).answer(call), type=Preview)
    assert (found.kind, found.api_version) == (
        "Preview" if namespace else "ClusterPreview",
        "query.pykueue.io/v1alpha1",
    )
    assert found.status is not None
    return found.status


async def test_a_user_of_one_namespace_sees_counts_of_the_others() -> None:
    found = await ask(Reader("red"), PreviewSpec())
    assert [one.workload for one in found.affected] == ["red/a", "red/c"]
    assert found.hidden == {"Starts": 2, "Moves": 1, "StartsLater": 1}
    assert found.count(Effect.MOVES) == 4
    assert "blue" not in msgspec.json.encode(found).decode()
    assert [one.name for one in found.queues] == ["main"]


async def test_who_may_list_everything_sees_everything() -> None:
    found = await ask(Reader("", queues=True), PreviewSpec())
    assert found.affected == ANSWER.affected
    assert (found.hidden, found.queues) == ({}, ANSWER.queues)


async def test_the_child_gets_what_the_changes_refer_to() -> None:
    asked = Answered()
    spec = PreviewSpec(({"kind": "Job", "metadata": {"name": "j"}},), set=("cq/a.b.cpu=1", "cq/no.cpu=1", "x"))
    await ask(Reader(""), spec, "", asked)
    found = [(one["kind"], one["metadata"]["name"]) for one in asked.question.objects]
    assert [one for one in found if one[0] == "ClusterQueue"] == [("ClusterQueue", "a.b"), ("ClusterQueue", "a")]
    assert ("WorkloadPriorityClass", "high") in found
    assert (asked.question.now, asked.question.namespace) == (7, "")
    # What is refused in the end is not read.
    await ask(Reader(""), spec, "red", asked)
    assert "ClusterQueue" not in {one["kind"] for one in asked.question.objects}
    assert asked.question.namespace == "red"


async def test_the_child_learns_which_names_of_new_jobs_are_taken() -> None:
    asked = Answered()
    jobs = tuple({"kind": "Job", "metadata": {"name": name}} for name in ("known", "new"))
    await ask(Reader(""), PreviewSpec(jobs), "red", asked)
    assert list(asked.question.jobs) == ["red/known"]


async def test_only_a_question_about_waits_is_sent_with_run_times() -> None:
    asked = Answered()
    await ask(Reader(""), PreviewSpec(), "red", asked)
    assert (asked.question.limits, asked.question.learned) == ({}, Learned())
    await ask(Reader(""), PreviewSpec(waits=True), "red", asked)
    assert asked.question.limits == {"1": 60}
    assert [one.seconds for one in asked.question.learned.kinds] == [(30,)]


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        pytest.param(b"{", 400, "this is no Preview", id="no JSON"),
        pytest.param(b'{"spec": {"objects": 7}}', 400, "$.spec.objects", id="wrong type"),
        pytest.param(b" " * (BODY_MAX + 1), 413, "larger than 1024 KiB", id="too large"),
        pytest.param(b'{"spec": {"delete": [%s"a"]}}' % (b'"a",' * 1000), 400, "in parts", id="too many"),
        pytest.param(b'{"spec": {"set": ["%s"]}}' % (b"." * 1001), 400, "in parts", id="too long"),
        pytest.param(b'{"spec": {"objects": [{"a": 18446744073709551616}]}}', 400, "too large", id="number"),
    ],
)
async def test_what_is_no_question_is_refused(body: bytes, code: int, words: str) -> None:
    call = AggregatedCall("v1alpha1", "previews", "red", "", Reader(), {}, body)
    with pytest.raises(AggregatedError) as caught:
        await previews(Answered()).answer(call)
    assert (caught.value.code, words in caught.value.message) == (code, True), caught.value.message
