"""Does the tournament yield heads in the order of the rules, also while the usage changes?"""

from hypothesis import given, settings
from hypothesis import strategies as st

from pykueue.base.units import Instant
from pykueue.engine.entries import Entry, TreeCycle
from pykueue.engine.items import Item
from pykueue.engine.model import ClusterQueue, Cohort, Options, Quota, ShareStrategy, Workload
from pykueue.engine.tournament import Tournament
from pykueue.engine.world import World
from tests.engine.fairreference import next_head, with_head
from tests.engine.fairscene import CPU, fair_trees
from tests.engine.reference import Holder, Numbers
from tests.engine.test_quota import forest_of, hold

OPTIONS = Options(fair_sharing=(ShareStrategy.FINAL,))


def order_of(
    queues: list[ClusterQueue],
    cohorts: list[Cohort],
    holders: list[Holder],
    heads: list[Holder],
    started: list[bool],
    options: Options = OPTIONS,
    promised: str = "",
) -> list[str]:
    """The order of heads, of which those start that `started` says."""
    forest = forest_of(*cohorts, *queues)
    for number, holder in enumerate(holders):
        hold(forest, holder.queue, dict(holder.usage)[CPU], f"h{number}")
    world, tree = World(options), forest.queues[heads[0].queue].tree
    assert tree is not None
    tree_cycle = TreeCycle(tree, forest)
    entries = []
    for head in heads:
        seen = Workload(head.key, head.key, "", Instant(head.stamp), priority=head.priority)
        entry = Entry(Item(seen, world.shape(seen), Instant(head.stamp)), forest.queues[head.queue], tree_cycle)
        entry.plan = type(entry.plan)()
        entry.plan.usage = {forest.flavors.id(*pair): amount for pair, amount in head.usage}
        entries.append(entry)
    found: list[str] = []
    tournament = Tournament(world, tree, tree_cycle.snapshot, lambda entry: entry.item.key == promised)
    for entry in tournament.run(entries):
        if started[len(found)]:
            tree_cycle.start(entry.queue, entry.usage())
        found.append(entry.item.key)
    return found


@settings(max_examples=200)
@given(fair_trees(), st.data())
def test_the_order_is_that_of_the_rules(
    tree: tuple[list[ClusterQueue], list[Cohort], list[Holder]], data: st.DataObject
) -> None:
    queues, cohorts, holders = tree
    heads = [
        Holder(f"head-{q.name}", q.name, ((CPU, data.draw(st.integers(0, 4))),), data.draw(st.integers(0, 1)), n % 2)
        for n, q in enumerate(queues)
    ]
    started = [data.draw(st.booleans()) for _ in heads]
    prefers = data.draw(st.booleans())
    options = Options(fair_sharing=(ShareStrategy.FINAL,), fair_prefers_nonborrowing=prefers)
    numbers, left = Numbers(queues, cohorts, holders), {head.queue: head for head in heads}
    expected: list[str] = []
    while left:
        best = next_head(numbers, left, prefer_nonborrowing=prefers)
        if started[len(expected)]:
            numbers = with_head(numbers, best)
        del left[best.queue]
        expected.append(best.key)
    assert order_of(queues, cohorts, holders, heads, started, options) == expected


def test_a_head_with_a_claim_goes_first_whatever_the_shares() -> None:
    queues = [ClusterQueue(name, "all", quotas=(Quota(*CPU, 0),)) for name in "ab"]
    heads = [Holder("small", "a", ((CPU, 1),)), Holder("waits", "b", ((CPU, 5),))]
    lender = ClusterQueue("lender", "all", quotas=(Quota(*CPU, 9),))
    assert order_of([*queues, lender], [], [], heads, [True, True]) == ["small", "waits"]
    assert order_of([*queues, lender], [], [], heads, [True, True], promised="waits") == ["waits", "small"]


def test_what_a_head_takes_counts_for_the_others_of_its_cohort() -> None:
    cohorts = [Cohort("root", quotas=(Quota(*CPU, 18),)), Cohort("left", "root"), Cohort("right", "root")]
    queues = [ClusterQueue(n, c, quotas=(Quota(*CPU, 0),)) for n, c in (("a", "left"), ("b", "left"), ("c", "right"))]
    heads = [Holder("a4", "a", ((CPU, 4),)), Holder("b2", "b", ((CPU, 2),)), Holder("c5", "c", ((CPU, 5),))]
    assert order_of(queues, cohorts, [], heads, [True] * 3) == ["b2", "c5", "a4"]
    assert order_of(queues, cohorts, [], heads, [False] * 3) == ["b2", "a4", "c5"]


def test_a_queue_without_a_cohort_has_its_only_head() -> None:
    queues = [ClusterQueue("alone", quotas=(Quota(*CPU, 1),))]
    assert order_of(queues, [], [], [Holder("w", "alone", ((CPU, 1),))], [True]) == ["w"]


def test_a_head_may_join_while_the_tournament_runs() -> None:
    queues = [ClusterQueue(name, "all", quotas=(Quota(*CPU, 4),)) for name in "ab"]
    forest = forest_of(*queues)
    tree = forest.queues["a"].tree
    assert tree is not None
    tree_cycle, world = TreeCycle(tree, forest), World(OPTIONS)

    def entry(key: str, queue: str) -> Entry:
        seen = Workload(key, key, "", Instant(0))
        return Entry(Item(seen, world.shape(seen), Instant(0)), forest.queues[queue], tree_cycle)

    tournament = Tournament(world, tree, tree_cycle.snapshot, lambda _: False)
    found = []
    for one in tournament.run([entry("a1", "a"), entry("b1", "b")]):
        found.append(one.item.key)
        if one.item.key == "a1":
            tournament.add(entry("a2", "a"))
    assert found == ["a1", "a2", "b1"]
