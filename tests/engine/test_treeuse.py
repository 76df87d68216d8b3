"""Does past use order the children of a usage-based cohort, whatever the tree, and also within a cycle?"""

from fractions import Fraction
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pykueue.base.units import MICROS, Instant
from pykueue.engine.entries import Entry, Started, TreeCycle
from pykueue.engine.forest import DEPTH_MAX
from pykueue.engine.items import Item
from pykueue.engine.learn import see
from pykueue.engine.model import (
    AdmissionFairSharing,
    ClusterQueue,
    Cohort,
    LocalQueue,
    Options,
    PodSet,
    ShareStrategy,
    Thing,
    Workload,
)
from pykueue.engine.tournament import Tournament
from pykueue.engine.treeuse import TreeUse
from pykueue.engine.world import World
from tests.engine.fairreference import next_head, with_head
from tests.engine.fairscene import CPU, fair_trees
from tests.engine.reference import Holder, Node, Numbers
from tests.engine.test_quota import hold

FIVE_MINUTES = 300 * MICROS
"""A start costs half of what it requests."""
OPTIONS = Options(
    fair_sharing=(ShareStrategy.FINAL,),
    admission_fair_sharing=AdmissionFairSharing(half_life_micros=FIVE_MINUTES, resource_weights=(("cpu", 4.0),)),
)
WEIGHT = 4
Used = dict[str, Fraction]


def world_of(*things: Thing, options: Options = OPTIONS) -> World:
    """A world with these objects, in trees."""
    world = World(options)
    for thing in things:
        see(world, thing, 0)
    world.forest.refresh()
    return world


def order_of(world: World, heads: list[Holder]) -> list[str]:
    """The order of heads, all of which start."""
    tree = world.forest.queues[heads[0].queue].tree
    assert tree is not None
    tree_cycle = TreeCycle(tree, world.forest)
    entries = []
    for head in heads:
        pods = (PodSet("main", 1, (("cpu", dict(head.usage)[CPU] * 1000),)),)
        seen = Workload(head.key, head.key, "", Instant(head.stamp), pods, priority=head.priority)
        entry = Entry(Item(seen, world.shape(seen), Instant(head.stamp)), world.forest.queues[head.queue], tree_cycle)
        entry.plan = type(entry.plan)()
        entry.plan.usage = {world.forest.flavors.id(*pair): amount for pair, amount in head.usage}
        entries.append(entry)
    found = []
    for entry in Tournament(world, tree, tree_cycle.snapshot, lambda _: False).run(entries):
        tree_cycle.start(entry.queue, entry.usage())
        entry.result = Started()
        found.append(entry.item.key)
    return found


def reference(
    queues: list[ClusterQueue], cohorts: list[Cohort], holders: list[Holder], heads: list[Holder], used: Used
) -> list[str]:
    """The same, in the words of the rule."""
    ordered = {("cohort", cohort.name) for cohort in cohorts if cohort.usage_based}
    numbers = Numbers(queues, cohorts, holders)

    def below(node: Node) -> Fraction:
        return used[node[1]] if node[0] == "queue" else sum((below(one) for one in numbers.children(node)), Fraction(0))

    def past_use(node: Node) -> Fraction | float:
        thing = next(one for one in (queues if node[0] == "queue" else cohorts) if one.name == node[1])
        parent = thing.cohort if isinstance(thing, ClusterQueue) else thing.parent
        if ("cohort", parent) not in ordered:
            return 0
        return below(node) * WEIGHT / Fraction(thing.weight) if thing.weight else inf

    left, found = {head.queue: head for head in heads}, []
    while left:
        best = next_head(numbers, left, past_use=past_use)
        del left[best.queue]
        numbers = with_head(numbers, best)
        used[best.queue] += Fraction(dict(best.usage)[CPU], 2)
        found.append(best.key)
    return found


@settings(max_examples=200)
@given(fair_trees(), st.data())
def test_the_order_is_that_of_the_rule(
    tree: tuple[list[ClusterQueue], list[Cohort], list[Holder]], data: st.DataObject
) -> None:
    queues, cohorts, holders = tree
    cohorts = [replace(cohort, usage_based=data.draw(st.booleans())) for cohort in cohorts]
    used: Used = {queue.name: Fraction(0) for queue in queues}
    locals_ = []
    for number in range(data.draw(st.integers(0, 6))):
        queue, amount = data.draw(st.sampled_from(queues)).name, data.draw(st.integers(0, 8))
        used[queue] += Fraction(amount, 2)
        text = f"{amount * 500}m"
        weight = data.draw(st.sampled_from([0.0, 1.0, 3.0]))
        locals_.append(LocalQueue(f"ns/l{number}", queue, weight=weight, consumed=(("cpu", text),)))
    heads = [
        Holder(f"head-{q.name}", q.name, ((CPU, data.draw(st.integers(0, 4))),), data.draw(st.integers(0, 1)), n % 2)
        for n, q in enumerate(queues)
    ]
    world = world_of(*cohorts, *queues, *locals_)
    for number, holder in enumerate(holders):
        hold(world.forest, holder.queue, dict(holder.usage)[CPU], f"h{number}")
    assert order_of(world, heads) == reference(queues, cohorts, holders, heads, used)


def test_without_past_use_in_the_configuration_the_annotation_has_no_effect() -> None:
    options = replace(OPTIONS, admission_fair_sharing=None)
    local = LocalQueue("ns/a", "a", consumed=(("cpu", "8"),))
    world = world_of(Cohort("all", usage_based=True), ClusterQueue("a", "all"), local, options=options)
    queue = world.forest.queues["a"]
    assert TreeUse(world).place(queue) == 0.0
    assert not world.counts_past_use(queue)


def test_cohorts_that_are_nested_too_deep_are_left_out() -> None:
    deep = 6 * DEPTH_MAX
    chain = [Cohort(f"c{n}", f"c{n - 1}" if n else "", usage_based=True) for n in range(deep)]
    near = ClusterQueue("near", "c1"), LocalQueue("ns/n", "near", consumed=(("cpu", "2"),))
    far = ClusterQueue("far", f"c{deep - 1}"), LocalQueue("ns/f", "far", consumed=(("cpu", "5"),))
    world = world_of(*chain, *near, *far)
    assert TreeUse(world).place(world.forest.cohorts["c1"]) == 2.0 * WEIGHT


def test_a_cycle_of_cohorts_charges_nothing_above_it_and_ends() -> None:
    world = world_of(Cohort("one", "two"), Cohort("two", "one"), ClusterQueue("q", "one"))
    assert not world.counts_past_use(world.forest.queues["q"])
