"""Are Events stored as client-go stores them, and does nobody wait for them?"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from pykueue.api.core import ObjectMeta
from pykueue.base.clock import ManualClock
from pykueue.base.units import Instant
from pykueue.controllers import events
from pykueue.controllers.events import (
    BUFFER_BYTES,
    NOTE_BYTES_MAX,
    SERIES_IDLE,
    WAITING_BYTES,
    WAITING_PER_WRITER,
    WRITERS,
    WRITERS_MAX,
    Recorder,
    cut,
    ref,
)
from pykueue.kube.client.transport import CONNECTIONS_MAX
from pykueue.kube.port import CLUSTER_QUEUES, EVENTS, WORKLOADS, DeniedError, NotLeadingError, Ref
from tests.fakes.faulty import Faulty, Object, settle

ABOUT = ref(WORKLOADS, ObjectMeta(name="w", namespace="team", uid="u-1", resource_version="7"))


class Said:
    """A recorder and where its Events are stored."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Faulty(self.clock)
        self.store.namespaces("default", "n", "team")
        self.recorder = Recorder(self.store, self.clock, "host-1")
        self.recorder.dropped = self.drop
        self.dropped = 0

    def drop(self) -> None:
        self.dropped += 1

    def events(self) -> list[Object]:
        return list(self.store.all(EVENTS).values())


@asynccontextmanager
async def recording() -> AsyncIterator[Said]:
    said = Said()
    task = asyncio.ensure_future(said.recorder.run())
    await settle()
    try:
        yield said
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_event_looks_like_one_of_client_go() -> None:
    async with recording() as said:
        said.clock.time = Instant(1_800_000_000_123_456)
        said.recorder.normal(ABOUT, "Admitted", "Admitted by ClusterQueue q", "kueue-admission")
        await settle()
        (write,) = said.store.writes
        event = write.body
        assert event["metadata"]["name"] == f"w.{1_800_000_000_123_456_000:x}"
        assert event["metadata"]["namespace"] == "team"
        assert {key: value for key, value in event.items() if key not in ("metadata", "apiVersion", "kind")} == {
            "eventTime": "2027-01-15T08:00:00.123456Z",
            "reportingController": "kueue-admission",
            "reportingInstance": "kueue-admission-host-1",
            "action": "Admitted",
            "reason": "Admitted",
            "regarding": {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "Workload",
                "namespace": "team",
                "name": "w",
                "uid": "u-1",
                "resourceVersion": "7",
            },
            "note": "Admitted by ClusterQueue q",
            "type": "Normal",
        }


async def test_an_event_about_a_cluster_wide_object_is_kept_in_the_default_namespace() -> None:
    async with recording() as said:
        said.recorder.warning(ref(CLUSTER_QUEUES, ObjectMeta(name="q", uid="u-2")), "Odd", "odd", "kueue", "Looked")
        await settle()
        (event,) = said.events()
        assert event["metadata"]["namespace"] == "default"
        assert "namespace" not in event["regarding"]
        assert (event["action"], event["type"]) == ("Looked", "Warning")


async def test_what_is_said_again_becomes_a_series_in_few_writes() -> None:
    async with recording() as said:
        for _ in range(3):
            said.recorder.warning(ABOUT, "Pending", "no room", "kueue-admission")
            await said.clock.advance(1)
        (event,) = said.events()
        assert event["series"] == {"count": 2, "lastObservedTime": "2027-01-15T08:00:01.000000Z"}
        assert [write.verb for write in said.store.writes] == ["create", "patch"]
        for _ in range(20):
            said.recorder.warning(ABOUT, "Pending", "no room", "kueue-admission")
        await said.clock.advance(130)
        (event,) = said.events()
        assert event["series"]["count"] == 23
        assert len(said.store.writes) == 3


async def test_another_type_action_reason_reporter_or_object_is_another_event() -> None:
    other = ObjectMeta(name="w", namespace="team", uid="u-9", resource_version="7")
    newer = ObjectMeta(name="w", namespace="team", uid="u-1", resource_version="8")
    async with recording() as said:
        said.recorder.normal(ABOUT, "A", "one", "kueue")
        said.recorder.normal(ABOUT, "B", "one", "kueue")
        said.recorder.normal(ABOUT, "A", "one", "kueue-admission")
        said.recorder.normal(ABOUT, "A", "one", "kueue", "Looked")
        said.recorder.warning(ABOUT, "A", "one", "kueue")
        said.recorder.normal(ref(WORKLOADS, other), "A", "one", "kueue")
        said.recorder.normal(ref(WORKLOADS, newer), "A", "one", "kueue")
        await settle()
        assert len(said.events()) == 7
        assert len({event["metadata"]["name"] for event in said.events()}) == 7


