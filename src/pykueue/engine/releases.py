"""Unconfirmed decisions that release quota, which others may use only once the write is stored."""

from msgspec.structs import replace

from pykueue.engine.decisions import Admit, Decision, Reserve
from pykueue.engine.forest import Tree
from pykueue.engine.items import Item
from pykueue.engine.model import Workload
from pykueue.engine.world import World


def released_in(item: Item) -> list[str]:
    """The ClusterQueues in which unconfirmed decisions on a workload give quota back."""
    found: list[str] = []
    before = item.confirmed
    if before is not None:
        for now in item.in_flight:
            if before.admission is not None and gives_back(before, now):
                found.append(before.admission.queue)
            before = now
    return found


def gives_back(before: Workload, now: Workload) -> bool:
    """Whether a decision that led from one level to the next gives quota back, if there is any."""
    return now.admission is None or (before.active and not now.active)


def is_releasing(item: Item) -> bool:
    """Whether the release of a workload's quota is decided and not stored yet."""
    stored = item.confirmed
    return item.workload.admission is None and stored is not None and stored.admission is not None


def note_releases(world: World, item: Item) -> None:
    """Record the unconfirmed releases of a workload."""
    for queue in released_in(item):
        world.releasing.setdefault(queue, set()).add(item.key)


def forget_releases(world: World, item: Item) -> None:
    """Remove the unconfirmed releases of a workload from the record; call it before any of them is confirmed."""
    for queue in released_in(item):
        keys = world.releasing.get(queue, set())
        keys.discard(item.key)
        if not keys:
            world.releasing.pop(queue, None)


def releasing_by_tree(world: World) -> dict[Tree, tuple[str, ...]]:
    """The workloads with unconfirmed releases in each tree, in the order of their keys."""
    found: dict[Tree, set[str]] = {}
    for name, keys in world.releasing.items():
        queue = world.forest.queues.get(name)
        if queue is not None and queue.tree is not None:
            found.setdefault(queue.tree, set()).update(keys)
    return {tree: tuple(sorted(keys)) for tree, keys in found.items()}


def in_order(world: World, decisions: list[Decision]) -> list[Decision]:
    """The decisions of a cycle; each that takes quota names the releases that must be stored before it."""
    releasing = releasing_by_tree(world)
    if not releasing:
        return decisions
    found: list[Decision] = []
    for decision in decisions:
        if isinstance(decision, Reserve | Admit):
            tree = world.forest.queues[decision.admission.queue].tree
            keys = () if tree is None else releasing.get(tree, ())
            found.append(replace(decision, after=keys) if keys else decision)
        else:
            found.append(decision)
    return found
