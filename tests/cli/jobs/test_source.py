"""Which jobs are listed, and what is said where an owner cannot be known?"""

from typing import Any

import pytest

from pykueue.api.jobsummary import JobState, JobSummary
from pykueue.base.clock import START
from pykueue.cli.jobs import source
from pykueue.cli.jobs.listing import NO_OWNERS, Listing, show
from pykueue.cli.jobs.rows import columns
from pykueue.cli.jobs.source import Asked, OwnersUnknownError, chosen_of_cluster

MINE = Asked("default", "default", owner="ann")


def row(name: str, owner: str = "") -> JobSummary:
    return JobSummary(namespace="default", name=name, state=JobState.PENDING, owner=owner)


def test_without_recorded_owners_nobody_has_jobs_of_their_own() -> None:
    with pytest.raises(OwnersUnknownError):
        chosen_of_cluster([row("a")], MINE)
    assert chosen_of_cluster([row("a")], Asked("default", "default")) == (row("a"),)
    assert chosen_of_cluster([], MINE) == ()
    assert chosen_of_cluster([row("a"), row("b", "ann")], MINE) == (row("b", "ann"),)
    assert columns([row("a")], None, START, all_namespaces=False)[2].cell(row("a")) == "-"


@pytest.mark.parametrize("finished", [False, True])
async def test_that_is_said_and_no_table_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], finished: bool
) -> None:
    async def unknown(*_: object) -> Any:
        raise OwnersUnknownError

    async def ann(_: object) -> str:
        return "ann"

    monkeypatch.setattr(source, "active", unknown)
    monkeypatch.setattr(source, "finished", unknown)
    monkeypatch.setattr(source, "who_am_i", ann)
    with pytest.raises(SystemExit) as ended:
        await show(None, Listing(MINE, mine=True, finished=finished))  # type: ignore[arg-type]  # nothing is asked
    assert ended.value.code == 1
    assert capsys.readouterr() == ("", f"{NO_OWNERS}\n")
