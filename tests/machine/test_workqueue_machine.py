"""Is no key lost, and none worked on twice at once, whatever is added, taken and finished in whatever order?"""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pykueue.base.units import Moment
from pykueue.kube.workqueue import WorkQueue

KEYS = st.sampled_from(("a", "b", "c", "d"))


class WorkQueueMachine(RuleBasedStateMachine):
    """Beside the queue stand the debts: keys that somebody asked for and whose work has not begun since."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = WorkQueue()
        self.now = Moment(0)
        self.owed: set[str] = set()
        self.working: set[str] = set()
        self.promised: dict[str, Moment] = {}
        """The earliest time at which each key must be added by itself."""
        self.order: list[str] = []
        """Keys in the order in which they became ready."""

    def ready(self, key: str) -> None:
        if key not in self.working and key not in self.order:
            self.order.append(key)

    def promise(self, key: str, due: Moment) -> None:
        self.promised[key] = min(due, self.promised.get(key, due))

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.queue.add(key)
        self.owed.add(key)
        self.ready(key)

    @rule(key=KEYS, delay=st.integers(0, 50))
    def add_at(self, key: str, delay: int) -> None:
        due = Moment(self.now + delay)
        self.queue.add_at(key, due)
        self.promise(key, due)

    @rule(passing=st.integers(0, 60))
    def wake(self, passing: int) -> None:
        self.now = Moment(self.now + passing)
        self.queue.wake(self.now)
        for due, key in sorted((due, key) for key, due in self.promised.items() if due <= self.now):
            assert due <= self.now
            del self.promised[key]
            self.owed.add(key)
            self.ready(key)

    @rule()
    def take(self) -> None:
        key = self.queue.take()
        assert key == (self.order.pop(0) if self.order else None)
        if key is not None:
            assert key not in self.working
            self.working.add(key)
            self.owed.discard(key)

    @precondition(lambda self: self.working)
    @rule(data=st.data(), well=st.booleans(), rng=st.floats(0, 1))
    def finish(self, data: st.DataObject, well: bool, rng: float) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.working.remove(key)
        if well:
            self.queue.done(key)
        else:
            due = self.queue.failed(key, self.now, rng)
            assert self.now < due <= self.now + 60_000_000
            self.promise(key, due)
        if key in self.owed:
            self.ready(key)

    @invariant()
    def every_debt_will_be_paid(self) -> None:
        assert self.owed == set(self.order) | self.queue.again
        assert list(self.queue.ready) == self.order

    @invariant()
    def the_next_time_is_the_earliest_promised(self) -> None:
        assert self.queue.due() == min(self.promised.values(), default=None)

    def teardown(self) -> None:
        """Left alone, it comes to rest: everything owed is worked on once more."""
        for key in sorted(self.working):
            self.working.remove(key)
            self.queue.done(key)
            if key in self.owed:
                self.ready(key)
        self.queue.wake(Moment(self.now + 10**9))
        done = set()
        while (taken := self.queue.take()) is not None:
            done.add(taken)
            self.queue.done(taken)
        assert done == self.owed | set(self.promised)
        assert self.queue.due() is None


TestWorkQueue = WorkQueueMachine.TestCase
