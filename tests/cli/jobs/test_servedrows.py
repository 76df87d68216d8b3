"""What has changed from one list of jobs to the next?"""

import msgspec

from pykueue.api.jobsummary import SUMMARIES, JobState, JobSummary
from pykueue.apiserver.http.ownapi import list_response
from pykueue.cli.jobs.servedrows import STEP_ROWS, RowChanges, ServedRows, split_place


def row(name: str, **more: object) -> JobSummary:
    given: dict[str, object] = {"namespace": "n", "name": name, "state": JobState.PENDING, **more}
    return msgspec.convert(given, JobSummary)


def listed(*rows: JobSummary) -> bytes:
    """A list as the server sends it: the place comes last."""
    bodies = []
    for one in rows:
        body = msgspec.json.encode(msgspec.structs.replace(one, place=None))
        bodies.append(body if one.place is None else b'%b,"place":%d}' % (body[:-1], one.place))
    found = list_response(SUMMARIES, bodies).body
    assert isinstance(found, bytes)
    return found


def taken(known: ServedRows, body: bytes) -> RowChanges:
    work = known.take(body)
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: RowChanges = end.value
            return found


def test_rows_that_come_change_move_and_go() -> None:
    known = ServedRows()
    a, b = row("a", place=1), row("b", place=2, reason='says ","place":7}\n and "state"')
    assert taken(known, listed(a, b)) == RowChanges((a, b))
    assert taken(known, listed(a, b)) == RowChanges()
    runs = row("a", state=JobState.RUNNING)
    moved = msgspec.structs.replace(b, place=1)
    assert taken(known, listed(runs, moved)) == RowChanges((runs,), (("n/b", 1),))
    assert taken(known, listed(moved)) == RowChanges(gone=("n/a",))
    assert taken(known, listed()) == RowChanges(gone=("n/b",))
    assert taken(known, listed(a)) == RowChanges((a,))


def test_a_place_is_only_what_the_server_appended() -> None:
    assert split_place(b'{"reason":"x","place":12}') == (b'{"reason":"x"', 12)
    for other in (b'{"reason":"x"}', rb'{"reason":"x,\"place\":12}"}', b'{"place":"12"}'):
        assert split_place(other) == (other, None)


def test_many_rows_that_only_move_are_told_apart_in_steps() -> None:
    rows = [row(f"job-{number}", place=number) for number in range(2_000)]
    known = ServedRows()
    assert len(taken(known, listed(*rows)).rows) == 2_000
    moved = listed(*(msgspec.structs.replace(one, place=(one.place or 0) + 1) for one in rows))
    assert len([*known.take(moved)]) == 2 * 2_000 // STEP_ROWS
    found = taken(known, listed(*rows))
    assert (len(found.rows), len(found.places)) == (0, 2_000)