async def test_another_note_is_the_same_event_with_the_note_of_the_first() -> None:
    async with recording() as said:
        for number in range(8):
            said.recorder.normal(ABOUT, "PreemptedWorkload", f"Preempted workload team/v{number}", "kueue-admission")
        await settle()
        (event,) = said.events()
        assert (event["note"], event["series"]["count"]) == ("Preempted workload team/v0", 8)


async def test_where_the_note_counts_another_one_is_another_event_and_the_version_does_not_matter() -> None:
    newer = ref(WORKLOADS, ObjectMeta(name="w", namespace="team", uid="u-1", resource_version="8"))
    async with recording() as said:
        said.recorder.normal(ABOUT, "A", "one", "kubelet", by_note=True)
        said.recorder.normal(ABOUT, "A", "two", "kubelet", by_note=True)
        said.recorder.normal(newer, "A", "one", "kubelet", by_note=True)
        await settle()
        assert [event.get("series", {}).get("count", 1) for event in said.events()] == [2, 1]


async def test_after_minutes_of_silence_the_same_is_news_again() -> None:
    async with recording() as said:
        said.recorder.normal(ABOUT, "A", "one", "kueue")
        await said.clock.advance(6 * 60 + 1)
        said.recorder.normal(ABOUT, "A", "one", "kueue")
        await settle()
        assert len(said.events()) == 2


async def test_a_series_whose_first_event_has_expired_begins_anew() -> None:
    async with recording() as said:
        said.recorder.normal(ABOUT, "A", "one", "kueue")
        await settle()
        (expired,) = said.events()
        said.store.drop(EVENTS, expired["metadata"]["name"], "team")
        said.recorder.normal(ABOUT, "A", "one", "kueue")
        await settle()
        (event,) = said.events()
        assert event["series"]["count"] == 2


async def test_more_than_the_buffer_holds_is_dropped_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "BUFFER_BYTES", 100 * (WAITING_BYTES + 1))
    async with recording() as said:
        with caplog.at_level(logging.WARNING):
            for number in range(150):
                said.recorder.normal(Ref("v1", "Pod", "n", f"p{number}", f"u{number}"), "A", "x", "kueue")
        assert said.dropped == 50
        assert len(caplog.records) == 1
        assert len(said.recorder.waiting) == len(said.recorder.recent) == 100
        await settle()
        assert (len(said.events()), said.recorder.waiting_bytes) == (100, 0)


async def test_ten_thousand_events_may_wait() -> None:
    assert BUFFER_BYTES // (WAITING_BYTES + NOTE_BYTES_MAX) > 10_000


async def test_an_event_that_waits_continues_its_series_however_many_others_follow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "SERIES_MAX", 3)
    async with recording() as said:
        for number in range(10):
            said.recorder.normal(Ref("v1", "Pod", "n", f"p{number}", f"u{number}"), "A", "x", "kueue")
        said.recorder.normal(Ref("v1", "Pod", "n", "p0", "u0"), "A", "x", "kueue")
        await settle()
        assert len(said.events()) == 10
        assert said.events()[0]["series"]["count"] == 2


async def test_an_event_that_waits_longer_than_a_series_may_rest_is_not_lost() -> None:
    said = Said()
    for _ in range(2):
        said.recorder.normal(ABOUT, "A", "one", "kueue")
        said.clock.time = Instant(said.clock.time + SERIES_IDLE + 1)
    size = said.recorder.waiting[next(iter(said.recorder.waiting))].size
    assert (len(said.recorder.waiting), said.recorder.waiting_bytes) == (1, size)
    task = asyncio.ensure_future(said.recorder.run())
    await settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [event["series"]["count"] for event in said.events()] == [2]


async def test_events_that_wait_when_the_time_to_stop_is_over_are_counted_as_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "DRAIN_SECONDS", 0.01)
    said = Said()

    async def never(*_: object) -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(said.store, "create", never)
    task = asyncio.ensure_future(said.recorder.run())
    await settle()
    for number in range(WRITERS + 5):
        said.recorder.normal(ABOUT, f"Reason{number}", "note", "kueue")
    await settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert said.dropped == 5


