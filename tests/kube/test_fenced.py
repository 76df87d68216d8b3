"""Are writes let through only while leading, and is each reported with how it ended?"""

import asyncio
from typing import Any

import pytest

from pykueue.kube.fenced import Fenced
from pykueue.kube.lease import Always
from pykueue.kube.port import (
    JOBS,
    WORKLOADS,
    ConflictError,
    DeniedError,
    ExistsError,
    GoneError,
    KubeError,
    NotFoundError,
    NotLeadingError,
    Patch,
    RejectedError,
    UnansweredError,
)


class Scripted:
    """An API whose writes end as a test says."""

    def __init__(self) -> None:
        self.error: BaseException | None = None

    async def answer(self, *_: Any, **__: Any) -> bytes:
        if self.error is not None:
            raise self.error
        return b"{}"

    create = patch = replace = delete = answer


def fenced() -> tuple[Scripted, Fenced, list[tuple[str, str, str]]]:
    kube, leadership = Scripted(), Always()
    leadership.leading = True
    made = Fenced(kube, leadership)  # type: ignore[arg-type]  # only what writes need
    told: list[tuple[str, str, str]] = []
    made.wrote = lambda *what: told.append(what)
    return kube, made, told


async def test_each_verb_is_reported() -> None:
    _, api, told = fenced()
    await api.create(JOBS, b"{}", "team")
    await api.patch(WORKLOADS, "w", b"{}", "team", how=Patch.MERGE)
    await api.replace(WORKLOADS, "w", b"{}", "team")
    await api.delete(JOBS, "j", "team")
    assert told == [
        ("Job", "create", "ok"),
        ("Workload", "patch", "ok"),
        ("Workload", "replace", "ok"),
        ("Job", "delete", "ok"),
    ]


@pytest.mark.parametrize(
    ("kind", "result", "doubted"),
    [
        pytest.param(ConflictError, "conflict", True, id="a conflict"),
        pytest.param(NotFoundError, "not_found", True, id="an object that is gone"),
        pytest.param(ExistsError, "exists", False, id="an object that exists"),
        pytest.param(DeniedError, "denied", False, id="no right"),
        pytest.param(RejectedError, "rejected", False, id="an invalid object"),
        pytest.param(UnansweredError, "unanswered", False, id="no answer"),
        pytest.param(GoneError, "error", False, id="anything else"),
    ],
)
async def test_a_failure_is_reported_with_its_kind(kind: type[KubeError], result: str, doubted: bool) -> None:
    kube, api, told = fenced()
    refused: list[str] = []
    api.refused = lambda _, key: refused.append(key)
    kube.error = kind("patch", 400, "Reason", "message")
    with pytest.raises(kind):
        await api.patch(WORKLOADS, "w", b"{}", "team", how=Patch.MERGE)
    assert told == [("Workload", "patch", result)]
    assert refused == (["team/w"] if doubted else [])


async def test_a_write_that_is_cancelled_is_reported() -> None:
    kube, api, told = fenced()
    kube.error = asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        await api.create(JOBS, b"{}", "team")
    assert told == [("Job", "create", "interrupted")]


async def test_what_is_not_sent_is_not_reported() -> None:
    _, api, told = fenced()
    assert isinstance(api.election, Always)
    api.election.leading = False
    with pytest.raises(NotLeadingError, match="nothing was sent"):
        await api.delete(JOBS, "j", "team")
    assert told == []
