"""Does the language of stories say what it promises? The engine's behaviour is told in tests/scenarios."""

from pathlib import Path

import pytest

from pykueue.base.units import Instant, Seconds
from pykueue.engine.model import (
    Cohort,
    Flavor,
    PodSet,
    PodsReadyOptions,
    Policy,
    Quota,
    ResourceGroup,
    Selector,
    StopPolicy,
    Taint,
    Toleration,
    Workload,
)
from tests.story import START, Story
from tests.storyfile import check, play, rewrite, stories
from tests.storytelling import read
from tests.storywords import StoryError, cluster_queue, cohort, flavor, micros, names, options, quotas, workload

BLANK = Workload("ns/w", "w", "ns/main", Instant(0))


def test_a_queue_is_read_from_one_line() -> None:
    words = "a.cpu=10+5-2 b.cpu=3 card.gpu=2 within=LowerPriority reclaim=Any stop=Hold checks=prov@a|b"
    found = cluster_queue("main", [*words.split(), "namespaces=team=x"], None)
    assert found.quotas == (Quota("a", "cpu", 10_000, 5_000, 2_000), Quota("b", "cpu", 3_000), Quota("card", "gpu", 2))
    assert found.groups == (ResourceGroup(("cpu",), ("a", "b")), ResourceGroup(("gpu",), ("card",)))
    assert (found.preemption.within_queue, found.preemption.reclaim) == (Policy.LOWER, Policy.ANY)
    assert found.stop is StopPolicy.HOLD
    assert (found.checks[0].check, found.checks[0].flavors) == ("prov", ("a", "b"))
    assert found.namespaces == Selector((("team", "In", ("x",)),))


def test_a_change_keeps_what_it_does_not_name() -> None:
    before = cluster_queue("main", ["cpu=4", "cohort=all", "within=LowerPriority"], None)
    after = cluster_queue("main", ["cpu=2", "reclaim=Any"], before)
    assert (after.cohort, after.preemption.within_queue, after.preemption.reclaim) == ("all", Policy.LOWER, Policy.ANY)
    assert after.quotas == (Quota("default", "cpu", 2_000),)
    assert cohort("left", ["parent=none"], Cohort("left", "root")).parent == ""


@pytest.mark.parametrize(
    ("word", "flavor_", "resource"),
    [
        pytest.param("cpu", "default", "cpu", id="a resource alone"),
        pytest.param("spot.cpu", "spot", "cpu", id="a flavor's"),
        pytest.param("example.com/card", "default", "example.com/card", id="a domain is no flavor"),
        pytest.param("spot.example.com/card", "spot", "example.com/card", id="a domain behind a flavor"),
    ],
)
def test_a_quota_names_its_flavor(word: str, flavor_: str, resource: str) -> None:
    assert quotas({word: "1"})[0].flavor == flavor_
    assert quotas({word: "1"})[0].resource == resource


def test_a_workload_is_read_from_one_line() -> None:
    words = "priority=3 lead=1x cpu=500m node=pool=b more=4x memory=2Gi min=2 tolerates=spot"
    found = workload([*words.split(), "affinity=pool:In:a|b&zone:Exists"], BLANK, START)
    assert found.priority == 3
    assert found.pod_sets == (
        PodSet("lead", 1, (("cpu", 500),), selector=(("pool", "b"),)),
        PodSet(
            "more",
            4,
            (("memory", 2 * 2**30),),
            min_count=2,
            affinity=((("pool", "In", ("a", "b")), ("zone", "Exists", ())),),
            tolerations=(Toleration("spot", "Exists"),),
        ),
    )


@pytest.mark.parametrize(
    ("word", "moves"),
    [
        pytest.param("priority=1", True, id="priority is spec"),
        pytest.param("cpu=2", True, id="requests are spec"),
        pytest.param("reclaim=main:1", False, id="reclaimable pods are status"),
        pytest.param("ready", False, id="readiness is status"),
    ],
)
def test_the_generation_moves_with_the_spec(word: str, moves: bool) -> None:
    assert (workload([word], BLANK, START).generation > BLANK.generation) is moves


def test_a_flavor_is_read_from_one_line() -> None:
    found = flavor("spot", ["pool=b", "taint=spot=true:NoExecute", "tolerates=spot=true:NoExecute"], None)
    taint, toleration = Taint("spot", "true", "NoExecute"), Toleration("spot", "Equal", "true", "NoExecute")
    assert found == Flavor("spot", (("pool", "b"),), (taint,), (toleration,))


def test_options_are_the_engines_with_what_is_written_on_top() -> None:
    assert options({"pods_ready": {"timeout": 5}}).pods_ready == PodsReadyOptions(timeout=Seconds(5))
    assert options({"pods_ready": False}).pods_ready is None
    assert options({}).reserve_for_preemptor
    assert not options({"kueue": True}).reserve_for_preemptor


