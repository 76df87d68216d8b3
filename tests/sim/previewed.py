"""A cluster of manifests, and questions what changes would do to it."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from pykueue.api.config.file import default_configuration
from pykueue.api.previews import Affected, Effect, PreviewSpec, PreviewStatus
from pykueue.base.units import Instant
from pykueue.bridge.previews import Question
from pykueue.bridge.runtimes import Learned
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Seen, Synced, Written
from pykueue.engine.record.checkpoint import checkpoint
from pykueue.sim.manifests import documents
from pykueue.sim.preview import answered
from pykueue.sim.trace import START, limits_of, read_trace
from tests.sim.builders import FLAVOR

NOW = Instant(START + 1_000_000)


class State:
    """A cluster of manifests, and what if."""

    def __init__(self, *manifests: str) -> None:
        raw = (FLAVOR + "".join(manifests)).encode()
        trace = read_trace([("test.yaml", raw)])
        self.trees = tuple(one.tree for one in documents("test.yaml", raw)[0])
        self.engine = Engine(trace.options)
        for thing in trace.things:
            self.engine.observe(Seen(thing))
        for one in trace.arrivals:
            self.engine.observe(Seen(one.workload))
        self.engine.observe(Synced())
        self.limits = limits_of(trace.arrivals)
        self.names = {one.workload.key: one.name.removeprefix("default/") for one in trace.arrivals}

    def decided(self) -> "State":
        """With everything carried out that is decided now."""
        while self.engine.next_wake() == START or not self.engine.now:
            for one in self.engine.decide(START):
                self.engine.observe(Written(one.workload))
        return self

    def ask(self, *manifests: str, namespace: str = "", **changes: str) -> PreviewStatus:
        """What changes do at once."""
        return answered(self.question(spec_of(manifests, changes), namespace), checkpoint(self.engine))

    def ask_waits(self, *manifests: str, learned: Learned | None = None, **changes: str) -> PreviewStatus:
        """What changes do, with the starts of pending workloads."""
        asked = self.question(replace(spec_of(manifests, changes), waits=True))
        return answered(replace(asked, learned=learned or Learned(), limits=self.limits), checkpoint(self.engine))

    def question(self, spec: PreviewSpec, namespace: str = "") -> Question:
        jobs = {f"default/{name}": key for key, name in self.names.items()}
        return Question(spec, default_configuration(), NOW, self.trees, jobs, namespace)

    def told(self, found: PreviewStatus) -> list[str]:
        return [self.told_of(one) for one in found.affected]

    def told_of(self, one: Affected) -> str:
        names = self.names
        words = [names.get(one.workload, one.job), one.effect.value]
        words += [f"{one.place_before or '-'}>{one.place or '-'}"] if one.place or one.place_before else []
        words += one.flavors if one.effect in (Effect.STARTS, Effect.RESTARTS) else ()
        words += [f"for {names.get(one.by, 'new')}"] if one.by else []
        return " ".join(words)


def spec_of(manifests: Iterable[str], changes: Mapping[str, str]) -> PreviewSpec:
    """The changes, each option a text of words."""
    trees = tuple(one.tree for text in manifests for one in documents("new.yaml", text.encode())[0])
    given = {name: tuple(text.split()) for name, text in changes.items()}
    return PreviewSpec(trees, given.get("set", ()), given.get("delete", ()), given.get("drain", ()))
