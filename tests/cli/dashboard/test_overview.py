"""What does the first screen count?"""

import msgspec

from pykueue.api.jobsummary import JobState, JobSummary
from pykueue.cli.dashboard.overview import (
    Amount,
    Counts,
    Disk,
    GpuUse,
    Totals,
    UserUse,
    counts_of,
    machine_use,
    queue_row,
    totals,
    unit_of,
)
from pykueue.cli.queues.usage import Usage


def row(name: str, state: JobState = JobState.PENDING, **more: object) -> JobSummary:
    given: dict[str, object] = {"namespace": "n", "name": name, "state": state, **more}
    return msgspec.convert(given, JobSummary)


def counted(*rows: JobSummary) -> Totals:
    known = {f"{one.namespace}/{one.name}": one for one in rows}
    work = totals(known, {key: one.place for key, one in known.items()})
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: Totals = end.value
            return found


def test_who_waits_longest_and_who_is_next() -> None:
    waiting = [row(f"w{number:02}", since=f"2027-01-15T08:{number:02}:00Z", place=20 - number) for number in range(15)]
    never = row("never", since="2027-01-15T09:00:00Z", place=1, reason="can never start: it asks for 64 cpu")
    found = counted(*waiting, never, row("unplaced", since="2027-01-15T07:00:00Z"), row("held", JobState.HELD))
    assert [one.name for one in found.longest][:3] == ["unplaced", "w00", "w01"]
    assert [one.name for one in found.next] == [f"w{number:02}" for number in range(14, 4, -1)]
    assert len(found.longest) == 10


def test_states_are_counted() -> None:
    states = (JobState.RUNNING, JobState.STOPPING, JobState.FAILING, JobState.HELD, JobState.PENDING, JobState.PENDING)
    found = counted(*(row(str(number), state) for number, state in enumerate(states)))
    assert counts_of(found, 7) == Counts(2, 2, 1, 1, 7)


def test_a_machine_and_who_uses_it() -> None:
    found = counted(
        row(
            "a",
            JobState.RUNNING,
            owner="ann",
            requests={"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "1"},
            gpus=[1],
        ),
        row("b", owner="ann", requests={"cpu": "64"}),
        row("c", JobState.STOPPING, owner="bob", requests={"cpu": "2"}),
    )
    node = {
        "metadata": {"name": "box"},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2"}},
    }
    made = machine_use([node], found, Disk(10, 5))
    assert made is not None
    assert made.cpus == Amount(4000, 3500)
    assert made.memory == Amount(8 << 30, 1 << 30)
    assert made.gpus == (GpuUse(0), GpuUse(1, "ann", "n/a"))
    assert made.users == (UserUse("ann", 1, 1, 1500, 1 << 30, 1), UserUse("bob", 1, 0, 2000))
    assert made.gpus_free == 1
    assert machine_use([], found, None) is None


def test_who_may_list_only_own_jobs_gets_sums_of_queues_or_none() -> None:
    found = counted(row("a", JobState.RUNNING, owner="ann", requests={"cpu": "2", "nvidia.com/gpu": "1"}, gpus=[0]))
    node = {"metadata": {"name": "box"}, "status": {"allocatable": {"cpu": "4", "nvidia.com/gpu": "4"}}}
    unknown = machine_use([node], found, None, partial=True)
    assert unknown is not None
    assert (unknown.cpus, unknown.gpus_free) == (Amount(4000, None, 2000), None)
    used = (("a", "cpu", 2000), ("b", "cpu", 1000), ("b", "nvidia.com/gpu", 3))
    rows = [
        queue_row(Usage("cohort", "all", "", "f", "cpu", 4000, 3000, 0, None, 1, 0)),
        *(queue_row(Usage("queue", name, "", "f", what, 4, much, 0, None, 1, 0)) for name, what, much in used),
    ]
    made = machine_use([node], found, None, rows, partial=True)
    assert made is not None
    assert (made.cpus, made.gpus_free) == (Amount(4000, 3000, 2000), 1)
    assert made.memory == Amount(0, None, 0)


def test_units() -> None:
    assert [unit_of(name) for name in ("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu")] == [
        "cpu",
        "bytes",
        "bytes",
        "bytes",
        "count",
    ]
    usage = Usage("queue", "q", "c", "f", "cpu", 4000, 1000, 0, None, 1, 2, 1)
    assert msgspec.to_builtins(queue_row(usage)) == {
        "kind": "queue",
        "name": "q",
        "cohort": "c",
        "flavor": "f",
        "resource": "cpu",
        "nominal": 4000,
        "used": 1000,
        "borrowed": 0,
        "lent": None,
        "running": 1,
        "pending": 2,
        "depth": 1,
        "unit": "cpu",
    }