def test_names_and_durations_have_short_forms() -> None:
    assert names(["a", "w9..11"]) == ["a", "w9", "w10", "w11"]
    assert [micros(text) for text in ("-10s", "2m", "250ms", "7")] == [-10_000_000, 120_000_000, 250_000, 7_000_000]


@pytest.mark.parametrize(
    "line",
    [
        "admit w",
        "admit w main=3 cpu:spot main.cpu=1500m",
        "evict low for urgent (InClusterQueue)",
        "evict a in=60s count=1 (PodsReadyTimeout)",
        "wait w (WaitingForQuota): couldn't assign (really): no",
        "wait team/w: text",
        "unreserve low",
    ],
)
def test_a_decision_is_read_and_written_the_same(line: str) -> None:
    assert str(read(line)) == line


@pytest.mark.parametrize(
    ("line", "holds"),
    [
        pytest.param("admit a", True, id="nothing more said"),
        pytest.param("admit a main=3", True, id="the count"),
        pytest.param("admit a main=2", False, id="another count"),
        pytest.param("admit a cpu:default main.cpu=3", True, id="flavor and usage"),
        pytest.param("admit a cpu:spot", False, id="another flavor"),
        pytest.param("admit a gpu:none", True, id="no such resource"),
        pytest.param("admit a cpu:none", False, id="there is such a resource"),
        pytest.param("reserve a", False, id="another verb"),
        pytest.param("admit b", False, id="another workload"),
    ],
)
def test_only_what_is_written_is_compared(line: str, holds: bool) -> None:
    story = Story(queues=["main cpu=3"])
    story.do("queue a main 3x cpu=1")
    story.decide()
    assert read(line).holds_for(story.told[0]) is holds


@pytest.mark.parametrize(
    ("line", "says"),
    [
        pytest.param("quue a main cpu=1", "'quue' is no word for a fact; known: queue, edit", id="a verb"),
        pytest.param("queue a main prioirty=1", "'prioirty' is no word for a workload; known: priority", id="a field"),
        pytest.param("queue a main cpu=x", "'x' is not a quantity", id="a quantity"),
        pytest.param("edit nobody priority=1", "there is no workload nobody; known: w", id="a workload"),
        pytest.param("queue w main cpu=1", "there is a workload w already", id="twice"),
        pytest.param("change queue none cpu=1", "there is no queue none to change", id="a queue"),
        pytest.param("add queue main cpu=1", "there is a queue main already", id="a queue twice"),
        pytest.param("change queue main within=Sometimes", "Invalid enum value 'Sometimes'", id="a policy"),
        pytest.param("change queue main colour=red", "'colour' is no word for a queue", id="a queue's field"),
        pytest.param("add cluster x", "'cluster' is no word for an object; known: flavor", id="a kind"),
        pytest.param("edit w check=prov:Maybe", "'Maybe' is no word for the state of a check", id="a state"),
        pytest.param("edit w at=soon", "'soon' is not a duration", id="a duration"),
        pytest.param("leading", "leading is not followed by what it needs", id="half a line"),
    ],
)
def test_a_slip_of_the_pen_is_told(line: str, says: str) -> None:
    story = Story(queues=["main cpu=1"])
    story.do("queue w main cpu=1")
    with pytest.raises(StoryError) as error:
        story.do(line)
    assert str(error.value).startswith(f"{line!r}: ")
    assert says in str(error.value)


def test_time_passes_from_wake_to_wake() -> None:
    story = Story(options=options({"pods_ready": {"timeout": 60, "backoff_base": 10}}), queues=["main cpu=1"])
    story.do("queue a main cpu=1")
    assert story.decide() == ["admit a"]
    assert story.wait("90s") == ["evict a (PodsReadyTimeout)"]
    assert story.now == START + 90_000_000
    story.do("stopped a")
    assert story.decide() == ["unreserve a", "requeue a (BackoffFinished)", "admit a"]


def test_a_restart_keeps_what_was_written_and_forgets_what_was_not() -> None:
    story = Story(queues=["main cpu=2"])
    story.do("queue a main cpu=1", "queue b main cpu=1", "delay b")
    assert story.decide() == ["admit a", "admit b"]
    story.do("restart")
    assert story.decide() == ["admit b"]
    assert story.holding("main") == ["a", "b"]


STORY = """\
# A remark before.
- name: one
  covers: [S1]
  queues: [main cpu=2]
  steps:
    - do: [queue a main cpu=1, queue b main cpu=2]
      decides: {decides}
      # A remark between.
      used: {{main: cpu=1}}
    - do: [finish a]
      decides: [admit b]   # As it should be.
"""
TOLD = "admit a, wait b (WaitingForQuota)"
LONG = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 1 more needed"