@pytest.mark.parametrize(
    ("count", "writers"),
    [
        pytest.param(WRITERS, WRITERS, id="none waits"),
        pytest.param(WRITERS + WAITING_PER_WRITER - 1, WRITERS, id="few wait"),
        pytest.param(WRITERS + WAITING_PER_WRITER * 40, WRITERS_MAX, id="thousands wait"),
    ],
)
async def test_the_more_events_wait_the_more_are_written_at_a_time(count: int, writers: int) -> None:
    async with recording() as said:
        in_flight: list[asyncio.Future[None]] = []

        def hold(call: str) -> asyncio.Future[None]:
            in_flight.append(asyncio.get_running_loop().create_future())
            return in_flight[-1]

        said.store.before = hold
        for number in range(WRITERS):
            said.recorder.normal(ABOUT, f"Reason{number}", "note", "kueue")
        await settle()
        for number in range(WRITERS, count):
            said.recorder.normal(ABOUT, f"Reason{number}", "note", "kueue")
        in_flight.pop().set_result(None)
        await settle()
        in_flight[:] = [write for write in in_flight if not write.done()]
        assert len(in_flight) == min(count - 1, writers)
        said.store.before = None
        for write in in_flight:
            write.set_result(None)
        await settle()
        assert len(said.events()) == count
        assert len(said.recorder.writers) == WRITERS
        said.recorder.normal(ABOUT, "Later", "note", "kueue")
        await settle()
        assert len(said.events()) == count + 1


def test_events_leave_connections_for_other_calls() -> None:
    assert WRITERS_MAX * 2 <= CONNECTIONS_MAX


async def test_events_that_wait_when_the_whole_process_is_cancelled_are_counted_as_dropped() -> None:
    async with recording() as said:
        for writer in said.recorder.writers:
            writer.cancel()
        await settle()
        said.recorder.normal(ABOUT, "A", "note", "kueue")
    assert said.dropped == 1


async def test_a_refused_event_is_lost_and_later_ones_are_stored(caplog: pytest.LogCaptureFixture) -> None:
    async with recording() as said:
        said.store.failures = [DeniedError("create events.events.k8s.io team", 403, "Forbidden", "may not")] * 2
        with caplog.at_level(logging.WARNING):
            said.recorder.normal(ABOUT, "A", "one", "kueue")
            said.recorder.normal(ABOUT, "B", "one", "kueue")
            await settle()
            said.recorder.normal(ABOUT, "A", "one", "kueue")
            await settle()
        (event,) = said.events()
        assert (event["reason"], "series" in event) == ("A", False)
        assert ["create events.events.k8s.io" in record.getMessage() for record in caplog.records] == [True]


async def test_who_no_longer_leads_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with recording() as said:
        said.store.failures = [NotLeadingError("create events", 0, "", "not leading")]
        with caplog.at_level(logging.WARNING):
            said.recorder.normal(ABOUT, "A", "one", "kueue")
            await settle()
        assert said.events() == []
        assert caplog.records == []


async def test_what_was_said_before_the_stop_is_still_stored() -> None:
    said = Said()
    task = asyncio.ensure_future(said.recorder.run())
    await settle()
    for number in range(WRITERS * 10):
        said.recorder.normal(ABOUT, f"Reason{number}", "note", "kueue")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(said.events()) == WRITERS * 10


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x" * 5000, id="plain letters"),
        pytest.param("é" * 600, id="two bytes each"),
        pytest.param("\U0001f600" * 400, id="four bytes each"),
    ],
)
def test_a_long_note_is_cut_and_says_so(text: str) -> None:
    short = cut(text)
    assert len(short.encode()) <= NOTE_BYTES_MAX
    assert short.endswith(" ...")
    assert text.startswith(short.removesuffix(" ..."))


@pytest.mark.parametrize("text", [pytest.param("", id="nothing"), pytest.param("é" * 512, id="as long as may be")])
def test_a_note_that_fits_stays(text: str) -> None:
    assert cut(text) == text


async def test_a_long_name_leaves_room_for_the_suffix() -> None:
    async with recording() as said:
        name = "a" * 230 + "." + "b" * 22
        said.recorder.normal(Ref("v1", "Pod", "n", name, "u"), "A", "x", "kueue")
        await settle()
        found = said.events()[0]["metadata"]["name"]
        assert len(found) <= 253
        assert msgspec.json.decode(msgspec.json.encode(found)) == found
        assert not found.startswith(name)
