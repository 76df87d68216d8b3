"""Does the JSON keep the shape that programs rely on?"""

import msgspec

from pykueue.sim.document import SCHEMA, as_json
from pykueue.sim.report import report
from pykueue.sim.world import End
from tests.sim.builders import job, priority, queue, simulated


def test_json_has_a_stable_shape() -> None:
    past = simulated(queue(cpu=1), job("a", run_seconds=5), job("b", 2))
    tree = as_json(report(past))
    assert list(tree) == ["schema", "start", "events", "summary"]
    assert tree["schema"] == SCHEMA
    read_back = msgspec.json.decode(msgspec.json.encode(tree))
    assert list(read_back["events"][0]) == [
        "at", "seconds", "workload", "name", "queue", "what", "why", "helps", "reason", "message", "by",
    ]  # fmt: skip
    summary = read_back["summary"]
    assert list(summary) == ["end", "seconds", "ended", "queues", "use", "waiting", "notes", "jobs"]
    assert (summary["seconds"], summary["ended"]) == (5.0, End.REST.value)
    assert list(summary["queues"][0]["wait_seconds"]) == ["mean", "p50", "p90", "p95", "p99", "max"]
    assert set(summary["queues"][0]["wait_seconds"].values()) == {0.0}
    assert [(one["name"], one["started_seconds"]) for one in summary["jobs"]] == [
        ("default/a", 0.0),
        ("default/b", None),
    ]
    assert summary["queues"][0]["waited_seconds"] == 5.0
    assert summary["use"][0]["used_percent"] == 100.0
    assert summary["waiting"][0]["name"] == "default/b"
    (wait,) = (one for one in read_back["events"] if one["what"] == "waits")
    assert wait["reason"] == "ExceedsMaxQuota"
    assert wait["message"].startswith("couldn't assign flavors to pod set main: ")


def test_the_preemptor_has_the_name_that_the_user_gave_it() -> None:
    past = simulated(
        priority("high", 10),
        queue(cpu=1, preemption="{withinClusterQueue: LowerPriority}"),
        job("low", run_seconds=60),
        job("urgent", klass="high", run_seconds=5, arrival="10s"),
    )
    tree = msgspec.json.decode(msgspec.json.encode(as_json(report(past))))
    (event,) = (one for one in tree["events"] if one["what"] == "preempted")
    assert (event["name"], event["by"]) == ("default/low", "default/urgent")