def written(folder: Path, text: str) -> Path:
    path = folder / "story.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("[]", f"[{TOLD}]", id="an empty list"),
        pytest.param("[admit b]  # Why.", f"[{TOLD}]  # Why.", id="a comment behind"),
        pytest.param("\n        - admit b\n        - admit c", f"[{TOLD}]", id="a block list"),
        pytest.param("|\n        admit b\n        admit c", f"[{TOLD}]", id="a block of text"),
        pytest.param(
            '[admit b, "wait b: because"]',
            f"|\n        admit a\n        wait b (WaitingForQuota): {LONG}",
            id="a message",
        ),
        pytest.param(
            '  # Why.\n        - "wait b: because"',
            f"|  # Why.\n        admit a\n        wait b (WaitingForQuota): {LONG}",
            id="a message in a block with a comment",
        ),
        pytest.param("[admit b, admit a cpu:spot]", "[admit a cpu:default, wait b (WaitingForQuota)]", id="a detail"),
    ],
)
def test_rewriting_touches_nothing_but_the_decisions(before: str, after: str, tmp_path: Path) -> None:
    path = written(tmp_path, STORY.format(decides=before))
    assert rewrite(stories(path)[0])
    assert path.read_text() == STORY.format(decides=after)
    check(stories(path)[0])
    assert not rewrite(stories(path)[0])


def test_a_story_in_one_line_stays_in_one_line(tmp_path: Path) -> None:
    text = "- {name: one, queues: [main cpu=1], steps: [{do: [queue a main cpu=2], decides: ['wait a: so']}]}\n"
    path = written(tmp_path, text)
    rewrite(stories(path)[0])
    assert path.read_text().count("\n") == 1
    check(stories(path)[0])


def test_a_story_that_is_not_so_says_where_and_what(tmp_path: Path) -> None:
    path = written(tmp_path, STORY.format(decides="[admit b]"))
    with pytest.raises(StoryError) as error:
        check(stories(path)[0])
    assert str(error.value).splitlines() == [
        f"{path}:2: 'one', step 1: the engine decides otherwise",
        "  decides in the file:",
        "        admit b",
        "  decided:",
        "        admit a",
        "        wait b (WaitingForQuota)",
    ]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        pytest.param("used: {main: cpu=1}", "used: {main: cpu=2}", "but {main: cpu=1}", id="usage"),
        pytest.param("used: {main: cpu=1}", "available: {main: cpu=2}", "but {main: cpu=1}", id="room"),
        pytest.param("used: {main: cpu=1}", "parked: {main: [a]}", "but {main: [b]}", id="parked"),
        pytest.param("used: {main: cpu=1}", "pending: {main: [b]}", "but {main: []}", id="in line"),
        pytest.param("used: {main: cpu=1}", "holding: {main: []}", "but {main: [a]}", id="holding"),
        pytest.param("used: {main: cpu=1}", "shows: [a admitted=false]", "but 'a admitted=true'", id="status"),
        pytest.param("used: {main: cpu=1}", "shows: [a evicted=Preempted]", "but 'a evicted=none'", id="no condition"),
        pytest.param("used: {main: cpu=1}", "shows: [a colour=red]", "'colour' is no word", id="no such status"),
        pytest.param("used: {main: cpu=1}", "uses: {main: cpu=2}", "'uses' is no word for a step", id="a step's word"),
        pytest.param("used: {main: cpu=1}", "decides_some: [admit b]", "decides_some in the file", id="some of it"),
        pytest.param("covers", "coverz", "'coverz' is no word for a story", id="a story's word"),
        pytest.param("covers: [S1]", "options: {color: 1}", "'color' is no word for an option", id="an option"),
        pytest.param("[admit b]", "[admits b]", "'admits' is no word for a decision", id="a decision's verb"),
        pytest.param("[admit b]", "[admit]", "'admit' is no decision", id="half a decision"),
    ],
)
def test_a_step_that_is_not_so_is_told(old: str, new: str, says: str, tmp_path: Path) -> None:
    path = written(tmp_path, STORY.format(decides=f"[{TOLD}]").replace(old, new))
    with pytest.raises(StoryError) as error:
        play(stories(path)[0])
    assert f"{path}:2: 'one'" in str(error.value)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("name: one\n", "is a list", id="no list"),
        pytest.param("- covers: [S1]\n", "begins with `- name: ...`", id="no name"),
        pytest.param("- name: one\n- name: one\n", "another story 'one'", id="one name twice"),
        pytest.param("- [\n", "story.yaml", id="no YAML"),
    ],
)
def test_a_file_that_is_no_list_of_stories_is_told(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(StoryError, match=says):
        stories(written(tmp_path, text))
