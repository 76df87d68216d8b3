"""What does the engine do when this happens? `Story` plays lines of facts and tells decisions in lines.

The words are taught in docs/stories.md. Story files are read by `storyfile`; a test in Python uses `Story` itself:

    story = Story(queues=["main cpu=4"])
    story.do("queue a main cpu=2", "queue b main cpu=3")
    assert story.decide() == ["admit a", "wait b (WaitingForQuota)"]
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import count

from msgspec.structs import replace

from pykueue.base.units import MICROS, Instant, amount_text, parse_instant
from pykueue.engine.assume import after
from pykueue.engine.decisions import Decision
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Gone, Kind, Leading, Refused, Seen, Stopped, Synced, Written
from pykueue.engine.items import Item, Place
from pykueue.engine.model import ClusterQueue, LocalQueue, Namespace, Options, Thing, Workload
from pykueue.engine.pastuse import stored
from pykueue.engine.quota import QuotaNode, available, potential
from pykueue.engine.record.invariants import broken
from pykueue.engine.wording import message
from tests.storytelling import SHOWN, Line, status, subject, tell
from tests.storywords import (
    NAMESPACE,
    OBJECTS,
    StoryError,
    checks_named,
    flavors_named,
    key_of,
    micros,
    name_of,
    names,
    pair,
    split,
    tokens,
    unknown,
    workload,
)

START = parse_instant("2026-01-01T00:00:00Z")
CYCLES_MAX = 50
"""An engine that still has something to do at one instant after so many cycles goes round in circles."""

VERBS = (
    "queue", "edit", "finish", "delete", "stopped", "add", "change", "remove", "refuse", "delay", "confirm", "stale",
    "restart", "synced", "leading",
)  # fmt: skip

MEASURES: dict[str, Callable[[QuotaNode, int], int]] = {
    "used": lambda node, fr: node.usage.get(fr, 0),
    "available": available,
    "potential": potential,
}


class Story:
    """An engine, the cluster it is told of, and a clock. The cluster holds what is true; the engine hears of it."""

    def __init__(
        self,
        *,
        options: Options | None = None,
        flavors: Iterable[str] | None = None,
        cohorts: Iterable[str] = (),
        queues: Iterable[str] = (),
        locals: Iterable[str] | None = None,
        namespaces: Iterable[str] = (),
        checks: Iterable[str] | None = None,
    ) -> None:
        self.options = options or Options()
        self.engine = Engine(self.options)
        self.now = START
        self.told: list[Line] = []
        """Every decision of the last `decide` or `wait`, told in full."""
        self.things: dict[tuple[str, str], tuple[Thing, int]] = {}
        self.first: dict[str, tuple[Workload, int]] = {}
        """Each workload as it was when it was queued, for those who hear of it late."""
        self.version = 0
        self.born = 0
        self.refusing: set[str] = set()
        self.delayed: set[str] = set()
        self.flying: dict[str, list[Decision]] = {}
        self.left: dict[str, None] = {}
        """Evicted workloads whose pods are gone."""
        self.implied_locals = locals is None
        self.implied_flavors = flavors is None
        self.implied_checks = checks is None
        self.put("Namespace", NAMESPACE, Namespace(NAMESPACE))
        said = {
            "flavor": flavors,
            "cohort": cohorts,
            "check": checks,
            "namespace": namespaces,
            "queue": queues,
            "local": locals,
        }
        for word, lines in said.items():
            for line in lines or ():
                self.place(word, tokens(line))
        self.engine.observe(Synced())

    # What is true, and told.

    def put(self, kind: str, name: str, thing: Thing) -> None:
        """Something is like this from now on, and the engine hears of it."""
        self.version += 1
        self.things[kind, name] = (thing, self.version)
        self.engine.observe(Seen(thing, self.version))

    def place(self, word: str, words: list[str], *, known: bool | None = None) -> None:
        """An object as a line describes it: new, known, or either."""
        if word not in OBJECTS:
            raise unknown(word, "an object", OBJECTS)
        if not words:
            raise StoryError(f"which {word}? Give its name")
        kind, read = OBJECTS[word]
        name, rest = words[0], words[1:]
        key = key_of(name) if kind == "LocalQueue" else name
        before = self.things.get((kind, key), (None, 0))[0]
        if known is True and before is None:
            raise StoryError(f"there is no {word} {name} to change; use `add {word} {name} ...`")
        if known is False and before is not None:
            raise StoryError(f"there is a {word} {name} already; use `change {word} {name} ...`")
        thing = read(name, rest, before)
        if isinstance(thing, ClusterQueue):
            self.imply(thing)
        self.put(kind, key, thing)
        if isinstance(thing, ClusterQueue) and before is None and self.implied_locals:
            self.put("LocalQueue", key_of(name), LocalQueue(key_of(name), name))

    def imply(self, queue: ClusterQueue) -> None:
        """What a queue names exists, unless the story lists such things itself."""
        if self.implied_flavors:
            for flavor in flavors_named(queue):
                if ("Flavor", flavor) not in self.things:
                    self.place("flavor", [flavor])
        if self.implied_checks:
            for check in checks_named(queue.checks):
                if ("Check", check) not in self.things:
                    self.place("check", [check])

    def workload(self, name: str) -> Workload:
        """A workload as the cluster has it."""
        found = self.things.get(("Workload", key_of(name)))
        if found is None or not isinstance(found[0], Workload):
            raise StoryError(
                f"there is no workload {name}; known: {', '.join(map(name_of, self.workloads())) or 'none'}"
            )
        return found[0]

    def workloads(self) -> list[str]:
        """The keys of all workloads."""
        return [name for kind, name in self.things if kind == "Workload"]

    # Facts.

    def do(self, *lines: str) -> None:
        """Make these lines true, one after the other."""
        for line in lines:
            words = tokens(line)
            if not words:
                raise StoryError("an empty line says nothing")
            try:
                self.happen(words[0], words[1:])
            except StoryError as error:
                raise StoryError(f"{line!r}: {error}") from None

    def happen(self, verb: str, words: list[str]) -> None:
        """One fact."""
        match verb, words:
            case "queue", [name, local, *rest]:
                for one in names([name]):
                    self.queue(one, local, rest)
            case "edit", [name, *rest]:
                for one in names([name]):
                    self.edit(one, rest)
            case "finish", [_, *_]:
                for one in names(words):
                    self.edit(one, ["finished=true"])
            case "delete", [_, *_]:
                for one in names(words):
                    self.remove("Workload", self.workload(one).key)
            case "stopped", [_, *_]:
                for key in self.workloads() if words == ["*"] else map(key_of, names(words)):
                    self.stop(key)
            case "add" | "change", [word, *rest]:
                self.place(word, rest, known=verb == "change")
            case "remove", [word, name]:
                if word not in OBJECTS:
                    raise unknown(word, "an object", OBJECTS)
                self.remove(OBJECTS[word][0], key_of(name) if word == "local" else name)
            case "refuse" | "delay" | "confirm" | "stale", [_, *_]:
                for one in names(words):
                    self.disturb(verb, self.workload(one).key)
            case "restart", [] | ["unsynced"]:
                self.restart(synced=not words)
            case "synced", []:
                self.engine.observe(Synced())
            case "leading", ["on" | "off" as state]:
                self.engine.observe(Leading(state == "on"))
            case _:
                if verb not in VERBS:
                    raise unknown(verb, "a fact", VERBS)
                raise StoryError(f"{verb} is not followed by what it needs; see docs/stories.md")

    def queue(self, name: str, local: str, words: list[str]) -> None:
        """A workload appears, created a moment after the one before it."""
        key = key_of(name)
        if ("Workload", key) in self.things:
            raise StoryError(f"there is a workload {name} already; use `edit {name} ...`")
        self.born += 1
        namespace = key.partition("/")[0]
        fresh = Workload(key, name_of(key), f"{namespace}/{local}", Instant(self.now + self.born))
        self.put("Workload", key, replace(workload(words, fresh, self.now), generation=1))
        self.first[key] = (self.workload(name), self.version)

    def edit(self, name: str, words: list[str]) -> None:
        """A workload is changed by somebody else."""
        before = self.workload(name)
        self.put("Workload", before.key, workload(words, before, self.now))

    def remove(self, kind: Kind, name: str) -> None:
        """Something is gone."""
        if self.things.pop((kind, name), None) is None:
            raise StoryError(f"there is no {kind} {name} to remove")
        if kind == "Workload":
            self.flying.pop(name, None)
            self.left.pop(name, None)
        self.engine.observe(Gone(kind, name))

    def stop(self, key: str) -> None:
        """The pods of a workload are gone."""
        found = self.workload(name_of(key))
        if found.evicted is not None and found.admission is not None:
            self.left[key] = None
        self.engine.observe(Stopped(key))

    def disturb(self, verb: str, key: str) -> None:
        """Something goes wrong, or late, on the way between us and the cluster."""
        match verb:
            case "refuse" if key in self.flying:
                self.refuse(key)
            case "refuse":
                self.refusing.add(key)
            case "delay":
                self.delayed.add(key)
            case "confirm":
                self.delayed.discard(key)
                for decision in self.flying.pop(key, []):
                    self.write(decision)
            case "stale":
                thing, version = self.first[key]
                self.engine.observe(Seen(thing, version))

    def restart(self, *, synced: bool = True) -> None:
        """A new engine that knows nothing but how things stand; what was on its way to be written is lost."""
        self.store_past_use()
        self.engine = Engine(self.options)
        self.flying.clear()
        self.delayed.clear()
        self.refusing.clear()
        for thing, version in self.things.values():
            self.engine.observe(Seen(thing, version))
        for key in self.left:
            self.engine.observe(Stopped(key))
        if synced:
            self.engine.observe(Synced())

    def store_past_use(self) -> None:
        """The status of each LocalQueue has its past use, to the second."""
        for (kind, name), (thing, version) in list(self.things.items()):
            found = self.engine.past_use(name, self.now) if kind == "LocalQueue" else None
            if found is not None and isinstance(thing, LocalQueue):
                consumed, at = stored(sorted(found[0].items())), Instant(found[1] // MICROS * MICROS)
                self.things[kind, name] = (replace(thing, consumed=consumed, last_update=at), version)

    # Decisions.

    def decide(self, cycles: int | None = None) -> list[str]:
        """The lines of what is decided now: in so many cycles, or until the engine is at rest."""
        self.told = []
        self.run(cycles)
        return [str(line.like(None)) for line in self.told]

    def wait(self, delay: str) -> list[str]:
        """The lines of what is decided while time passes: `90s`, or `wake` for when the engine wants to be woken.

        What is due at the very end is left to the next `decide`, so that facts of that instant come first.
        """
        self.told = []
        wake = self.engine.next_wake()
        if delay == "wake" and wake is None:
            raise StoryError("the engine waits for no time; give a duration")
        end = Instant(max(self.now, wake or 0) if delay == "wake" else self.now + micros(delay))
        while (wake := self.engine.next_wake()) is not None and wake < end:
            self.now = max(self.now, wake)
            self.run(None)
        self.now = end
        return [str(line.like(None)) for line in self.told]

    def run(self, cycles: int | None) -> None:
        """Let the engine decide, and carry its decisions out."""
        for number in count(1):
            decided = self.engine.decide(self.now)
            self.told += [tell(decision, self.now) for decision in decided]
            for sentence in broken(self.engine) if self.engine.leading and self.engine.synced else ():
                raise StoryError(f"an invariant of the engine is broken: {sentence}")
            self.carry_out(decided)
            wake = self.engine.next_wake()
            if number == cycles or (cycles is None and (wake is None or wake > self.now)):
                return
            if number == CYCLES_MAX:
                last = "; ".join(str(line.like(None)) for line in self.told[-3:])
                raise StoryError(f"the engine is not at rest after {CYCLES_MAX} cycles; say `cycles:`. Last: {last}")

    def carry_out(self, decided: list[Decision]) -> None:
        """Write decisions to the cluster, unless the story says that a write fails or is late."""
        refused = {decision.workload for decision in decided} & self.refusing
        self.refusing -= refused
        for decision in decided:
            if decision.workload in refused:
                self.refuse(decision.workload)
            elif decision.workload in self.delayed:
                self.flying.setdefault(decision.workload, []).append(decision)
            else:
                self.write(decision)

    def refuse(self, key: str) -> None:
        """The cluster did not take what was decided."""
        self.flying.pop(key, None)
        self.engine.observe(Refused(key))

    def write(self, decision: Decision) -> None:
        """The cluster has taken a decision, says so, and shows the result."""
        written = after(self.workload(name_of(decision.workload)), decision)
        if written.admission is None:
            self.left.pop(written.key, None)
        self.version += 1
        self.things["Workload", written.key] = (written, self.version)
        self.engine.observe(Written(written.key, self.version))
        self.engine.observe(Seen(written, self.version))

    # How things stand.

    def node(self, name: str) -> QuotaNode:
        """A queue or cohort in the engine's tree."""
        forest = self.engine.world.forest
        found = forest.queues.get(name) or forest.cohorts.get(name)
        if found is None:
            raise unknown(name, "a queue or cohort", [*forest.queues, *forest.cohorts])
        return found

    def amounts(self, what: str, name: str, asked: str) -> str:
        """How much is used, available or potential in a queue or cohort, of the resources in a line."""
        node, flavors = self.node(name), self.engine.world.forest.flavors
        found = []
        for token in tokens(asked):
            word = split(token)[0]
            named = pair(word)
            if named is None:
                raise StoryError(f"{word!r} is no resource; write cpu=2 or spot.cpu=2")
            fr = flavors.id(*named)
            found.append(f"{word}={amount_text(named[1], MEASURES[what](node, fr))}")
        return " ".join(found)

    def queued(self, name: str) -> list[str]:
        """The workloads in line of a queue, first to last."""
        order = self.engine.world.pending[name].key
        return [name_of(i.key) for i in sorted((i for i, parked in self.waiting(name) if not parked), key=order)]

    def parked(self, name: str) -> list[str]:
        """The workloads that a queue has set aside, by name."""
        return sorted(name_of(item.key) for item, parked in self.waiting(name) if parked)

    def waiting(self, name: str) -> Iterator[tuple[Item, bool]]:
        """The pending workloads of a queue, each with whether it is parked."""
        self.node(name)
        return self.engine.pending(name)

    def holding(self, name: str) -> list[str]:
        """The workloads that hold quota of a queue, by name."""
        return sorted(name_of(i.key) for i in self.engine.items() if i.place is Place.HOLDING and i.queue == name)

    def shared_verdict(self, name: str) -> list[str]:
        """Why a workload waits about which nothing was decided."""
        item = self.engine.item(key_of(name))
        found = None if item is None else self.engine.pending_reason(item)
        return [] if found is None else [f"verdict={found[0]}", f"verdict={found[0]}:{message(found[1])}"]

    def shown(self, line: str) -> str:
        """A line about a workload's status, as the cluster has it: the same when the line is true."""
        name, *words = tokens(line)
        true = status(self.workload(name), self.now) + self.shared_verdict(name)
        found = []
        for word in words:
            about = split(word)[0]
            if about not in SHOWN:
                raise unknown(about, "a workload's status", SHOWN)
            here = [one for one in true if subject(one) == f"{about}="]
            denied = word.endswith("=none") and not here
            found.append(word if word in true or denied else here[-1] if here else f"{about}=none")
        return " ".join([name, *found])
